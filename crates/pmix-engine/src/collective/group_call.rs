// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of constructs and destructs: from the members, to the host, and in the outcome for the groups.

use std::collections::{HashMap, HashSet};

use pmix_types::{DataArray, GroupOperation, Info, Nspace, Proc, Status, Text, Value, keys};

use super::construct::{Announcement, LeaderQuestion};
use super::kind::{Collective, GroupName};
use super::participants::Participants;
use crate::Error;
use crate::host::Group;
use crate::ids::ClientId;
use crate::infos::is_set;
use crate::peers::Ticket;

/// A call for the collective of a group.
pub(crate) struct GroupCall {
    pub(crate) ticket: Ticket,
    pub(crate) collective: (Collective, GroupName),
    pub(crate) procs: Vec<Proc<'static>>,
    /// The members that a destruct does not wait for: departed ones, and lost ones that the others were notified of.
    pub(crate) not_awaited: Vec<Proc<'static>>,
    /// `true` if a local member of the group is lost and the others were not notified.
    pub(crate) has_lost: bool,
    pub(crate) infos: Vec<Info<'static>>,
    /// The reason why the call must not begin a collective. It may still join an existing one, so that all members get
    /// the same status.
    pub(crate) refusal: Option<Error>,
}

/// The outcome of a collective for its group; see [`Groups::handle_outcome`](crate::group::Groups::handle_outcome).
#[derive(Debug)]
pub(crate) enum GroupOutcome {
    /// All members have called, and the host has completed the collective.
    Ended(EndedGroup),
    /// A destruct failed, and these processes received the status: the group is removed for them.
    DestructFailed {
        name: Text<'static>,
        participants: Participants,
        recipients: Vec<Proc<'static>>,
    },
    /// A participant of a construct is lost.
    InviteFailed {
        name: Text<'static>,
        procs: Vec<Proc<'static>>,
        proc: Proc<'static>,
    },
    /// A question to the leader of a construct, or a decision about it.
    Led(LeaderQuestion),
    /// The leader of a construct must be announced to the servers of other nodes.
    Announced(Announcement),
}

/// A membership change of a group, for the collectives.
#[derive(Debug)]
pub(crate) enum MembershipChange {
    /// A member has left.
    Left(MemberLeft),
    /// All local members have left or are lost.
    DesertedGroup(DesertedGroup),
}

/// A member has left a group.
#[derive(Debug)]
pub(crate) struct MemberLeft {
    pub(crate) name: Text<'static>,
    pub(crate) proc: Proc<'static>,
    /// The members at the construct.
    pub(crate) members: Vec<Proc<'static>>,
    /// The members that have not left, before and after this departure.
    pub(crate) before: Vec<Proc<'static>>,
    pub(crate) now: Vec<Proc<'static>>,
}

/// A group without local members.
#[derive(Debug)]
pub(crate) struct DesertedGroup {
    pub(crate) name: Text<'static>,
    /// The members at the construct.
    pub(crate) members: Vec<Proc<'static>>,
    /// The job of the last local member, which the destruct counts for.
    pub(crate) job: Nspace<'static>,
    /// `true` if the destruct fails: a local member is lost, and no member set `PMIX_GROUP_NOTIFY_TERMINATION`.
    pub(crate) fails: bool,
}

/// The infos of each local participant, in the order of their calls.
pub(crate) type CallerInfos = [(ClientId, Vec<Info<'static>>)];

/// A construct or destruct that has ended.
#[derive(Debug)]
pub(crate) struct EndedGroup {
    pub(crate) kind: Collective,
    pub(crate) name: Text<'static>,
    pub(crate) participants: Participants,
    /// The job of the process that began it.
    pub(crate) job: Nspace<'static>,
    /// The infos of each local participant.
    pub(crate) caller_infos: Vec<(ClientId, Vec<Info<'static>>)>,
    /// The local participants that had not called when the host was called.
    pub(crate) absent: Vec<Proc<'static>>,
    /// The local participants that were lost after their call, even if another incarnation is connected.
    pub(crate) lost: Vec<Proc<'static>>,
    /// The infos of the host.
    pub(crate) host_infos: Vec<Info<'static>>,
    pub(crate) status: Status,
    /// The requests that need a reply.
    pub(crate) tickets: Vec<Ticket>,
}

impl EndedGroup {
    /// Returns `true` if the members are notified of participants that were lost before their call
    /// (`PMIX_GROUP_FT_COLLECTIVE`).
    pub(crate) fn notifies_of_absent(&self) -> bool {
        let mut infos = self.caller_infos.iter().map(|(_, infos)| infos);
        infos.any(|infos| is_set(infos, keys::GROUP_FT_COLLECTIVE))
    }

    /// Returns `true` if members are notified of lost members: any member requested it, here or on another node.
    pub(crate) fn notifies(&self) -> bool {
        let caller_infos = self.caller_infos.iter().map(|(_, infos)| infos);
        let mut infos = caller_infos.chain([&self.host_infos]);
        infos.any(|infos| is_set(infos, keys::GROUP_NOTIFY_TERMINATION))
    }
}

/// Returns `true` if the operation continues without processes that are lost before their call.
pub(crate) fn is_tolerant(infos: &[Info<'_>]) -> bool {
    [
        keys::GROUP_OPTIONAL,
        keys::GROUP_NOTIFY_TERMINATION,
        keys::GROUP_FT_COLLECTIVE,
    ]
    .iter()
    .any(|key| is_set(infos, key))
}

/// Returns `true` if a group collective of local participants needs no host: all callers pass
/// `PMIX_GROUP_LOCAL_ONLY`, and none requires a context id or a membership that only the host can determine.
pub(crate) fn stays_local(caller_infos: &CallerInfos) -> bool {
    let all = |key: &str| caller_infos.iter().all(|(_, infos)| is_set(infos, key));
    let any = |key: &str| caller_infos.iter().any(|(_, infos)| is_set(infos, key));
    let wants_context = any(keys::GROUP_ASSIGN_CONTEXT_ID);
    !caller_infos.is_empty()
        && all(keys::GROUP_LOCAL_ONLY)
        && !wants_context
        && !is_gathered(caller_infos)
}

/// Returns `true` if the host determines the membership of a group: a caller adds members (`PMIX_GROUP_ADD_MEMBERS`),
/// or calls for itself (`pmix.procid`).
pub(crate) fn is_gathered(caller_infos: &CallerInfos) -> bool {
    let is = |info: &Info<'_>| info.key.is(keys::PROCID) || info.key.is(keys::GROUP_ADD_MEMBERS);
    caller_infos.iter().any(|(_, infos)| infos.iter().any(is))
}

/// Returns `true` if any member sets the final order of the members.
pub(crate) fn wants_order(caller_infos: &CallerInfos) -> bool {
    let is = |info: &Info<'_>| info.key.is(keys::GROUP_FINAL_MEMBERSHIP_ORDER);
    caller_infos.iter().any(|(_, infos)| infos.iter().any(is))
}

/// Returns the final order of the members, if any member sets it.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` for different orders.
pub(crate) fn wanted_order(caller_infos: &CallerInfos) -> Result<Option<&[Proc<'static>]>, Error> {
    let key = keys::GROUP_FINAL_MEMBERSHIP_ORDER;
    let mut orders = caller_infos
        .iter()
        .filter_map(|(_, infos)| procs_of(infos, key));
    let first = orders.next();
    match orders.all(|order| Some(order) == first) {
        true => Ok(first),
        false => Err(Error::bad(
            "the members passed different orders of the group's members",
        )),
    }
}

/// Returns the upcall. The participants have the same form on all servers, and each directive occurs once. `infos` are
/// the ordered members and the remaining time; `failed` is the status of a failure here.
pub(crate) fn upcall(
    kind: Collective,
    id: Text<'static>,
    procs: Vec<Proc<'static>>,
    caller_infos: &CallerInfos,
    infos: Vec<Info<'static>>,
    failed: Option<Status>,
) -> Group {
    let mut directives = infos;
    let is_added = |(_, infos): &(ClientId, Vec<Info<'static>>)| {
        infos.iter().any(|info| info.key.is(keys::PROCID)) && listed(infos).is_none()
    };
    // A process that leaders add does not list other processes.
    let procs = match caller_infos.iter().any(is_added) {
        true => {
            directives.retain(|info| !info.key.is(keys::GROUP_MEMBERSHIP));
            Vec::new()
        }
        false => procs,
    };
    let added = added(caller_infos);
    if !added.is_empty() {
        directives.push(Info::new(keys::GROUP_ADD_MEMBERS, added));
    }
    merge_directives(&mut directives, caller_infos);
    if let Some(status) = failed {
        directives.push(Info::new(keys::LOCAL_COLLECTIVE_STATUS, status));
    }
    Group {
        operation: match kind {
            Collective::GroupDestruct => GroupOperation::DESTRUCT,
            _ => GroupOperation::CONSTRUCT,
        },
        id,
        procs,
        directives,
    }
}

/// Adds the directives of all members, each key once. If the members differ, a true value takes precedence.
/// `PMIX_GROUP_INFO` of each member is kept.
fn merge_directives(directives: &mut Vec<Info<'static>>, caller_infos: &CallerInfos) {
    let is_own =
        |info: &&Info<'_>| !info.key.is(keys::GROUP_MEMBERSHIP) && !info.key.is(keys::TIMEOUT);
    let places = directives.iter().enumerate();
    // In reverse order, so that the table has the first of several infos with one key.
    let mut places: HashMap<_, _> = { places.rev() }
        .map(|(place, info)| (info.key.as_bytes().to_vec(), place))
        .collect();
    for info in caller_infos
        .iter()
        .flat_map(|(_, infos)| infos)
        .filter(is_own)
    {
        let place = places.get(info.key.as_bytes()).copied();
        // The lists of all callers are merged into one, which `upcall` has added.
        if info.key.is(keys::GROUP_ADD_MEMBERS) {
            continue;
        }
        // Each member shares infos of its own, so they do not replace each other.
        match place.filter(|_| !info.key.is(keys::GROUP_INFO)) {
            Some(place) if info.truth().is_true() => {
                if let Some(known) = directives.get_mut(place) {
                    *known = info.clone();
                }
            }
            Some(_) => {}
            None => {
                places.insert(info.key.as_bytes().to_vec(), directives.len());
                directives.push(info.clone());
            }
        }
    }
}

/// Returns the distinct processes that the members add.
fn added(caller_infos: &CallerInfos) -> Vec<Proc<'static>> {
    let lists = caller_infos.iter();
    let lists = lists.filter_map(|(_, infos)| procs_of(infos, keys::GROUP_ADD_MEMBERS));
    let mut seen = HashSet::new();
    let procs = lists.flatten().filter(|proc| seen.insert(*proc));
    procs.cloned().collect()
}

/// Returns the list of members, if all callers sent it in the same order.
pub(crate) fn agreed(caller_infos: &CallerInfos) -> Option<&[Proc<'static>]> {
    let mut lists = caller_infos.iter().map(|(_, infos)| listed(infos));
    let first = lists.next()??;
    lists.all(|list| list == Some(first)).then_some(first)
}

/// Returns the members that infos list, in their order.
pub(crate) fn listed<'i>(infos: &'i [Info<'static>]) -> Option<&'i [Proc<'static>]> {
    procs_of(infos, keys::GROUP_MEMBERSHIP)
}

/// Returns the processes that infos list under a key.
pub(super) fn procs_of<'i>(infos: &'i [Info<'static>], key: &str) -> Option<&'i [Proc<'static>]> {
    match &infos.iter().find(|info| info.key.is(key))?.value {
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}
