// SPDX-License-Identifier: MIT OR Apache-2.0
//! Construction of values from data.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_VALUE_LOAD`.

use super::ValueError;
use crate::{
    AllocDirective, AllocInheritance, Bytes, Coord, Cpuset, DataArray, DataRange, DataType, Device,
    DeviceDistance, DeviceType, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags, IofChannel,
    JobState, LinkState, Locality, NetStats, NodePid, NodeStats, Nspace, Persistence, Proc,
    ProcInfo, ProcState, ProcStats, Rank, Regattr, Regex2, RegexBytes, ResourceBlockDirective,
    ResourceUnit, Scope, Status, StorageAccessType, StorageAccessibility, StorageMedium,
    StoragePersistence, Text, Timeval, Topology, Value, WireRegex2,
};

macro_rules! loads {
    ($($type:ty => $variant:ident $(($wrap:expr))?;)*) => {
        $(impl<'a> From<$type> for Value<'a> {
            fn from(datum: $type) -> Self {
                Self::$variant($($wrap)?(datum))
            }
        })*
    };
}

loads! {
    bool => Bool; u8 => Uint8; u16 => Uint16; u32 => Uint32; u64 => Uint64;
    i8 => Int8; i16 => Int16; i32 => Int32; i64 => Int64; f32 => Float; f64 => Double;
    Text<'a> => String (Some); Option<Text<'a>> => String; Timeval => Timeval; Status => Status;
    Proc<'a> => Proc; Nspace<'a> => Nspace; Rank => Rank; Bytes<'a> => ByteObject;
    Persistence => Persistence; Scope => Scope; DataRange => DataRange; InfoFlags => InfoFlags;
    DataType => DataType; ProcState => ProcState; JobState => JobState; LinkState => LinkState;
    AllocDirective => AllocDirective; AllocInheritance => AllocInheritance;
    ResourceBlockDirective => ResourceBlockDirective; IofChannel => IofChannel;
    DeviceType => DeviceType; Locality => Locality; StorageMedium => StorageMedium;
    StorageAccessibility => StorageAccessibility; StoragePersistence => StoragePersistence;
    StorageAccessType => StorageAccessType; Coord => Coord; ResourceUnit => ResourceUnit;
    RegexBytes<'a> => Regex; DataArray<'a> => DataArray;
    ProcInfo<'a> => ProcInfo (Box::new); Envar<'a> => Envar (Box::new);
    Regattr<'a> => Regattr (Box::new); Cpuset<'a> => Cpuset (Box::new);
    Geometry<'a> => Geometry (Box::new); DeviceDistance<'a> => DeviceDistance (Box::new);
    Endpoint<'a> => Endpoint (Box::new); Topology<'a> => Topology (Box::new);
    ProcStats<'a> => ProcStats (Box::new); DiskStats<'a> => DiskStats (Box::new);
    NetStats<'a> => NetStats (Box::new); NodeStats<'a> => NodeStats (Box::new);
    Device<'a> => Device (Box::new); NodePid<'a> => NodePid (Box::new);
    WireRegex2<'a> => Regex2 (Box::new);
    // Types that are first converted into one of the above.
    &'a str => String (into_text); String => String (into_text);
    &'a [u8] => ByteObject (Bytes::Borrowed); Vec<u8> => ByteObject (Bytes::Owned);
    usize => Size (size_of_c); Regex2 => Regex2 (boxed_wire);
    Vec<Info<'a>> => DataArray (DataArray::Info); Vec<Proc<'a>> => DataArray (DataArray::Proc);
}

fn into_text<'a>(text: impl Into<Text<'a>>) -> Option<Text<'a>> {
    Some(text.into())
}

/// Converts a Rust size, which is never wider than 64 bits.
fn size_of_c(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

fn boxed_wire<'a>(regex: Regex2) -> Box<WireRegex2<'a>> {
    Box::new(regex.into())
}

impl<'a> Value<'a> {
    /// Creates a value of a type from a datum (`PMIx_Value_load`).
    ///
    /// C trusts the caller that the datum has the type. This function accepts a datum of the type,
    /// converts numbers as [`Value::convert`] does, and converts between bytes and the types that
    /// consist of bytes. For no type the datum is dropped. It is the way to create types that Rust
    /// does not distinguish, such as `PMIX_SIZE` or `PMIX_PID`:
    ///
    /// ```
    /// use pmix_types::{DataType, Status, Value};
    /// assert_eq!(Value::load(DataType::PID, 4711), Ok(Value::Pid(4711)));
    /// let refused = Value::load(DataType::PID, "4711").unwrap_err();
    /// assert_eq!(refused.status(), Status::ERR_TYPE_MISMATCH);
    /// ```
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_TYPE_MISMATCH` if the datum is of another type; for numbers see
    /// [`Value::convert`].
    pub fn load(data_type: DataType, datum: impl Into<Self>) -> Result<Self, ValueError> {
        let value = datum.into();
        let found = value.data_type();
        if found == data_type {
            return Ok(value);
        }
        if value.is_number() && Value::holds_number(data_type) {
            return value.convert(data_type);
        }
        match (data_type, value) {
            (DataType::UNDEF, _) => Ok(Value::Undef),
            (DataType::BYTE, Value::Uint8(byte)) => Ok(Value::Byte(byte)),
            (
                _,
                Value::ByteObject(bytes)
                | Value::CompressedString(bytes)
                | Value::CompressedByteObject(bytes)
                | Value::DataBuffer(bytes)
                | Value::Regex(RegexBytes(bytes)),
            ) => Self::of_bytes(data_type, bytes)
                .ok_or_else(|| ValueError::mismatch(data_type, found)),
            _ => Err(ValueError::mismatch(data_type, found)),
        }
    }

    fn of_bytes(data_type: DataType, bytes: Bytes<'a>) -> Option<Self> {
        Some(match data_type {
            DataType::BYTE_OBJECT => Value::ByteObject(bytes),
            DataType::COMPRESSED_STRING => Value::CompressedString(bytes),
            DataType::COMPRESSED_BYTE_OBJECT => Value::CompressedByteObject(bytes),
            DataType::DATA_BUFFER => Value::DataBuffer(bytes),
            DataType::REGEX => Value::Regex(RegexBytes(bytes)),
            _ => return None,
        })
    }
}
