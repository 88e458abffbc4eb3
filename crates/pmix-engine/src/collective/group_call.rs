// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said where groups are made and ended: by the members, to the host, and to the groups.

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

/// A call that may be taken to the collectives.
pub(crate) struct GroupCall {
    pub(crate) ticket: Ticket,
    pub(crate) what: (Collective, GroupName),
    pub(crate) procs: Vec<Proc<'static>>,
    /// Those of them who are not waited for, where a group is destructed: they have left it, or are lost and the
    /// others are told of that.
    pub(crate) done_without: Vec<Proc<'static>>,
    /// Whether a member of this node is lost to the group that is destructed, of whom the others are not told.
    pub(crate) has_lost: bool,
    pub(crate) infos: Vec<Info<'static>>,
    /// Why no collective may begin by this call; it may still be a part of one that has begun, so
    /// that all members are told alike how it ends.
    pub(crate) refusal: Option<Error>,
}

/// What became of a group in a collective, to be handed to [`Groups::heed`](crate::group::Groups::heed).
#[derive(Debug)]
pub(crate) enum GroupOutcome {
    /// All members have called, and the host has gone along.
    Ended(EndedGroup),
    /// A destruct failed, and these processes were told: they have no such group any longer.
    DestructFailed {
        name: Text<'static>,
        participants: Participants,
        told: Vec<Proc<'static>>,
    },
    /// A process is gone that was to take part in a construction.
    InviteFailed {
        name: Text<'static>,
        procs: Vec<Proc<'static>>,
        proc: Proc<'static>,
    },
    /// Somebody is to hear of a construction that is led, or to decide what becomes of it.
    Led(LeaderQuestion),
    /// The servers of other nodes are to hear who leads one.
    Announced(Announcement),
}

/// What becomes of the members of a group, to be handed to the collectives.
#[derive(Debug)]
pub(crate) enum MembershipChange {
    /// One has left it.
    Left(MemberLeft),
    /// Those of this node have left it or are lost.
    NoneLeft(NoneLeft),
}

/// A member has left a group.
#[derive(Debug)]
pub(crate) struct MemberLeft {
    pub(crate) name: Text<'static>,
    pub(crate) proc: Proc<'static>,
    /// The members when the group was constructed.
    pub(crate) members: Vec<Proc<'static>>,
    /// Those that have not left it, with this one and without.
    pub(crate) before: Vec<Proc<'static>>,
    pub(crate) now: Vec<Proc<'static>>,
}

/// A group has no member on this node any longer.
#[derive(Debug)]
pub(crate) struct NoneLeft {
    pub(crate) name: Text<'static>,
    /// The members when it was constructed.
    pub(crate) members: Vec<Proc<'static>>,
    /// The job of the last member of this node: the call for the destruct counts among what is under way of it.
    pub(crate) job: Nspace<'static>,
    /// Whether a destruct fails: a member of this node is lost, and nobody asked for `PMIX_GROUP_NOTIFY_TERMINATION`.
    pub(crate) fails: bool,
}

/// What each local participant said, in the order in which they called.
pub(crate) type Said = [(ClientId, Vec<Info<'static>>)];

/// A construction or destruction that ended.
#[derive(Debug)]
pub(crate) struct EndedGroup {
    pub(crate) kind: Collective,
    pub(crate) name: Text<'static>,
    pub(crate) participants: Participants,
    /// The job of the process that began it.
    pub(crate) job: Nspace<'static>,
    /// What each local participant said.
    pub(crate) said: Vec<(ClientId, Vec<Info<'static>>)>,
    /// The local participants that had not called when the host was.
    pub(crate) absent: Vec<Proc<'static>>,
    /// Those of the local participants that called and are lost, though another incarnation may be here by now.
    pub(crate) lost: Vec<Proc<'static>>,
    /// What the host said.
    pub(crate) answered: Vec<Info<'static>>,
    pub(crate) status: Status,
    /// The answers that are owed.
    pub(crate) tickets: Vec<Ticket>,
}

impl EndedGroup {
    /// Whether the members are told of those that are lost: any of them asked for it, here or on another node.
    pub(crate) fn notifies(&self) -> bool {
        let said = self.said.iter().map(|(_, infos)| infos);
        let mut infos = said.chain([&self.answered]);
        infos.any(|infos| is_set(infos, keys::GROUP_NOTIFY_TERMINATION))
    }
}

/// Whether processes that are lost before they took part are done without.
pub(crate) fn is_tolerant(infos: &[Info<'_>]) -> bool {
    is_set(infos, keys::GROUP_OPTIONAL) || is_set(infos, keys::GROUP_NOTIFY_TERMINATION)
}

/// Whether the host has nothing to add: all participants are local, and say so.
pub(crate) fn stays_local(said: &Said) -> bool {
    let all = |key: &str| said.iter().all(|(_, infos)| is_set(infos, key));
    let any = |key: &str| said.iter().any(|(_, infos)| is_set(infos, key));
    let wants_context = any(keys::GROUP_ASSIGN_CONTEXT_ID);
    !said.is_empty() && all(keys::GROUP_LOCAL_ONLY) && !wants_context && !is_gathered(said)
}

/// Returns whether the host determines the membership of a group: one of the callers adds members
/// (`PMIX_GROUP_ADD_MEMBERS`), or calls for itself alone (`pmix.procid`).
pub(crate) fn is_gathered(said: &Said) -> bool {
    let is = |info: &Info<'_>| info.key.is(keys::PROCID) || info.key.is(keys::GROUP_ADD_MEMBERS);
    said.iter().any(|(_, infos)| infos.iter().any(is))
}

/// Whether any of them says in which order they are to be in the end.
pub(crate) fn wants_order(said: &Said) -> bool {
    let is = |info: &Info<'_>| info.key.is(keys::GROUP_FINAL_MEMBERSHIP_ORDER);
    said.iter().any(|(_, infos)| infos.iter().any(is))
}

/// The order in which the members are to be in the end, if any of them says so.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` if they say different ones.
pub(crate) fn wanted_order(said: &Said) -> Result<Option<&[Proc<'static>]>, Error> {
    let key = keys::GROUP_FINAL_MEMBERSHIP_ORDER;
    let mut orders = said.iter().filter_map(|(_, infos)| procs_of(infos, key));
    let first = orders.next();
    match orders.all(|order| Some(order) == first) {
        true => Ok(first),
        false => Err(Error::bad("members want their group in different orders")),
    }
}

/// What the host is told: the members in a form that is the same on all servers, every directive
/// once, what each member shares, the members in their order and the time that is left (`infos`), and
/// how it failed here, if it did.
pub(crate) fn upcall(
    kind: Collective,
    id: Text<'static>,
    procs: Vec<Proc<'static>>,
    said: &Said,
    infos: Vec<Info<'static>>,
    failed: Option<Status>,
) -> Group {
    let mut directives = infos;
    let is_added = |(_, infos): &(ClientId, Vec<Info<'static>>)| {
        infos.iter().any(|info| info.key.is(keys::PROCID)) && listed(infos).is_none()
    };
    // A process that leaders add lists no processes.
    let procs = match said.iter().any(is_added) {
        true => {
            directives.retain(|info| !info.key.is(keys::GROUP_MEMBERSHIP));
            Vec::new()
        }
        false => procs,
    };
    let added = added(said);
    if !added.is_empty() {
        directives.push(Info::new(keys::GROUP_ADD_MEMBERS, added));
    }
    merge_directives(&mut directives, said);
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

/// Adds the directives of all members, each key once. If the members differ, a true value wins. `PMIX_GROUP_INFO` is
/// kept from each of them.
fn merge_directives(directives: &mut Vec<Info<'static>>, said: &Said) {
    let is_own =
        |info: &&Info<'_>| !info.key.is(keys::GROUP_MEMBERSHIP) && !info.key.is(keys::TIMEOUT);
    let places = directives.iter().enumerate();
    let mut places: HashMap<_, _> = { places.rev() }
        .map(|(place, info)| (info.key.as_bytes().to_vec(), place))
        .collect();
    for info in said.iter().flat_map(|(_, infos)| infos).filter(is_own) {
        let place = places.get(info.key.as_bytes()).copied();
        if info.key.is(keys::GROUP_ADD_MEMBERS) {
            continue;
        }
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

/// Whom the members add, each once.
fn added(said: &Said) -> Vec<Proc<'static>> {
    let lists = said.iter();
    let lists = lists.filter_map(|(_, infos)| procs_of(infos, keys::GROUP_ADD_MEMBERS));
    let mut seen = HashSet::new();
    let procs = lists.flatten().filter(|proc| seen.insert(*proc));
    procs.cloned().collect()
}

/// The list of members, if all who called gave it in the same order.
pub(crate) fn agreed(said: &Said) -> Option<&[Proc<'static>]> {
    let mut lists = said.iter().map(|(_, infos)| listed(infos));
    let first = lists.next()??;
    lists.all(|list| list == Some(first)).then_some(first)
}

/// The members that infos name, in their order.
pub(crate) fn listed<'i>(infos: &'i [Info<'static>]) -> Option<&'i [Proc<'static>]> {
    procs_of(infos, keys::GROUP_MEMBERSHIP)
}

/// The processes that infos name under a key.
pub(super) fn procs_of<'i>(infos: &'i [Info<'static>], key: &str) -> Option<&'i [Proc<'static>]> {
    match &infos.iter().find(|info| info.key.is(key))?.value {
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}
