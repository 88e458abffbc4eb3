// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open numbers of the data model, one newtype for each C type.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", and the chapter of each type;
//! numbers as in `pmix_common.h` of OpenPMIx.

use crate::number::open_number;
use crate::table::Table;
use crate::tables::{data_types, enums};

open_number! {
    /// Names the type of a datum (`pmix_data_type_t`), which selects how it is packed.
    pub struct DataType(u16) = "DATA_TYPE" in data_types::DATA_TYPE;
}

open_number! {
    /// Names the state of a process (`pmix_proc_state_t`).
    pub struct ProcState(u8) = "PROC_STATE" in enums::PROC_STATE;
}

open_number! {
    /// Names the state of a job (`pmix_job_state_t`).
    pub struct JobState(u8) = "JOB_STATE" in enums::JOB_STATE;
}

open_number! {
    /// Says whether a fabric link is up (`pmix_link_state_t`).
    pub struct LinkState(u8) = "LINK_STATE" in enums::LINK_STATE;
}

open_number! {
    /// Says which processes may read a value that a process put (`pmix_scope_t`).
    pub struct Scope(u8) = "SCOPE" in enums::SCOPE;
}

open_number! {
    /// Says which processes may see published data or an event (`pmix_data_range_t`).
    pub struct DataRange(u8) = "DATA_RANGE" in enums::DATA_RANGE;
}

open_number! {
    /// Says how long published data is kept (`pmix_persistence_t`).
    pub struct Persistence(u8) = "PERSISTENCE" in enums::PERSISTENCE;
}

open_number! {
    /// Says what an allocation request asks for (`pmix_alloc_directive_t`).
    pub struct AllocDirective(u8) = "ALLOC_DIRECTIVE" in enums::ALLOC_DIRECTIVE;
}

open_number! {
    /// Says which processes inherit an allocation (`pmix_alloc_inheritance_t`).
    pub struct AllocInheritance(u8) = "ALLOC_INHERITANCE" in enums::ALLOC_INHERITANCE;
}

open_number! {
    /// Says what is to be done with a resource block (`pmix_resource_block_directive_t`).
    pub struct ResourceBlockDirective(u8) =
        "RESOURCE_BLOCK_DIRECTIVE" in enums::RESOURCE_BLOCK_DIRECTIVE;
}

open_number! {
    /// Names streams of forwarded input and output (`pmix_iof_channel_t`), a set of bits.
    pub struct IofChannel(bits u16) = "IOF_CHANNEL" in enums::IOF_CHANNEL;
}

open_number! {
    /// Says how an info is to be treated (`pmix_info_directives_t`), a set of bits.
    pub struct InfoFlags(bits u32) = "INFO_DIRECTIVES" in enums::INFO_DIRECTIVES;
}

open_number! {
    /// Names kinds of devices (`pmix_device_type_t`), a set of bits.
    pub struct DeviceType(bits u64) = "DEVICE_TYPE" in enums::DEVICE_TYPE;
}

open_number! {
    /// Says which hardware two processes of a node share (`pmix_locality_t`), a set of bits.
    pub struct Locality(bits u16) = "LOCALITY" in enums::LOCALITY;
}

open_number! {
    /// Names the media of storage (`pmix_storage_medium_t`), a set of bits.
    pub struct StorageMedium(bits u64) = "STORAGE_MEDIUM" in enums::STORAGE_MEDIUM;
}

open_number! {
    /// Says from where storage can be reached (`pmix_storage_accessibility_t`), a set of bits.
    pub struct StorageAccessibility(bits u64) =
        "STORAGE_ACCESSIBILITY" in enums::STORAGE_ACCESSIBILITY;
}

open_number! {
    /// Says how long storage keeps its data (`pmix_storage_persistence_t`), a set of bits.
    pub struct StoragePersistence(bits u64) =
        "STORAGE_PERSISTENCE" in enums::STORAGE_PERSISTENCE;
}

open_number! {
    /// Says whether storage is read or written (`pmix_storage_access_type_t`), a set of bits.
    pub struct StorageAccessType(bits u16) = "STORAGE_ACCESS_TYPE" in enums::STORAGE_ACCESS_TYPE;
}

open_number! {
    /// Says how the coordinates of a fabric device are to be read (`pmix_coord_view_t`).
    pub struct CoordView(u8) = "COORD_VIEW" in enums::COORD_VIEW;
}

open_number! {
    /// Names a request of a client to its server (`pmix_cmd_t`); the headers name none of them.
    pub struct Command(u8) = "COMMAND" in NO_COMMANDS;
}

open_number! {
    /// Says whether a binding covers a process or one thread (`pmix_bind_envelope_t`).
    pub struct BindEnvelope(u8) = "BIND_ENVELOPE" in enums::BIND_ENVELOPE;
}

open_number! {
    /// Says what a group operation does (`pmix_group_operation_t`, a C enumeration).
    pub struct GroupOperation(u32) = "GROUP_OPERATION" in enums::GROUP_OPERATION;
}

open_number! {
    /// Says whether an invitation into a group is accepted (`pmix_group_opt_t`, a C enumeration).
    pub struct GroupOption(u32) = "GROUP_OPT" in enums::GROUP_OPT;
}

open_number! {
    /// Says what a request to a fabric asks for (`pmix_fabric_operation_t`, a C enumeration).
    pub struct FabricOperation(u32) = "FABRIC_OPERATION" in enums::FABRIC_OPERATION;
}

/// Commands belong to the protocol, not to the public headers.
const NO_COMMANDS: Table<u8> = Table {
    rows: &[],
    by_name: &[],
};
