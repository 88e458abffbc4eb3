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
//! A construction ends when all leaders and all whom they add have called. All of them are answered alike: with
//! the members, leaders first, in the order of `PMIX_GROUP_FINAL_MEMBERSHIP_ORDER` if one gave it.
//!
//! There is no clock inside: time is an argument, and a construction ends when the shortest time
//! (`PMIX_TIMEOUT`) of those who called is over ([`Constructions::handle_timeout`]).
//!
//! Source: OpenPMIx 6, "Group Construction"; PMIx Standard, chapter "Process Sets and Groups".

mod one;

use std::collections::VecDeque;
use std::time::Instant;

use pmix_types::{Info, Nspace, Proc, Status, Text, keys};

use self::one::{Leaders, One, Part, procs_of};
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
    open: Vec<One<T>>,
    /// Calls of processes that others have not added yet.
    early: Vec<Early<T>>,
    failed: VecDeque<One<T>>,
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
            open: Vec::new(),
            early: Vec::new(),
            failed: VecDeque::new(),
        }
    }
}

impl<T> Constructions<T> {
    /// Returns whether a call is a part of such a construction.
    pub fn concerns(call: &Group) -> bool {
        let is = |key: &str| call.directives.iter().any(|info| info.key.is(key));
        call.operation == pmix_types::GroupOperation::CONSTRUCT
            && (call.procs.is_empty()
                || is(keys::GROUP_BOOTSTRAP)
                || is(keys::GROUP_ADD_MEMBERS)
                || is(keys::GROUP_FINAL_MEMBERSHIP_ORDER))
    }

    /// Takes a call. `num_servers` is how many servers have any of its processes, which all call; it is not
    /// looked at where each leader calls for itself. Returns what has ended by it.
    pub fn take(
        &mut self,
        token: T,
        call: &Group,
        num_servers: usize,
        processes: &impl Processes,
        now: Instant,
    ) -> Vec<EndedConstruction<T>> {
        let until = timeout(&call.directives).and_then(|time| now.checked_add(time));
        let part = Part::new(token, call);
        if call.procs.is_empty() {
            let early = Early {
                name: call.id.clone(),
                until,
                part,
            };
            return self.added(early);
        }
        let count = value(&call.directives, keys::GROUP_BOOTSTRAP);
        let leaders = match count.map(|count| count.to_number::<u64>()) {
            None => Leaders::Listed(call.procs.clone(), num_servers),
            Some(Ok(count)) => Leaders::Counted(count),
            Some(Err(_)) => return vec![failed(vec![part.token], Status::ERR_BAD_PARAM)],
        };
        let mut of_failed = self.failed.iter();
        let is_it = |one: &One<T>| one.takes(&call.id, &leaders, &part);
        if let Some(place) = of_failed.position(is_it) {
            return self.tell_late(place, part);
        }
        let place = match self.open.iter().position(is_it) {
            Some(place) => place,
            None => {
                self.open.push(One::new(call.id.clone(), leaders.clone()));
                self.open.len() - 1
            }
        };
        let Some(one) = self.open.get_mut(place) else {
            return Vec::new();
        };
        one.limit(until);
        one.lead(part, call, &leaders, processes);
        // Those who called before they were added.
        for early in std::mem::take(&mut self.early) {
            match early.name == one.name && one.wants(&early.part) {
                true => {
                    one.limit(early.until);
                    one.add(early.part);
                }
                false => self.early.push(early),
            }
        }
        self.end_if_complete(place)
    }

    /// One calls that others add, or have added.
    fn added(&mut self, early: Early<T>) -> Vec<EndedConstruction<T>> {
        let is_it = |one: &One<T>| one.name == early.name && one.wants(&early.part);
        if let Some(place) = self.failed.iter().position(is_it) {
            return self.tell_late(place, early.part);
        }
        let Some(place) = self.open.iter().position(is_it) else {
            self.early.push(early);
            return Vec::new();
        };
        if let Some(one) = self.open.get_mut(place) {
            one.limit(early.until);
            one.add(early.part);
        }
        self.end_if_complete(place)
    }

    /// Takes note that a process has ended. Returns what has ended by it.
    pub fn proc_ended(&mut self, proc: &Proc<'_>) -> Vec<EndedConstruction<T>> {
        let mut ended = Vec::new();
        let (gone, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.early)
            .into_iter()
            .partition(|early| early.part.proc.as_ref() == Some(proc));
        self.early = waiting;
        let gone = gone.into_iter().map(|early| early.part.token).collect();
        ended.extend(tell(gone, Status::ERR_LOST_CONNECTION));
        for one in &mut self.failed {
            one.does_without(proc);
        }
        self.failed.retain(|one| !one.is_complete());
        // Each that ends takes its place away.
        let mut place = 0;
        while let Some(one) = self.open.get_mut(place) {
            if !one.lacks(proc) {
                place += 1;
                continue;
            }
            one.does_without(proc);
            let ends = match one.is_optional {
                true => self.end_if_complete(place),
                false => self.fail(place, Status::ERR_LOST_CONNECTION),
            };
            match ends.is_empty() {
                true => place += 1,
                false => ended.extend(ends),
            }
        }
        ended
    }

    /// Returns when the next of them has waited long enough.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let open = self.open.iter().filter_map(|one| one.until);
        let early = self.early.iter().filter_map(|early| early.until);
        open.chain(early).min()
    }

    /// Ends those that have waited long enough.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<EndedConstruction<T>> {
        let is_over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let (late, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.early)
            .into_iter()
            .partition(|early| is_over(early.until));
        self.early = waiting;
        let late = late.into_iter().map(|early| early.part.token).collect();
        let mut ended: Vec<_> = tell(late, Status::ERR_TIMEOUT).into_iter().collect();
        while let Some(place) = self.open.iter().position(|one| is_over(one.until)) {
            ended.extend(self.fail(place, Status::ERR_TIMEOUT));
        }
        ended
    }

    fn end_if_complete(&mut self, place: usize) -> Vec<EndedConstruction<T>> {
        match self.open.get(place) {
            Some(one) if one.failed.is_some() => {
                let status = one.failed.unwrap_or(Status::ERROR);
                self.fail(place, status)
            }
            Some(one) if one.is_complete() => vec![self.open.remove(place).succeed()],
            _ => Vec::new(),
        }
    }

    /// Ends a construction without success. Who has not called yet is told the same later.
    fn fail(&mut self, place: usize, status: Status) -> Vec<EndedConstruction<T>> {
        let mut one = self.open.remove(place);
        one.failed = Some(status);
        let tokens = one.take_tokens();
        if !one.is_complete() {
            self.failed.truncate(MAX_FAILED - 1);
            self.failed.push_front(one);
        }
        vec![failed(tokens, status)]
    }

    /// Tells one that calls late how it ended for the others.
    fn tell_late(&mut self, place: usize, part: Part<T>) -> Vec<EndedConstruction<T>> {
        let Some(one) = self.failed.get_mut(place) else {
            return Vec::new();
        };
        let status = one.failed.unwrap_or(Status::ERROR);
        one.came_late(part);
        let tokens = one.take_tokens();
        if one.is_complete() {
            self.failed.remove(place);
        }
        vec![failed(tokens, status)]
    }
}

fn failed<T>(tokens: Vec<T>, status: Status) -> EndedConstruction<T> {
    EndedConstruction {
        tokens,
        outcome: Err(status),
        wants_context_id: false,
    }
}

fn tell<T>(tokens: Vec<T>, status: Status) -> Option<EndedConstruction<T>> {
    (!tokens.is_empty()).then(|| failed(tokens, status))
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
