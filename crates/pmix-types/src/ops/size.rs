// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a datum takes in a C program.
//!
//! The size of a datum is the size of its C structure (x86-64) and of everything that its pointers
//! reference. A string counts with its NUL, and a null pointer counts as an empty string. A value
//! adds its own structure, an info adds another structure and the key.
//!
//! Source: OpenPMIx, `PMIx_Value_get_size` and `PMIx_Info_get_size`; sizes are in bytes.

use super::{ValueError, ValueErrorKind};
use crate::{
    AllocDirective, AllocInheritance, App, Bytes, Command, Coord, Cpuset, DataArray, DataRange,
    DataType, Device, DeviceDistance, DeviceType, DiskStats, Endpoint, Envar, Geometry, Info,
    InfoFlags, IofChannel, JobState, Key, Kval, LinkState, Locality, NetStats, NodePid, NodeStats,
    Nspace, Pdata, Persistence, Proc, ProcInfo, ProcState, ProcStats, Query, Rank, Regattr,
    RegexBytes, ResourceBlockDirective, ResourceUnit, Scope, Status, StorageAccessType,
    StorageAccessibility, StorageMedium, StoragePersistence, Text, Timeval, Topology, Value,
    WireRegex2,
};

/// The size of a pointer.
const POINTER: usize = 8;
/// The size of `pmix_value_t`.
const VALUE: usize = 32;
/// The size of `pmix_info_t`.
const INFO: usize = 552;
/// The size of `pmix_data_array_t`.
const DATA_ARRAY: usize = 24;
/// The size of `pmix_byte_object_t`.
const BYTE_OBJECT: usize = 16;
/// The size of `pmix_data_buffer_t`.
const DATA_BUFFER: usize = 40;

type Size = Result<usize, ValueError>;

impl Value<'_> {
    /// Returns the number of bytes that a C program needs for the value (`PMIx_Value_get_size`).
    ///
    /// Compressed data count with their original length. An nspace counts 255 bytes, the maximum
    /// length without the NUL.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNKNOWN_DATA_TYPE` for a value without a type, also inside an array, and for an
    /// array of data whose size is not known.
    pub fn storage_size(&self) -> Size {
        Ok(VALUE.saturating_add(self.payload_size()?))
    }

    fn payload_size(&self) -> Size {
        macro_rules! sizes {
            ($($variant:ident)*) => {
                match self {
                    Self::Undef => Err(no_size(DataType::UNDEF)),
                    // The value itself holds the pointer to the string.
                    Self::String(text) => Ok(string(text.as_ref())),
                    Self::CompressedString(bytes) => Ok(original_len(bytes, 1)),
                    Self::CompressedByteObject(bytes) => Ok(original_len(bytes, 0)),
                    Self::Pointer(()) => Ok(POINTER),
                    Self::DataBuffer(bytes) => Ok(DATA_BUFFER.saturating_add(bytes.len())),
                    $(Self::$variant(datum) => datum.size(),)*
                }
            };
        }
        sizes!(
            Bool Byte Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64 Float
            Double Timeval Time Status Proc ByteObject Persistence Scope DataRange InfoFlags
            DataType ProcState ProcInfo DataArray Rank AllocDirective IofChannel Envar Coord
            Regattr Regex JobState LinkState Cpuset Geometry DeviceDistance Endpoint Topology
            DeviceType Locality Nspace ProcStats DiskStats NetStats NodeStats StorageMedium
            StorageAccessibility StoragePersistence StorageAccessType Device
            ResourceBlockDirective ResourceUnit NodePid Regex2 AllocInheritance
        )
    }
}

impl Info<'_> {
    /// Returns the number of bytes that a C program needs for the info (`PMIx_Info_get_size`).
    ///
    /// # Errors
    ///
    /// As [`Value::storage_size`].
    pub fn storage_size(&self) -> Size {
        self.size()
    }
}

/// Data with a known size in C.
trait Stored {
    fn size(&self) -> Size;
}

impl Stored for DataArray<'_> {
    /// DEVIATION: the sizes of infos, values, queries, applications, published data and arrays are
    /// added up; OpenPMIx adds those of infos to the previous content of the caller's variable, and
    /// ignores the others; arrays_of_everything_have_a_size
    fn size(&self) -> Size {
        macro_rules! sizes {
            ($($variant:ident)*) => {
                match self {
                    Self::Untyped { data_type, .. } => return Err(no_size(*data_type)),
                    Self::String(texts) => {
                        sum(texts, |text| Ok(POINTER.saturating_add(string(text.as_ref()))))
                    }
                    Self::CompressedString(all) => {
                        sum(all, |bytes| Ok(POINTER.saturating_add(original_len(bytes, 1))))
                    }
                    Self::CompressedByteObject(all) => {
                        sum(all, |bytes| Ok(POINTER.saturating_add(original_len(bytes, 0))))
                    }
                    Self::Pointer(all) => Ok(POINTER.saturating_mul(all.len())),
                    Self::Value(values) => sum(values, Value::storage_size),
                    Self::DataBuffer(all) => {
                        sum(all, |bytes| Ok(DATA_BUFFER.saturating_add(bytes.len())))
                    }
                    Self::Buffer(all) => sum(all, |_| Err(no_size(DataType::BUFFER))),
                    $(Self::$variant(data) => sum(data, Stored::size),)*
                }
            };
        }
        let data = sizes!(
            Bool Byte Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64 Float
            Double Timeval Time Status Proc App Info Pdata ByteObject Kval Persistence Scope
            DataRange Command InfoFlags DataType ProcState ProcInfo DataArray Rank Query
            AllocDirective IofChannel Envar Coord Regattr Regex JobState LinkState Cpuset Geometry
            DeviceDistance Endpoint Topology DeviceType Locality Nspace ProcStats DiskStats
            NetStats NodeStats StorageMedium StorageAccessibility StoragePersistence
            StorageAccessType Device ResourceBlockDirective ResourceUnit NodePid Regex2
            AllocInheritance
        );
        Ok(DATA_ARRAY.saturating_add(data?))
    }
}

/// Implements `Stored` for types of a fixed size.
macro_rules! fixed {
    ($($size:literal: $($type:ty)*;)*) => {
        $($(impl Stored for $type {
            fn size(&self) -> Size {
                Ok($size)
            }
        })*)*
    };
}

// DEVIATION: info directives, data types and IO channels have the size of their number; OpenPMIx
// leaves the caller's variable unchanged; numbers_without_a_case_have_a_size
fixed! {
    1: bool u8 i8 Persistence Scope DataRange ProcState JobState LinkState AllocDirective
        AllocInheritance ResourceBlockDirective Command;
    2: u16 i16 StorageAccessType Locality DataType IofChannel;
    4: u32 i32 f32 Status Rank InfoFlags;
    8: u64 i64 f64 DeviceType StorageMedium StorageAccessibility StoragePersistence;
    16: Timeval ResourceUnit;
    255: Nspace<'_>;
    260: Proc<'_>;
}

/// Implements `Stored` for structures with strings and other referenced data.
macro_rules! structures {
    ($($type:ident = $size:literal: $($text:ident)* $(; |$datum:ident| $rest:expr)?,)*) => {
        $(impl Stored for $type<'_> {
            fn size(&self) -> Size {
                #[allow(unused_mut, reason = "not every structure has more than strings")]
                let mut size: usize = $size;
                $(size = size.saturating_add(string(self.$text.as_ref()));)*
                $(
                    let $datum = self;
                    size = size.saturating_add($rest);
                )?
                Ok(size)
            }
        })*
    };
}

structures! {
    ProcInfo = 296: hostname executable_name,
    Envar = 24: envar value,
    Device = 24: uuid osname,
    DeviceDistance = 32: uuid osname,
    Endpoint = 32: uuid osname; |endpoint| endpoint.endpt.len(),
    Geometry = 40: uuid osname; |geometry| sum(&geometry.coordinates, Stored::size)?,
    // The source is not counted. The description of a topology is counted, as for a cpuset in C,
    // because the size of hwloc's structure is not known outside of hwloc.
    Cpuset = 16: ; |cpuset| cpuset.bitmap.as_ref().map_or(0, |list| string(Some(list))),
    Topology = 16: ; |topology| {
        let text = topology.topology.as_ref().map_or(0, |text| string(Some(text)));
        text.saturating_add(topology.support.as_ref().map_or(0, |bytes| bytes.len()))
    },
    ProcStats = 352: node cmd,
    DiskStats = 96: disk,
    NetStats = 56: net_interface,
    NodeStats = 104: node; |node| {
        sum(&node.diskstats, Stored::size)?.saturating_add(sum(&node.netstats, Stored::size)?)
    },
    // The pointers to the lines are not counted.
    Regattr = 536: name; |regattr| sum(&regattr.description, |line| Ok(string(Some(line))))?,
    // A null host name or tag counts 0.
    NodePid = 16: ; |node| node.hostname.as_ref().map_or(0, |name| string(Some(name))),
    WireRegex2 = 24: ; |regex| {
        regex.kind.as_ref().map_or(0, |kind| string(Some(kind))).saturating_add(regex.bytes.len())
    },
    Query = 24: ; |query| {
        strings(&query.keys).saturating_add(sum(&query.qualifiers, Stored::size)?)
    },
    App = 56: cmd cwd; |app| {
        let texts = strings(&app.argv).saturating_add(strings(&app.env));
        texts.saturating_add(sum(&app.info, Stored::size)?)
    },
    Pdata = 808: ; |pdata| key_len(&pdata.key).saturating_add(pdata.value.storage_size()?),
}

impl Stored for Info<'_> {
    fn size(&self) -> Size {
        let value = self.value.storage_size()?;
        Ok(value
            .saturating_add(key_len(&self.key))
            .saturating_add(INFO))
    }
}

/// Kvals are internal to OpenPMIx, so there is no C structure to measure.
impl Stored for Kval<'_> {
    fn size(&self) -> Size {
        Err(no_size(DataType::KVAL))
    }
}

impl Stored for Coord {
    fn size(&self) -> Size {
        Ok(self.coord.len().saturating_mul(4).saturating_add(24))
    }
}

impl Stored for Bytes<'_> {
    fn size(&self) -> Size {
        Ok(BYTE_OBJECT.saturating_add(self.len()))
    }
}

impl Stored for RegexBytes<'_> {
    fn size(&self) -> Size {
        self.0.size()
    }
}

impl<T: Stored> Stored for Box<T> {
    fn size(&self) -> Size {
        (**self).size()
    }
}

const fn no_size(data_type: DataType) -> ValueError {
    ValueError(ValueErrorKind::NoSize(data_type))
}

fn sum<'d, T: 'd>(data: impl IntoIterator<Item = &'d T>, size: impl Fn(&'d T) -> Size) -> Size {
    data.into_iter().try_fold(0_usize, |total, datum| {
        Ok(total.saturating_add(size(datum)?))
    })
}

/// Returns the size of a string with its NUL. A null pointer counts like an empty string.
fn string(text: Option<&Text<'_>>) -> usize {
    text.map_or(0, Text::len).saturating_add(1)
}

/// Returns the size of strings and of the pointers to them.
fn strings(texts: &[Text<'_>]) -> usize {
    let size = |text| POINTER.saturating_add(string(Some(text)));
    texts
        .iter()
        .fold(0, |total, text| total.saturating_add(size(text)))
}

/// Returns the size of a key with its NUL. A key of maximum length counts without the NUL.
fn key_len(key: &Key<'_>) -> usize {
    key.as_bytes().len().saturating_add(1).min(Key::MAX_LEN)
}

/// Returns the original length of compressed data, which is in their first four bytes, plus `nul`.
fn original_len(bytes: &[u8], nul: usize) -> usize {
    let len = bytes
        .first_chunk()
        .map_or(0, |len| u32::from_ne_bytes(*len));
    match usize::try_from(len).unwrap_or(usize::MAX) {
        0 => 0,
        len => len.saturating_add(nul),
    }
}
