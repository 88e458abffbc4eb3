// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes that the server supports, and the treatment of required ones (`PMIX_INFO_REQD`).
//!
//! The server marks the attributes it supports as processed before it calls the host. If a request is not passed to the
//! host, the server refuses required attributes that it does not support.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", the directives of infos.

use pmix_proto::obeyed::{CONNECT, DISCONNECT, FENCE, GET};
use pmix_proto::{Request, SupportedFunction, check_required, mark_processed};
use pmix_types::{GroupOperation, Info, keys};

use crate::Error;
use crate::host::Upcall;

/// The attributes that this server supports, listed by the client function that carries them. All others are passed to
/// the host if the host is called.
pub(crate) const SUPPORTED: &[SupportedFunction<'static>] = &[
    CONNECT,
    DISCONNECT,
    FENCE,
    GET,
    (
        "PMIx_Group_construct",
        &[
            "GROUP_FINAL_MEMBERSHIP_ORDER",
            "GROUP_INFO",
            "GROUP_LEADER",
            "GROUP_LOCAL_ONLY",
            "GROUP_NOTIFY_TERMINATION",
            "GROUP_OPTIONAL",
            "TIMEOUT",
        ],
    ),
    ("PMIx_Group_destruct", &["TIMEOUT"]),
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
            "QUERY_LOCAL_PROC_TABLE",
            "QUERY_NAMESPACES",
            "QUERY_NAMESPACE_INFO",
            "QUERY_NUM_GROUPS",
            "QUERY_NUM_PSETS",
            "QUERY_PROC_TABLE",
            "QUERY_PROVISIONAL_ABI_VERSION",
            "QUERY_PSET_MEMBERSHIP",
            "QUERY_PSET_NAMES",
            "QUERY_RESOLVE_NODE",
            "QUERY_RESOLVE_PEERS",
            "QUERY_STABLE_ABI_VERSION",
            "PROC_STATE_STATUS",
            "QUERY_SUPPORTED_KEYS",
            "SERVER_START_TIME",
        ],
    ),
    QUERY_QUALIFIERS,
    (
        "PMIx_Register_event_handler",
        &["EVENT_AFFECTED_PROC", "EVENT_AFFECTED_PROCS"],
    ),
    ("PMIx_Spawn", &["FWD_STDOUT", "FWD_STDERR", "FWD_STDDIAG"]),
];

/// The query qualifiers that this server supports.
const QUERY_QUALIFIERS: SupportedFunction<'static> = (
    "PMIx_Query_info",
    &[
        "GROUP_ID",
        "HOSTNAME",
        "NODEID",
        "NSPACE",
        "PROCID",
        "PSET_NAME",
        "QUERY_LOCAL_ONLY",
        "QUERY_REFRESH_CACHE",
        "QUERY_SUPPORTED_QUALIFIERS",
        "RANK",
        "TIMEOUT",
    ],
);

/// Checks the required attributes of a query that is not passed to the host.
///
/// # Errors
///
/// Returns the error of [`check`].
pub(crate) fn check_qualifiers(infos: &[Info<'_>]) -> Result<(), Error> {
    check_required("PMIx_Query_info", &[&[QUERY_QUALIFIERS]], infos).map_err(Error::from)
}

/// Checks the required attributes of a function that is not passed to the host.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED` with the attribute and the function.
pub(crate) fn check(function: &str, infos: &[Info<'_>]) -> Result<(), Error> {
    check_required(function, &[SUPPORTED], infos).map_err(Error::from)
}

/// Checks the required attributes of a request that is passed to the host without its infos, or not at all.
///
/// # Errors
///
/// Returns the error of [`check`].
pub(crate) fn check_request(request: &Request<'_>, watches_heartbeats: bool) -> Result<(), Error> {
    match request {
        Request::Get(get) => {
            // A qualifier selects one of several values. It is not a directive.
            let mut directives = get.infos.iter().filter(|info| !info.is_qualifier());
            directives.try_for_each(|info| check("PMIx_Get", std::slice::from_ref(info)))
        }
        Request::GroupLeave(leave) => check("PMIx_Group_leave", &leave.infos),
        Request::IofDeregister(end) => check("PMIx_IOF_deregister", &end.infos),
        Request::Monitor(monitor) if watches_heartbeats => match &monitor.monitor.key {
            // The host receives all other monitors with their infos, and checks these itself.
            key if key.is(keys::MONITOR_HEARTBEAT) || key.is(keys::SEND_HEARTBEAT) => {
                check("PMIx_Process_monitor", &monitor.infos)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Marks the attributes of an upcall that this server supports as processed.
pub(crate) fn mark(upcall: &mut Upcall) {
    let (function, infos) = match upcall {
        Upcall::Fence(call) => ("PMIx_Fence", &mut call.infos),
        Upcall::Connect(call) => ("PMIx_Connect", &mut call.infos),
        Upcall::Disconnect(call) => ("PMIx_Disconnect", &mut call.infos),
        Upcall::Group(call) if call.operation == GroupOperation::CONSTRUCT => {
            ("PMIx_Group_construct", &mut call.directives)
        }
        Upcall::Group(call) => ("PMIx_Group_destruct", &mut call.directives),
        Upcall::DirectModex(call) => ("PMIx_Get", &mut call.infos),
        Upcall::PushStdin(call) => ("PMIx_IOF_push", &mut call.directives),
        Upcall::JobControl(call) => ("PMIx_Job_control", &mut call.directives),
        Upcall::Monitor(call) => ("PMIx_Process_monitor", &mut call.directives),
        Upcall::NotifyEvent(call) => ("PMIx_Notify_event", &mut call.infos),
        Upcall::RegisterEvents(call) => ("PMIx_Register_event_handler", &mut call.infos),
        // The server processes no attribute of the other requests.
        _ => return,
    };
    mark_processed(function, SUPPORTED, infos);
}

#[cfg(test)]
mod tests {
    use pmix_types::Attribute;

    use super::*;

    #[test]
    fn every_name_of_the_table_is_an_attribute() {
        for (function, attributes) in SUPPORTED {
            assert!(function.starts_with("PMIx_"));
            for name in *attributes {
                assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
            }
        }
    }
}
