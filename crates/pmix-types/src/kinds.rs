// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open numbers of the data model, one newtype for each C type.

use crate::number::open_number;
use crate::table::Table;
use crate::tables::{data_types, enums};

open_number! {
    /// The type of a datum (`pmix_data_type_t`), which selects how it is packed.
    pub struct DataType(u16) = "DATA_TYPE" in data_types::DATA_TYPE;
}

open_number! {
    /// Where a process stands in its life (`pmix_proc_state_t`).
    pub struct ProcState(u8) = "PROC_STATE" in enums::PROC_STATE;
}

open_number! {
    /// Where a job stands in its life (`pmix_job_state_t`).
    pub struct JobState(u8) = "JOB_STATE" in enums::JOB_STATE;
}

open_number! {
    /// Whether a fabric link is up (`pmix_link_state_t`).
    pub struct LinkState(u8) = "LINK_STATE" in enums::LINK_STATE;
}

open_number! {
    /// Who may read a value that a process put (`pmix_scope_t`).
    pub struct Scope(u8) = "SCOPE" in enums::SCOPE;
}

open_number! {
    /// Who may see published data or an event (`pmix_data_range_t`).
    pub struct DataRange(u8) = "DATA_RANGE" in enums::DATA_RANGE;
}

open_number! {
    /// How long published data lives (`pmix_persistence_t`).
    pub struct Persistence(u8) = "PERSISTENCE" in enums::PERSISTENCE;
}

open_number! {
    /// What an allocation request asks for (`pmix_alloc_directive_t`).
    pub struct AllocDirective(u8) = "ALLOC_DIRECTIVE" in enums::ALLOC_DIRECTIVE;
}

open_number! {
    /// Who inherits an allocation (`pmix_alloc_inheritance_t`).
    pub struct AllocInheritance(u8) = "ALLOC_INHERITANCE" in enums::ALLOC_INHERITANCE;
}

open_number! {
    /// What to do with a resource block (`pmix_resource_block_directive_t`).
    pub struct ResourceBlockDirective(u8) =
        "RESOURCE_BLOCK_DIRECTIVE" in enums::RESOURCE_BLOCK_DIRECTIVE;
}

open_number! {
    /// Streams of forwarded input and output (`pmix_iof_channel_t`), a set of bits.
    pub struct IofChannel(bits u16) = "IOF_CHANNEL" in enums::IOF_CHANNEL;
}

open_number! {
    /// How an info is to be treated (`pmix_info_directives_t`), a set of bits.
    pub struct InfoFlags(bits u32) = "INFO_DIRECTIVES" in enums::INFO_DIRECTIVES;
}

open_number! {
    /// Kinds of devices (`pmix_device_type_t`), a set of bits.
    pub struct DeviceType(bits u64) = "DEVICE_TYPE" in enums::DEVICE_TYPE;
}

open_number! {
    /// What two processes of a node share (`pmix_locality_t`), a set of bits.
    pub struct Locality(bits u16) = "LOCALITY" in enums::LOCALITY;
}

open_number! {
    /// What storage is made of (`pmix_storage_medium_t`), a set of bits.
    pub struct StorageMedium(bits u64) = "STORAGE_MEDIUM" in enums::STORAGE_MEDIUM;
}

open_number! {
    /// From where storage can be reached (`pmix_storage_accessibility_t`), a set of bits.
    pub struct StorageAccessibility(bits u64) =
        "STORAGE_ACCESSIBILITY" in enums::STORAGE_ACCESSIBILITY;
}

open_number! {
    /// How long storage keeps its data (`pmix_storage_persistence_t`), a set of bits.
    pub struct StoragePersistence(bits u64) =
        "STORAGE_PERSISTENCE" in enums::STORAGE_PERSISTENCE;
}

open_number! {
    /// Whether storage is read or written (`pmix_storage_access_type_t`), a set of bits.
    pub struct StorageAccessType(bits u16) = "STORAGE_ACCESS_TYPE" in enums::STORAGE_ACCESS_TYPE;
}

open_number! {
    /// How coordinates are to be read (`pmix_coord_view_t`).
    pub struct CoordView(u8) = "COORD_VIEW" in enums::COORD_VIEW;
}

open_number! {
    /// A request from client to server (`pmix_cmd_t`); the headers name none of them.
    pub struct Command(u8) = "COMMAND" in NO_COMMANDS;
}

open_number! {
    /// Whether a binding covers a process or one thread (`pmix_bind_envelope_t`).
    pub struct BindEnvelope(u8) = "BIND_ENVELOPE" in enums::BIND_ENVELOPE;
}

open_number! {
    /// What a group operation does (`pmix_group_operation_t`, a C enumeration).
    pub struct GroupOperation(u32) = "GROUP_OPERATION" in enums::GROUP_OPERATION;
}

open_number! {
    /// The answer to the invitation into a group (`pmix_group_opt_t`, a C enumeration).
    pub struct GroupOption(u32) = "GROUP_OPT" in enums::GROUP_OPT;
}

open_number! {
    /// What a request to a fabric asks for (`pmix_fabric_operation_t`, a C enumeration).
    pub struct FabricOperation(u32) = "FABRIC_OPERATION" in enums::FABRIC_OPERATION;
}

/// Commands belong to the protocol, not to the public headers.
const NO_COMMANDS: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
