// SPDX-License-Identifier: MIT OR Apache-2.0
//! Positions of hardware: coordinates, topologies, devices and distances.
//!
//! Source: PMIx Standard, chapter "Fabric Support Definitions", for coordinates; `pmix_common.h`
//! of OpenPMIx for the others.

use super::owned::{plain, structure};
use crate::{Bytes, CoordView, DeviceType, Text};

/// The coordinates of a device in a fabric (`pmix_coord_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coord {
    /// The interpretation of the coordinates.
    pub view: CoordView,
    /// One number for each dimension.
    pub coord: Vec<u32>,
}

plain!(Coord, ResourceUnit);

structure! {
    /// The position of a device in its fabric (`pmix_geometry_t`).
    Geometry {
        /// The index of the fabric.
        fabric: u64,
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The coordinates, one set for each view.
        coordinates: Vec<Coord>,
    }
}

structure! {
    /// The distance of a process from a device (`pmix_device_distance_t`).
    DeviceDistance {
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The type of the device.
        device_type: DeviceType,
        /// The distance from the nearest processor of the process.
        mindist: u16,
        /// The distance from the farthest one.
        maxdist: u16,
    }
}

structure! {
    /// A device (`pmix_device_t`).
    Device {
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The type of the device.
        device_type: DeviceType,
    }
}

/// A number of devices of one type (`pmix_resource_unit_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceUnit {
    /// The type of the devices.
    pub device_type: DeviceType,
    /// The number of devices.
    pub count: u64,
}

structure! {
    /// The processors a process may use (`pmix_cpuset_t`).
    Cpuset {
        /// The library that describes them, for example `hwloc`. Not every version packs it.
        source: Option<Text<'a>>,
        /// The processors, written as that library writes a list: `0,2-3,7,64-`.
        bitmap: Option<Text<'a>>,
    }
}

structure! {
    /// The hardware of a node (`pmix_topology_t`).
    Topology {
        /// The library that describes it, for example `hwloc:2.9`. Not every version packs it.
        source: Option<Text<'a>>,
        /// The description as that library writes it; XML for hwloc.
        topology: Option<Text<'a>>,
        /// The features that the library supports on the node, in the library's own layout.
        support: Option<Bytes<'a>>,
    }
}
