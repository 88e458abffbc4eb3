// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations on their way from client to client: the server tells who waits for a process that it is
//! gone. The leader's server hears of the loss of the leader, that of each process that was invited of
//! that process.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pmix_types::{DataArray, Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, Value, keys};

use super::invited::{Invitation, Key};
use super::known::Groups;
use super::learn::affected;
use super::membership::event;
use super::selections::{absent, chosen, key_of, leads, was_here};
use crate::Error;
use crate::cx::Cx;
use crate::events::Notification;
use crate::infos::value;
use crate::peers::Ticket;
use crate::procs::Procs;

/// How many ends are remembered of invitations that are still to come, and of others.
const MAX_OVERTAKEN: usize = 64;

/// How long the end of an invitation may be on its way before the invitation.
const OVERTAKES_BY: Duration = Duration::from_secs(60);

impl Groups {
    /// A process invites others. Returns the events that follow.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` beyond [`Config::group_bytes_per_job`](crate::Config) and
    /// [`Config::invitations_per_process`](crate::Config); `PMIX_ERR_NOT_FOUND` for a rank beyond its job.
    pub(super) fn invited(
        &mut self,
        cx: &Cx,
        name: &Text<'_>,
        leader: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Notification>, Error> {
        let list = targets(infos);
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
        let key = (name.clone().into_owned(), leader.clone());
        // Who was chosen to lead invites all anew.
        let (mut joined, mut gone) = (HashSet::new(), Procs::default());
        if self
            .invitations
            .get(&key)
            .is_some_and(|known| known.in_place_of.is_some())
            && let Some(due) = self.invitations.remove(&key)
        {
            self.take_bytes(&leader.nspace, due.bytes);
            // It was told of those who are gone since it was chosen.
            (joined, gone) = (due.joined, due.gone);
        }
        let known = self.invitations.get(&key);
        let fresh = list.iter();
        // Who leads is no news to itself, and who is invited again has been told of already.
        let fresh =
            fresh.filter(|proc| *proc != leader && !known.is_some_and(|known| known.set.has(proc)));
        let mut fresh: Vec<_> = fresh.cloned().collect();
        // A job that is named again and again is looked through once.
        let mut seen = HashSet::new();
        fresh.retain(|proc| seen.insert(proc.clone()));
        let fresh = Proc::owned_list(&fresh);
        if fresh.is_empty() && known.is_some() {
            return Ok(Vec::new());
        }
        self.check_room(cx, &leader.nspace, name, &fresh)?;
        let most = cx.config.invitations_per_process;
        if known.is_none() && self.invitations.num_led(leader) >= most {
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "rank {} of {} leads {most} invitations, which is the most: end some first",
                    leader.rank, leader.nspace
                ),
            ));
        }
        self.invitations.invite(&key, &fresh);
        if let Some(known) = self.invitations.get_mut(&key) {
            known.joined.extend(joined);
            if !gone.is_empty() {
                known.gone = gone;
            }
        }
        self.count_invitation(&key);
        let absent: Vec<_> = fresh.iter().flat_map(|proc| absent(cx, proc)).collect();
        let failed = absent.iter();
        let failed = failed.filter_map(|proc| self.invite_failed(cx, name, leader, proc));
        Ok(failed.collect())
    }

    /// Says to a leader that a process will not answer, once.
    fn invite_failed(
        &mut self,
        cx: &Cx,
        name: &Text<'_>,
        leader: &Proc<'static>,
        proc: &Proc<'static>,
    ) -> Option<Notification> {
        let key = (name.clone().into_owned(), leader.clone());
        let invitation = self.invitations.get_mut(&key)?;
        if proc == leader || !invitation.set.has(proc) || invitation.gone.has(proc) {
            return None;
        }
        invitation.gone.extend(std::slice::from_ref(proc));
        self.count_invitation(&key);
        let to = vec![leader.clone()];
        event(cx, Status::GROUP_INVITE_FAILED, name, to, proc)
    }

    /// Whether a process may accept an invitation: it is open.
    ///
    /// # Errors
    ///
    /// `PMIX_GROUP_CONSTRUCT_ABORT` if it is not, or if the process was not invited.
    pub(super) fn check_accepts(
        &self,
        name: &Text<'_>,
        source: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        let [leader] = targets(infos) else {
            return Ok(());
        };
        let key = (name.clone().into_owned(), leader.clone().into_owned());
        // Who is lost may have invited just before, and is waited for as others are.
        let selection = self.selections.get(&key).map(|open| &open.invitation);
        let invitation = self.invitations.get(&key).or(selection);
        match invitation.is_some_and(|invitation| invitation.set.has(source)) {
            true => Ok(()),
            false => Err(Error::new(
                Status::GROUP_CONSTRUCT_ABORT,
                format!("no invitation to {name} is open"),
            )),
        }
    }

    /// A leader says that its group is there, or is not.
    pub(super) fn invitation_ended(&mut self, name: &Text<'_>, leader: &Proc<'_>) {
        let key = (name.clone().into_owned(), leader.clone().into_owned());
        if let Some(invitation) = self.invitations.remove(&key) {
            self.take_bytes(&leader.nspace, invitation.bytes);
            self.note_over(key);
        }
    }

    /// Notes that an invitation has ended.
    pub(super) fn note_over(&mut self, key: Key) {
        self.over.truncate(MAX_OVERTAKEN - 1);
        self.over.push_front(key);
    }

    /// A process is gone: those who wait for it are told. Returns the events. Of one of another node only
    /// those of this node are told: its server tells the others.
    pub(crate) fn lose_invited(&mut self, cx: &mut Cx, proc: &Proc<'static>) -> Vec<Notification> {
        let was_here = cx.registry.was_here(proc);
        let concerned = self.invitations.concerning(proc);
        let mut told = self.lose_candidate(cx, proc);
        for key in concerned {
            let (name, leader) = &key;
            if leader != proc {
                if was_here || cx.registry.was_here(leader) {
                    told.extend(self.invite_failed(cx, name, leader, proc));
                }
                continue;
            }
            let Some((mut list, follow)) = self.leader_lost(cx, &key, was_here) else {
                continue;
            };
            list.retain(|to| was_here || to.rank == Rank::WILDCARD || cx.registry.was_here(to));
            told.extend(event(cx, Status::GROUP_LEADER_FAILED, name, list, proc));
            told.extend(follow);
        }
        told
    }

    /// A job is gone: what concerns nobody here is forgotten.
    pub(super) fn forget_invitations(&mut self, cx: &Cx, nspace: &Nspace<'_>) {
        let is_of_nobody = |key: &Key| {
            let list = self.invitations.get(key).map(|known| &known.list);
            !concerns_us(cx, &key.1, list.map_or(&[], Vec::as_slice))
        };
        let mut gone = self.invitations.of_job(nspace);
        gone.retain(is_of_nobody);
        for (name, leader) in gone {
            self.invitation_ended(&name, &leader);
        }
    }

    /// How many bytes the invitations of each job take.
    pub(super) fn invitation_weights(&self) -> impl Iterator<Item = (&Nspace<'static>, usize)> {
        let invitations = self.invitations.iter();
        invitations.map(|known| (&known.key.1.nspace, known.weight()))
    }

    /// Learns of an invitation from an event that the host brings. Returns the events that follow; none
    /// at all if those whom the event is for have been told already.
    pub(super) fn learn_of_invitation(
        &mut self,
        cx: &mut Cx,
        status: Status,
        name: &Text<'_>,
        source: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Option<Vec<Notification>> {
        let list = targets(infos);
        let is_for_here = list.iter().any(|proc| was_here(cx, proc));
        // Servers say which process is gone: the loss may have been known here before.
        let is_server = cx.store.job(&source.nspace).is_none();
        let about = match value(infos, keys::EVENT_AFFECTED_PROC) {
            Some(Value::Proc(about)) if is_server => Some(about.clone().into_owned()),
            _ => None,
        };
        if !is_server && let Some(follow) = self.said(cx, status, name, source, infos) {
            return Some(follow);
        }
        // It is about a construction, and not about an invitation.
        let is_construct = is_server && chosen(infos).is_some();
        let ended = match (status, &about) {
            (Status::GROUP_LEADER_FAILED, _) if is_construct => None,
            (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, _) => Some(source),
            (Status::GROUP_LEADER_FAILED, Some(leader)) => Some(leader),
            _ => None,
        };
        if let Some(leader) = ended {
            let key = (name.clone().into_owned(), leader.clone());
            // Of those whom its leader invited last, the invitation may still be on its way.
            let is_due = |to: &Proc<'_>, known: &Invitation| {
                to != leader && was_here(cx, to) && !known.set.has(to)
            };
            let is_overtaken = match self.invitations.get(&key) {
                Some(known) => list.iter().any(|to| is_due(to, known)),
                None => is_for_here && !self.is_answer(&key, list),
            };
            if is_overtaken {
                self.overtaken.truncate(MAX_OVERTAKEN - 1);
                self.overtaken.push_front((key, cx.now));
            }
        }
        match (status, about, list) {
            (Status::GROUP_INVITE_FAILED, ..) if is_construct => {}
            // It is added to a construction, which is no invitation.
            (Status::GROUP_INVITED, ..) if value(infos, keys::GROUP_ADD_MEMBERS).is_some() => {}
            // The loss of the leader came before its invitation.
            (Status::GROUP_INVITED, ..)
                if self.selections.by_key.contains_key(&key_of(name, source)) =>
            {
                return Some(Vec::new());
            }
            (Status::GROUP_INVITED, ..) if is_for_here => {
                let is_over = |((other, leader), at): &(Key, Option<Instant>)| {
                    let age = cx.now.zip(*at).map(|(now, at)| now.duration_since(at));
                    let is_old = age.is_some_and(|age| age > OVERTAKES_BY);
                    other == name && leader == source && !is_old
                };
                if let Some(place) = self.overtaken.iter().position(is_over) {
                    self.overtaken.remove(place);
                    return Some(Vec::new());
                }
                let learned = self.invited(cx, name, source, infos);
                return Some(learned.unwrap_or_else(|error| {
                    tracing::debug!(%error, %name, "an invitation of another node is not known here");
                    Vec::new()
                }));
            }
            (Status::GROUP_CONSTRUCT_ABORT, Some(old), _) => {
                self.selection_ended(cx, &key_of(name, &old), None);
            }
            (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, ..) => {
                self.invitation_ended(name, source);
            }
            (Status::GROUP_LEADER_FAILED, ..) if is_construct => {}
            (Status::GROUP_LEADER_FAILED, Some(leader), _) => {
                let key = (name.clone().into_owned(), leader);
                let (_, follow) = self.leader_lost(cx, &key, false)?;
                return Some(follow);
            }
            (Status::GROUP_LEADER_SELECTED, Some(old), _) => {
                let leader = chosen(infos);
                return Some(self.selection_ended(cx, &key_of(name, &old), leader.as_ref()));
            }
            (Status::GROUP_INVITE_FAILED, Some(about), [leader]) => {
                let key = (name.clone().into_owned(), leader.clone().into_owned());
                let Some(invitation) = self.invitations.get_mut(&key) else {
                    return self.candidate_lost(cx, &key, &about);
                };
                if invitation.gone.has(&about) {
                    return None;
                }
                invitation.gone.extend(std::slice::from_ref(&about));
                self.count_invitation(&key);
            }
            _ => {}
        }
        Some(Vec::new())
    }

    /// Whether what a process says about a group is for one who leads an invitation to it, so that it is no
    /// end of an invitation of its own.
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

    /// Whether a ticket's process leads an invitation, or reports what concerns one.
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
                if self.selections.by_key.contains_key(&key_of(name, &source)) {
                    return Err(Error::new(
                        Status::GROUP_CONSTRUCT_ABORT,
                        format!(
                            "{name}: another leads in the place of an earlier life of the caller"
                        ),
                    ));
                }
                return self.invited(cx, name, &source, infos);
            }
            Status::GROUP_INVITE_ACCEPTED => self.check_accepts(name, &source, infos)?,
            Status::GROUP_CONSTRUCT_ABORT => self.invitation_ended(name, &source),
            // Servers alone say who leads.
            Status::GROUP_LEADER_SELECTED => {
                return Err(Error::denied(
                    "a process does not say which leader was chosen",
                ));
            }
            _ => {}
        }
        let follow = self.said(cx, status, name, &source, infos);
        Ok(follow.unwrap_or_default())
    }

    /// Notes what a process says to a leader about its invitation, or about a leader that is lost. Returns
    /// the events that follow, if it is about one that is lost.
    fn said(
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
                let selection = self.selections.get_mut(&key);
                let is_lost = selection.is_some();
                let known = selection.map(|open| &mut open.invitation);
                let known = known.or_else(|| self.invitations.get_mut(&key));
                let Some(known) = known else {
                    // It was chosen to lead in the place of the one that it answers, and gives up.
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
                    known.declined.insert(source.clone());
                } else if !known.declined.contains(source) {
                    known.joined.insert(source.clone());
                }
                self.count_invitation(&key);
                is_lost.then(|| self.settle(cx, &key))
            }
            Status::GROUP_LEADER_FAILED => {
                let key = key_of(name, affected(infos)?);
                Some(self.leader_answer(cx, &key, source, leads(infos)))
            }
            Status::GROUP_CONSTRUCT_ABORT => {
                let key = key_of(name, affected(infos)?);
                let told = self.selection_aborted(cx, &key);
                (!told.is_empty()).then_some(told)
            }
            _ => None,
        }
    }
}

/// Whether any process of this node leads an invitation or was invited.
pub(super) fn concerns_us(cx: &Cx, leader: &Proc<'_>, list: &[Proc<'_>]) -> bool {
    let is_here = |proc: &Proc<'_>| match proc.rank {
        Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
        rank => cx.registry.find(&proc.nspace, rank).is_some(),
    };
    is_here(leader) || list.iter().any(is_here)
}

/// The processes that an event is for.
fn targets<'i>(infos: &'i [Info<'_>]) -> &'i [Proc<'i>] {
    match value(infos, keys::EVENT_CUSTOM_RANGE) {
        Some(Value::Proc(proc)) => std::slice::from_ref(proc),
        Some(Value::DataArray(DataArray::Proc(procs))) => procs,
        _ => &[],
    }
}
