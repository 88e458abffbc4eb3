// SPDX-License-Identifier: MIT OR Apache-2.0
//! Construction of values from data, and extraction of data from values.
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

/// Converts a Rust size. It never has more than 64 bits.
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

// Extraction of data from values.
//
// Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_VALUE_UNLOAD`.

/// The Rust types that a value can be unloaded as, see [`Value::unload`].
///
/// A Rust type can be unloaded from every PMIx type with the same C type: `u32` is unloaded from
/// `PMIX_UINT32` and `PMIX_UINT`, but not from `PMIX_PROC_RANK`, which is [`Rank`].
pub trait Datum<'a>: Sized {
    /// The PMIx type in error messages.
    const DATA_TYPE: DataType;

    /// Extracts the datum, or returns the value if it has a different type.
    ///
    /// # Errors
    ///
    /// The unchanged value.
    fn from_value(value: Value<'a>) -> Result<Self, Value<'a>>;
}

macro_rules! data {
    ($($type:ty = $data_type:ident: $($variant:ident)|+;)*) => {
        $(impl<'a> Datum<'a> for $type {
            const DATA_TYPE: DataType = DataType::$data_type;

            fn from_value(value: Value<'a>) -> Result<Self, Value<'a>> {
                match value {
                    $(Value::$variant(datum) => Ok(datum),)+
                    other => Err(other),
                }
            }
        })*
    };
}

data! {
    bool = BOOL: Bool;
    u8 = UINT8: Uint8 | Byte;
    u16 = UINT16: Uint16;
    u32 = UINT32: Uint32 | Uint;
    u64 = UINT64: Uint64 | Size;
    i8 = INT8: Int8;
    i16 = INT16: Int16;
    i32 = INT32: Int32 | Int | Pid;
    i64 = INT64: Int64 | Time;
    f32 = FLOAT: Float;
    f64 = DOUBLE: Double;
    Option<Text<'a>> = STRING: String;
    Timeval = TIMEVAL: Timeval;
    Status = STATUS: Status;
    Proc<'a> = PROC: Proc;
    Nspace<'a> = PROC_NSPACE: Nspace;
    Rank = PROC_RANK: Rank;
    Bytes<'a> = BYTE_OBJECT: ByteObject | CompressedString | CompressedByteObject | DataBuffer;
    Persistence = PERSIST: Persistence;
    Scope = SCOPE: Scope;
    DataRange = DATA_RANGE: DataRange;
    InfoFlags = INFO_DIRECTIVES: InfoFlags;
    DataType = DATA_TYPE: DataType;
    ProcState = PROC_STATE: ProcState;
    JobState = JOB_STATE: JobState;
    LinkState = LINK_STATE: LinkState;
    AllocDirective = ALLOC_DIRECTIVE: AllocDirective;
    AllocInheritance = ALLOC_INHERIT: AllocInheritance;
    ResourceBlockDirective = RESBLOCK_DIRECTIVE: ResourceBlockDirective;
    IofChannel = IOF_CHANNEL: IofChannel;
    DeviceType = DEVTYPE: DeviceType;
    Locality = LOCTYPE: Locality;
    StorageMedium = STOR_MEDIUM: StorageMedium;
    StorageAccessibility = STOR_ACCESS: StorageAccessibility;
    StoragePersistence = STOR_PERSIST: StoragePersistence;
    StorageAccessType = STOR_ACCESS_TYPE: StorageAccessType;
    Coord = COORD: Coord;
    ResourceUnit = RESOURCE_UNIT: ResourceUnit;
    RegexBytes<'a> = REGEX: Regex;
    DataArray<'a> = DATA_ARRAY: DataArray;
}

/// Implements `Datum` for data that a value holds in a box.
macro_rules! boxed {
    ($($name:ident = $data_type:ident;)*) => {
        $(impl<'a> Datum<'a> for $name<'a> {
            const DATA_TYPE: DataType = DataType::$data_type;

            fn from_value(value: Value<'a>) -> Result<Self, Value<'a>> {
                match value {
                    Value::$name(datum) => Ok(*datum),
                    other => Err(other),
                }
            }
        })*
    };
}

boxed! {
    ProcInfo = PROC_INFO;
    Envar = ENVAR;
    Regattr = REGATTR;
    Cpuset = PROC_CPUSET;
    Geometry = GEOMETRY;
    DeviceDistance = DEVICE_DIST;
    Endpoint = ENDPOINT;
    Topology = TOPO;
    ProcStats = PROC_STATS;
    DiskStats = DISK_STATS;
    NetStats = NET_STATS;
    NodeStats = NODE_STATS;
    Device = DEVICE;
    NodePid = NODE_PID;
}

impl<'a> Datum<'a> for WireRegex2<'a> {
    const DATA_TYPE: DataType = DataType::REGEX2;

    fn from_value(value: Value<'a>) -> Result<Self, Value<'a>> {
        match value {
            Value::Regex2(regex) => Ok(*regex),
            other => Err(other),
        }
    }
}

impl<'a> Value<'a> {
    /// Extracts the datum from the value, if it has the type (`PMIx_Value_unload`).
    ///
    /// ```
    /// use pmix_types::{Status, Value};
    /// assert_eq!(Value::from(7u32).unload::<u32>(), Ok(7));
    /// let refused = Value::from("7").unload::<u32>().unwrap_err();
    /// assert_eq!(refused.status(), Status::ERR_TYPE_MISMATCH);
    /// ```
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_TYPE_MISMATCH` if the value has a different type, `PMIX_ERR_UNKNOWN_DATA_TYPE` if
    /// it has none. [`Value::to_number`] converts between numbers.
    pub fn unload<T: Datum<'a>>(self) -> Result<T, ValueError> {
        let mismatch = |other: Value<'_>| ValueError::mismatch(T::DATA_TYPE, other.data_type());
        T::from_value(self).map_err(mismatch)
    }
}

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident($variant:ident) -> $type:ty = $data_type:ident, $view:expr;)*) => {
        impl<'a> Value<'a> {
            $($(#[$doc])*
            ///
            /// # Errors
            ///
            /// As [`Value::unload`].
            pub fn $name(&self) -> Result<$type, ValueError> {
                match self {
                    Self::$variant(datum) => Ok($view(datum)),
                    other => Err(ValueError::mismatch(DataType::$data_type, other.data_type())),
                }
            }
            )*
        }
    };
}

views! {
    /// Returns the truth value. [`Value::truth`] accepts more types.
    as_bool(Bool) -> bool = BOOL, |flag: &bool| *flag;
    /// Returns the string, or `None` for a null pointer.
    as_text(String) -> Option<&Text<'a>> = STRING, Option::as_ref;
    /// Returns the bytes.
    as_bytes(ByteObject) -> &[u8] = BYTE_OBJECT, AsRef::as_ref;
    /// Returns the status.
    as_status(Status) -> Status = STATUS, |status: &Status| *status;
    /// Returns the rank.
    as_rank(Rank) -> Rank = PROC_RANK, |rank: &Rank| *rank;
    /// Returns the process.
    as_proc(Proc) -> &Proc<'a> = PROC, std::convert::identity;
    /// Returns the nspace.
    as_nspace(Nspace) -> &Nspace<'a> = PROC_NSPACE, std::convert::identity;
    /// Returns the array.
    as_array(DataArray) -> &DataArray<'a> = DATA_ARRAY, std::convert::identity;
}

impl<'a> Value<'a> {
    /// Returns the infos of an array of infos.
    ///
    /// # Errors
    ///
    /// As for [`Value::unload`]. For an array of other data the error names their type.
    pub fn as_infos(&self) -> Result<&[Info<'a>], ValueError> {
        match self.as_array()? {
            DataArray::Info(infos) => Ok(infos),
            other => Err(ValueError::mismatch(DataType::INFO, other.data_type())),
        }
    }
}
