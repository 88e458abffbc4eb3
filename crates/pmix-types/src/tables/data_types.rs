// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data types.
use crate::table::{Constant, Standing, Table};
use crate::{DataType, Releases};
impl DataType {
    /// Type 0.
    pub const UNDEF: Self = Self::from_raw(0);
    /// Type 1.
    pub const BOOL: Self = Self::from_raw(1);
    /// Type 2.
    pub const BYTE: Self = Self::from_raw(2);
    /// Type 3.
    pub const STRING: Self = Self::from_raw(3);
    /// Type 4.
    pub const SIZE: Self = Self::from_raw(4);
    /// Type 5.
    pub const PID: Self = Self::from_raw(5);
    /// Type 6.
    pub const INT: Self = Self::from_raw(6);
    /// Type 7.
    pub const INT8: Self = Self::from_raw(7);
    /// Type 8.
    pub const INT16: Self = Self::from_raw(8);
    /// Type 9.
    pub const INT32: Self = Self::from_raw(9);
    /// Type 10.
    pub const INT64: Self = Self::from_raw(10);
    /// Type 11.
    pub const UINT: Self = Self::from_raw(11);
    /// Type 12.
    pub const UINT8: Self = Self::from_raw(12);
    /// Type 13.
    pub const UINT16: Self = Self::from_raw(13);
    /// Type 14.
    pub const UINT32: Self = Self::from_raw(14);
    /// Type 15.
    pub const UINT64: Self = Self::from_raw(15);
    /// Type 16.
    pub const FLOAT: Self = Self::from_raw(16);
    /// Type 17.
    pub const DOUBLE: Self = Self::from_raw(17);
    /// Type 18.
    pub const TIMEVAL: Self = Self::from_raw(18);
    /// Type 19.
    pub const TIME: Self = Self::from_raw(19);
    /// Type 20.
    pub const STATUS: Self = Self::from_raw(20);
    /// Type 21.
    pub const VALUE: Self = Self::from_raw(21);
    /// Type 22.
    pub const PROC: Self = Self::from_raw(22);
    /// Type 23.
    pub const APP: Self = Self::from_raw(23);
    /// Type 24.
    pub const INFO: Self = Self::from_raw(24);
    /// Type 25.
    pub const PDATA: Self = Self::from_raw(25);
    /// Type 26.
    pub const BUFFER: Self = Self::from_raw(26);
    /// Type 27.
    pub const BYTE_OBJECT: Self = Self::from_raw(27);
    /// Type 28.
    pub const KVAL: Self = Self::from_raw(28);
    /// Type 29.
    pub const MODEX: Self = Self::from_raw(29);
    /// Type 30.
    pub const PERSIST: Self = Self::from_raw(30);
    /// Type 31.
    pub const POINTER: Self = Self::from_raw(31);
    /// Type 32.
    pub const SCOPE: Self = Self::from_raw(32);
    /// Type 33.
    pub const DATA_RANGE: Self = Self::from_raw(33);
    /// Type 34.
    pub const COMMAND: Self = Self::from_raw(34);
    /// Type 35.
    pub const INFO_DIRECTIVES: Self = Self::from_raw(35);
    /// Type 36.
    pub const DATA_TYPE: Self = Self::from_raw(36);
    /// Type 37.
    pub const PROC_STATE: Self = Self::from_raw(37);
    /// Type 38.
    pub const PROC_INFO: Self = Self::from_raw(38);
    /// Type 39.
    pub const DATA_ARRAY: Self = Self::from_raw(39);
    /// Type 40.
    pub const PROC_RANK: Self = Self::from_raw(40);
    /// Type 41.
    pub const QUERY: Self = Self::from_raw(41);
    /// Type 42.
    pub const COMPRESSED_STRING: Self = Self::from_raw(42);
    /// Type 43.
    pub const ALLOC_DIRECTIVE: Self = Self::from_raw(43);
    /// Type 44.
    pub const INFO_ARRAY: Self = Self::from_raw(44);
    /// Type 45.
    pub const IOF_CHANNEL: Self = Self::from_raw(45);
    /// Type 46.
    pub const ENVAR: Self = Self::from_raw(46);
    /// Type 47.
    pub const COORD: Self = Self::from_raw(47);
    /// Type 48.
    pub const REGATTR: Self = Self::from_raw(48);
    /// Type 49.
    pub const REGEX: Self = Self::from_raw(49);
    /// Type 50.
    pub const JOB_STATE: Self = Self::from_raw(50);
    /// Type 51.
    pub const LINK_STATE: Self = Self::from_raw(51);
    /// Type 52.
    pub const PROC_CPUSET: Self = Self::from_raw(52);
    /// Type 53.
    pub const GEOMETRY: Self = Self::from_raw(53);
    /// Type 54.
    pub const DEVICE_DIST: Self = Self::from_raw(54);
    /// Type 55.
    pub const ENDPOINT: Self = Self::from_raw(55);
    /// Type 56.
    pub const TOPO: Self = Self::from_raw(56);
    /// Type 57.
    pub const DEVTYPE: Self = Self::from_raw(57);
    /// Type 58.
    pub const LOCTYPE: Self = Self::from_raw(58);
    /// Type 59.
    pub const COMPRESSED_BYTE_OBJECT: Self = Self::from_raw(59);
    /// Type 60.
    pub const PROC_NSPACE: Self = Self::from_raw(60);
    /// Type 61.
    pub const PROC_STATS: Self = Self::from_raw(61);
    /// Type 62.
    pub const DISK_STATS: Self = Self::from_raw(62);
    /// Type 63.
    pub const NET_STATS: Self = Self::from_raw(63);
    /// Type 64.
    pub const NODE_STATS: Self = Self::from_raw(64);
    /// Type 65.
    pub const DATA_BUFFER: Self = Self::from_raw(65);
    /// Type 66.
    pub const STOR_MEDIUM: Self = Self::from_raw(66);
    /// Type 67.
    pub const STOR_ACCESS: Self = Self::from_raw(67);
    /// Type 68.
    pub const STOR_PERSIST: Self = Self::from_raw(68);
    /// Type 69.
    pub const STOR_ACCESS_TYPE: Self = Self::from_raw(69);
    /// Type 70.
    pub const DEVICE: Self = Self::from_raw(70);
    /// Type 71.
    pub const RESBLOCK_DIRECTIVE: Self = Self::from_raw(71);
    /// Type 72.
    pub const RESOURCE_UNIT: Self = Self::from_raw(72);
    /// Type 73.
    pub const NODE_PID: Self = Self::from_raw(73);
    /// Type 74.
    pub const REGEX2: Self = Self::from_raw(74);
    /// Type 75.
    pub const ALLOC_INHERIT: Self = Self::from_raw(75);
    /// Type 500.
    pub const DATA_TYPE_MAX: Self = Self::from_raw(500);
}
pub(crate) const DATA_TYPE: Table<u16> = Table {
    rows: &[
        Constant {
            name: "UNDEF",
            number: 0,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "BOOL",
            number: 1,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "BYTE",
            number: 2,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "STRING",
            number: 3,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "SIZE",
            number: 4,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PID",
            number: 5,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INT",
            number: 6,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INT8",
            number: 7,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INT16",
            number: 8,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INT32",
            number: 9,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INT64",
            number: 10,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "UINT",
            number: 11,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "UINT8",
            number: 12,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "UINT16",
            number: 13,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "UINT32",
            number: 14,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "UINT64",
            number: 15,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "FLOAT",
            number: 16,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DOUBLE",
            number: 17,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "TIMEVAL",
            number: 18,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "TIME",
            number: 19,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "STATUS",
            number: 20,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "VALUE",
            number: 21,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC",
            number: 22,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "APP",
            number: 23,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INFO",
            number: 24,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PDATA",
            number: 25,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "BUFFER",
            number: 26,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "BYTE_OBJECT",
            number: 27,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "KVAL",
            number: 28,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "MODEX",
            number: 29,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PERSIST",
            number: 30,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "POINTER",
            number: 31,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "SCOPE",
            number: 32,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DATA_RANGE",
            number: 33,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "COMMAND",
            number: 34,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INFO_DIRECTIVES",
            number: 35,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DATA_TYPE",
            number: 36,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC_STATE",
            number: 37,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC_INFO",
            number: 38,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DATA_ARRAY",
            number: 39,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC_RANK",
            number: 40,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "QUERY",
            number: 41,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "COMPRESSED_STRING",
            number: 42,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "ALLOC_DIRECTIVE",
            number: 43,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "INFO_ARRAY",
            number: 44,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "IOF_CHANNEL",
            number: 45,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "ENVAR",
            number: 46,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "COORD",
            number: 47,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "REGATTR",
            number: 48,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "REGEX",
            number: 49,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "JOB_STATE",
            number: 50,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "LINK_STATE",
            number: 51,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC_CPUSET",
            number: 52,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "GEOMETRY",
            number: 53,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DEVICE_DIST",
            number: 54,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "ENDPOINT",
            number: 55,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "TOPO",
            number: 56,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DEVTYPE",
            number: 57,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "LOCTYPE",
            number: 58,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "COMPRESSED_BYTE_OBJECT",
            number: 59,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC_NSPACE",
            number: 60,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "PROC_STATS",
            number: 61,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DISK_STATS",
            number: 62,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "NET_STATS",
            number: 63,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "NODE_STATS",
            number: 64,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DATA_BUFFER",
            number: 65,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "STOR_MEDIUM",
            number: 66,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "STOR_ACCESS",
            number: 67,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "STOR_PERSIST",
            number: 68,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "STOR_ACCESS_TYPE",
            number: 69,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DEVICE",
            number: 70,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "RESBLOCK_DIRECTIVE",
            number: 71,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "RESOURCE_UNIT",
            number: 72,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "NODE_PID",
            number: 73,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "REGEX2",
            number: 74,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "ALLOC_INHERIT",
            number: 75,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
        Constant {
            name: "DATA_TYPE_MAX",
            number: 500,
            releases: Releases::of(&[]),
            is_deprecated: false,
            standing: Standing::Stable,
            elsewhere: &[],
        },
    ],
    by_name: &[
        43, 75, 23, 1, 26, 2, 27, 34, 59, 42, 47, 39, 65, 33, 36, 76, 70, 54, 57, 62, 17, 55, 46,
        16, 53, 24, 44, 35, 6, 8, 9, 10, 7, 45, 50, 28, 51, 58, 29, 63, 73, 64, 25, 30, 5, 31, 22,
        52, 38, 60, 40, 37, 61, 41, 48, 49, 74, 71, 72, 32, 4, 20, 67, 69, 66, 68, 3, 19, 18, 56,
        11, 13, 14, 15, 12, 0, 21,
    ],
};
