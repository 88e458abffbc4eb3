// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open numbers of the data model, one newtype for each C type.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", and the chapter of each type;
//! numbers as in `pmix_common.h` of OpenPMIx.

use crate::number::open_number;
use crate::table::Table;
use crate::tables::{data_types, enums};

open_number! {
    /// The type of a datum (`pmix_data_type_t`), which selects its packed form.
    pub struct DataType(u16) = "DATA_TYPE" in data_types::DATA_TYPE;
}

open_number! {
    /// The state of a process (`pmix_proc_state_t`).
    pub struct ProcState(u8) = "PROC_STATE" in enums::PROC_STATE;
}

open_number! {
    /// The state of a job (`pmix_job_state_t`).
    pub struct JobState(u8) = "JOB_STATE" in enums::JOB_STATE;
}

open_number! {
    /// The state of a fabric link, up or down (`pmix_link_state_t`).
    pub struct LinkState(u8) = "LINK_STATE" in enums::LINK_STATE;
}

open_number! {
    /// The processes that may read a value that a process put (`pmix_scope_t`).
    pub struct Scope(u8) = "SCOPE" in enums::SCOPE;
}

open_number! {
    /// The processes that may see published data or an event (`pmix_data_range_t`).
    pub struct DataRange(u8) = "DATA_RANGE" in enums::DATA_RANGE;
}

open_number! {
    /// The time for which published data are kept (`pmix_persistence_t`).
    pub struct Persistence(u8) = "PERSISTENCE" in enums::PERSISTENCE;
}

open_number! {
    /// The purpose of an allocation request (`pmix_alloc_directive_t`).
    pub struct AllocDirective(u8) = "ALLOC_DIRECTIVE" in enums::ALLOC_DIRECTIVE;
}

open_number! {
    /// The processes that inherit an allocation (`pmix_alloc_inheritance_t`).
    pub struct AllocInheritance(u8) = "ALLOC_INHERITANCE" in enums::ALLOC_INHERITANCE;
}

open_number! {
    /// The operation on a resource block (`pmix_resource_block_directive_t`).
    pub struct ResourceBlockDirective(u8) =
        "RESOURCE_BLOCK_DIRECTIVE" in enums::RESOURCE_BLOCK_DIRECTIVE;
}

open_number! {
    /// Streams of forwarded input and output (`pmix_iof_channel_t`), a set of bits.
    pub struct IofChannel(bits u16) = "IOF_CHANNEL" in enums::IOF_CHANNEL;
}

open_number! {
    /// The directives of an info (`pmix_info_directives_t`), a set of bits.
    pub struct InfoFlags(bits u32) = "INFO_DIRECTIVES" in enums::INFO_DIRECTIVES;
}

open_number! {
    /// Kinds of devices (`pmix_device_type_t`), a set of bits.
    pub struct DeviceType(bits u64) = "DEVICE_TYPE" in enums::DEVICE_TYPE;
}

open_number! {
    /// The hardware that two processes of a node share (`pmix_locality_t`), a set of bits.
    pub struct Locality(bits u16) = "LOCALITY" in enums::LOCALITY;
}

open_number! {
    /// Storage media (`pmix_storage_medium_t`), a set of bits.
    pub struct StorageMedium(bits u64) = "STORAGE_MEDIUM" in enums::STORAGE_MEDIUM;
}

open_number! {
    /// The places from which storage can be reached (`pmix_storage_accessibility_t`), a set of
    /// bits.
    pub struct StorageAccessibility(bits u64) =
        "STORAGE_ACCESSIBILITY" in enums::STORAGE_ACCESSIBILITY;
}

open_number! {
    /// The time for which storage keeps its data (`pmix_storage_persistence_t`), a set of bits.
    pub struct StoragePersistence(bits u64) =
        "STORAGE_PERSISTENCE" in enums::STORAGE_PERSISTENCE;
}

open_number! {
    /// The ways in which storage is accessed, read or write (`pmix_storage_access_type_t`), a set
    /// of bits.
    pub struct StorageAccessType(bits u16) = "STORAGE_ACCESS_TYPE" in enums::STORAGE_ACCESS_TYPE;
}

open_number! {
    /// The interpretation of the coordinates of a fabric device (`pmix_coord_view_t`).
    pub struct CoordView(u8) = "COORD_VIEW" in enums::COORD_VIEW;
}

open_number! {
    /// A request of a client to its server (`pmix_cmd_t`). The public headers define no constants
    /// for them.
    pub struct Command(u8) = "COMMAND" in NO_COMMANDS;
}

open_number! {
    /// The extent of a binding: the process or one thread (`pmix_bind_envelope_t`).
    pub struct BindEnvelope(u8) = "BIND_ENVELOPE" in enums::BIND_ENVELOPE;
}

open_number! {
    /// The operation on a group (`pmix_group_operation_t`, a C enumeration).
    pub struct GroupOperation(u32) = "GROUP_OPERATION" in enums::GROUP_OPERATION;
}

open_number! {
    /// The reply to an invitation to a group: accept or decline (`pmix_group_opt_t`, a C
    /// enumeration).
    pub struct GroupOption(u32) = "GROUP_OPT" in enums::GROUP_OPT;
}

open_number! {
    /// The purpose of a request to a fabric (`pmix_fabric_operation_t`, a C enumeration).
    pub struct FabricOperation(u32) = "FABRIC_OPERATION" in enums::FABRIC_OPERATION;
}

/// The table of commands is empty because they belong to the protocol, not to the public headers.
const NO_COMMANDS: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
