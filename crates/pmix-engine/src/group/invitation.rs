// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations to groups, which are events between clients. The server forwards the events and stores only the
//! processes of each invitation. It notifies the leader of lost processes, and the others of a lost leader.
//!
//! | state | event | next state | events that follow |
//! | --- | --- | --- | --- |
//! | none | `INVITED` of a leader | open | `INVITE_FAILED` for each process that is already lost |
//! | open | `INVITED` of the same leader | open | the same, for the processes added |
//! | open | `INVITE_ACCEPTED`, `_DECLINED` | open | none |
//! | open | an invited process is lost | open | `INVITE_FAILED` |
//! | open | `CONSTRUCT_COMPLETE`, `_ABORT` of the leader | ended | none |
//! | open | the leader is lost, and no process has accepted | ended | `LEADER_FAILED` |
//! | open | the leader is lost | electing | `LEADER_FAILED` |
//! | electing | the first process that leads | ended, and open under that process | `LEADER_SELECTED` |
//! | electing | all have declined, or the time has passed | ended | `LEADER_SELECTED` without a leader |
//! | electing | `CONSTRUCT_ABORT` of any process that joined | ended | `CONSTRUCT_ABORT` |
//! | open under an elected leader | it declines or is lost | as for a lost leader | `LEADER_FAILED` |
//!
//! The server of the leader reports the loss of the leader, and the server of each invited process the loss of that
//! process. Elections are in `election`. Events of other servers may arrive out of order: an end that overtakes its
//! invitation is remembered.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

pub(super) mod answers;
pub(super) mod table;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pmix_types::{DataArray, Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, Value, keys};

use self::table::{Invitation, Key, key_of};
use super::election::{chosen, leads};
use super::known::Groups;
use super::learn::affected;
use super::members::{absent_among, concerns_us, was_here};
use super::membership::event;
use crate::Error;
use crate::cx::Cx;
use crate::events::Notification;
use crate::infos::value;
use crate::peers::Ticket;
use crate::procs::Procs;

/// The number of ended invitations that are remembered, and of ends that overtook their invitation.
const MAX_OVERTAKEN: usize = 64;

/// The limit of the time between the end of an invitation and its late arrival.
const OVERTAKES_BY: Duration = Duration::from_secs(60);

impl Groups {
    /// Opens an invitation, or adds processes to it. Returns the events that follow.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` beyond [`Config::group_bytes_per_job`](crate::Config) and
    /// [`Config::invitations_per_process`](crate::Config); `PMIX_ERR_NOT_FOUND` for a rank beyond its job.
    fn invited(
        &mut self,
        cx: &Cx,
        name: &Text<'_>,
        leader: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Notification>, Error> {
        let list = targets(infos);
        // A rank that does not exist would never answer.
        check_ranks(cx, list)?;
        let key = key_of(name, leader);
        let (joined, gone) = self.take_elected(&key);
        let known = self.invitations.get(&key);
        // The leader is no candidate for its own invitation, and processes invited before have already been handled.
        // Each entry of a whole job is expanded, so repeated ones are removed first.
        let mut set = Procs::default();
        let fresh = set.extend_distinct(list, |proc| {
            proc != leader && !known.is_some_and(|known| known.set.has(proc))
        });
        if fresh.is_empty() && known.is_some() {
            return Ok(Vec::new());
        }
        self.check_room(cx, &leader.nspace, name, &fresh)?;
        let most = cx.config.invitations_per_process;
        if known.is_none() && self.invitations.num_led(leader) >= most {
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "rank {} of {} already leads {most} invitations, the limit: complete or abort some first",
                    leader.rank, leader.nspace
                ),
            ));
        }
        self.invitations.invite(&key, &fresh, set);
        if let Some(known) = self.invitations.get_mut(&key) {
            known.joined.extend(joined);
            if !gone.is_empty() {
                known.lost = gone;
            }
        }
        self.count_invitation(&key);
        let absent = absent_among(cx, &fresh);
        let failed = absent.iter();
        let failed = failed.filter_map(|proc| self.invite_failed(cx, name, leader, proc));
        Ok(failed.collect())
    }

    /// Removes the invitation that is open under an elected leader, which now invites all processes again. Returns the
    /// processes that have joined, and the lost ones reported to the leader since its election.
    fn take_elected(&mut self, key: &Key) -> (HashSet<Proc<'static>>, Procs) {
        let known = self.invitations.get(key);
        if known.is_some_and(|known| known.in_place_of.is_some())
            && let Some(elected) = self.invitations.remove(key)
        {
            self.take_bytes(&key.1.nspace, elected.bytes);
            return (elected.joined, elected.lost);
        }
        (HashSet::new(), Procs::default())
    }

    /// Notifies a leader, once, that a process will not answer.
    fn invite_failed(
        &mut self,
        cx: &Cx,
        name: &Text<'_>,
        leader: &Proc<'static>,
        proc: &Proc<'static>,
    ) -> Option<Notification> {
        let key = key_of(name, leader);
        let invitation = self.invitations.get_mut(&key)?;
        if proc == leader || !invitation.set.has(proc) || invitation.lost.has(proc) {
            return None;
        }
        invitation.add_lost(proc);
        self.count_invitation(&key);
        self.hosted.answer(&key, proc, false);
        let to = vec![leader.clone()];
        event(cx, Status::GROUP_INVITE_FAILED, name, to, proc)
    }

    /// Checks that a process may accept an invitation.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_GROUP_CONSTRUCT_ABORT` if no invitation is open, or if the process was not invited.
    fn check_accepts(
        &self,
        name: &Text<'_>,
        source: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        // Without a single recipient, the answer names no leader whose invitation could be checked.
        let [leader] = targets(infos) else {
            return Ok(());
        };
        let key = key_of(name, leader);
        // The leader may have been lost right after inviting; an election may follow.
        let electing = self.invitations.electing(&key);
        let invitation = self.invitations.get(&key).or(electing);
        match invitation.is_some_and(|invitation| invitation.set.has(source)) {
            true => Ok(()),
            false => Err(Error::new(
                Status::GROUP_CONSTRUCT_ABORT,
                format!("no invitation to {name} is open"),
            )),
        }
    }

    /// Ends an invitation after its leader reported the completion or the abort of the group.
    pub(super) fn invitation_ended(&mut self, name: &Text<'_>, leader: &Proc<'_>) {
        let key = key_of(name, leader);
        if let Some(invitation) = self.invitations.remove(&key) {
            self.take_bytes(&leader.nspace, invitation.bytes);
            self.note_over(key);
        }
    }

    /// Remembers an invitation that has ended.
    pub(super) fn note_over(&mut self, key: Key) {
        self.over.truncate(MAX_OVERTAKEN - 1);
        self.over.push_front(key);
    }

    /// Handles the loss of a process. Returns the events for the processes that wait for it. The server of a process on
    /// another node notifies the processes of the other nodes.
    pub(crate) fn invited_lost(&mut self, cx: &mut Cx, proc: &Proc<'static>) -> Vec<Notification> {
        self.drop_runs_of(cx, proc);
        let was_here = cx.registry.was_here(proc);
        // Elections that end now open new invitations, which must not be notified of this loss again.
        let concerned = self.invitations.open_of(proc);
        let mut events = self.candidate_lost(cx, proc);
        for key in concerned {
            let (name, leader) = &key;
            if leader != proc {
                if was_here || cx.registry.was_here(leader) {
                    events.extend(self.invite_failed(cx, name, leader, proc));
                }
                continue;
            }
            let Some((mut list, follow)) = self.leader_lost(cx, &key, was_here) else {
                continue;
            };
            list.retain(|to| was_here || to.rank == Rank::WILDCARD || cx.registry.was_here(to));
            events.extend(event(cx, Status::GROUP_LEADER_FAILED, name, list, proc));
            events.extend(follow);
        }
        events
    }

    /// Ends the open invitations that concern no process of this node after a job was deregistered.
    pub(super) fn forget_invitations(&mut self, cx: &Cx, nspace: &Nspace<'_>) {
        for key in self.invitations.of_job(nspace, true) {
            let list = self.invitations.get(&key).map(|known| &known.list);
            if !concerns_us(cx, &key.1, list.map_or(&[], Vec::as_slice)) {
                self.invitation_ended(&key.0, &key.1);
            }
        }
    }

    /// Handles an event of the host about an invitation. Returns the events that follow, or `None` if the local
    /// processes have been notified before.
    pub(super) fn learn_of_invitation(
        &mut self,
        cx: &mut Cx,
        status: Status,
        name: &Text<'_>,
        source: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Option<Vec<Notification>> {
        // Servers report losses, which may be known here. Only processes have a registered job, so the source tells
        // them apart.
        let is_server = cx.store.job(&source.nspace).is_none();
        let about = match value(infos, keys::EVENT_AFFECTED_PROC) {
            Some(Value::Proc(about)) if is_server => Some(about.clone().into_owned()),
            _ => None,
        };
        if !is_server && let Some(follow) = self.record_answer(cx, status, name, source, infos) {
            return Some(follow);
        }
        // Events about a construct with a leader name the leader; they concern no invitation.
        let is_construct = is_server && chosen(infos).is_some();
        let ended = match (status, &about) {
            (Status::GROUP_LEADER_FAILED, _) if is_construct => None,
            (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, _) => Some(source),
            (Status::GROUP_LEADER_FAILED, Some(leader)) => Some(leader),
            _ => None,
        };
        if let Some(leader) = ended {
            self.note_overtaken(cx, key_of(name, leader), targets(infos));
        }
        match (status, about) {
            (Status::GROUP_INVITE_FAILED | Status::GROUP_LEADER_FAILED, _) if is_construct => {}
            (Status::GROUP_INVITED, _) => return Some(self.learn_invited(cx, name, source, infos)),
            (Status::GROUP_CONSTRUCT_ABORT, Some(old)) => {
                self.election_ended(cx, &key_of(name, &old), None);
            }
            (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, _) => {
                self.invitation_ended(name, source);
            }
            (Status::GROUP_LEADER_FAILED, Some(leader)) => {
                let (_, follow) = self.leader_lost(cx, &key_of(name, &leader), false)?;
                return Some(follow);
            }
            (Status::GROUP_LEADER_SELECTED, Some(old)) => {
                let leader = chosen(infos);
                return Some(self.election_ended(cx, &key_of(name, &old), leader.as_ref()));
            }
            (Status::GROUP_INVITE_FAILED, Some(about)) => {
                if let [leader] = targets(infos) {
                    return self.learn_lost(cx, &key_of(name, leader), &about);
                }
            }
            _ => {}
        }
        Some(Vec::new())
    }

    /// Handles the invitation of a process on another node. Returns the events that follow.
    fn learn_invited(
        &mut self,
        cx: &Cx,
        name: &Text<'_>,
        source: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Vec<Notification> {
        // An invitation with added members belongs to a construct with a leader.
        let is_added = value(infos, keys::GROUP_ADD_MEMBERS).is_some();
        // The loss of the leader may overtake its invitation.
        let is_lost = self.invitations.electing(&key_of(name, source)).is_some();
        let is_for_here = targets(infos).iter().any(|proc| was_here(cx, proc));
        if is_added || is_lost || !is_for_here || self.take_overtaken(cx, name, source) {
            return Vec::new();
        }
        let learned = self.invited(cx, name, source, infos);
        learned.unwrap_or_else(|error| {
            tracing::debug!(%error, %name, "ignoring an invitation from another node");
            Vec::new()
        })
    }

    /// Handles the report of another server that an invited process is lost. Returns the events that follow, or `None`
    /// if the loss was known.
    fn learn_lost(
        &mut self,
        cx: &mut Cx,
        key: &Key,
        about: &Proc<'static>,
    ) -> Option<Vec<Notification>> {
        let Some(invitation) = self.invitations.get_mut(key) else {
            return self.learn_lost_candidate(cx, key, about);
        };
        if invitation.lost.has(about) {
            return None;
        }
        invitation.add_lost(about);
        self.count_invitation(key);
        self.hosted.answer(key, about, false);
        Some(Vec::new())
    }

    /// Remembers the end of an invitation that may have overtaken the invitation itself, or its last part.
    fn note_overtaken(&mut self, cx: &Cx, key: Key, list: &[Proc<'_>]) {
        let is_due = |to: &Proc<'_>, known: &Invitation| {
            *to != key.1 && was_here(cx, to) && !known.set.has(to)
        };
        let is_overtaken = match self.invitations.get(&key) {
            Some(known) => list.iter().any(|to| is_due(to, known)),
            None => list.iter().any(|proc| was_here(cx, proc)) && !self.is_answer(&key, list),
        };
        if is_overtaken {
            self.overtaken.truncate(MAX_OVERTAKEN - 1);
            self.overtaken.push_front((key, cx.now));
        }
    }

    /// Returns `true` if the end of this invitation has overtaken it, and removes the record.
    fn take_overtaken(&mut self, cx: &Cx, name: &Text<'_>, source: &Proc<'_>) -> bool {
        let is_over = |((other, leader), at): &(Key, Option<Instant>)| {
            let age = cx.now.zip(*at).map(|(now, at)| now.duration_since(at));
            let is_old = age.is_some_and(|age| age > OVERTAKES_BY);
            other == name && leader == source && !is_old
        };
        let place = self.overtaken.iter().position(is_over);
        place
            .and_then(|place| self.overtaken.remove(place))
            .is_some()
    }

    /// Returns `true` if a process is invited to a group of this name, or if its leader is being elected.
    fn elects(&self, name: &Text<'_>, proc: &Proc<'static>) -> bool {
        let electing = self.invitations.electing_of(proc);
        let open = self.invitations.open_of(proc);
        electing.iter().chain(&open).any(|(of, _)| of == name)
    }

    /// Returns `true` if an event of a process is addressed to the leader of an invitation, so that it does not end an
    /// invitation of that process.
    fn is_answer(&self, (name, source): &Key, to: &[Proc<'_>]) -> bool {
        let over: HashSet<_> = { self.over.iter() }
            .filter(|(other, leader)| other == name && leader != source)
            .map(|(_, leader)| leader)
            .collect();
        to.iter().any(|to| {
            let to = to.clone().into_owned();
            let is_led = || self.invitations.get(&(name.clone(), to.clone())).is_some();
            to != *source && (over.contains(&to) || is_led())
        })
    }

    /// Handles an event about an invitation from a process of this node. Returns the events that follow.
    ///
    /// # Errors
    ///
    /// Returns the reason why the event is not delivered.
    pub(super) fn handle_invitation_event(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        status: Status,
        name: &Text<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Notification>, Error> {
        let source = cx.member(ticket)?.proc.clone();
        match status {
            Status::GROUP_INVITED => {
                self.check_name(cx, &source, Some(name))?;
                // The lost leader was restarted. It must not lead while its successor is being elected.
                if self.invitations.electing(&key_of(name, &source)).is_some() {
                    return Err(Error::new(
                        Status::GROUP_CONSTRUCT_ABORT,
                        format!(
                            "{name}: another process replaced the caller's previous instance as leader"
                        ),
                    ));
                }
                return self.invited(cx, name, &source, infos);
            }
            Status::GROUP_INVITE_ACCEPTED => self.check_accepts(name, &source, infos)?,
            Status::GROUP_CONSTRUCT_ABORT => self.invitation_ended(name, &source),
            // While servers elect the leader of an invitation, a process must not be able to determine it. Programs with
            // OpenPMIx agree on a leader themselves and report it.
            Status::GROUP_LEADER_SELECTED if self.elects(name, &source) => {
                return Err(Error::denied(
                    "the servers report the leader that they elect",
                ));
            }
            _ => {}
        }
        let follow = self.record_answer(cx, status, name, &source, infos);
        Ok(follow.unwrap_or_default())
    }

    /// Records the answer of a process to an invitation, or to the loss of a leader. Returns the events that follow, or
    /// `None` if it does not concern a lost leader.
    fn record_answer(
        &mut self,
        cx: &mut Cx,
        status: Status,
        name: &Text<'_>,
        source: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Option<Vec<Notification>> {
        match status {
            Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED => {
                let [leader] = targets(infos) else {
                    return None;
                };
                let key = key_of(name, leader);
                let is_lost = self.invitations.electing(&key).is_some();
                let Some(known) = self.invitations.any_mut(&key) else {
                    // An elected leader that declines the invitation of the lost one does not want to lead.
                    return match status == Status::GROUP_INVITE_DECLINED {
                        true => Some(self.leader_gives_up(cx, &key_of(name, source), &key.1)),
                        false => None,
                    };
                };
                if !known.set.has(source) {
                    return None;
                }
                if status == Status::GROUP_INVITE_DECLINED {
                    known.joined.remove(source);
                    // A decline is final. Between servers, an earlier acceptance may arrive after it.
                    known.declined.insert(source.clone());
                } else if !known.declined.contains(source) {
                    known.joined.insert(source.clone());
                }
                let has_accepted = known.joined.contains(source);
                self.count_invitation(&key);
                self.hosted.answer(&key, source, has_accepted);
                is_lost.then(|| self.settle(cx, &key))
            }
            Status::GROUP_LEADER_FAILED => {
                let key = key_of(name, affected(infos)?);
                Some(self.leader_answer(cx, &key, source, leads(infos)))
            }
            Status::GROUP_CONSTRUCT_ABORT => {
                let key = key_of(name, affected(infos)?);
                let events = self.election_aborted(cx, &key);
                (!events.is_empty()).then_some(events)
            }
            _ => None,
        }
    }
}

/// Checks that every rank of a list exists in its job.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` for a rank beyond its job.
fn check_ranks(cx: &Cx, list: &[Proc<'_>]) -> Result<(), Error> {
    for run in list.chunk_by(|a, b| a.nspace == b.nspace) {
        let size = { run.first() }.and_then(|proc| cx.job_size(&proc.nspace));
        let is_beyond = |proc: &&Proc<'_>| {
            let rank = proc.rank;
            rank.is_valid() && size.is_some_and(|size| rank.as_raw() >= size)
        };
        if let Some(proc) = run.iter().find(is_beyond) {
            let (rank, nspace) = (proc.rank, &proc.nspace);
            return Err(Error::not_found(format!("{nspace} has no rank {rank}")));
        }
    }
    Ok(())
}

/// Returns the recipients of an event.
fn targets<'i>(infos: &'i [Info<'_>]) -> &'i [Proc<'i>] {
    match value(infos, keys::EVENT_CUSTOM_RANGE) {
        Some(Value::Proc(proc)) => std::slice::from_ref(proc),
        Some(Value::DataArray(DataArray::Proc(procs))) => procs,
        _ => &[],
    }
}
