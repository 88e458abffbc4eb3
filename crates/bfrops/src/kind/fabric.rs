// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coordinates, devices, processors and topologies.

use pmix_types::{CoordView, DataType, Text};

use crate::kind::Run;
use crate::kind::sealed::Sealed;
use crate::kind::structure::{List, structure};
use crate::kind::{self, DeviceType, Size, Uint16, Uint32};
use crate::{Decoder, Encoder, Error, Kind};

/// The view of coordinates: one byte.
pub(crate) enum View {}

impl Sealed for View {}

impl Kind for View {
    const TYPE: DataType = DataType::UINT8;
    const MIN_LEN: usize = 1;
    type Item<'a> = CoordView;

    fn encode(encoder: &mut Encoder<'_>, item: &CoordView) -> Result<(), Error> {
        encoder.u8(item.as_raw());
        Ok(())
    }

    fn decode(decoder: &mut Decoder<'_>, _: Run) -> Result<CoordView, Error> {
        kind::Uint8::decode(decoder, Run::default()).map(CoordView::from_raw)
    }
}

structure! {
    /// `PMIX_COORD`: the view, how many dimensions there are, a number for each.
    Coord: Coord = COORD { view: View, coord: List<Size, Uint32>, }
}

structure! {
    /// `PMIX_GEOMETRY`.
    Geometry: Geometry<'a> = GEOMETRY {
        fabric: Size,
        uuid: kind::String,
        osname: kind::String,
        coordinates: List<Size, Coord>,
    }
}

structure! {
    /// `PMIX_DEVICE_DIST`.
    DeviceDistance: DeviceDistance<'a> = DEVICE_DIST {
        uuid: kind::String,
        osname: kind::String,
        device_type: DeviceType,
        mindist: Uint16,
        maxdist: Uint16,
    }
}

structure! {
    /// `PMIX_DEVICE`.
    Device: Device<'a> = DEVICE {
        uuid: kind::String,
        osname: kind::String,
        device_type: DeviceType,
    }
}

structure! {
    /// `PMIX_RESOURCE_UNIT`.
    ResourceUnit: ResourceUnit = RESOURCE_UNIT { device_type: DeviceType, count: Size, }
}

/// `PMIX_PROC_CPUSET`: the list as a string; who describes it does not travel and is `hwloc`.
#[derive(Clone, Copy, Debug)]
pub enum Cpuset {}

impl Sealed for Cpuset {}

impl Kind for Cpuset {
    const TYPE: DataType = DataType::PROC_CPUSET;
    const MIN_LEN: usize = 1;
    type Item<'a> = pmix_types::Cpuset<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
        kind::String::encode(encoder, &item.bitmap)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
        let bitmap = decoder.text()?;
        let source = bitmap.as_ref().map(|_| Text::without_nul(b"hwloc"));
        Ok(pmix_types::Cpuset { source, bitmap })
    }
}

/// `PMIX_TOPO`: the description as a string; who describes it does not travel and is `hwloc`.
#[derive(Clone, Copy, Debug)]
pub enum Topology {}

impl Sealed for Topology {}

impl Kind for Topology {
    const TYPE: DataType = DataType::TOPO;
    const MIN_LEN: usize = 1;
    type Item<'a> = pmix_types::Topology<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
        kind::String::encode(encoder, &item.topology)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
        let topology = decoder.text()?;
        let source = topology.as_ref().map(|_| Text::without_nul(b"hwloc"));
        Ok(pmix_types::Topology { source, topology })
    }
}
