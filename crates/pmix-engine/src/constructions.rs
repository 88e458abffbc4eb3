// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructions of groups whose members do not all know each other, for hosts that have nothing of their own
//! that gathers them.
//!
//! | who calls | names | the host is told |
//! | --- | --- | --- |
//! | leaders that know each other | all of them; `PMIX_GROUP_ADD_MEMBERS` may name others | once for each node, the leaders as processes |
//! | leaders that know how many they are | itself, and `PMIX_GROUP_BOOTSTRAP`; others as above | once for each leader, which is the one process |
//! | one that others add | nobody | once for each, no process; `PMIX_PROCID` is who it is |
//!
//! A construction ends when all leaders and all whom they add have called, or one of them that is waited for has
//! ended: one that is added, or one that others list while its server has not called. All are answered alike: with
//! the members, leaders first, in the order of `PMIX_GROUP_FINAL_MEMBERSHIP_ORDER` if one gave it.
//!
//! Where one of the members leads (`PMIX_GROUP_LEADER`), the server of one that is lost asks it first, so that its
//! end ends nothing: the server calls when that is decided, also where nobody is left there.
//!
//! Leaders that say how many they are take part in one construct if they have the same user, name and number; they may
//! be of several jobs. Calls of other users with that name form constructs of their own. One that adds a process of
//! another user fails with `PMIX_ERR_NO_PERMISSIONS` when that process calls, as does one whose leaders list each other
//! and are of several users (`PMIX_USERID`, which servers say).
//!
//! A second call of a process for itself with one name is refused with `PMIX_ERR_BAD_PARAM` until the first is answered,
//! or the process has ended: who has called and ends is a member, and one that is started again may call in its place.
//!
//! Nobody knows who adds one, nor, where leaders say how many they are, who the others are: such calls end when no
//! process is left that could call, where the host knows ([`Processes::num_running`]).
//!
//! A host of several nodes also says which of its servers have ended ([`Constructions::server_ended`]).
//!
//! There is no clock inside: time is an argument, and a construction ends when the shortest time
//! (`PMIX_TIMEOUT`) of those who called is over ([`Constructions::handle_timeout`]).
//!
//! Source: OpenPMIx 6, "Group Construction"; PMIx Standard, chapter "Process Sets and Groups".

mod index;
mod one;
mod part;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pmix_types::{Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, keys};

use self::index::{Id, Index};
use self::one::One;
use self::part::{Leaders, Part, procs_of};
use crate::host::Group;
use crate::infos::{timeout, value};

/// How many constructions that failed are kept for those who have not called yet.
const MAX_FAILED: usize = 256;

/// Tells what a host knows of processes.
pub trait Processes {
    /// Returns how many processes a job has, if there is such a job.
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32>;

    /// Returns whether a process has ended, so that it will not call.
    fn has_ended(&self, proc: &Proc<'_>) -> bool;

    /// Returns which server a process is or was at, by a number of the host's.
    fn server_of(&self, proc: &Proc<'_>) -> Option<usize>;

    /// Returns how many processes have not ended, of all jobs, if that is known. With it calls end that wait for
    /// others of which none is left; otherwise these wait until their time is over.
    fn num_running(&self) -> Option<usize> {
        None
    }
}

/// Reports that a construction has ended.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct EndedConstruction<T> {
    /// What [`Constructions::take`] was given with each call that is answered.
    pub tokens: Vec<T>,
    /// What to answer: the members (`pmix.grp.mbrs`) and what they share (`pmix.grp.info`), or how it failed.
    pub outcome: Result<Vec<Info<'static>>, Status>,
    /// Whether a context id (`pmix.grp.ctxid`) is to be added to what is answered.
    pub wants_context_id: bool,
}

/// Gathers constructions until all have called whom they need. `T` says which call is to be answered.
#[derive(Debug)]
pub struct Constructions<T> {
    open: BTreeMap<Id, One<T>>,
    /// Calls of processes that others have not added yet.
    early: BTreeMap<Id, Early<T>>,
    failed: BTreeMap<Id, One<T>>,
    index: Index,
}

/// One that waits for others to add it.
#[derive(Debug)]
struct Early<T> {
    name: Text<'static>,
    until: Option<Instant>,
    part: Part<T>,
}

impl<T> Default for Constructions<T> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            early: BTreeMap::new(),
            failed: BTreeMap::new(),
            index: Index::default(),
        }
    }
}

impl<T> Constructions<T> {
    /// Returns whether a call has to be gathered even where all of it comes from one server: others may have a part in
    /// it of whom that server does not know, or it says an order.
    ///
    /// This is for a host of one node, which answers all other constructions itself. A host of several nodes hands every
    /// construction to [`take`](Self::take): only together do the calls of its servers say who the members are.
    pub fn concerns(call: &Group) -> bool {
        let is = |key: &str| call.directives.iter().any(|info| info.key.is(key));
        call.operation == pmix_types::GroupOperation::CONSTRUCT
            && (call.procs.is_empty()
                || is(keys::GROUP_BOOTSTRAP)
                || is(keys::GROUP_ADD_MEMBERS)
                || is(keys::GROUP_FINAL_MEMBERSHIP_ORDER))
    }

    /// Takes a call of a server for the construction of a group, whether or not [`concerns`](Self::concerns) is true of
    /// it. The server is named as [`Processes::server_of`] does. Returns what has ended by it.
    pub fn take(
        &mut self,
        token: T,
        server: usize,
        call: &Group,
        processes: &impl Processes,
        now: Instant,
    ) -> Vec<EndedConstruction<T>> {
        let until = timeout(&call.directives).and_then(|time| now.checked_add(time));
        let part = Part::new(token, call);
        if let Some(proc) = &part.proc
            && self.index.has_called(&call.id, proc)
        {
            return vec![failed(vec![part.token], Status::ERR_BAD_PARAM)];
        }
        if call.procs.is_empty() {
            let early = Early {
                name: call.id.clone(),
                until,
                part,
            };
            let mut ended = self.added(early, processes);
            ended.extend(self.end_early(processes));
            return ended;
        }
        let count = value(&call.directives, keys::GROUP_BOOTSTRAP);
        let leaders = match count.map(|count| count.to_number::<u64>()) {
            None => Leaders::Listed(in_one_form(&call.procs, processes)),
            Some(Ok(count)) => Leaders::Counted(count),
            Some(Err(_)) => return vec![failed(vec![part.token], Status::ERR_BAD_PARAM)],
        };
        let is_it = |one: &One<T>| one.name == call.id && one.takes(server, &leaders, &part);
        if let Some(id) = self.first_failed(is_it) {
            return self.tell_late(id, server, part, call, processes);
        }
        // Many may have the name, and few the first of the leaders.
        let known = match &leaders {
            Leaders::Listed(procs) => {
                { procs.first() }.map_or_else(BTreeSet::new, |first| self.index.of_proc(first))
            }
            Leaders::Counted(_) => self.index.of_name(&call.id),
        };
        let mut known = known.into_iter();
        let id = match known.find(|id| self.open.get(id).is_some_and(is_it)) {
            Some(id) => id,
            None => {
                let id = self.index.add(&call.id);
                let one = One::new(call.id.clone(), leaders.clone(), &part, server, processes);
                self.open.insert(id, one);
                id
            }
        };
        let Some(one) = self.open.get_mut(&id) else {
            return Vec::new();
        };
        let before = one.until;
        one.limit(until);
        if let Some(proc) = &part.proc {
            self.index.add_call(&call.id, proc);
        }
        one.lead(part, server, call, &leaders, processes);
        let concerned = one.say_concerned();
        take_early(one, &concerned, &mut self.early, &mut self.index);
        for proc in &concerned {
            self.index.concern(id, proc);
            if one.has_called(proc) {
                self.index.add_call(&call.id, proc);
            }
        }
        self.index.limit(id, before, one.until);
        let mut ended = self.end_if_complete(id);
        ended.extend(self.end_deserted(&[id], processes));
        ended
    }

    /// Returns the first of those that failed for which something is so: there are few of them.
    fn first_failed(&self, is_so: impl Fn(&One<T>) -> bool) -> Option<Id> {
        let mut failed = self.failed.iter();
        let found = failed.find(|(_, one)| is_so(one));
        found.map(|(id, _)| *id)
    }

    /// Ends the calls of the only process that is left: nobody adds it.
    fn end_early(&mut self, processes: &impl Processes) -> Vec<EndedConstruction<T>> {
        let mut ended = Vec::new();
        if self.early.is_empty() || processes.num_running().is_none_or(|left| left > 1) {
            return ended;
        }
        while let Some((id, early)) = self.early.pop_first() {
            early.forget(id, &mut self.index);
            ended.push(failed(vec![early.part.token], Status::ERR_LOST_CONNECTION));
        }
        ended
    }

    /// Ends those of some that wait for leaders where no process is left that could be one of them.
    fn end_deserted(
        &mut self,
        ids: &[Id],
        processes: &impl Processes,
    ) -> Vec<EndedConstruction<T>> {
        let waiting = ids.iter().filter(|id| {
            let one = self.open.get(*id);
            one.is_some_and(One::waits_for_unknown)
        });
        let waiting: Vec<_> = waiting.copied().collect();
        let Some(num_running) = processes.num_running().filter(|_| !waiting.is_empty()) else {
            return Vec::new();
        };
        let mut ended = Vec::new();
        for id in waiting {
            let one = self.open.get(&id);
            if one.is_some_and(|one| one.is_deserted(num_running, processes)) {
                ended.extend(self.fail(id, Status::ERR_LOST_CONNECTION));
            }
        }
        ended
    }

    /// One calls that others add, or have added.
    fn added(&mut self, early: Early<T>, processes: &impl Processes) -> Vec<EndedConstruction<T>> {
        let is_it = |one: &One<T>| one.name == early.name && one.wants(&early.part);
        if let Some(id) = self.first_failed(is_it) {
            return self.tell_late_added(id, early.part);
        }
        let known = early.part.proc.as_ref();
        let known = known.map_or_else(BTreeSet::new, |proc| self.index.of_proc(proc));
        let mut known = known.into_iter();
        let mut ended = Vec::new();
        let Some(id) = known.find(|id| self.open.get(id).is_some_and(is_it)) else {
            ended.extend(self.refuse_to_add(&early));
            let id = self.index.number();
            self.index.limit(id, None, early.until);
            if let Some(proc) = &early.part.proc {
                self.index.concern(id, proc);
                self.index.wait(id, &early.name, proc);
            }
            self.early.insert(id, early);
            return ended;
        };
        if let Some(proc) = &early.part.proc {
            self.index.add_call(&early.name, proc);
        }
        if let Some(one) = self.open.get_mut(&id) {
            let before = one.until;
            one.limit(early.until);
            self.index.limit(id, before, one.until);
            one.add(early.part);
        }
        ended.extend(self.end_if_complete(id));
        ended.extend(self.end_deserted(&[id], processes));
        ended
    }

    /// Ends those that add a process of another user, which calls.
    fn refuse_to_add(&mut self, early: &Early<T>) -> Vec<EndedConstruction<T>> {
        let mut ended = Vec::new();
        let proc = early.part.proc.as_ref();
        for id in proc.map_or_else(BTreeSet::new, |proc| self.index.of_proc(proc)) {
            if let Some(one) = self.open.get_mut(&id)
                && one.name == early.name
                && one.refuse_other_user(&early.part)
            {
                ended.extend(self.end_if_complete(id));
            }
        }
        ended
    }

    /// Takes note that a process has ended, which counts as running no longer. Returns what has ended by it: a
    /// construction that it did not call for, if it leads it or is added to it, unless that may do without it, and
    /// what waits for others if none is left.
    pub fn proc_ended(
        &mut self,
        proc: &Proc<'_>,
        processes: &impl Processes,
    ) -> Vec<EndedConstruction<T>> {
        let mut ended = Vec::new();
        for id in self.index.of_proc(proc) {
            if let Some(early) = self.early.remove(&id) {
                early.forget(id, &mut self.index);
                ended.push(failed(vec![early.part.token], Status::ERR_LOST_CONNECTION));
            }
            let Some(one) = self.open.get_mut(&id) else {
                continue;
            };
            let is_over = one.lose(proc, processes);
            let of_one = proc.clone().into_owned();
            if !one.has_called(&of_one) {
                self.index.remove_calls(&one.name, [&of_one]);
            }
            if is_over {
                ended.extend(match one.may_lack_members && !one.is_abandoned() {
                    true => self.end_if_complete(id),
                    false => self.fail(id, Status::ERR_LOST_CONNECTION),
                });
            }
        }
        // There are few of them.
        for one in self.failed.values_mut() {
            one.lose(proc, processes);
        }
        ended.extend(self.end_early(processes));
        let open: Vec<_> = self.open.keys().copied().collect();
        ended.extend(self.end_deserted(&open, processes));
        self.forget_complete();
        ended
    }

    /// Takes note that a server has ended, which is named as [`Processes::server_of`] does, and its processes with it.
    /// Returns what has ended by it: the constructions for which it has not called. What it called for is still
    /// answered.
    pub fn server_ended(
        &mut self,
        server: usize,
        processes: &impl Processes,
    ) -> Vec<EndedConstruction<T>> {
        let waiting = self.open.iter().filter(|(_, one)| one.awaits(server));
        let waiting: Vec<_> = waiting.map(|(id, _)| *id).collect();
        let ended = waiting.into_iter();
        let mut ended: Vec<_> = ended
            .flat_map(|id| self.fail(id, Status::ERR_LOST_CONNECTION))
            .collect();
        for one in self.failed.values_mut() {
            one.lose_server(server);
        }
        self.forget_complete();
        ended.extend(self.end_early(processes));
        ended
    }

    /// Forgets those that failed, and of which all who were waited for know.
    fn forget_complete(&mut self) {
        let index = &mut self.index;
        self.failed.retain(|id, one| {
            let is_over = one.is_complete();
            if is_over {
                index.remove(*id, &one.name);
            }
            !is_over
        });
    }

    /// Returns when the next of them has waited long enough.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.index.next_limit()
    }

    /// Ends those that have waited long enough.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<EndedConstruction<T>> {
        let mut ended = Vec::new();
        while let Some(id) = self.index.due(now) {
            if let Some(early) = self.early.remove(&id) {
                early.forget(id, &mut self.index);
                ended.push(failed(vec![early.part.token], Status::ERR_TIMEOUT));
                continue;
            }
            ended.extend(self.fail(id, Status::ERR_TIMEOUT));
        }
        ended
    }

    fn end_if_complete(&mut self, id: Id) -> Vec<EndedConstruction<T>> {
        let Some(one) = self.open.get(&id) else {
            return Vec::new();
        };
        match one.failed {
            Some(status) => self.fail(id, status),
            None if one.is_complete() => {
                let one = self.close(id);
                one.into_iter().map(One::succeed).collect()
            }
            None if one.is_abandoned() => self.fail(id, Status::ERR_LOST_CONNECTION),
            None => Vec::new(),
        }
    }

    /// Takes one that ends out.
    fn close(&mut self, id: Id) -> Option<One<T>> {
        let one = self.open.remove(&id)?;
        self.index.settle(id, one.concerned_by(), one.until);
        self.index.remove_calls(&one.name, one.called());
        self.index.remove(id, &one.name);
        Some(one)
    }

    /// Ends a construction without success. Who has not called yet is told the same later.
    fn fail(&mut self, id: Id, status: Status) -> Vec<EndedConstruction<T>> {
        let Some(mut one) = self.close(id) else {
            return Vec::new();
        };
        one.failed = Some(status);
        let tokens = one.take_tokens();
        if !one.is_complete() {
            if self.failed.len() >= MAX_FAILED
                && let Some((id, oldest)) = self.failed.pop_first()
            {
                self.index.remove(id, &oldest.name);
            }
            // A number of its own: the last that failed is the last to be forgotten.
            let id = self.index.add(&one.name);
            self.failed.insert(id, one);
        }
        vec![failed(tokens, status)]
    }

    /// Tells a server that calls late how it ended for the others, and those whom its leaders add.
    fn tell_late(
        &mut self,
        id: Id,
        server: usize,
        part: Part<T>,
        call: &Group,
        processes: &impl Processes,
    ) -> Vec<EndedConstruction<T>> {
        if let Some(one) = self.failed.get_mut(&id) {
            one.led_late(server, part, call, processes);
            let added = one.say_concerned();
            take_early(one, &added, &mut self.early, &mut self.index);
        }
        self.tell(id, |_| {})
    }

    /// Tells one that was added and calls late how it ended for the others.
    fn tell_late_added(&mut self, id: Id, part: Part<T>) -> Vec<EndedConstruction<T>> {
        self.tell(id, |one| one.add(part))
    }

    fn tell(&mut self, id: Id, take: impl FnOnce(&mut One<T>)) -> Vec<EndedConstruction<T>> {
        let Some(one) = self.failed.get_mut(&id) else {
            return Vec::new();
        };
        let status = one.failed.unwrap_or(Status::ERROR);
        take(one);
        let tokens = one.take_tokens();
        if one.is_complete() {
            self.index.remove(id, &one.name);
            self.failed.remove(&id);
        }
        vec![failed(tokens, status)]
    }
}

impl<T> Early<T> {
    fn forget(&self, id: Id, index: &mut Index) {
        index.settle(id, &self.part.proc, self.until);
        if let Some(proc) = &self.part.proc {
            index.end_wait(id, &self.name, proc);
        }
    }
}

/// Takes those who called before they were added into a construction, if they are among these.
fn take_early<T>(
    one: &mut One<T>,
    procs: &[Proc<'static>],
    waiting: &mut BTreeMap<Id, Early<T>>,
    index: &mut Index,
) {
    for proc in procs {
        for other in index.waiting(&one.name, proc) {
            if let Some(early) = waiting.get(&other)
                && !one.refuse_other_user(&early.part)
                && one.wants(&early.part)
                && let Some(early) = waiting.remove(&other)
            {
                early.forget(other, index);
                one.limit(early.until);
                one.add(early.part);
            }
        }
    }
}

fn failed<T>(tokens: Vec<T>, status: Status) -> EndedConstruction<T> {
    EndedConstruction {
        tokens,
        outcome: Err(status),
        wants_context_id: false,
    }
}

/// Returns processes in one form, whichever server names them: in ascending order, and a whole job by its wildcard. A
/// server names the processes of a job that it does not know one by one.
fn in_one_form(procs: &[Proc<'_>], processes: &impl Processes) -> Vec<Proc<'static>> {
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

/// Returns members in the order that `PMIX_GROUP_FINAL_MEMBERSHIP_ORDER` gives: those that it names, a whole
/// job by the ranks, and then the others as they are. The members are named one by one.
pub(crate) fn ordered(members: Vec<Proc<'static>>, order: &[Proc<'static>]) -> Vec<Proc<'static>> {
    one::ordered(members, order)
}

/// Returns the order that members want their group to have in the end, if infos give one.
pub(crate) fn final_order<'i>(infos: &'i [Info<'_>]) -> Option<&'i [Proc<'i>]> {
    procs_of(infos, keys::GROUP_FINAL_MEMBERSHIP_ORDER)
}

#[cfg(test)]
mod tests;
