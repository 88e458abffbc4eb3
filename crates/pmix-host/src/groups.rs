// SPDX-License-Identifier: MIT OR Apache-2.0
//! The assembler of group constructs whose members do not all know each other.
//!
//! The servers of a host call it for their processes, in three forms:
//!
//! | caller | processes in the call | upcalls to the host |
//! | --- | --- | --- |
//! | leaders that know each other | all leaders | one for each node, with the leaders |
//! | leaders that know only their number | the caller, with `PMIX_GROUP_BOOTSTRAP` | one for each leader, with it |
//! | a process that a leader adds | none | one for each process, without processes; `PMIX_PROCID` names the caller |
//!
//! A leader may add other processes with `PMIX_GROUP_ADD_MEMBERS`.
//!
//! A construct completes when all leaders and all added processes have called. It fails when a process ends that is
//! still awaited: an added process, or a listed leader whose server has not called. All calls get the same reply: the
//! members, leaders first, or in the order of `PMIX_GROUP_FINAL_MEMBERSHIP_ORDER` if a leader gave it.
//!
//! If a member leads the construct (`PMIX_GROUP_LEADER`), the server of a lost process asks the leader first. So the
//! end of that process does not end the construct here. Its server calls after the leader's decision, even if no
//! process is left on that node.
//!
//! Leaders that give their number take part in one construct if user, name and number are the same; they may be of
//! several jobs. Calls of another user with that name form a construct of their own. A construct that adds a process of
//! another user fails with `PMIX_ERR_NO_PERMISSIONS` when that process calls. So does a construct whose listed leaders
//! are of several users (`PMIX_USERID`, which the servers add).
//!
//! A process that calls for itself a second time with the same name gets `PMIX_ERR_BAD_PARAM`, until its first call is
//! answered or the process has ended. A process that ends after its call stays a member. If it is started again, the
//! new call replaces the old one.
//!
//! The host cannot tell which leader will add a caller, or which leaders are still to come if only their number is
//! known. Such calls fail when no process is left that could call, if the host knows that
//! ([`Processes::num_running`]).
//!
//! A host of several nodes also reports the servers that have ended ([`GroupAssembler::server_ended`]). If its
//! nodes are separate processes, each of them packs its upcalls ([`Upcall::pack`](pmix_server::upcall::Upcall::pack))
//! and keeps their completions ([`Completion::untyped`](pmix_server::Completion::untyped)); the process with the
//! assembler unpacks the upcalls and packs the answers.
//!
//! There is no clock inside: time is an argument, and a construct fails when the shortest `PMIX_TIMEOUT` of its callers
//! has passed ([`GroupAssembler::handle_timeout`]).
//!
//! Source: OpenPMIx 6, "Group Construction"; PMIx Standard, chapter "Process Sets and Groups".

mod call;
mod construct;
mod early;
mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pmix_engine::infos::value;
use pmix_server::upcall::Group;
use pmix_types::{
    GroupOperation, Info, IntoOwned as _, Measure, Nspace, Proc, Rank, Status, Text, keys, memory,
};

use self::call::{ConstructCall, Leaders};
use self::construct::{AddLimits, GroupConstruct};
use self::early::{EarlyCall, take_early, take_refused};
use self::index::{Id, Index};

/// The largest number of failed constructs that are kept for late callers.
const MAX_FAILED: usize = 256;

/// The largest memory of the refused processes in failed constructs in bytes. Their job names may be long and many.
const MAX_REFUSED_BYTES: usize = 16 << 20;

/// The knowledge of a host about its processes.
pub trait Processes {
    /// Returns the number of processes of a job, or `None` if there is no such job.
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32>;

    /// Returns `true` if a process has ended, so that it will not call.
    fn has_ended(&self, proc: &Proc<'_>) -> bool;

    /// Returns the server that a process is or was at, by a numbering of the host.
    fn server_of(&self, proc: &Proc<'_>) -> Option<usize>;

    /// Returns the number of processes of all jobs that have not ended, if the host knows it. With it, calls fail when
    /// no process is left that they could wait for; without it they wait until their time has passed.
    fn num_running(&self) -> Option<usize> {
        None
    }
}

/// The end of a construct, with the calls to answer.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct EndedConstruct<T> {
    /// The token that [`GroupAssembler::take`] got with each call that is to be answered.
    pub tokens: Vec<T>,
    /// The reply: the members (`pmix.grp.mbrs`) and the infos that they share (`pmix.grp.info`), or the status of the
    /// failure.
    pub outcome: Result<Vec<Info<'static>>, Status>,
    /// `true` if the host is to add a context id (`pmix.grp.ctxid`) to the reply.
    pub wants_context_id: bool,
}

/// The open constructs of a host. `T` is the host's token of a call.
#[derive(Debug)]
pub struct GroupAssembler<T> {
    open: BTreeMap<Id, GroupConstruct<T>>,
    /// Calls of processes that no leader has added yet.
    early: BTreeMap<Id, EarlyCall<T>>,
    failed: BTreeMap<Id, GroupConstruct<T>>,
    index: Index,
    limits: AddLimits,
    /// The number of processes added to all open and failed constructs.
    num_added: usize,
}

impl<T> Default for GroupAssembler<T> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            early: BTreeMap::new(),
            failed: BTreeMap::new(),
            index: Index::default(),
            limits: AddLimits::default(),
            num_added: 0,
        }
    }
}

impl<T> GroupAssembler<T> {
    /// Returns `true` if a call must be assembled even if all calls come from one server. Processes that this server
    /// does not know may participate, or the call sets an order.
    ///
    /// It is for a host of one node, which completes all other constructs itself. A host of several nodes passes every
    /// construct to [`take`](Self::take), since only the calls of all servers together give the members.
    pub fn concerns(group: &Group) -> bool {
        let is = |key: &str| group.directives.iter().any(|info| info.key.is(key));
        group.operation == GroupOperation::CONSTRUCT
            && (group.procs.is_empty()
                || is(keys::GROUP_BOOTSTRAP)
                || is(keys::GROUP_ADD_MEMBERS)
                || is(keys::GROUP_FINAL_MEMBERSHIP_ORDER))
    }

    /// Handles a call of a server for a construct, whether or not [`concerns`](Self::concerns) returns `true` for it.
    /// `server` is the number from [`Processes::server_of`]. Returns the constructs that ended by this call.
    pub fn take(
        &mut self,
        token: T,
        server: usize,
        group: &Group,
        processes: &impl Processes,
        now: Instant,
    ) -> Vec<EndedConstruct<T>> {
        let shared = group.directives.iter();
        let shared = shared.filter(|info| info.key.is(keys::GROUP_INFO));
        let bytes = shared.map(|info| info.measure(Measure::All));
        if let Err(error) = memory::check(bytes.sum()) {
            return vec![failed(vec![token], error.status())];
        }
        let call = ConstructCall::new(token, group, now);
        if let Some(proc) = &call.proc
            && self.index.has_called(&group.id, proc)
        {
            // Two open calls of one process with one name could not be distinguished.
            return vec![failed(vec![call.token], Status::ERR_BAD_PARAM)];
        }
        if group.procs.is_empty() {
            let name = group.id.clone();
            let early = EarlyCall { name, call };
            let mut ended = self.take_participant(early, processes);
            ended.extend(self.end_early(processes));
            return ended;
        }
        let count = value(&group.directives, keys::GROUP_BOOTSTRAP);
        let leaders = match count.map(|count| count.to_number::<u64>()) {
            None => Leaders::Listed(in_one_form(&group.procs, processes)),
            Some(Ok(count)) => Leaders::Counted(count),
            Some(Err(_)) => return vec![failed(vec![call.token], Status::ERR_BAD_PARAM)],
        };
        let is_of = |construct: &GroupConstruct<T>| {
            construct.name == group.id && construct.takes(server, &leaders, &call)
        };
        // A server may call after the construct has failed for the others; it gets their status.
        if let Some(id) = self.first_failed(is_of) {
            return self.answer_late_leader(id, server, call, group, processes);
        }
        let id = match self.open_for(&leaders, &group.id, is_of) {
            Some(id) => id,
            None => {
                let id = self.index.add(&group.id);
                let name = group.id.clone();
                let construct =
                    GroupConstruct::new(name, leaders.clone(), &call, server, processes);
                self.open.insert(id, construct);
                id
            }
        };
        self.add_leader_call(id, call, server, group, &leaders, processes);
        let mut ended = self.end_if_complete(id);
        // The caller may be the last process that could be one of the counted leaders.
        ended.extend(self.end_deserted(&[id], processes));
        ended
    }

    /// Returns the open construct that a call of leaders belongs to.
    fn open_for(
        &self,
        leaders: &Leaders,
        name: &Text<'static>,
        is_of: impl Fn(&GroupConstruct<T>) -> bool,
    ) -> Option<Id> {
        // Many constructs may have the name; few concern the first of the listed leaders.
        let candidates = match leaders {
            Leaders::Listed(procs) => { procs.first() }.map(|first| self.index.of_proc(first)),
            Leaders::Counted(_) => Some(self.index.of_name(name)),
        };
        let mut candidates = candidates.unwrap_or_default().into_iter();
        candidates.find(|id| self.open.get(id).is_some_and(&is_of))
    }

    /// Adds the call of a leader to an open construct, and the early calls of the processes that it adds.
    fn add_leader_call(
        &mut self,
        id: Id,
        call: ConstructCall<T>,
        server: usize,
        group: &Group,
        leaders: &Leaders,
        processes: &impl Processes,
    ) {
        let Some(construct) = self.open.get_mut(&id) else {
            return;
        };
        // The index has the old limit, and the call may bring a shorter one.
        let before = construct.until;
        if let Some(proc) = &call.proc {
            self.index.add_call(&group.id, proc);
        }
        let num_added = construct.num_added();
        let room = self.limits.for_one(num_added, self.num_added);
        construct.add_leader_call(call, server, group, leaders, room, processes);
        self.num_added += construct.num_added() - num_added;
        let concerned = construct.take_new_concerned();
        take_early(construct, &concerned, &mut self.early, &mut self.index);
        take_refused(construct, &mut self.early, &mut self.index);
        for proc in &concerned {
            self.index.concern(id, proc);
            if construct.has_called(proc) {
                self.index.add_call(&group.id, proc);
            }
        }
        self.index.limit(id, before, construct.until);
    }

    /// Returns the oldest failed construct that a call belongs to. There are at most [`MAX_FAILED`].
    fn first_failed(&self, is_of: impl Fn(&GroupConstruct<T>) -> bool) -> Option<Id> {
        let mut failed = self.failed.iter();
        let found = failed.find(|(_, construct)| is_of(construct));
        found.map(|(id, _)| *id)
    }

    /// Fails the early calls if the caller is the only process left, so that no leader can add it.
    fn end_early(&mut self, processes: &impl Processes) -> Vec<EndedConstruct<T>> {
        let mut ended = Vec::new();
        if self.early.is_empty() || processes.num_running().is_none_or(|left| left > 1) {
            return ended;
        }
        while let Some((id, early)) = self.early.pop_first() {
            early.forget(id, &mut self.index);
            ended.push(failed(vec![early.call.token], Status::ERR_LOST_CONNECTION));
        }
        ended
    }

    /// Fails those of these constructs that wait for unknown leaders if no process is left that could be one.
    fn end_deserted(&mut self, ids: &[Id], processes: &impl Processes) -> Vec<EndedConstruct<T>> {
        let waiting = ids.iter().filter(|id| {
            let construct = self.open.get(*id);
            construct.is_some_and(GroupConstruct::waits_for_unknown)
        });
        let waiting: Vec<_> = waiting.copied().collect();
        let Some(num_running) = processes.num_running().filter(|_| !waiting.is_empty()) else {
            return Vec::new();
        };
        let mut ended = Vec::new();
        for id in waiting {
            let construct = self.open.get(&id);
            if construct.is_some_and(|open| open.is_deserted(num_running, processes)) {
                ended.extend(self.fail(id, Status::ERR_LOST_CONNECTION));
            }
        }
        ended
    }

    /// Handles the call of a process that leaders add or have added.
    fn take_participant(
        &mut self,
        early: EarlyCall<T>,
        processes: &impl Processes,
    ) -> Vec<EndedConstruct<T>> {
        let is_of = |construct: &GroupConstruct<T>| {
            construct.name == early.name && construct.awaits_participant(&early.call)
        };
        if let Some(id) = self.first_failed(is_of) {
            return self.answer_failed(id, |construct| construct.add_participant(early.call));
        }
        let known = early.call.proc.as_ref();
        let known = known.map_or_else(BTreeSet::new, |proc| self.index.of_proc(proc));
        let mut known = known.into_iter();
        let mut ended = Vec::new();
        let Some(id) = known.find(|id| self.open.get(id).is_some_and(is_of)) else {
            // Leaders of another user would otherwise wait for a process that must not join them.
            ended.extend(self.refuse_to_add(&early));
            let id = self.index.number();
            self.index.limit(id, None, early.call.until);
            if let Some(proc) = &early.call.proc {
                self.index.concern(id, proc);
                self.index.wait(id, &early.name, proc);
            }
            self.early.insert(id, early);
            return ended;
        };
        if let Some(proc) = &early.call.proc {
            self.index.add_call(&early.name, proc);
        }
        if let Some(construct) = self.open.get_mut(&id) {
            let before = construct.until;
            construct.add_participant(early.call);
            self.index.limit(id, before, construct.until);
        }
        ended.extend(self.end_if_complete(id));
        ended.extend(self.end_deserted(&[id], processes));
        ended
    }

    /// Fails the constructs that add a process of another user, which now calls.
    fn refuse_to_add(&mut self, early: &EarlyCall<T>) -> Vec<EndedConstruct<T>> {
        let mut ended = Vec::new();
        let proc = early.call.proc.as_ref();
        for id in proc.map_or_else(BTreeSet::new, |proc| self.index.of_proc(proc)) {
            if let Some(construct) = self.open.get_mut(&id)
                && construct.name == early.name
                && construct.refuse_other_user(&early.call)
            {
                ended.extend(self.end_if_complete(id));
            }
        }
        ended
    }

    /// Records that a process has ended. [`Processes::num_running`] no longer counts it. Returns the constructs that
    /// ended by it: those that still awaited its call, unless they may be formed without it, and those that wait for
    /// unknown callers if no process is left.
    pub fn proc_ended(
        &mut self,
        proc: &Proc<'_>,
        processes: &impl Processes,
    ) -> Vec<EndedConstruct<T>> {
        let mut ended = Vec::new();
        for id in self.index.of_proc(proc) {
            if let Some(early) = self.early.remove(&id) {
                early.forget(id, &mut self.index);
                ended.push(failed(vec![early.call.token], Status::ERR_LOST_CONNECTION));
            }
            let Some(construct) = self.open.get_mut(&id) else {
                continue;
            };
            let was_awaited = construct.handle_proc_ended(proc, processes);
            let owned = proc.clone().into_owned();
            // The process may be started again and call with the same name.
            if !construct.has_called(&owned) {
                self.index.remove_calls(&construct.name, [&owned]);
            }
            if was_awaited {
                ended.extend(
                    match construct.may_lack_members && !construct.is_abandoned() {
                        true => self.end_if_complete(id),
                        false => self.fail(id, Status::ERR_LOST_CONNECTION),
                    },
                );
            }
        }
        // There are at most `MAX_FAILED`.
        for construct in self.failed.values_mut() {
            construct.handle_proc_ended(proc, processes);
        }
        ended.extend(self.end_early(processes));
        let open: Vec<_> = self.open.keys().copied().collect();
        ended.extend(self.end_deserted(&open, processes));
        self.forget_complete();
        ended
    }

    /// Records that a server has ended, and its processes with it. The server has the number that
    /// [`Processes::server_of`] gives it. Returns the constructs that ended by it: those that still awaited its call.
    /// The calls that it has made are still answered.
    pub fn server_ended(
        &mut self,
        server: usize,
        processes: &impl Processes,
    ) -> Vec<EndedConstruct<T>> {
        let open = self.open.iter();
        let waiting = open.filter(|(_, construct)| construct.awaits(server));
        let waiting: Vec<_> = waiting.map(|(id, _)| *id).collect();
        let ended = waiting.into_iter();
        let mut ended: Vec<_> = ended
            .flat_map(|id| self.fail(id, Status::ERR_LOST_CONNECTION))
            .collect();
        for construct in self.failed.values_mut() {
            construct.handle_server_ended(server);
        }
        self.forget_complete();
        ended.extend(self.end_early(processes));
        ended
    }

    /// Drops failed constructs that have reported the failure to every awaited caller.
    fn forget_complete(&mut self) {
        let index = &mut self.index;
        let num_added = &mut self.num_added;
        self.failed.retain(|id, construct| {
            let is_over = construct.is_complete();
            if is_over {
                *num_added -= construct.num_added();
                index.remove(*id, &construct.name);
            }
            !is_over
        });
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.index.next_limit()
    }

    /// Fails the constructs and calls whose time has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<EndedConstruct<T>> {
        let mut ended = Vec::new();
        while let Some(id) = self.index.due(now) {
            if let Some(early) = self.early.remove(&id) {
                early.forget(id, &mut self.index);
                ended.push(failed(vec![early.call.token], Status::ERR_TIMEOUT));
                continue;
            }
            ended.extend(self.fail(id, Status::ERR_TIMEOUT));
        }
        ended
    }

    fn end_if_complete(&mut self, id: Id) -> Vec<EndedConstruct<T>> {
        let Some(construct) = self.open.get(&id) else {
            return Vec::new();
        };
        match construct.failed {
            Some(status) => self.fail(id, status),
            None if construct.is_complete() => {
                let construct = self.close(id);
                construct.into_iter().map(GroupConstruct::succeed).collect()
            }
            None if construct.is_abandoned() => self.fail(id, Status::ERR_LOST_CONNECTION),
            None => Vec::new(),
        }
    }

    /// Removes a construct that ends.
    fn close(&mut self, id: Id) -> Option<GroupConstruct<T>> {
        let construct = self.open.remove(&id)?;
        self.num_added -= construct.num_added();
        self.index
            .settle(id, construct.concerned_by(), construct.until);
        self.index.remove_calls(&construct.name, construct.called());
        self.index.remove(id, &construct.name);
        Some(construct)
    }

    /// Ends a construct without success. Callers that come later get the same status.
    fn fail(&mut self, id: Id, status: Status) -> Vec<EndedConstruct<T>> {
        let Some(mut construct) = self.close(id) else {
            return Vec::new();
        };
        construct.failed = Some(status);
        let tokens = construct.take_tokens();
        // Later callers must find the failed construct, or they would begin another one and wait.
        if !construct.is_complete() {
            let failed = self.failed.values();
            let mut bytes: usize = failed.map(GroupConstruct::refused_bytes).sum();
            bytes = bytes.saturating_add(construct.refused_bytes());
            while (self.failed.len() >= MAX_FAILED || bytes > MAX_REFUSED_BYTES)
                && let Some((id, oldest)) = self.failed.pop_first()
            {
                bytes -= oldest.refused_bytes();
                self.num_added -= oldest.num_added();
                self.index.remove(id, &oldest.name);
            }
            // The new id makes this construct the last one to be dropped.
            let id = self.index.add(&construct.name);
            self.num_added += construct.num_added();
            self.failed.insert(id, construct);
        }
        vec![failed(tokens, status)]
    }

    /// Answers a server that calls after the construct has failed, and the early calls of the processes that it adds.
    fn answer_late_leader(
        &mut self,
        id: Id,
        server: usize,
        call: ConstructCall<T>,
        group: &Group,
        processes: &impl Processes,
    ) -> Vec<EndedConstruct<T>> {
        if let Some(construct) = self.failed.get_mut(&id) {
            let num_added = construct.num_added();
            let room = self.limits.for_one(num_added, self.num_added);
            construct.add_late_leader_call(server, call, group, room, processes);
            self.num_added += construct.num_added() - num_added;
            let added = construct.take_new_concerned();
            take_early(construct, &added, &mut self.early, &mut self.index);
            take_refused(construct, &mut self.early, &mut self.index);
        }
        self.answer_failed(id, |_| {})
    }

    /// Adds to a failed construct and answers its open calls.
    fn answer_failed(
        &mut self,
        id: Id,
        add: impl FnOnce(&mut GroupConstruct<T>),
    ) -> Vec<EndedConstruct<T>> {
        let Some(construct) = self.failed.get_mut(&id) else {
            return Vec::new();
        };
        let status = construct.failed.unwrap_or(Status::ERROR);
        add(construct);
        let tokens = construct.take_tokens();
        if construct.is_complete() {
            self.num_added -= construct.num_added();
            self.index.remove(id, &construct.name);
            self.failed.remove(&id);
        }
        vec![failed(tokens, status)]
    }
}

fn failed<T>(tokens: Vec<T>, status: Status) -> EndedConstruct<T> {
    EndedConstruct {
        tokens,
        outcome: Err(status),
        wants_context_id: false,
    }
}

/// Returns processes in a canonical form: sorted, with a whole job as its wildcard. A server lists the single processes
/// of a job that it does not know.
pub(crate) fn in_one_form(procs: &[Proc<'_>], processes: &impl Processes) -> Vec<Proc<'static>> {
    let mut jobs = BTreeMap::<_, BTreeSet<Rank>>::new();
    for proc in procs {
        jobs.entry(&proc.nspace).or_default().insert(proc.rank);
    }
    let mut form = Vec::with_capacity(procs.len());
    for (nspace, ranks) in jobs {
        let shared = nspace.to_shared();
        let size = processes.job_size(nspace);
        let is_whole = size.is_some_and(|size| u32::try_from(ranks.len()) == Ok(size));
        match is_whole || ranks.contains(&Rank::WILDCARD) {
            true => form.push(Proc::new(shared, Rank::WILDCARD)),
            false => form.extend(ranks.iter().map(|rank| Proc::new(shared.clone(), *rank))),
        }
    }
    form
}

#[cfg(test)]
mod tests;
