// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that the launcher serves as the host of its server, with the attributes that it supports for each,
//! for `PMIX_QUERY_ATTRIBUTE_SUPPORT`.

use pmix_proto::check_required;
use pmix_server::SupportedFunction;
use pmix_types::{ErrorDetail, Info, Query, Text, keys};

use super::directives::{DIRECTIVES, Effect};
use crate::figures::QUERY_FIGURES;
use crate::host::HostMessage;
use crate::pending::QUERY_PENDING;

/// All functions except `PMIx_Spawn`, whose attributes are the directives that are not refused.
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
    ("PMIx_Get_credential", &["CRED_TYPE"]),
    ("PMIx_Group_destruct", &[]),
    ("PMIx_IOF_pull", &[]),
    ("PMIx_IOF_push", &["IOF_COMPLETE"]),
    (
        "PMIx_Job_control",
        &[
            "JOB_CTRL_CANCEL",
            "JOB_CTRL_CHECKPOINT_METHOD",
            "JOB_CTRL_DEFINE_PSET",
            "JOB_CTRL_ID",
            "JOB_CTRL_KILL",
            "JOB_CTRL_PAUSE",
            "JOB_CTRL_PREEMPTIBLE",
            "JOB_CTRL_RESUME",
            "JOB_CTRL_SIGNAL",
            "JOB_CTRL_TERMINATE",
        ],
    ),
    (
        "PMIx_Log",
        &[
            "LOG_AGG",
            "LOG_GENERATE_TIMESTAMP",
            "LOG_GLOBAL_SYSLOG",
            "LOG_KEY",
            "LOG_LOCAL_SYSLOG",
            "LOG_ONCE",
            "LOG_STDERR",
            "LOG_STDOUT",
            "LOG_SYSLOG",
            "LOG_SYSLOG_PRI",
            "LOG_TAG_OUTPUT",
            "LOG_TIMESTAMP",
            "LOG_TIMESTAMP_OUTPUT",
            "LOG_VAL",
        ],
    ),
    (
        "PMIx_Lookup",
        &["ACCESS_PERMISSIONS", "RANGE", "TIMEOUT", "WAIT"],
    ),
    (
        "PMIx_Process_monitor",
        &[
            "MONITOR_CANCEL",
            "MONITOR_DISK_RESOURCE_USAGE",
            "MONITOR_FILE",
            "MONITOR_FILE_ACCESS",
            "MONITOR_FILE_CHECK_TIME",
            "MONITOR_FILE_DROPS",
            "MONITOR_FILE_MODIFY",
            "MONITOR_FILE_SIZE",
            "MONITOR_ID",
            "MONITOR_LOCAL_ONLY",
            "MONITOR_NET_RESOURCE_USAGE",
            "MONITOR_NODE_RESOURCE_USAGE",
            "MONITOR_PROC_RESOURCE_USAGE",
            "MONITOR_RESOURCE_RATE",
            "MONITOR_TARGET_DISKS",
            "MONITOR_TARGET_NETS",
            "MONITOR_TARGET_NODEIDS",
            "MONITOR_TARGET_NODES",
            "MONITOR_TARGET_PIDS",
            "MONITOR_TARGET_PROCS",
            "RANGE",
        ],
    ),
    (
        "PMIx_Publish",
        &["ACCESS_PERMISSIONS", "PERSISTENCE", "RANGE"],
    ),
    (
        "PMIx_Query_info",
        &[
            "BREAKPOINT",
            "PROC_STATE_STATUS",
            "QUERY_ALLOCATION",
            "QUERY_ATTRIBUTE_SUPPORT",
            "QUERY_AVAILABLE_SLOTS",
            "QUERY_DEBUG_SUPPORT",
            "QUERY_JOB_STATUS",
            "QUERY_LOCAL_PROC_TABLE",
            "QUERY_MEMORY_USAGE",
            "QUERY_NODE_RESOURCE_USAGE",
            "QUERY_PROC_RESOURCE_USAGE",
            "QUERY_PROC_TABLE",
            "QUERY_SPAWN_SUPPORT",
            "QUERY_SUPPORTED_KEYS",
            "TIME_REMAINING",
        ],
    ),
    QUERY_QUALIFIERS,
    (
        "PMIx_Session_control",
        &[
            "SESSION_CTRL_ID",
            "SESSION_PAUSE",
            "SESSION_RESUME",
            "SESSION_SIGNAL",
            "SESSION_TERMINATE",
        ],
    ),
    ("PMIx_Unpublish", &["RANGE"]),
    ("PMIx_Validate_credential", &["CRED_TYPE"]),
];

/// The qualifiers that select a job, or a process of it, in a query.
const OF_JOB: &[&str] = &[keys::NSPACE, keys::PROCID];
const OF_PROC: &[&str] = &[keys::NSPACE, keys::RANK, keys::PROCID];
const OF_NODES: &[&str] = &[keys::NSPACE, keys::PROCID, keys::HOSTNAME, keys::NODEID];

/// The keys of queries that the launcher answers, with their qualifiers.
const QUERIES: &[(&str, &[&str])] = &[
    (keys::BREAKPOINT, OF_JOB),
    (keys::PROC_STATE_STATUS, OF_PROC),
    (keys::QUERY_ALLOCATION, &[keys::ALLOC_ID]),
    (keys::QUERY_ATTRIBUTE_SUPPORT, &[]),
    (keys::QUERY_AVAILABLE_SLOTS, &[]),
    (keys::QUERY_DEBUG_SUPPORT, &[]),
    (keys::QUERY_JOB_STATUS, OF_JOB),
    (keys::QUERY_LOCAL_PROC_TABLE, OF_NODES),
    (
        keys::QUERY_MEMORY_USAGE,
        &[
            keys::NSPACE,
            keys::RANK,
            keys::PROCID,
            keys::QUERY_REPORT_AVG,
            keys::QUERY_REPORT_MINMAX,
        ],
    ),
    (keys::QUERY_NODE_RESOURCE_USAGE, &[]),
    (keys::QUERY_PROC_RESOURCE_USAGE, OF_PROC),
    (keys::QUERY_PROC_TABLE, OF_JOB),
    (keys::QUERY_SPAWN_SUPPORT, &[]),
    (keys::QUERY_SUPPORTED_KEYS, &[]),
    (keys::TIME_REMAINING, OF_JOB),
];

/// The private keys of queries that the launcher answers, with their qualifiers.
const PRIVATE_QUERIES: &[(&str, &[&str])] = &[(QUERY_FIGURES, OF_JOB), (QUERY_PENDING, OF_JOB)];

/// Returns the keys of queries that the launcher answers, separated by commas.
pub(crate) fn query_keys() -> String {
    let keys = QUERIES.iter().chain(PRIVATE_QUERIES);
    let keys: Vec<_> = keys.map(|(key, _)| *key).collect();
    keys.join(",")
}

/// Returns the answer to a query for supported qualifiers (`PMIX_QUERY_SUPPORTED_QUALIFIERS`): a list for each of its
/// keys that the launcher answers.
pub(crate) fn query_qualifiers(query: &Query<'_>) -> Vec<Info<'static>> {
    let list = |key: &Text<'_>| {
        let found = QUERIES
            .iter()
            .chain(PRIVATE_QUERIES)
            .find(|(own, _)| own.as_bytes() == key.as_bytes());
        found.map(|(own, list)| Info::new(*own, list.join(",")))
    };
    query.keys.iter().filter_map(list).collect()
}

/// Calls a closure with the table of all functions.
pub(crate) fn with_table<T>(take: impl FnOnce(&[SupportedFunction<'_>]) -> T) -> T {
    let obeyed = DIRECTIVES
        .iter()
        .filter(|one| one.effect != Effect::Refused);
    let directives: Vec<_> = obeyed.map(|one| one.name).collect();
    let mut table = SERVED.to_vec();
    table.push(("PMIx_Spawn", &directives));
    take(&table)
}

/// The qualifiers of queries that the launcher supports.
const QUERY_QUALIFIERS: SupportedFunction<'static> = (
    "PMIx_Query_info",
    &[
        "ALLOC_ID",
        "HOSTNAME",
        "NODEID",
        "NSPACE",
        "PROCID",
        "QUERY_LOCAL_ONLY",
        "QUERY_REFRESH_CACHE",
        "QUERY_REPORT_AVG",
        "QUERY_REPORT_MINMAX",
        "QUERY_SUPPORTED_QUALIFIERS",
        "RANK",
    ],
);

/// Rejects a call with a required attribute that the launcher does not support.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED` with a message that names the attribute and the function.
pub(crate) fn check(message: &HostMessage) -> Result<(), ErrorDetail> {
    let Some((function, directives)) = message.directives() else {
        return Ok(());
    };
    let table = match message {
        HostMessage::Query(..) => &[QUERY_QUALIFIERS],
        _ => SERVED,
    };
    let mut directives = directives.into_iter();
    directives.try_for_each(|infos| check_required(function, &[table], infos))
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

    #[test]
    fn query_keys_and_qualifiers_are_supported_attributes_of_the_function() {
        let rows = { SERVED.iter() }.filter(|(name, _)| *name == "PMIx_Query_info");
        let served: Vec<_> = rows.flat_map(|(_, names)| names.iter().copied()).collect();
        for (key, qualifiers) in QUERIES {
            for key in [key].into_iter().chain(*qualifiers) {
                let name = Attribute::by_key(key).unwrap().name();
                assert!(served.contains(&name.trim_start_matches("PMIX_")), "{name}");
            }
        }
    }

    /// The manual pages of these functions are generated from the documents.
    #[test]
    fn supported_attributes_are_in_the_tables_of_the_documents() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
        let files = ["capi.md", "cli.md", "directives.md"];
        let texts = files.map(|file| std::fs::read_to_string(format!("{docs}{file}")).unwrap());
        let rows_of = |function: &str| {
            let marked = texts
                .iter()
                .flat_map(|text| text.split("<!-- man: ").skip(1));
            let names = |part: &str| {
                part.lines()
                    .next()
                    .unwrap()
                    .split(' ')
                    .any(|name| name == function)
            };
            let marked = marked.filter(|part| names(part));
            let tables = marked.map(|part| part.split("\n\n").next().unwrap());
            tables.collect::<String>()
        };
        let mut num_documented = 0;
        with_table(|table| {
            for (function, attributes) in table {
                // The keys of queries and the directives of a spawn have separate pages.
                if ["PMIx_Query_info", "PMIx_Spawn"].contains(function) {
                    continue;
                }
                let rows = rows_of(function);
                num_documented += usize::from(!rows.is_empty());
                for name in *attributes {
                    let name = format!("`PMIX_{}`", name.trim_start_matches("PMIX_"));
                    assert!(rows.contains(&name), "{name} of {function} is in no table");
                }
            }
        });
        assert!(num_documented > 15, "{num_documented}");
    }
}
