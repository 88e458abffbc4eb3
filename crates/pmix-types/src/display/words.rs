// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of data by type. Numbers are decimal. A named number is the name of its constant. A
//! structure is `(member=text, …)` with the names of C. A list is `[text, …]`. A null pointer is
//! `NULL`.

use std::borrow::Cow;
use std::fmt::{self, Formatter};

use crate::*;

/// The number of bytes of a byte object that are printed.
const SHOWN: usize = 32;

/// A datum with a text for users, without the type of the datum.
pub(super) trait Words {
    /// Writes the text.
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result;
}

/// Implements `Words` for types whose `Display` is their text. It ignores the width of the caller,
/// which is not meant for members.
macro_rules! displayed {
    ($($type:ty,)*) => {
        $(impl Words for $type {
            fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        })*
    };
}

displayed! {
    Value<'_>, Info<'_>, Proc<'_>, App<'_>, DataArray<'_>,
    bool, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64,
    Status, Rank, Text<'_>, Key<'_>, Nspace<'_>,
    AllocDirective, AllocInheritance, Command, CoordView, DataRange, DataType, DeviceType,
    InfoFlags, IofChannel, JobState, LinkState, Locality, Persistence, ProcState,
    ResourceBlockDirective, Scope, StorageAccessType, StorageAccessibility, StorageMedium,
    StoragePersistence,
}

/// Implements `Words` for structures: the names of their members in C, and their fields.
macro_rules! structures {
    ($($type:ty {
        $first:literal: $first_field:ident $(as $first_how:ident)?,
        $($name:literal: $field:ident $(as $how:ident)?,)*
    })*) => {
        $(impl Words for $type {
            fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str(concat!("(", $first, "="))?;
                structures!(@member f, self.$first_field $(, $first_how)?)?;
                $(
                    f.write_str(concat!(", ", $name, "="))?;
                    structures!(@member f, self.$field $(, $how)?)?;
                )*
                f.write_str(")")
            }
        })*
    };
    (@member $f:ident, $field:expr) => { $field.words($f) };
    (@member $f:ident, $field:expr, $how:ident) => { $how($field, $f) };
}

structures! {
    Timeval { "tv_sec": tv_sec, "tv_usec": tv_usec, }
    ProcInfo<'_> {
        "proc": proc, "hostname": hostname, "executable_name": executable_name, "pid": pid,
        "exit_code": exit_code, "state": state,
    }
    NodePid<'_> { "hostname": hostname, "nodeid": nodeid, "pid": pid, }
    Pdata<'_> { "proc": proc, "key": key, "value": value, }
    Kval<'_> { "key": key, "value": value, }
    Envar<'_> { "envar": envar, "value": value, "separator": separator as letter, }
    Endpoint<'_> { "uuid": uuid, "osname": osname, "endpt": endpt, }
    Query<'_> { "keys": keys, "qualifiers": qualifiers, }
    Regattr<'_> { "name": name, "string": string, "type": data_type, "description": description, }
    WireRegex2<'_> { "type": kind, "bytes": bytes, }
    Coord { "view": view, "coord": coord, }
    Geometry<'_> {
        "fabric": fabric, "uuid": uuid, "osname": osname, "coordinates": coordinates,
    }
    DeviceDistance<'_> {
        "uuid": uuid, "osname": osname, "type": device_type, "mindist": mindist, "maxdist": maxdist,
    }
    Device<'_> { "uuid": uuid, "osname": osname, "type": device_type, }
    ResourceUnit { "type": device_type, "count": count, }
    Cpuset<'_> { "source": source, "bitmap": bitmap, }
    Topology<'_> { "source": source, "topology": topology, }
    ProcStats<'_> {
        "node": node, "proc": proc, "pid": pid, "cmd": cmd, "state": state as letter, "time": time,
        "percent_cpu": percent_cpu, "priority": priority, "num_threads": num_threads, "pss": pss,
        "vsize": vsize, "rss": rss, "peak_vsize": peak_vsize, "processor": processor,
        "sample_time": sample_time,
    }
    DiskStats<'_> {
        "disk": disk, "num_reads_completed": num_reads_completed,
        "num_reads_merged": num_reads_merged, "num_sectors_read": num_sectors_read,
        "milliseconds_reading": milliseconds_reading,
        "num_writes_completed": num_writes_completed, "num_writes_merged": num_writes_merged,
        "num_sectors_written": num_sectors_written, "milliseconds_writing": milliseconds_writing,
        "num_ios_in_progress": num_ios_in_progress, "milliseconds_io": milliseconds_io,
        "weighted_milliseconds_io": weighted_milliseconds_io,
    }
    NetStats<'_> {
        "net_interface": net_interface, "num_bytes_recvd": num_bytes_recvd,
        "num_packets_recvd": num_packets_recvd, "num_recv_errs": num_recv_errs,
        "num_bytes_sent": num_bytes_sent, "num_packets_sent": num_packets_sent,
        "num_send_errs": num_send_errs,
    }
    NodeStats<'_> {
        "node": node, "la": la, "la5": la5, "la15": la15, "total_mem": total_mem,
        "free_mem": free_mem, "buffers": buffers, "cached": cached, "swap_cached": swap_cached,
        "swap_total": swap_total, "swap_free": swap_free, "mapped": mapped,
        "sample_time": sample_time, "diskstats": diskstats, "netstats": netstats,
    }
}

impl<T: Words> Words for Vec<T> {
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (place, item) in self.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            item.words(f)?;
        }
        f.write_str("]")
    }
}

impl<T: Words> Words for Option<T> {
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Some(datum) => datum.words(f),
            None => f.write_str("NULL"),
        }
    }
}

impl<T: Words> Words for Box<T> {
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (**self).words(f)
    }
}

impl Words for Cow<'_, [u8]> {
    /// Writes the number of bytes, and the first bytes in hexadecimal.
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "size {}", self.len())?;
        for (place, byte) in self.iter().take(SHOWN).enumerate() {
            let mark = if place == 0 { ": " } else { " " };
            write!(f, "{mark}{byte:02x}")?;
        }
        match self.len() > SHOWN {
            true => f.write_str(" ..."),
            false => Ok(()),
        }
    }
}

impl Words for RegexBytes<'_> {
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.words(f)
    }
}

impl Words for () {
    /// Writes that the datum is a pointer, whose content the model does not keep.
    fn words(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("an address")
    }
}

/// Writes a C character, or its number if it is not printable.
fn letter(byte: u8, f: &mut Formatter<'_>) -> fmt::Result {
    match byte.is_ascii_graphic() {
        true => write!(f, "{}", char::from(byte)),
        false => write!(f, "{byte}"),
    }
}

/// Implements the text of the content of a value or an array. For tests, also defines a function
/// that returns one of each variant.
macro_rules! each {
    ($of:ident, $words:ident, $all:ident, [$default:expr], { $($other:pat => $none:expr,)* } $($variant:ident)*) => {
        #[doc = concat!("Writes the content of a `", stringify!($of), "`.")]
        pub(super) fn $words(of: &$of<'_>, f: &mut Formatter<'_>) -> fmt::Result {
            match of {
                $($other => $none(f),)*
                $($of::$variant(held) => held.words(f),)*
            }
        }

        /// Returns one of each variant, with its name.
        #[cfg(test)]
        pub(super) fn $all() -> Vec<(&'static str, $of<'static>)> {
            vec![$((stringify!($variant), $of::$variant($default)),)*]
        }
    };
}

each! {
    Value, datum, each_value, [Default::default()], { Value::Undef => |_: &mut Formatter<'_>| Ok(()), }
    Bool Byte String Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64 Float
    Double Timeval Time Status Proc ByteObject Persistence Pointer Scope DataRange InfoFlags
    DataType ProcState ProcInfo DataArray Rank CompressedString AllocDirective IofChannel Envar
    Coord Regattr Regex JobState LinkState Cpuset Geometry DeviceDistance Endpoint Topology
    DeviceType Locality CompressedByteObject Nspace ProcStats DiskStats NetStats NodeStats
    DataBuffer StorageMedium StorageAccessibility StoragePersistence StorageAccessType Device
    ResourceBlockDirective ResourceUnit NodePid Regex2 AllocInheritance
}

each! {
    DataArray, items, each_array, [vec![Default::default()]], {
        DataArray::Untyped { len: 0, .. } => |f: &mut Formatter<'_>| f.write_str("[]"),
        DataArray::Untyped { len, .. } => |f: &mut Formatter<'_>| write!(f, "[{len} of no known type]"),
    }
    Bool Byte String Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64 Float
    Double Timeval Time Status Value Proc App Info Pdata Buffer ByteObject Kval Persistence Pointer
    Scope DataRange Command InfoFlags DataType ProcState ProcInfo DataArray Rank Query
    CompressedString AllocDirective IofChannel Envar Coord Regattr Regex JobState LinkState Cpuset
    Geometry DeviceDistance Endpoint Topology DeviceType Locality CompressedByteObject Nspace
    ProcStats DiskStats NetStats NodeStats DataBuffer StorageMedium StorageAccessibility
    StoragePersistence StorageAccessType Device ResourceBlockDirective ResourceUnit NodePid Regex2
    AllocInheritance
}
