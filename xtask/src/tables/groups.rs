// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Rust type of each group of numbers, and the prefixes that its constants omit.

/// A group of `data/enums.tsv`.
pub(crate) struct Group {
    /// The C type, as in the column `group`.
    pub(crate) c_type: &'static str,
    /// The Rust type.
    pub(crate) rust: &'static str,
    /// The underlying integer.
    pub(crate) base: &'static str,
    /// The redundant prefixes of names; the first that matches is omitted.
    pub(crate) prefixes: &'static [&'static str],
}

/// Groups without a Rust type, and the reasons.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("build_config", "about one build of OpenPMIx"),
    ("capability", "about one build of OpenPMIx"),
    ("version", "about one build of OpenPMIx"),
    ("limit", "lengths, which the names of the model check"),
    ("pmix_boolean_t", "closed: an enumeration of the model"),
    ("pmix_value_cmp_t", "closed: an enumeration of the model"),
];

const fn group(
    c_type: &'static str,
    rust: &'static str,
    base: &'static str,
    prefixes: &'static [&'static str],
) -> Group {
    Group {
        c_type,
        rust,
        base,
        prefixes,
    }
}

/// Every group that becomes a table.
pub(crate) const GROUPS: &[Group] = &[
    group(
        "pmix_alloc_directive_t",
        "AllocDirective",
        "u8",
        &["ALLOC_"],
    ),
    group(
        "pmix_alloc_inheritance_t",
        "AllocInheritance",
        "u8",
        &["ALLOC_INHERIT_"],
    ),
    group("pmix_bind_envelope_t", "BindEnvelope", "u8", &["CPUBIND_"]),
    group(
        "pmix_coord_view_t",
        "CoordView",
        "u8",
        &["COORD_VIEW_", "COORD_"],
    ),
    group("pmix_data_range_t", "DataRange", "u8", &["RANGE_"]),
    group("pmix_device_type_t", "DeviceType", "u64", &["DEVTYPE_"]),
    group(
        "pmix_fabric_operation_t",
        "FabricOperation",
        "u32",
        &["FABRIC_"],
    ),
    group(
        "pmix_group_operation_t",
        "GroupOperation",
        "u32",
        &["GROUP_"],
    ),
    group("pmix_group_opt_t", "GroupOption", "u32", &["GROUP_"]),
    group("pmix_info_directives_t", "InfoFlags", "u32", &["INFO_"]),
    group("pmix_iof_channel_t", "IofChannel", "u16", &["FWD_"]),
    group("pmix_job_state_t", "JobState", "u8", &["JOB_STATE_"]),
    group(
        "pmix_link_state_t",
        "LinkState",
        "u8",
        &["LINK_STATE_", "LINK_"],
    ),
    group("pmix_locality_t", "Locality", "u16", &["LOCALITY_"]),
    group("pmix_persistence_t", "Persistence", "u8", &["PERSIST_"]),
    group("pmix_proc_state_t", "ProcState", "u8", &["PROC_STATE_"]),
    group("pmix_rank_t", "Rank", "u32", &["RANK_"]),
    group(
        "pmix_resource_block_directive_t",
        "ResourceBlockDirective",
        "u8",
        &["RESOURCE_BLOCK_"],
    ),
    group("pmix_scope_t", "Scope", "u8", &["SCOPE_"]),
    group(
        "pmix_storage_access_type_t",
        "StorageAccessType",
        "u16",
        &["STORAGE_ACCESS_"],
    ),
    group(
        "pmix_storage_accessibility_t",
        "StorageAccessibility",
        "u64",
        &["STORAGE_ACCESSIBILITY_"],
    ),
    group(
        "pmix_storage_medium_t",
        "StorageMedium",
        "u64",
        &["STORAGE_MEDIUM_"],
    ),
    group(
        "pmix_storage_persistence_t",
        "StoragePersistence",
        "u64",
        &["STORAGE_PERSISTENCE_"],
    ),
];

impl Group {
    /// Returns the name of the table: the C type in upper case, without its affixes.
    pub(crate) fn table(&self) -> String {
        let name = self.c_type.strip_prefix("pmix_").unwrap_or(self.c_type);
        name.strip_suffix("_t").unwrap_or(name).to_uppercase()
    }

    /// Returns the name of a constant of the type, or `None` if it has no redundant prefix.
    pub(crate) fn short<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.prefixes
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
    }
}
