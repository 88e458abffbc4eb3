// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enums.
use crate::table::Table;
pub(crate) const PROC_STATE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const JOB_STATE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const LINK_STATE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const SCOPE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const DATA_RANGE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const PERSISTENCE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const ALLOC_DIRECTIVE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const ALLOC_INHERITANCE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const RESOURCE_BLOCK_DIRECTIVE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const IOF_CHANNEL: Table<u16> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const INFO_DIRECTIVES: Table<u32> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const DEVICE_TYPE: Table<u64> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const LOCALITY: Table<u16> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const STORAGE_MEDIUM: Table<u64> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const STORAGE_ACCESSIBILITY: Table<u64> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const STORAGE_PERSISTENCE: Table<u64> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const STORAGE_ACCESS_TYPE: Table<u16> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const COORD_VIEW: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const BIND_ENVELOPE: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const GROUP_OPERATION: Table<u32> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const GROUP_OPT: Table<u32> = Table {
    rows: &[],
    by_name: &[],
};
pub(crate) const FABRIC_OPERATION: Table<u32> = Table {
    rows: &[],
    by_name: &[],
};
