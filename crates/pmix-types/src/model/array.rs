// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of data of one type.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_data_array_t`.

use crate::{
    AllocDirective, AllocInheritance, App, Bytes, Command, Coord, Cpuset, DataRange, DataType,
    Device, DeviceDistance, DeviceType, DiskStats, Endpoint, Envar, Geometry, Info, InfoFlags,
    IntoOwned, IofChannel, JobState, Kval, LinkState, Locality, Measure, NetStats, NodePid,
    NodeStats, Nspace, Pdata, Persistence, Proc, ProcInfo, ProcState, ProcStats, Query, Rank,
    Regattr, RegexBytes, ResourceBlockDirective, ResourceUnit, Scope, Status, StorageAccessType,
    StorageAccessibility, StorageMedium, StoragePersistence, Text, Timeval, Topology, Value,
    WireRegex2,
};

macro_rules! arrays {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $data_type:ident;)*) => {
        /// An array of data of one type (`pmix_data_array_t`). It also represents the data of a
        /// pack call.
        #[derive(Clone, Debug, PartialEq)]
        pub enum DataArray<'a> {
            /// `len` elements of type `PMIX_UNDEF`, or an empty array of a type that the model does
            /// not have.
            Untyped {
                /// The type.
                data_type: DataType,
                /// The number of elements. The elements are not stored.
                len: u64,
            },
            $($(#[$doc])* $variant(Vec<$type>),)*
        }

        impl DataArray<'_> {
            /// Returns the type of the data.
            #[must_use]
            pub const fn data_type(&self) -> DataType {
                match self {
                    Self::Untyped { data_type, .. } => *data_type,
                    $(Self::$variant(_) => DataType::$data_type,)*
                }
            }

            /// Returns the number of data.
            #[must_use]
            pub const fn len(&self) -> usize {
                match self {
                    Self::Untyped { .. } => 0,
                    $(Self::$variant(items) => items.len(),)*
                }
            }

            /// Returns `true` if the array has no data.
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Creates an empty array of a type.
            #[must_use]
            pub const fn empty(data_type: DataType) -> Self {
                match data_type {
                    $(DataType::$data_type => Self::$variant(Vec::new()),)*
                    _ => Self::Untyped { data_type, len: 0 },
                }
            }
        }

        #[cfg(feature = "serde")]
        impl DataArray<'_> {
            /// Prints the data as a list without their type.
            pub(crate) fn write_data<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Untyped { .. } => serializer.collect_seq([(); 0]),
                    $(Self::$variant(items) => {
                        serializer.collect_seq(items.iter().map(crate::json::As))
                    })*
                }
            }

            /// Reads a list of data of a type.
            pub(crate) fn read_data(
                data_type: DataType,
                node: crate::json::Node<'_>,
                at: &crate::json::At<'_>,
            ) -> Result<Self, crate::json::Fault> {
                match data_type {
                    $(DataType::$data_type => {
                        crate::json::Form::read(node, at).map(Self::$variant)
                    })*
                    _ => crate::json::untyped(data_type, &node, at),
                }
            }
        }

        impl IntoOwned for DataArray<'_> {
            type Owned = DataArray<'static>;

            fn into_owned(self) -> DataArray<'static> {
                match self {
                    Self::Untyped { data_type, len } => DataArray::Untyped { data_type, len },
                    $(Self::$variant(items) => DataArray::$variant(items.into_owned()),)*
                }
            }

            fn measure(&self, what: Measure) -> usize {
                match self {
                    Self::Untyped { .. } => 0,
                    $(Self::$variant(items) => items.measure(what),)*
                }
            }
        }
    };
}

arrays! {
    /// Truth values.
    Bool(bool) = BOOL;
    /// Single bytes.
    Byte(u8) = BYTE;
    /// Strings and null pointers.
    String(Option<Text<'a>>) = STRING;
    /// Sizes.
    Size(u64) = SIZE;
    /// Process ids.
    Pid(i32) = PID;
    /// C `int`s.
    Int(i32) = INT;
    /// Signed numbers of 8 bits.
    Int8(i8) = INT8;
    /// Signed numbers of 16 bits.
    Int16(i16) = INT16;
    /// Signed numbers of 32 bits.
    Int32(i32) = INT32;
    /// Signed numbers of 64 bits.
    Int64(i64) = INT64;
    /// C `unsigned int`s.
    Uint(u32) = UINT;
    /// Unsigned numbers of 8 bits.
    Uint8(u8) = UINT8;
    /// Unsigned numbers of 16 bits.
    Uint16(u16) = UINT16;
    /// Unsigned numbers of 32 bits.
    Uint32(u32) = UINT32;
    /// Unsigned numbers of 64 bits.
    Uint64(u64) = UINT64;
    /// Numbers of single precision.
    Float(f32) = FLOAT;
    /// Numbers of double precision.
    Double(f64) = DOUBLE;
    /// Times in seconds and microseconds.
    Timeval(Timeval) = TIMEVAL;
    /// Seconds since 1970.
    Time(i64) = TIME;
    /// Statuses.
    Status(Status) = STATUS;
    /// Values, each with its own type.
    Value(Value<'a>) = VALUE;
    /// Processes.
    Proc(Proc<'a>) = PROC;
    /// Applications.
    App(App<'a>) = APP;
    /// Infos.
    Info(Info<'a>) = INFO;
    /// Published data.
    Pdata(Pdata<'a>) = PDATA;
    /// Buffers of packed data (deprecated).
    Buffer(Bytes<'a>) = BUFFER;
    /// Byte objects.
    ByteObject(Bytes<'a>) = BYTE_OBJECT;
    /// Keys with values.
    Kval(Kval<'a>) = KVAL;
    /// The times for which published data are kept.
    Persistence(Persistence) = PERSIST;
    /// Pointers, whose content is not kept.
    Pointer(()) = POINTER;
    /// The processes that may read data.
    Scope(Scope) = SCOPE;
    /// The processes that may see publications or events.
    DataRange(DataRange) = DATA_RANGE;
    /// Commands of the protocol.
    Command(Command) = COMMAND;
    /// Directives of infos.
    InfoFlags(InfoFlags) = INFO_DIRECTIVES;
    /// Data types.
    DataType(DataType) = DATA_TYPE;
    /// States of processes.
    ProcState(ProcState) = PROC_STATE;
    /// Descriptions of processes for debuggers.
    ProcInfo(ProcInfo<'a>) = PROC_INFO;
    /// Arrays.
    DataArray(DataArray<'a>) = DATA_ARRAY;
    /// Ranks.
    Rank(Rank) = PROC_RANK;
    /// Queries.
    Query(Query<'a>) = QUERY;
    /// Compressed texts, kept compressed (deprecated).
    CompressedString(Bytes<'a>) = COMPRESSED_STRING;
    /// Purposes of allocation requests.
    AllocDirective(AllocDirective) = ALLOC_DIRECTIVE;
    /// Streams of processes.
    IofChannel(IofChannel) = IOF_CHANNEL;
    /// Environment variables.
    Envar(Envar<'a>) = ENVAR;
    /// Coordinates in a fabric.
    Coord(Coord) = COORD;
    /// Registered attributes.
    Regattr(Regattr<'a>) = REGATTR;
    /// Encoded maps without a length of their own (deprecated).
    Regex(RegexBytes<'a>) = REGEX;
    /// States of jobs.
    JobState(JobState) = JOB_STATE;
    /// States of fabric links.
    LinkState(LinkState) = LINK_STATE;
    /// Sets of processors.
    Cpuset(Cpuset<'a>) = PROC_CPUSET;
    /// Positions of devices in their fabric.
    Geometry(Geometry<'a>) = GEOMETRY;
    /// Distances of processes from devices.
    DeviceDistance(DeviceDistance<'a>) = DEVICE_DIST;
    /// Addresses on fabric devices.
    Endpoint(Endpoint<'a>) = ENDPOINT;
    /// Hardware topologies of nodes.
    Topology(Topology<'a>) = TOPO;
    /// Types of devices.
    DeviceType(DeviceType) = DEVTYPE;
    /// Localities of pairs of processes.
    Locality(Locality) = LOCTYPE;
    /// Compressed bytes, kept compressed.
    CompressedByteObject(Bytes<'a>) = COMPRESSED_BYTE_OBJECT;
    /// Names of jobs.
    Nspace(Nspace<'a>) = PROC_NSPACE;
    /// Resource usage of processes.
    ProcStats(ProcStats<'a>) = PROC_STATS;
    /// Activity of disks.
    DiskStats(DiskStats<'a>) = DISK_STATS;
    /// Activity of network interfaces.
    NetStats(NetStats<'a>) = NET_STATS;
    /// Resources of nodes and their usage.
    NodeStats(NodeStats<'a>) = NODE_STATS;
    /// Buffers of packed data.
    DataBuffer(Bytes<'a>) = DATA_BUFFER;
    /// Kinds of storage.
    StorageMedium(StorageMedium) = STOR_MEDIUM;
    /// Places from which storage can be reached.
    StorageAccessibility(StorageAccessibility) = STOR_ACCESS;
    /// Times for which storage keeps its data.
    StoragePersistence(StoragePersistence) = STOR_PERSIST;
    /// Ways in which storage is accessed.
    StorageAccessType(StorageAccessType) = STOR_ACCESS_TYPE;
    /// Devices.
    Device(Device<'a>) = DEVICE;
    /// Operations on resource blocks.
    ResourceBlockDirective(ResourceBlockDirective) = RESBLOCK_DIRECTIVE;
    /// Numbers of devices of one type.
    ResourceUnit(ResourceUnit) = RESOURCE_UNIT;
    /// Processes on nodes.
    NodePid(NodePid<'a>) = NODE_PID;
    /// Encoded maps with their types.
    Regex2(WireRegex2<'a>) = REGEX2;
    /// The processes that inherit allocations.
    AllocInheritance(AllocInheritance) = ALLOC_INHERIT;
}

impl Default for DataArray<'_> {
    fn default() -> Self {
        Self::Untyped {
            data_type: DataType::UNDEF,
            len: 0,
        }
    }
}
