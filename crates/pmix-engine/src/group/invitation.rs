// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations on their way from client to client: the server tells who waits for a process that it is
//! gone. The leader's server hears of the loss of the leader, that of each process that was invited of
//! that process.

use std::collections::HashSet;

use pmix_types::{DataArray, Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, Value, keys};

use super::known::{self, Groups};
use super::news::event;
use crate::Error;
use crate::cx::Cx;
use crate::events::Notification;
use crate::infos::value;
use crate::peers::Ticket;
use crate::registry::ClientState;

/// How many ends are remembered of invitations that are still to come.
const MAX_OVERTAKEN: usize = 64;

impl Groups {
    /// A process invites others. Returns the events that follow.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` beyond [`Config::group_bytes_per_job`](crate::Config);
    /// `PMIX_ERR_NOT_FOUND` for a rank beyond its job.
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
        let invitation = self.invitations.entry(key).or_default();
        invitation.list.extend(fresh.iter().cloned());
        invitation.set.extend(&fresh);
        let all = known::weight(name, &invitation.list);
        let bytes = all.saturating_sub(std::mem::replace(&mut invitation.bytes, all));
        self.add_bytes(&leader.nspace, bytes);
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
        let invitation = self.invitations.get(&key);
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
        }
    }

    /// A process is gone: those who wait for it are told. Returns the events. Of one of another node only
    /// those of this node are told: its server tells the others.
    pub(crate) fn lose_invited(&mut self, cx: &Cx, proc: &Proc<'static>) -> Vec<Notification> {
        let was_here = cx.registry.was_here(proc);
        let concerned = self.invitations.iter();
        let concerned = concerned
            .filter(|((_, leader), invitation)| leader == proc || invitation.set.has(proc));
        let concerned: Vec<_> = concerned.map(|(key, _)| key.clone()).collect();
        let told = concerned.into_iter().filter_map(|(name, leader)| {
            if leader != *proc {
                let is_told = was_here || cx.registry.was_here(&leader);
                let failed = is_told.then(|| self.invite_failed(cx, &name, &leader, proc));
                return failed.flatten();
            }
            let key = (name.clone(), leader.clone());
            let list = self.invitations.get(&key).map(|known| known.list.clone());
            self.invitation_ended(&name, &leader);
            let mut list = list?;
            list.retain(|to| was_here || to.rank == Rank::WILDCARD || cx.registry.was_here(to));
            event(cx, Status::GROUP_LEADER_FAILED, &name, list, proc)
        });
        told.collect()
    }

    /// A job is gone: what concerns nobody here is forgotten.
    pub(super) fn forget_invitations(&mut self, cx: &Cx) {
        let is_here = |proc: &Proc<'_>| match proc.rank {
            Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
            rank => cx.registry.find(&proc.nspace, rank).is_some(),
        };
        let gone = self.invitations.iter().filter(|((_, leader), invitation)| {
            !is_here(leader) && !invitation.list.iter().any(is_here)
        });
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        for (name, leader) in gone {
            self.invitation_ended(&name, &leader);
        }
    }

    /// How many bytes the invitations of each job take.
    pub(super) fn invitation_weights(&self) -> impl Iterator<Item = (&Nspace<'static>, usize)> {
        let invitations = self.invitations.iter();
        invitations
            .map(|((name, leader), known)| (&leader.nspace, known::weight(name, &known.list)))
    }

    /// Learns of an invitation from an event that the host brings. Returns the events that follow; none
    /// at all if those whom the event is for have been told already.
    pub(super) fn learn_of_invitation(
        &mut self,
        cx: &Cx,
        status: Status,
        name: &Text<'_>,
        source: &Proc<'static>,
        infos: &[Info<'_>],
    ) -> Option<Vec<Notification>> {
        let list = targets(infos);
        let is_here = |proc: &Proc<'_>| match proc.rank {
            Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
            rank => cx.registry.was_here(&Proc::new(proc.nspace.clone(), rank)),
        };
        // Servers say which process is gone: the loss may have been known here before.
        let is_server = cx.store.job(&source.nspace).is_none();
        let about = match value(infos, keys::EVENT_AFFECTED_PROC) {
            Some(Value::Proc(about)) if is_server => Some(about.clone().into_owned()),
            _ => None,
        };
        let ended = match (status, &about) {
            (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, _) => Some(source),
            (Status::GROUP_LEADER_FAILED, Some(leader)) => Some(leader),
            _ => None,
        };
        if let Some(leader) = ended {
            let key = (name.clone().into_owned(), leader.clone());
            if !self.invitations.contains_key(&key) && list.iter().any(is_here) {
                self.overtaken.truncate(MAX_OVERTAKEN - 1);
                self.overtaken.push_front(key);
            }
        }
        match (status, about, list) {
            (Status::GROUP_INVITED, ..) if list.iter().any(is_here) => {
                let is_over = |(other, leader): &(_, _)| other == name && leader == source;
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
            (Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT, ..) => {
                self.invitation_ended(name, source);
            }
            (Status::GROUP_LEADER_FAILED, Some(leader), _) => {
                let key = (name.clone().into_owned(), leader);
                if !self.invitations.contains_key(&key) {
                    return None;
                }
                self.invitation_ended(name, &key.1);
            }
            (Status::GROUP_INVITE_FAILED, Some(about), [leader]) => {
                let key = (name.clone().into_owned(), leader.clone().into_owned());
                let invitation = self.invitations.get_mut(&key)?;
                if invitation.gone.has(&about) {
                    return None;
                }
                invitation.gone.extend(std::slice::from_ref(&about));
            }
            _ => {}
        }
        Some(Vec::new())
    }

    /// Whether a ticket's process leads an invitation, or reports what concerns one.
    pub(super) fn heed_invitation(
        &mut self,
        cx: &Cx,
        ticket: &Ticket,
        status: Status,
        name: &Text<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Notification>, Error> {
        let source = cx.member(ticket)?.proc.clone();
        match status {
            Status::GROUP_INVITED => {
                self.check_name(cx, &source, Some(name))?;
                return self.invited(cx, name, &source, infos);
            }
            Status::GROUP_INVITE_ACCEPTED => self.check_accepts(name, &source, infos)?,
            Status::GROUP_CONSTRUCT_ABORT => self.invitation_ended(name, &source),
            _ => {}
        }
        Ok(Vec::new())
    }
}

/// The processes that an event is for.
fn targets<'i>(infos: &'i [Info<'_>]) -> &'i [Proc<'i>] {
    match value(infos, keys::EVENT_CUSTOM_RANGE) {
        Some(Value::Proc(proc)) => std::slice::from_ref(proc),
        Some(Value::DataArray(DataArray::Proc(procs))) => procs,
        _ => &[],
    }
}

/// The local processes that a name stands for and that have been here and are not any longer.
fn absent(cx: &Cx, proc: &Proc<'static>) -> Vec<Proc<'static>> {
    let Some(job) = cx.registry.job(&proc.nspace) else {
        return Vec::new();
    };
    let has_left = |rank: &Rank| {
        let client = job.clients.get(rank);
        match client.and_then(|id| cx.registry.client(*id)) {
            Some(client) => !matches!(client.state, ClientState::Expected | ClientState::Connected),
            None => job.gone.contains(rank),
        }
    };
    let of = |rank: &Rank| Proc::new(proc.nspace.clone(), *rank);
    match proc.rank {
        Rank::WILDCARD => {
            let ranks = job.clients.keys().chain(&job.gone);
            ranks.filter(|rank| has_left(rank)).map(of).collect()
        }
        rank => has_left(&rank).then(|| of(&rank)).into_iter().collect(),
    }
}
