// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things are: coordinates, topologies, devices and distances.
//!
//! Source: PMIx Standard, chapter "Fabric Support Definitions", for coordinates; `pmix_common.h`
//! of OpenPMIx for the others.

use super::owned::{plain, structure};
use crate::{Bytes, CoordView, DeviceType, Text};

/// Holds the coordinates of a device in a fabric (`pmix_coord_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coord {
    /// Which kind of coordinates these are.
    pub view: CoordView,
    /// One number for each dimension.
    pub coord: Vec<u32>,
}

plain!(Coord, ResourceUnit);

structure! {
    /// Says where a device is in its fabric (`pmix_geometry_t`).
    Geometry {
        /// The fabric's index.
        fabric: u64,
        /// The device's unique name.
        uuid: Option<Text<'a>>,
        /// The name that the operating system gives the device.
        osname: Option<Text<'a>>,
        /// Its coordinates, one for each view.
        coordinates: Vec<Coord>,
    }
}

structure! {
    /// Says how far a process is from a device (`pmix_device_distance_t`).
    DeviceDistance {
        /// The device's unique name.
        uuid: Option<Text<'a>>,
        /// The name that the operating system gives the device.
        osname: Option<Text<'a>>,
        /// The type of the device.
        device_type: DeviceType,
        /// The distance from the nearest of the process's processors.
        mindist: u16,
        /// The distance from the farthest one.
        maxdist: u16,
    }
}

structure! {
    /// A device (`pmix_device_t`).
    Device {
        /// The device's unique name.
        uuid: Option<Text<'a>>,
        /// The name that the operating system gives the device.
        osname: Option<Text<'a>>,
        /// The type of the device.
        device_type: DeviceType,
    }
}

/// Counts devices of one type (`pmix_resource_unit_t`).
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
        /// Who describes them, for example `hwloc`. It does not travel in every version.
        source: Option<Text<'a>>,
        /// Which they are, as that source writes a list: `0,2-3,7,64-`.
        bitmap: Option<Text<'a>>,
    }
}

structure! {
    /// The hardware of a node (`pmix_topology_t`).
    Topology {
        /// Who describes it, for example `hwloc:2.9`. It does not travel in every version.
        source: Option<Text<'a>>,
        /// The description as that source writes it; for hwloc XML.
        topology: Option<Text<'a>>,
        /// What the source's library supports on that node, as that library stores it.
        support: Option<Bytes<'a>>,
    }
}
