// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random data of any type, in arrays and in values.

use pmix_types::{DataArray, DataType, Value};

use crate::random::{Random, Sample};

/// Defines the types of data by the variants with their names.
macro_rules! lists {
    ($($variant:ident = $data_type:ident,)*) => {
        /// Returns `count` data of one type.
        pub(crate) fn data(
            random: &mut Random<'_>,
            data_type: DataType,
            count: usize,
        ) -> DataArray<'static> {
            match data_type {
                $(DataType::$data_type => DataArray::$variant(random.many(count)),)*
                _ => DataArray::empty(data_type),
            }
        }
    };
}

lists! {
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

/// Defines the types of values; those after the semicolon are boxed.
macro_rules! values {
    ($($variant:ident = $data_type:ident,)* ; $($large:ident = $large_type:ident,)*) => {
        fn value(random: &mut Random<'_>, data_type: DataType) -> Value<'static> {
            match data_type {
                $(DataType::$data_type => Value::$variant(random.one()),)*
                $(DataType::$large_type => Value::$large(Box::new(random.one())),)*
                _ => Value::Undef,
            }
        }
    };
}

values! {
    Bool = BOOL, Byte = BYTE, String = STRING, Size = SIZE, Pid = PID, Int = INT, Int8 = INT8,
    Int16 = INT16, Int32 = INT32, Int64 = INT64, Uint = UINT, Uint8 = UINT8, Uint16 = UINT16,
    Uint32 = UINT32, Uint64 = UINT64, Float = FLOAT, Double = DOUBLE, Timeval = TIMEVAL,
    Time = TIME, Status = STATUS, Proc = PROC, ByteObject = BYTE_OBJECT, Persistence = PERSIST,
    Pointer = POINTER, Scope = SCOPE, DataRange = DATA_RANGE, InfoFlags = INFO_DIRECTIVES,
    DataType = DATA_TYPE, ProcState = PROC_STATE, DataArray = DATA_ARRAY, Rank = PROC_RANK,
    CompressedString = COMPRESSED_STRING, AllocDirective = ALLOC_DIRECTIVE,
    IofChannel = IOF_CHANNEL, Coord = COORD, Regex = REGEX, JobState = JOB_STATE,
    LinkState = LINK_STATE, DeviceType = DEVTYPE, Locality = LOCTYPE,
    CompressedByteObject = COMPRESSED_BYTE_OBJECT, Nspace = PROC_NSPACE,
    DataBuffer = DATA_BUFFER, StorageMedium = STOR_MEDIUM, StorageAccessibility = STOR_ACCESS,
    StoragePersistence = STOR_PERSIST, StorageAccessType = STOR_ACCESS_TYPE,
    ResourceBlockDirective = RESBLOCK_DIRECTIVE, ResourceUnit = RESOURCE_UNIT,
    AllocInheritance = ALLOC_INHERIT,
    ;
    ProcInfo = PROC_INFO, Envar = ENVAR, Regattr = REGATTR, Cpuset = PROC_CPUSET,
    Geometry = GEOMETRY, DeviceDistance = DEVICE_DIST, Endpoint = ENDPOINT, Topology = TOPO,
    ProcStats = PROC_STATS, DiskStats = DISK_STATS, NetStats = NET_STATS, NodeStats = NODE_STATS,
    Device = DEVICE, NodePid = NODE_PID, Regex2 = REGEX2,
}

impl Sample for Value<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        let carried = random.carried;
        match random.pick(&carried.values) {
            Some(DataType::DATA_ARRAY) if random.depth == 0 => Self::Int32(random.one()),
            Some(data_type) => value(random, data_type),
            None => Self::Undef,
        }
    }
}

/// The types of array elements at the depth limit.
const FLAT: [DataType; 4] = [
    DataType::STRING,
    DataType::INT32,
    DataType::UINT64,
    DataType::PROC,
];

impl Sample for DataArray<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        let carried = random.carried;
        let depth = random.depth;
        let types = if depth == 0 {
            &FLAT[..]
        } else {
            &carried.elements
        };
        let data_type = random.pick(types).unwrap_or(DataType::INT32);
        let count = random.below(5);
        random.depth = depth.saturating_sub(1);
        let data = data(random, data_type, count);
        random.depth = depth;
        data
    }
}
