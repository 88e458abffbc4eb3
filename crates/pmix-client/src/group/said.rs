// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events by which processes invite to groups, as they are written and read.
//!
//! | event | from | to | says, besides the group |
//! | --- | --- | --- | --- |
//! | `PMIX_GROUP_INVITED` | leader | those invited | whom, in the range |
//! | `PMIX_GROUP_INVITE_ACCEPTED`, `_DECLINED` | one invited | leader | nothing; 4.2 and 5.0 not even the group |
//! | `PMIX_GROUP_INVITE_FAILED` | server | leader | who is gone |
//! | `PMIX_GROUP_CONSTRUCT_COMPLETE` | leader | members | the members |
//! | `PMIX_GROUP_CONSTRUCT_ABORT` | leader, or one invited | the others | nothing |
//! | `PMIX_GROUP_LEADER_FAILED` | server | those invited | the leader |
//! | the same | one invited | that leader, for its server | the leader; `PMIX_GROUP_LEADER` if it leads |
//! | `PMIX_GROUP_LEADER_SELECTED` | server | those invited | both leaders and the members, or nobody |
//! | `PMIX_GROUP_INVITED` | new leader | the others | the leader that is lost |

use pmix_proto::{Event, request};
use pmix_types::{DataArray, DataRange, Info, Nspace, Proc, Status, Text, Value, keys};

use crate::Error;

/// An event about a group, for some processes. It is for those who are there: who registers later is not
/// concerned.
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
    // An invitation may come before its process has registered.
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

/// The members of a group, as an info.
pub(super) fn membership(members: &[Proc<'static>]) -> Info<'static> {
    let members = Value::DataArray(DataArray::Proc(members.to_vec()));
    Info::new(keys::GROUP_MEMBERSHIP, members)
}

/// The group that an event is about.
pub(super) fn group_of<'e, 'a>(event: &'e Event<'a>) -> Option<&'e Text<'a>> {
    match value(&event.infos, keys::GROUP_ID)? {
        Value::String(name) => name.as_ref(),
        _ => None,
    }
}

/// The process that an event is about: that which it names, or else its source.
pub(super) fn about<'e, 'a>(event: &'e Event<'a>) -> &'e Proc<'a> {
    match value(&event.infos, keys::EVENT_AFFECTED_PROC) {
        Some(Value::Proc(proc)) => proc,
        _ => &event.source,
    }
}

/// The members of the group that is complete: those that the event names, or else those it is for.
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
/// `PMIX_ERR_BAD_PARAM` if it is empty or longer than 255 bytes.
pub(crate) fn check_name(name: &Text<'_>) -> Result<(), Error> {
    match name.len() {
        1..=Nspace::MAX_LEN => Ok(()),
        len => Err(bad(format!(
            "the name of a group has {len} bytes, expected 1 to {}",
            Nspace::MAX_LEN
        ))),
    }
}

/// The events to send for an answer to an invitation.
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

/// Whether an info says that something is so.
pub(super) fn says(infos: &[Info<'_>], key: &str) -> bool {
    let found = infos.iter().find(|info| info.key.is(key));
    found.is_some_and(|info| info.truth().is_true())
}

/// That the program ended an invitation, or gave up a join.
pub(crate) fn ended_here(name: &Text<'_>) -> Error {
    let message = format!("this process aborted the construction of {name}");
    Error::new(Status::GROUP_CONSTRUCT_ABORT, message)
}

pub(super) fn bad(message: impl Into<String>) -> Error {
    Error::new(Status::ERR_BAD_PARAM, message)
}
