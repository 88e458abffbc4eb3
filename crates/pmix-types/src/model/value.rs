// SPDX-License-Identifier: MIT OR Apache-2.0
//! One datum with its type.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_value_t`.

use crate::{
    AllocDirective, AllocInheritance, Bytes, Coord, Cpuset, DataArray, DataRange, DataType, Device,
    DeviceDistance, DeviceType, Endpoint, Envar, Geometry, InfoFlags, IntoOwned, IofChannel,
    JobState, LinkState, Locality, Measure, NodePid, NodeStats, Nspace, Persistence, Proc,
    ProcInfo, ProcState, ProcStats, Rank, Regattr, RegexBytes, ResourceBlockDirective,
    ResourceUnit, Scope, Status, StorageAccessType, StorageAccessibility, StorageMedium,
    StoragePersistence, Text, Timeval, Topology, WireRegex2,
};

macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $data_type:ident;)*) => {
        /// A datum with its type (`pmix_value_t`).
        ///
        /// Each data type of a value has a variant. Strings and bytes may borrow from their
        /// message; [`IntoOwned`] copies them. Structures larger than a [`Proc`] are boxed, so that
        /// a value stays small.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub enum Value<'a> {
            /// No datum. The presence of the key has a meaning.
            #[default]
            Undef,
            $($(#[$doc])* $variant($type),)*
        }

        impl Value<'_> {
            /// Returns the type of the datum.
            #[must_use]
            pub const fn data_type(&self) -> DataType {
                match self {
                    Self::Undef => DataType::UNDEF,
                    $(Self::$variant(_) => DataType::$data_type,)*
                }
            }
        }

        #[cfg(feature = "serde")]
        impl Value<'_> {
            /// Prints the datum without its type.
            pub(crate) fn write_datum<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Undef => serializer.serialize_unit(),
                    $(Self::$variant(datum) => crate::json::Form::write(datum, serializer),)*
                }
            }

            /// Reads the datum of a value of a type.
            pub(crate) fn read_datum(
                data_type: DataType,
                node: crate::json::Node<'_>,
                at: &crate::json::At<'_>,
            ) -> Result<Self, crate::json::Fault> {
                match (data_type, node) {
                    (DataType::UNDEF, crate::json::Node::Null) => Ok(Self::Undef),
                    (DataType::UNDEF, node) => Err(at.expected("null", node)),
                    $((DataType::$data_type, node) => {
                        crate::json::Form::read(node, at).map(Self::$variant)
                    })*
                    _ => Err(at.fault(format_args!("no value can have the type {data_type}"))),
                }
            }
        }

        impl IntoOwned for Value<'_> {
            type Owned = Value<'static>;

            fn into_owned(self) -> Value<'static> {
                match self {
                    Self::Undef => Value::Undef,
                    $(Self::$variant(datum) => Value::$variant(IntoOwned::into_owned(datum)),)*
                }
            }

            fn measure(&self, what: Measure) -> usize {
                match self {
                    Self::Undef => 0,
                    $(Self::$variant(datum) => IntoOwned::measure(datum, what),)*
                }
            }
        }
    };
}

values! {
    /// A truth value.
    Bool(bool) = BOOL;
    /// One byte.
    Byte(u8) = BYTE;
    /// A string, or a null pointer.
    String(Option<Text<'a>>) = STRING;
    /// A size (`size_t`).
    Size(u64) = SIZE;
    /// A process id (`pid_t`).
    Pid(i32) = PID;
    /// A C `int`.
    Int(i32) = INT;
    /// A signed number of 8 bits.
    Int8(i8) = INT8;
    /// A signed number of 16 bits.
    Int16(i16) = INT16;
    /// A signed number of 32 bits.
    Int32(i32) = INT32;
    /// A signed number of 64 bits.
    Int64(i64) = INT64;
    /// A C `unsigned int`.
    Uint(u32) = UINT;
    /// An unsigned number of 8 bits.
    Uint8(u8) = UINT8;
    /// An unsigned number of 16 bits.
    Uint16(u16) = UINT16;
    /// An unsigned number of 32 bits.
    Uint32(u32) = UINT32;
    /// An unsigned number of 64 bits.
    Uint64(u64) = UINT64;
    /// A number of single precision.
    Float(f32) = FLOAT;
    /// A number of double precision.
    Double(f64) = DOUBLE;
    /// A time in seconds and microseconds.
    Timeval(Timeval) = TIMEVAL;
    /// Seconds since 1970 (`time_t`).
    Time(i64) = TIME;
    /// A status.
    Status(Status) = STATUS;
    /// A process.
    Proc(Proc<'a>) = PROC;
    /// Bytes.
    ByteObject(Bytes<'a>) = BYTE_OBJECT;
    /// The time for which published data are kept.
    Persistence(Persistence) = PERSIST;
    /// A pointer. It is meaningless in another process, so its content is not kept.
    Pointer(()) = POINTER;
    /// The processes that may read a datum.
    Scope(Scope) = SCOPE;
    /// The processes that may see a publication or an event.
    DataRange(DataRange) = DATA_RANGE;
    /// Directives of an info.
    InfoFlags(InfoFlags) = INFO_DIRECTIVES;
    /// A data type.
    DataType(DataType) = DATA_TYPE;
    /// The state of a process.
    ProcState(ProcState) = PROC_STATE;
    /// The description of a process for debuggers.
    ProcInfo(Box<ProcInfo<'a>>) = PROC_INFO;
    /// An array of data of one type.
    DataArray(DataArray<'a>) = DATA_ARRAY;
    /// The rank of a process.
    Rank(Rank) = PROC_RANK;
    /// Compressed text, kept compressed (deprecated).
    CompressedString(Bytes<'a>) = COMPRESSED_STRING;
    /// The purpose of an allocation request.
    AllocDirective(AllocDirective) = ALLOC_DIRECTIVE;
    /// Streams of a process.
    IofChannel(IofChannel) = IOF_CHANNEL;
    /// An environment variable.
    Envar(Box<Envar<'a>>) = ENVAR;
    /// Coordinates in a fabric.
    Coord(Coord) = COORD;
    /// A registered attribute.
    Regattr(Box<Regattr<'a>>) = REGATTR;
    /// An encoded map without a length of its own (deprecated).
    Regex(RegexBytes<'a>) = REGEX;
    /// The state of a job.
    JobState(JobState) = JOB_STATE;
    /// The state of a fabric link.
    LinkState(LinkState) = LINK_STATE;
    /// A set of processors.
    Cpuset(Box<Cpuset<'a>>) = PROC_CPUSET;
    /// The position of a device in its fabric.
    Geometry(Box<Geometry<'a>>) = GEOMETRY;
    /// The distance of a process from a device.
    DeviceDistance(Box<DeviceDistance<'a>>) = DEVICE_DIST;
    /// The address of a process on a fabric device.
    Endpoint(Box<Endpoint<'a>>) = ENDPOINT;
    /// The hardware topology of a node.
    Topology(Box<Topology<'a>>) = TOPO;
    /// Types of devices.
    DeviceType(DeviceType) = DEVTYPE;
    /// The locality of two processes.
    Locality(Locality) = LOCTYPE;
    /// Compressed bytes, kept compressed.
    CompressedByteObject(Bytes<'a>) = COMPRESSED_BYTE_OBJECT;
    /// The name of a job.
    Nspace(Nspace<'a>) = PROC_NSPACE;
    /// The resource usage of a process.
    ProcStats(Box<ProcStats<'a>>) = PROC_STATS;
    /// The activity of a disk.
    DiskStats(Box<crate::DiskStats<'a>>) = DISK_STATS;
    /// The activity of a network interface.
    NetStats(Box<crate::NetStats<'a>>) = NET_STATS;
    /// The resources of a node and their usage.
    NodeStats(Box<NodeStats<'a>>) = NODE_STATS;
    /// A buffer of packed data.
    DataBuffer(Bytes<'a>) = DATA_BUFFER;
    /// Kinds of storage.
    StorageMedium(StorageMedium) = STOR_MEDIUM;
    /// Places from which storage can be reached.
    StorageAccessibility(StorageAccessibility) = STOR_ACCESS;
    /// The time for which storage keeps its data.
    StoragePersistence(StoragePersistence) = STOR_PERSIST;
    /// The ways in which storage is accessed.
    StorageAccessType(StorageAccessType) = STOR_ACCESS_TYPE;
    /// A device.
    Device(Box<Device<'a>>) = DEVICE;
    /// The operation on a resource block.
    ResourceBlockDirective(ResourceBlockDirective) = RESBLOCK_DIRECTIVE;
    /// A number of devices of one type.
    ResourceUnit(ResourceUnit) = RESOURCE_UNIT;
    /// A process on a node.
    NodePid(Box<NodePid<'a>>) = NODE_PID;
    /// An encoded map with its type.
    Regex2(Box<WireRegex2<'a>>) = REGEX2;
    /// The processes that inherit an allocation.
    AllocInheritance(AllocInheritance) = ALLOC_INHERIT;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_as_small_as_a_process() {
        assert!(size_of::<Value<'_>>() <= 40, "{}", size_of::<Value<'_>>());
    }

    #[test]
    fn an_owned_value_outlives_its_message() {
        let owned = {
            let message = Vec::from(*b"node01");
            Value::String(Some(Text::from(&message[..]))).into_owned()
        };
        assert_eq!(owned, Value::String(Some("node01".into())));
        assert_eq!(owned.data_type(), DataType::STRING);
    }
}
