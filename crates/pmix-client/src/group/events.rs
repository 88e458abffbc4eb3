// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of invitations to groups.
//!
//! | event | sender | receivers | infos besides the group |
//! | --- | --- | --- | --- |
//! | `PMIX_GROUP_INVITED` | leader | invited processes | the invited processes, as the range |
//! | `PMIX_GROUP_INVITE_ACCEPTED`, `_DECLINED` | invited process | leader | its endpoint data, since 7.0; 4.2 and 5.0 omit the group |
//! | `PMIX_GROUP_INVITE_FAILED` | server | leader | the lost process |
//! | `PMIX_GROUP_CONSTRUCT_COMPLETE` | leader | members | the members, and since 7.0 their endpoint data |
//! | `PMIX_GROUP_CONSTRUCT_ABORT` | leader or invited process | the others | none |
//! | `PMIX_GROUP_LEADER_FAILED` | server | invited processes | the leader |
//! | `PMIX_ERR_PROC_ABORTED` and its like | server that selects no leaders | invited processes | the ended process |
//! | `PMIX_GROUP_LEADER_FAILED` | invited process | the lost leader | the leader; `PMIX_GROUP_LEADER` to lead |
//! | `PMIX_GROUP_LEADER_SELECTED` | server | invited processes | the leaders and the members |
//! | `PMIX_GROUP_INVITED` | new leader | the others | the lost leader |
//!
//! The server of a lost leader handles the events that are sent to that leader. `PMIX_GROUP_LEADER_SELECTED` has no new
//! leader if no process wants to lead.

use pmix_proto::{Event, request};
use pmix_types::{DataArray, DataRange, Info, Nspace, Proc, Status, Text, Value, keys};

use crate::Error;

/// Returns an event about a group for some processes. Only processes that are registered now receive it, except for an
/// invitation.
pub(super) fn notify(
    status: Status,
    name: &Text<'static>,
    to: Vec<Proc<'static>>,
    more: Vec<Info<'static>>,
) -> request::Notify<'static> {
    let mut infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, to),
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::GROUP_ID, Value::String(Some(name.clone()))),
    ];
    // An invitation may arrive before its process has registered, so the server must cache it.
    if status != Status::GROUP_INVITED {
        infos.push(Info::new(keys::EVENT_DO_NOT_CACHE, true));
    }
    infos.extend(more);
    request::Notify {
        status,
        range: DataRange::CUSTOM,
        infos,
    }
}

/// Returns the members of a group as an info.
pub(super) fn membership(members: &[Proc<'static>]) -> Info<'static> {
    let members = Value::DataArray(DataArray::Proc(members.to_vec()));
    Info::new(keys::GROUP_MEMBERSHIP, members)
}

/// Returns the process of endpoint data (`PMIX_PROC_INFO_ARRAY`), and the values that it has put.
pub(crate) fn endpoint_data<'i, 'a>(info: &'i Info<'a>) -> Option<(&'i Proc<'a>, &'i [Info<'a>])> {
    let Value::DataArray(DataArray::Info(infos)) = &info.value else {
        return None;
    };
    match infos.split_first()? {
        (first, values) if info.key.is(keys::PROC_INFO_ARRAY) && first.key.is(keys::PROCID) => {
            match &first.value {
                Value::Proc(proc) => Some((proc, values)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the name of the group of an event.
pub(super) fn group_of<'e, 'a>(event: &'e Event<'a>) -> Option<&'e Text<'a>> {
    match value(&event.infos, keys::GROUP_ID)? {
        Value::String(name) => name.as_ref(),
        _ => None,
    }
}

/// Returns the affected process of an event, or else its source.
pub(super) fn about<'e, 'a>(event: &'e Event<'a>) -> &'e Proc<'a> {
    match value(&event.infos, keys::EVENT_AFFECTED_PROC) {
        Some(Value::Proc(proc)) => proc,
        _ => &event.source,
    }
}

/// Returns the members of a formed group: the listed ones, or else the range of the event.
pub(super) fn members<'e, 'a>(event: &'e Event<'a>) -> Option<&'e [Proc<'a>]> {
    let named = value(&event.infos, keys::GROUP_MEMBERSHIP);
    match named.or_else(|| value(&event.infos, keys::EVENT_CUSTOM_RANGE))? {
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}

/// Checks the name of a group.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if it is empty or longer than 255 bytes.
pub(crate) fn check_name(name: &Text<'_>) -> Result<(), Error> {
    match name.len() {
        1..=Nspace::MAX_LEN => Ok(()),
        len => Err(bad(format!(
            "the name of a group has {len} bytes, expected 1 to {}",
            Nspace::MAX_LEN
        ))),
    }
}

/// Returns the event that answers an invitation.
pub(crate) fn invitation(
    status: Status,
    name: &Text<'static>,
    leader: &Proc<'static>,
) -> request::Notify<'static> {
    notify(status, name, vec![leader.clone()], Vec::new())
}

pub(super) fn value<'i, 'a>(infos: &'i [Info<'a>], key: &str) -> Option<&'i Value<'a>> {
    let found = infos.iter().find(|info| info.key.is(key));
    found.map(|info| &info.value)
}

/// Returns the error of an operation that the program aborted.
pub(crate) fn ended_here(name: &Text<'_>) -> Error {
    let message = format!("this process aborted the construction of {name}");
    Error::new(Status::GROUP_CONSTRUCT_ABORT, message)
}

pub(super) fn bad(message: impl Into<String>) -> Error {
    Error::new(Status::ERR_BAD_PARAM, message)
}
