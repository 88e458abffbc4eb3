// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of the attributes that the client and tool library supports, by function.
//!
//! The tables answer queries for supported attributes. They also decide which required attributes (`PMIX_INFO_REQD`) a
//! call rejects. For a request to the server, the server and its host decide.
//!
//! Source: PMIx Standard, the function of each row.

use pmix_proto::SupportedFunction;
use pmix_proto::obeyed::{CONNECT, DISCONNECT, FENCE, GET};
use pmix_types::Info;

use crate::Error;

/// The attributes that this library supports in every process, by function.
pub(crate) const CLIENT: &[SupportedFunction<'static>] = &[
    ("PMIx_Compute_distances", &["DEVICE_ID", "DEVICE_TYPE"]),
    ("PMIx_Fence", &["COLLECT_DATA"]),
    ("PMIx_Finalize", &["EMBED_BARRIER"]),
    GET,
    ("PMIx_Get", &["GET_POINTER_VALUES", "GET_STATIC_VALUES"]),
    ("PMIx_Group_construct", &["GROUP_LEADER", "TIMEOUT"]),
    (
        "PMIx_Group_invite",
        &[
            "GROUP_ASSIGN_CONTEXT_ID",
            "GROUP_NOTIFY_TERMINATION",
            "GROUP_OPTIONAL",
            "TIMEOUT",
        ],
    ),
    (
        "PMIx_Group_join",
        &[
            "GROUP_ASSIGN_CONTEXT_ID",
            "GROUP_NOTIFY_TERMINATION",
            "GROUP_OPTIONAL",
            "TIMEOUT",
        ],
    ),
    (
        "PMIx_Init",
        &["BIND_PROGRESS_THREAD", "BIND_REQUIRED", "EXTERNAL_PROGRESS"],
    ),
    (
        "PMIx_Notify_event",
        &["EVENT_CUSTOM_RANGE", "EVENT_NON_DEFAULT", "RANGE"],
    ),
    (
        "PMIx_Query_info",
        &[
            "CLIENT_ATTRIBUTES",
            "CLIENT_FUNCTIONS",
            "QUERY_ATTRIBUTE_SUPPORT",
            "QUERY_PROVISIONAL_ABI_VERSION",
            "QUERY_STABLE_ABI_VERSION",
        ],
    ),
    (
        "PMIx_Register_event_handler",
        &[
            "EVENT_AFFECTED_PROC",
            "EVENT_AFFECTED_PROCS",
            "EVENT_CUSTOM_RANGE",
            "EVENT_HDLR_AFTER",
            "EVENT_HDLR_APPEND",
            "EVENT_HDLR_BEFORE",
            "EVENT_HDLR_FIRST",
            "EVENT_HDLR_FIRST_IN_CATEGORY",
            "EVENT_HDLR_LAST",
            "EVENT_HDLR_LAST_IN_CATEGORY",
            "EVENT_HDLR_NAME",
            "EVENT_HDLR_PREPEND",
            "EVENT_ONESHOT",
            "EVENT_RETURN_OBJECT",
            "RANGE",
        ],
    ),
];

/// The attributes that a singleton supports in calls that it answers in place of a server. It is the only participant,
/// so there are no data to collect and no time limit can pass.
const ALONE: &[SupportedFunction<'static>] = &[CONNECT, DISCONNECT, FENCE];

/// The attributes that select the server of a tool and limit the attempts to connect.
const TO_SERVER: &[&str] = &[
    "CONNECT_MAX_RETRIES",
    "CONNECT_RETRY_DELAY",
    "CONNECT_SYSTEM_FIRST",
    "CONNECT_TO_SCHEDULER",
    "CONNECT_TO_SYSTEM",
    "CONNECT_TO_SYS_CONTROLLER",
    "HOSTNAME",
    "PRIMARY_SERVER",
    "SERVER_HOSTNAME",
    "SERVER_NSPACE",
    "SERVER_PIDINFO",
    "SERVER_TMPDIR",
    "SERVER_URI",
    "SYSTEM_TMPDIR",
    "TIMEOUT",
    "TOOL_ATTACHMENT_FILE",
    "WAIT_FOR_CONNECTION",
];

/// The attributes that this library supports in tools, in addition to [`CLIENT`].
pub(crate) const TOOL: &[SupportedFunction<'static>] = &[
    (
        "PMIx_Query_info",
        &["QUERY_AVAIL_SERVERS", "TOOL_ATTRIBUTES", "TOOL_FUNCTIONS"],
    ),
    ("PMIx_tool_attach_to_server", TO_SERVER),
    ("PMIx_tool_init", TO_SERVER),
    (
        "PMIx_tool_init",
        &[
            "BIND_PROGRESS_THREAD",
            "BIND_REQUIRED",
            "LAUNCHER",
            "LAUNCHER_RENDEZVOUS_FILE",
            "TOOL_CONNECT_OPTIONAL",
            "TOOL_DO_NOT_CONNECT",
            "TOOL_NSPACE",
            "TOOL_RANK",
        ],
    ),
    ("PMIx_tool_set_server", &["TIMEOUT", "WAIT_FOR_CONNECTION"]),
];

/// Rejects required attributes (`PMIX_INFO_REQD`) that this library does not support in a function that it serves
/// itself.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED`, with the attribute and the function in the message, if one is not supported.
pub fn check_required(function: &str, infos: &[Info<'_>]) -> Result<(), Error> {
    pmix_proto::check_required(function, &[CLIENT, TOOL], infos).map_err(Error::from)
}

/// Rejects required attributes that a singleton does not support in a function that it answers in place of a server.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED`, as [`check_required`].
pub(crate) fn check_alone(function: &str, infos: &[Info<'_>]) -> Result<(), Error> {
    pmix_proto::check_required(function, &[ALONE], infos).map_err(Error::from)
}

/// Rejects required attributes that a get does not support. Infos marked as qualifiers of the value are accepted.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED`, as [`check_required`].
pub fn check_get(infos: &[Info<'_>]) -> Result<(), Error> {
    let is_directive = |info: &&Info<'_>| info.must_be_obeyed() && !info.is_qualifier();
    let mut directives = infos.iter().filter(is_directive);
    directives.try_for_each(|info| check_required("PMIx_Get", std::slice::from_ref(info)))
}

/// Returns `true` if an info is present and true.
pub(crate) fn is_true(infos: &[Info<'_>], key: &str) -> bool {
    let found = infos.iter().find(|info| info.key.is(key));
    found.is_some_and(|info| info.truth().is_true())
}

#[cfg(test)]
mod tests {
    use pmix_types::{Attribute, Status, keys};

    use super::*;

    #[test]
    fn every_name_of_the_tables_is_an_attribute() {
        for (function, attributes) in CLIENT.iter().chain(TOOL).chain(ALONE) {
            for name in *attributes {
                assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
            }
        }
    }

    #[test]
    fn a_get_refuses_a_required_directive_that_it_does_not_obey() {
        let required = |key: &'static str| Info::new(key, true).required();
        for key in [keys::OPTIONAL, keys::TIMEOUT, keys::NODE_INFO] {
            assert!(check_get(&[required(key)]).is_ok(), "{key}");
        }
        assert!(check_get(&[required("color").qualifier()]).is_ok());
        let refused = check_get(&[required("color")]).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    }
}
