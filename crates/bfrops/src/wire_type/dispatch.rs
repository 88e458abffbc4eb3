// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dispatch from a type at run time to its wire type.

use pmix_types::{DataArray, DataType, Value};

use crate::refusal::Place;
use crate::wire_type::WireType;
use crate::{Decoder, Encoder, Error, wire_type};

/// The size in bytes above which a value boxes its datum.
const INLINE: usize = 40;

macro_rules! values {
    (often { $($often:ident = $often_type:ident),* $(,)? }
     seldom { $($seldom:ident = $seldom_type:ident),* $(,)? }) => {
        /// Packs the datum of a value.
        #[inline]
        pub(crate) fn encode_value(
            encoder: &mut Encoder<'_>,
            value: &Value<'_>,
        ) -> Result<(), Error> {
            match value {
                Value::Undef => Ok(()),
                $(Value::$often(item) => encoder.field::<wire_type::$often>(item),)*
                $(Value::$seldom(item) => encoder.field::<wire_type::$seldom>(item),)*
            }
        }

        /// Unpacks the datum of a value whose type code starts at `start`.
        ///
        /// This function handles only the most frequent types. A function for all types would be
        /// slower for each of them, as it needs more registers.
        #[inline]
        pub(super) fn decode_value<'a>(
            decoder: &mut Decoder<'a>,
            data_type: DataType,
            start: usize,
        ) -> Result<Value<'a>, Error> {
            if data_type == DataType::UNDEF {
                return Ok(Value::Undef);
            }
            let place = Place::UnpackValue;
            decoder.check(data_type, place, start)?;
            match data_type {
                $(DataType::$often_type => {
                    decoder.field::<wire_type::$often>("data").map(Value::$often)
                })*
                _ => decode_seldom(decoder, data_type, start),
            }
        }

        /// Unpacks consecutive values. Each is constructed in place: a move right after
        /// construction would stall on the stores.
        pub(super) fn decode_values<'a>(
            decoder: &mut Decoder<'a>,
            count: usize,
        ) -> Result<Vec<Value<'a>>, Error> {
            let mut values = pmix_types::memory::list(count)?;
            for _ in 0..count {
                let start = decoder.offset();
                let data_type = decoder.type_code()?;
                if data_type == DataType::UNDEF {
                    values.push(Value::Undef);
                    continue;
                }
                decoder.check(data_type, Place::UnpackValue, start)?;
                match data_type {
                    $(DataType::$often_type => {
                        let datum = decoder.field::<wire_type::$often>("data")?;
                        values.push(Value::$often(datum));
                    })*
                    _ => values.push(decode_seldom(decoder, data_type, start)?),
                }
            }
            Ok(values)
        }

        #[inline(never)]
        fn decode_seldom<'a>(
            decoder: &mut Decoder<'a>,
            data_type: DataType,
            start: usize,
        ) -> Result<Value<'a>, Error> {
            match data_type {
                $(DataType::$seldom_type => {
                    let size = size_of::<<wire_type::$seldom as WireType>::Item<'a>>();
                    if size > INLINE {
                        decoder.claim(size)?;
                        pmix_types::memory::check(size)?;
                    }
                    Ok(Value::$seldom(decoder.field::<wire_type::$seldom>("data")?.into()))
                })*
                _ => Err(decoder.not_in_a_value(data_type, start)),
            }
        }
    };
}

macro_rules! elements {
    ($($variant:ident = $data_type:ident),* $(,)?) => {
        /// Packs the elements of an array.
        pub(crate) fn encode_elements(
            encoder: &mut Encoder<'_>,
            array: &DataArray<'_>,
        ) -> Result<(), Error> {
            match array {
                DataArray::Untyped { .. } => Ok(()),
                $(DataArray::$variant(items) => encoder.run::<wire_type::$variant>(items),)*
            }
        }

        /// Unpacks the elements of an array. The module must have their type.
        pub(crate) fn decode_elements<'a>(
            decoder: &mut Decoder<'a>,
            data_type: DataType,
            count: usize,
        ) -> Result<DataArray<'a>, Error> {
            match data_type {
                $(DataType::$data_type => {
                    decoder.run::<wire_type::$variant>(count).map(DataArray::$variant)
                })*
                _ => Err(decoder.unknown_type(data_type)),
            }
        }
    };
}

values! {
    often {
        Bool = BOOL, String = STRING, Size = SIZE, Int = INT, Int32 = INT32, Int64 = INT64,
        Uint16 = UINT16, Uint32 = UINT32, Uint64 = UINT64, Status = STATUS, Rank = PROC_RANK,
    }
    seldom {
        Byte = BYTE, Pid = PID, Int8 = INT8, Int16 = INT16, Uint = UINT, Uint8 = UINT8,
        Float = FLOAT, Double = DOUBLE, Timeval = TIMEVAL, Time = TIME, Proc = PROC,
        ByteObject = BYTE_OBJECT, Persistence = PERSIST, Pointer = POINTER, Scope = SCOPE,
        DataRange = DATA_RANGE, InfoFlags = INFO_DIRECTIVES, DataType = DATA_TYPE,
        ProcState = PROC_STATE, ProcInfo = PROC_INFO, DataArray = DATA_ARRAY,
        CompressedString = COMPRESSED_STRING, AllocDirective = ALLOC_DIRECTIVE,
        IofChannel = IOF_CHANNEL, Envar = ENVAR, Coord = COORD, Regattr = REGATTR, Regex = REGEX,
        JobState = JOB_STATE, LinkState = LINK_STATE, Cpuset = PROC_CPUSET, Geometry = GEOMETRY,
        DeviceDistance = DEVICE_DIST, Endpoint = ENDPOINT, Topology = TOPO, DeviceType = DEVTYPE,
        Locality = LOCTYPE, CompressedByteObject = COMPRESSED_BYTE_OBJECT, Nspace = PROC_NSPACE,
        ProcStats = PROC_STATS, DiskStats = DISK_STATS, NetStats = NET_STATS,
        NodeStats = NODE_STATS, DataBuffer = DATA_BUFFER, StorageMedium = STOR_MEDIUM,
        StorageAccessibility = STOR_ACCESS, StoragePersistence = STOR_PERSIST,
        StorageAccessType = STOR_ACCESS_TYPE, Device = DEVICE,
        ResourceBlockDirective = RESBLOCK_DIRECTIVE, ResourceUnit = RESOURCE_UNIT,
        NodePid = NODE_PID, Regex2 = REGEX2, AllocInheritance = ALLOC_INHERIT,
    }
}

elements! {
    Bool = BOOL, Byte = BYTE, String = STRING, Size = SIZE, Pid = PID, Int = INT, Int8 = INT8,
    Int16 = INT16, Int32 = INT32, Int64 = INT64, Uint = UINT, Uint8 = UINT8, Uint16 = UINT16,
    Uint32 = UINT32, Uint64 = UINT64, Float = FLOAT, Double = DOUBLE, Timeval = TIMEVAL,
    Time = TIME, Status = STATUS, Value = VALUE, Proc = PROC, App = APP, Info = INFO,
    Pdata = PDATA, Buffer = BUFFER, ByteObject = BYTE_OBJECT, Kval = KVAL, Persistence = PERSIST,
    Pointer = POINTER, Scope = SCOPE, DataRange = DATA_RANGE, Command = COMMAND,
    InfoFlags = INFO_DIRECTIVES, DataType = DATA_TYPE, ProcState = PROC_STATE,
    ProcInfo = PROC_INFO, DataArray = DATA_ARRAY, Rank = PROC_RANK, Query = QUERY,
    CompressedString = COMPRESSED_STRING, AllocDirective = ALLOC_DIRECTIVE,
    IofChannel = IOF_CHANNEL, Envar = ENVAR, Coord = COORD, Regattr = REGATTR, Regex = REGEX,
    JobState = JOB_STATE, LinkState = LINK_STATE, Cpuset = PROC_CPUSET, Geometry = GEOMETRY,
    DeviceDistance = DEVICE_DIST, Endpoint = ENDPOINT, Topology = TOPO, DeviceType = DEVTYPE,
    Locality = LOCTYPE, CompressedByteObject = COMPRESSED_BYTE_OBJECT, Nspace = PROC_NSPACE,
    ProcStats = PROC_STATS, DiskStats = DISK_STATS, NetStats = NET_STATS, NodeStats = NODE_STATS,
    DataBuffer = DATA_BUFFER, StorageMedium = STOR_MEDIUM, StorageAccessibility = STOR_ACCESS,
    StoragePersistence = STOR_PERSIST, StorageAccessType = STOR_ACCESS_TYPE, Device = DEVICE,
    ResourceBlockDirective = RESBLOCK_DIRECTIVE, ResourceUnit = RESOURCE_UNIT,
    NodePid = NODE_PID, Regex2 = REGEX2, AllocInheritance = ALLOC_INHERIT,
}
