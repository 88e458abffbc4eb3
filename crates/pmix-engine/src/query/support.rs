// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which attributes the server supports, for which functions.

use pmix_proto::{SupportLevel, SupportedFunction};
use pmix_types::{Info, IntoOwned as _, Query, Value};

/// The attributes that this server obeys, by the function of the client that they come with.
/// Others are handed on to the host.
const SUPPORTED: &[SupportedFunction<'static>] = &[
    ("PMIx_Connect", &["TIMEOUT"]),
    ("PMIx_Disconnect", &["TIMEOUT"]),
    ("PMIx_Fence", &["COLLECT_DATA", "TIMEOUT"]),
    (
        "PMIx_Get",
        &[
            "IMMEDIATE",
            "TIMEOUT",
            "NODE_INFO",
            "APP_INFO",
            "SESSION_INFO",
            "HOSTNAME",
            "NODEID",
        ],
    ),
    (
        "PMIx_IOF_pull",
        &["IOF_CACHE_SIZE", "IOF_DROP_OLDEST", "IOF_DROP_NEWEST"],
    ),
    ("PMIx_IOF_push", &["IOF_PUSH_STDIN", "IOF_COMPLETE"]),
    (
        "PMIx_Job_control",
        &[
            "REGISTER_CLEANUP",
            "REGISTER_CLEANUP_DIR",
            "CLEANUP_RECURSIVE",
            "CLEANUP_EMPTY",
            "CLEANUP_IGNORE",
            "CLEANUP_LEAVE_TOPDIR",
        ],
    ),
    (
        "PMIx_Notify_event",
        &[
            "EVENT_NON_DEFAULT",
            "EVENT_CUSTOM_RANGE",
            "EVENT_AFFECTED_PROC",
            "EVENT_AFFECTED_PROCS",
            "EVENT_DO_NOT_CACHE",
            "EVENT_STAYS_LOCAL",
        ],
    ),
    (
        "PMIx_Process_monitor",
        &[
            "MONITOR_HEARTBEAT",
            "SEND_HEARTBEAT",
            "MONITOR_CANCEL",
            "MONITOR_ID",
            "MONITOR_HEARTBEAT_TIME",
            "MONITOR_HEARTBEAT_DROPS",
            "MONITOR_APP_CONTROL",
            "RANGE",
        ],
    ),
    (
        "PMIx_Query_info",
        &[
            "QUERY_ATTRIBUTE_SUPPORT",
            "QUERY_GROUP_MEMBERSHIP",
            "QUERY_GROUP_NAMES",
            "QUERY_JOB_STATUS",
            "QUERY_LOCAL_ONLY",
            "QUERY_LOCAL_PROC_TABLE",
            "QUERY_NAMESPACES",
            "QUERY_NAMESPACE_INFO",
            "QUERY_NUM_GROUPS",
            "QUERY_NUM_PSETS",
            "QUERY_PROC_TABLE",
            "QUERY_PROVISIONAL_ABI_VERSION",
            "QUERY_PSET_MEMBERSHIP",
            "QUERY_PSET_NAMES",
            "QUERY_REFRESH_CACHE",
            "QUERY_RESOLVE_NODE",
            "QUERY_RESOLVE_PEERS",
            "QUERY_STABLE_ABI_VERSION",
            "PROC_STATE_STATUS",
            "QUERY_SUPPORTED_KEYS",
            "QUERY_SUPPORTED_QUALIFIERS",
            "SERVER_START_TIME",
            "NSPACE",
            "RANK",
            "PROCID",
            "HOSTNAME",
            "NODEID",
            "PSET_NAME",
            "GROUP_ID",
        ],
    ),
    (
        "PMIx_Register_event_handler",
        &["EVENT_AFFECTED_PROC", "EVENT_AFFECTED_PROCS"],
    ),
    ("PMIx_Spawn", &["FWD_STDOUT", "FWD_STDERR", "FWD_STDDIAG"]),
];

/// What a query about support finds here, one info for each key of the server's level; and what is left of it
/// for the host, if anything is. What clients and tools support they know themselves.
pub(super) fn supported(query: &Query<'_>) -> (Vec<Info<'static>>, Option<Query<'static>>) {
    let found = SupportLevel::Server.answer(query, SUPPORTED);
    let mut left = Vec::new();
    for key in SupportLevel::Host.keys() {
        match query.qualifiers.iter().find(|info| info.key.is(key)) {
            Some(info) => left.push(info.clone().into_owned()),
            None if query.qualifiers.is_empty() => left.push(Info::new(key, Value::Undef)),
            None => {}
        }
    }
    let left = (!left.is_empty()).then(|| Query {
        keys: query.keys.clone().into_owned(),
        qualifiers: left,
    });
    (found, left)
}

#[cfg(test)]
mod tests {
    use pmix_types::{Attribute, Text, keys};

    use super::*;

    fn query(keys: &[&'static str], qualifiers: Vec<Info<'static>>) -> Query<'static> {
        let keys = [keys::QUERY_ATTRIBUTE_SUPPORT].iter().chain(keys);
        Query {
            keys: keys.map(|key| Text::from(*key)).collect(),
            qualifiers,
        }
    }

    #[test]
    fn every_name_of_the_table_is_an_attribute() {
        for (function, attributes) in SUPPORTED {
            assert!(function.starts_with("PMIx_"));
            for name in *attributes {
                assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
            }
        }
    }

    #[test]
    fn what_the_host_supports_is_left_for_it_to_say() {
        let host = Info::new(keys::HOST_ATTRIBUTES, "all");
        let (found, left) = supported(&query(&["PMIx_Get"], vec![host.clone()]));
        assert_eq!(found, []);
        let left = left.unwrap();
        assert_eq!((left.keys.len(), left.qualifiers), (2, vec![host]));
        let (found, left) = supported(&query(&[], vec![]));
        assert_eq!((found.len(), left.unwrap().qualifiers.len()), (2, 2));
    }
}
