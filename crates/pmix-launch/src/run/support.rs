// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that the launcher serves as the host of its server, and the attributes that it obeys for each,
//! as `PMIX_QUERY_ATTRIBUTE_SUPPORT` tells them.

use pmix_server::SupportedFunction;

use super::directives::{DIRECTIVES, Effect};

/// All but `PMIx_Spawn`, whose attributes are the directives that are not refused.
const SERVED: &[SupportedFunction<'static>] = &[
    ("PMIx_Abort", &[]),
    ("PMIx_Connect", &[]),
    ("PMIx_Disconnect", &[]),
    ("PMIx_Fence", &[]),
    (
        "PMIx_Group_construct",
        &[
            "GROUP_ADD_MEMBERS",
            "GROUP_ASSIGN_CONTEXT_ID",
            "GROUP_BOOTSTRAP",
        ],
    ),
    ("PMIx_Group_destruct", &[]),
    ("PMIx_IOF_pull", &[]),
    ("PMIx_IOF_push", &["IOF_COMPLETE"]),
    (
        "PMIx_Job_control",
        &[
            "JOB_CTRL_CHECKPOINT_METHOD",
            "JOB_CTRL_KILL",
            "JOB_CTRL_PAUSE",
            "JOB_CTRL_PREEMPTIBLE",
            "JOB_CTRL_RESUME",
            "JOB_CTRL_SIGNAL",
            "JOB_CTRL_TERMINATE",
        ],
    ),
    ("PMIx_Log", &["LOG_STDERR", "LOG_STDOUT"]),
    (
        "PMIx_Lookup",
        &["ACCESS_PERMISSIONS", "RANGE", "TIMEOUT", "WAIT"],
    ),
    (
        "PMIx_Publish",
        &["ACCESS_PERMISSIONS", "PERSISTENCE", "RANGE"],
    ),
    (
        "PMIx_Query_info",
        &[
            "ALLOC_ID",
            "HOSTNAME",
            "NODEID",
            "NSPACE",
            "PROCID",
            "PROC_STATE_STATUS",
            "QUERY_ALLOCATION",
            "QUERY_ATTRIBUTE_SUPPORT",
            "QUERY_AVAILABLE_SLOTS",
            "QUERY_DEBUG_SUPPORT",
            "QUERY_JOB_STATUS",
            "QUERY_LOCAL_PROC_TABLE",
            "QUERY_MEMORY_USAGE",
            "QUERY_PROC_TABLE",
            "QUERY_SPAWN_SUPPORT",
            "RANK",
            "TIME_REMAINING",
        ],
    ),
    (
        "PMIx_Session_control",
        &[
            "SESSION_PAUSE",
            "SESSION_RESUME",
            "SESSION_SIGNAL",
            "SESSION_TERMINATE",
        ],
    ),
    ("PMIx_Unpublish", &["RANGE"]),
];

/// Hands out the table of all functions.
pub(super) fn with_table<T>(take: impl FnOnce(&[SupportedFunction<'_>]) -> T) -> T {
    let obeyed = DIRECTIVES
        .iter()
        .filter(|one| one.effect != Effect::Refused);
    let directives: Vec<_> = obeyed.map(|one| one.name).collect();
    let mut table = SERVED.to_vec();
    table.push(("PMIx_Spawn", &directives));
    take(&table)
}

#[cfg(test)]
mod tests {
    use pmix_types::Attribute;

    use super::*;

    #[test]
    fn every_name_of_the_table_is_an_attribute() {
        with_table(|table| {
            assert_eq!(table.len(), SERVED.len() + 1);
            for (function, attributes) in table {
                for name in *attributes {
                    assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
                }
            }
        });
    }
}
