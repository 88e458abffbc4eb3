// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of each type.

use super::{Compare, ValueComparison};
use crate::{
    AllocDirective, AllocInheritance, App, Bytes, Command, Coord, Cpuset, DataRange, DataType,
    Device, DeviceDistance, DeviceType, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags,
    IofChannel, JobState, Key, Kval, LinkState, Locality, NetStats, NodePid, NodeStats, Nspace,
    Pdata, Persistence, Proc, ProcInfo, ProcState, ProcStats, Query, Rank, Regattr, RegexBytes,
    ResourceBlockDirective, ResourceUnit, Scope, Status, StorageAccessType, StorageAccessibility,
    StorageMedium, StoragePersistence, Text, Timeval, Topology, WireRegex2,
};

/// Implements `Compare` for types that compare by `Ord`.
macro_rules! ordered {
    ($($type:ty),* $(,)?) => {
        $(impl Compare for $type {
            fn compare(&self, other: &Self) -> ValueComparison {
                self.cmp(other).into()
            }
        })*
    };
}

// Processes are compared by nspace, then by rank. A null string is less than every other string.
// Times are compared by seconds, then by microseconds. Pointers have no content in the model, so
// they are all equal.
ordered!(
    (),
    bool,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    Timeval,
    Status,
    Rank,
    Key<'_>,
    Nspace<'_>,
    Proc<'_>,
    Text<'_>,
    Option<Text<'_>>,
    Persistence,
    Scope,
    DataRange,
    ProcState,
    JobState,
    LinkState,
    AllocDirective,
    AllocInheritance,
    ResourceBlockDirective,
    DeviceType,
    Locality,
    StorageMedium,
    StorageAccessibility,
    StoragePersistence,
    StorageAccessType,
);

/// Implements `Compare` for types without an order.
macro_rules! unordered {
    ($($type:ty),* $(,)?) => {
        $(impl Compare for $type {
            fn compare(&self, _: &Self) -> ValueComparison {
                ValueComparison::NotAvailable
            }
        })*
    };
}

unordered!(
    InfoFlags,
    DataType,
    IofChannel,
    Command,
    App<'_>,
    Query<'_>,
    Pdata<'_>,
    Kval<'_>,
);

macro_rules! reals {
    ($($type:ty),*) => {
        $(impl Compare for $type {
            /// Orders NaN below or above all numbers, so that the order is total.
            fn compare(&self, other: &Self) -> ValueComparison {
                let ordering = self.partial_cmp(other);
                ordering.unwrap_or_else(|| self.total_cmp(other)).into()
            }
        })*
    };
}

reals!(f32, f64);

impl Compare for Bytes<'_> {
    /// Compares the lengths. For equal lengths, the first different byte decides.
    fn compare(&self, other: &Self) -> ValueComparison {
        self.len()
            .cmp(&other.len())
            .then_with(|| self.cmp(other))
            .into()
    }
}

/// Implements `Compare` for structures, field by field. If the fields after `same` differ, or
/// neither structure has the field after `needs`, there is no order.
macro_rules! by_fields {
    ($($type:ident $({same $same:ident})? $({needs $needs:ident})?: $($field:ident)*;)*) => {
        $(impl Compare for $type<'_> {
            fn compare(&self, other: &Self) -> ValueComparison {
                $(if self.$same != other.$same {
                    return ValueComparison::IncompatibleObjects;
                })?
                $(if self.$needs.is_none() && other.$needs.is_none() {
                    return ValueComparison::NotAvailable;
                })?
                ValueComparison::Equal
                $(.then(|| self.$field.compare(&other.$field)))*
            }
        })*
    };
}

by_fields! {
    // The directives are not compared, because they are not content of the info.
    Info: key value;
    Device {same device_type}: uuid osname;
    DeviceDistance {same device_type}: uuid osname mindist maxdist;
    Endpoint: uuid osname endpt;
    Geometry {same fabric}: uuid osname coordinates;
    NodePid: hostname nodeid pid;
    WireRegex2: kind bytes;
    DiskStats {needs disk}: disk num_reads_completed num_reads_merged num_sectors_read
        milliseconds_reading num_writes_completed num_writes_merged num_sectors_written
        milliseconds_writing num_ios_in_progress milliseconds_io weighted_milliseconds_io;
    NetStats {needs net_interface}: net_interface num_bytes_recvd num_packets_recvd num_recv_errs
        num_bytes_sent num_packets_sent num_send_errs;
    ProcStats {needs node}: node proc pid cmd state time percent_cpu priority num_threads pss vsize
        rss peak_vsize processor sample_time;
    // DEVIATION: separators are compared, the state of a process is compared, and nodes without
    // disks or interfaces are equal; OpenPMIx detects only a lesser separator, ignores the state,
    // and treats the second node as greater; whole_structures_are_compared
    Envar: envar value separator;
    ProcInfo: proc hostname executable_name pid exit_code state;
    NodeStats {needs node}: node la la5 la15 total_mem free_mem buffers cached swap_cached
        swap_total swap_free mapped sample_time diskstats netstats;
}

impl Compare for Regattr<'_> {
    /// Compares the numbers of the data types, although values of type `PMIX_DATA_TYPE` have no
    /// order.
    fn compare(&self, other: &Self) -> ValueComparison {
        if self.name.is_none() && other.name.is_none() {
            return ValueComparison::NotAvailable;
        }
        let types = || self.data_type.cmp(&other.data_type).into();
        let names = self
            .name
            .compare(&other.name)
            .then(|| self.string.compare(&other.string));
        names
            .then(types)
            .then(|| self.description.compare(&other.description))
    }
}

impl Compare for RegexBytes<'_> {
    fn compare(&self, other: &Self) -> ValueComparison {
        self.0.compare(&other.0)
    }
}

impl Compare for ResourceUnit {
    fn compare(&self, other: &Self) -> ValueComparison {
        if self.device_type != other.device_type {
            return ValueComparison::IncompatibleObjects;
        }
        self.count.compare(&other.count)
    }
}

impl Compare for Coord {
    /// DEVIATION: more dimensions are greater, and each coordinate is a number; OpenPMIx compares
    /// the memory of as many coordinates as the first has; coordinates_compare_as_numbers
    fn compare(&self, other: &Self) -> ValueComparison {
        if self.view != other.view {
            return ValueComparison::IncompatibleObjects;
        }
        self.coord.compare(&other.coord)
    }
}

/// Compares descriptions that only their source can interpret. Descriptions of different sources
/// have no order.
fn of_one_source(
    sources: (&Option<Text<'_>>, &Option<Text<'_>>),
    descriptions: impl FnOnce() -> ValueComparison,
) -> ValueComparison {
    match sources {
        (None, None) => ValueComparison::NotAvailable,
        (a, b) if a != b => ValueComparison::IncompatibleObjects,
        _ => descriptions(),
    }
}

impl Compare for Topology<'_> {
    /// Ignores the features that the library supports: they are not part of the hardware.
    fn compare(&self, other: &Self) -> ValueComparison {
        let texts = || self.topology.compare(&other.topology);
        of_one_source((&self.source, &other.source), texts)
    }
}

impl Compare for Cpuset<'_> {
    /// Treats a missing bitmap as not comparable, while a missing topology is less than a present
    /// one.
    fn compare(&self, other: &Self) -> ValueComparison {
        let texts = || match (&self.bitmap, &other.bitmap) {
            (Some(a), Some(b)) => a.compare(b),
            _ => ValueComparison::NotAvailable,
        };
        of_one_source((&self.source, &other.source), texts)
    }
}
