// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coordinates, devices, processors and topologies.
//!
//! Source: PMIx Standard, chapter "Fabric Support Definitions", for the fields; OpenPMIx for their
//! packed order.

use pmix_types::{CoordView, DataType, Text};

use crate::wire_type::Run;
use crate::wire_type::sealed::Sealed;
use crate::wire_type::structure::{List, structure};
use crate::wire_type::{self, DeviceType, Size, Uint16, Uint32};
use crate::{Decoder, Encoder, Error, Module, WireType};

/// The view of a coordinate (`pmix_coord_view_t`): one byte.
pub(crate) enum View {}

impl Sealed for View {}

impl WireType for View {
    const TYPE: DataType = DataType::UINT8;
    const MIN_LEN: usize = 1;
    type Item<'a> = CoordView;

    fn encode(encoder: &mut Encoder<'_>, item: &CoordView) -> Result<(), Error> {
        encoder.u8(item.as_raw());
        Ok(())
    }

    fn decode(decoder: &mut Decoder<'_>, _: Run) -> Result<CoordView, Error> {
        wire_type::Uint8::decode(decoder, Run::default()).map(CoordView::from_raw)
    }
}

structure! {
    /// `PMIX_COORD`: the view, the number of dimensions, the number in each dimension.
    Coord: Coord = COORD { view: View, coord: List<Size, Uint32>, }
}

structure! {
    /// `PMIX_GEOMETRY`.
    Geometry: Geometry<'a> = GEOMETRY {
        fabric: Size,
        uuid: wire_type::String,
        osname: wire_type::String,
        coordinates: List<Size, Coord>,
    }
}

structure! {
    /// `PMIX_DEVICE_DIST`.
    DeviceDistance: DeviceDistance<'a> = DEVICE_DIST {
        uuid: wire_type::String,
        osname: wire_type::String,
        device_type: DeviceType,
        mindist: Uint16,
        maxdist: Uint16,
    }
}

structure! {
    /// `PMIX_DEVICE`.
    Device: Device<'a> = DEVICE {
        uuid: wire_type::String,
        osname: wire_type::String,
        device_type: DeviceType,
    }
}

structure! {
    /// `PMIX_RESOURCE_UNIT`.
    ResourceUnit: ResourceUnit = RESOURCE_UNIT { device_type: DeviceType, count: Size, }
}

/// `PMIX_PROC_CPUSET`: the list of CPUs as a string. The source is not packed. It is always
/// `hwloc`.
#[derive(Clone, Copy, Debug)]
pub enum Cpuset {}

impl Sealed for Cpuset {}

impl WireType for Cpuset {
    const TYPE: DataType = DataType::PROC_CPUSET;
    const MIN_LEN: usize = 1;
    type Item<'a> = pmix_types::Cpuset<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
        wire_type::String::encode(encoder, &item.bitmap)
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
        let bitmap = decoder.text()?;
        // Every release sets the source even for an empty cpuset.
        let source = Some(Text::without_nul(b"hwloc"));
        Ok(pmix_types::Cpuset { source, bitmap })
    }
}

/// `PMIX_TOPO`: the topology as a string, then the features that the packing hwloc supports. The
/// source is not packed. It is always `hwloc`.
///
/// | field | content | in |
/// | --- | --- | --- |
/// | topology | the description as a string | every module |
/// | support | 32 bytes of 0 or 1, missing if the description is a null pointer | PMIx 4 to 6 |
///
/// DEVIATION: releases that pack the support copy structures of hwloc without their size, and the
/// newest releases pack none. So this project unpacks the next bytes as support if all of them are
/// 0 or 1. It packs the support for modules older than v61, as zeros if it is unknown;
/// `a_topology_is_read_with_and_without_support`.
#[derive(Clone, Copy, Debug)]
pub enum Topology {}

/// The number of flags in the structures of hwloc 2.
const SUPPORT_LEN: usize = 32;

impl Sealed for Topology {}

impl WireType for Topology {
    const TYPE: DataType = DataType::TOPO;
    const MIN_LEN: usize = 1;
    type Item<'a> = pmix_types::Topology<'a>;

    fn encode(encoder: &mut Encoder<'_>, item: &Self::Item<'_>) -> Result<(), Error> {
        wire_type::String::encode(encoder, &item.topology)?;
        match &item.support {
            _ if item.topology.is_none() => {}
            Some(support) => encoder.bytes(support),
            None if encoder.module() < Module::V61 => encoder.bytes(&[0; SUPPORT_LEN]),
            None => {}
        }
        Ok(())
    }

    fn decode<'a>(decoder: &mut Decoder<'a>, _: Run) -> Result<Self::Item<'a>, Error> {
        let mut item = pmix_types::Topology::default();
        let Some(topology) = decoder.text()? else {
            return Ok(item);
        };
        item.source = Some(Text::without_nul(b"hwloc"));
        item.topology = Some(topology);
        let flags = decoder.rest().get(..SUPPORT_LEN);
        if flags.is_some_and(|flags| flags.iter().all(|flag| *flag <= 1)) {
            let start = decoder.offset();
            item.support = Some(decoder.take(SUPPORT_LEN, "support")?.into());
            decoder.note(start, || "what the library supports".to_owned());
        }
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn a_topology_is_read_with_and_without_support() {
        let item = pmix_types::Topology {
            source: Some("hwloc".into()),
            topology: Some("<topology/>".into()),
            support: None,
        };
        for (module, len) in [(Module::V41, 1 + 1 + 12 + 32), (Module::V61, 1 + 1 + 12)] {
            let mut out = Vec::new();
            let layout = Layout::new(module);
            let mut encoder = Encoder::new(layout, &mut out);
            encoder.one::<Topology>(&item).unwrap();
            encoder.one::<Uint32>(&7).unwrap();
            assert_eq!(out.len(), len + 2);
            let mut decoder = Decoder::new(layout, &out);
            let back = decoder.one::<Topology>().unwrap();
            assert_eq!(
                (back.source, back.topology),
                (item.source.clone(), item.topology.clone())
            );
            assert_eq!(back.support.is_some(), module == Module::V41);
            assert_eq!(decoder.one::<Uint32>().unwrap(), 7);
            decoder.finish().unwrap();
        }
    }
}
