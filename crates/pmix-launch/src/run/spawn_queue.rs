// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spawns whose jobs have not started.
//!
//! | state | activity | next |
//! | --- | --- | --- |
//! | asked | the request waits for its turn | it is read, and a helper thread prepares the job |
//! | preparing | the thread finds programs, checks directories and binds processes | ready |
//! | ready | the job waits for its turn | it is named and prepared once more, or refused |
//! | preparing | the thread creates the directory of the job and opens its output files | ready |
//! | ready | the job waits for its turn | it is registered, or refused |
//! | starting | threads start its processes | the spawn completes, or is refused |
//!
//! The first job has no request and begins in the last state. Each process or tool has at most one spawn beyond the
//! first state, so its jobs start in order. A file system that hangs delays only the jobs of one requester.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use pmix_host::helpers::{Task, TaskState};
use pmix_server::Completion;
use pmix_server::upcall::Spawn;
use pmix_types::{Nspace, Proc};

use super::request::Request;
use crate::job_info::Bound;
use crate::output::{RankFiles, Route};
use crate::preparation::{JobPlace, Prepared};
use crate::process::JobStart;
use crate::{Error, Plan};

/// The largest number of jobs that are prepared at a time, each by one thread.
pub(super) const MOST_PREPARING: usize = 16;

/// A spawn request that was not read yet.
pub(super) struct AskedSpawn {
    pub(super) call: Spawn,
    pub(super) spawn: PendingSpawn,
}

/// A spawn whose job has not started.
pub(super) struct PendingSpawn {
    /// The process or tool that requested it.
    pub(super) asker: Proc<'static>,
    /// The time of the request.
    pub(super) asked: Instant,
    /// The time after which the spawn is refused if its job has not started.
    pub(super) start_by: Option<Instant>,
    pub(super) done: Completion<Nspace<'static>>,
    /// The debugger daemons to start after the job.
    pub(super) daemons: Option<Spawn>,
    /// The job that was started, while its daemons are prepared.
    pub(super) started: Option<Nspace<'static>>,
    /// The job whose processes are being started.
    pub(super) starting: Option<Nspace<'static>>,
    /// The target, if the job consists of debugger daemons.
    pub(super) debug_target: Option<Proc<'static>>,
}

/// The result of one step of the preparation.
pub(super) enum Readied {
    /// The job with its programs and bindings.
    Prepared(Box<Request>, Result<Prepared, Error>),
    /// The job with its directory and its open output files.
    Placed(Box<NamedSpawn>, Result<JobPlace, Error>),
}

/// A job with a name that was not started yet.
pub(super) struct NamedSpawn {
    /// The request; its applications have moved to the plan.
    pub(super) request: Box<Request>,
    pub(super) num_procs: u32,
    pub(super) prepared: Prepared,
    pub(super) plan: Arc<Plan>,
    /// The number of the spawned job.
    pub(super) number: u64,
}

/// A job whose processes are being started.
pub(super) struct StartingJob<'a> {
    pub(super) nspace: Nspace<'static>,
    pub(super) start: JobStart,
    pub(super) route: Route<'a>,
    /// The open output files of the processes that were not prepared yet. If `None`, the thread that starts a process
    /// opens its files.
    pub(super) files: Option<std::vec::IntoIter<RankFiles>>,
    pub(super) bound: Bound,
    /// The request; `None` for the first job.
    pub(super) spawn: Option<PendingSpawn>,
}

/// The spawns, by state.
#[derive(Default)]
pub(super) struct SpawnQueue<'a> {
    asked: VecDeque<AskedSpawn>,
    preparing: Vec<(PendingSpawn, Task<Readied>)>,
    ready: VecDeque<(PendingSpawn, Option<Readied>)>,
    starting: VecDeque<StartingJob<'a>>,
}

impl<'a> SpawnQueue<'a> {
    pub(super) fn is_empty(&self) -> bool {
        let is_prepared = self.preparing.is_empty() && self.ready.is_empty();
        self.asked.is_empty() && is_prepared && self.starting.is_empty()
    }

    /// Adds a job whose processes are to be started, or puts it back.
    pub(super) fn start(&mut self, job: StartingJob<'a>) {
        self.starting.push_back(job);
    }

    /// Returns the number of jobs whose processes are being started.
    pub(super) fn num_starting(&self) -> usize {
        self.starting.len()
    }

    /// Removes and returns the job whose turn it is to advance its start.
    pub(super) fn next_starting(&mut self) -> Option<StartingJob<'a>> {
        self.starting.pop_front()
    }

    pub(super) fn ask(&mut self, asked: AskedSpawn) {
        self.asked.push_back(asked);
    }

    pub(super) fn prepare(&mut self, spawn: PendingSpawn, task: Task<Readied>) {
        self.preparing.push((spawn, task));
    }

    /// Removes and returns the first spawn that may be read and prepared.
    pub(super) fn next_asked(&mut self) -> Option<AskedSpawn> {
        let place = self.place_of_next()?;
        self.asked.remove(place)
    }

    /// Removes and returns the first ready spawn with the result of its thread, or `None` if the thread panicked.
    pub(super) fn next_ready(&mut self) -> Option<(PendingSpawn, Option<Readied>)> {
        self.collect();
        self.ready.pop_front()
    }

    /// Returns `true` if a spawn can proceed without waiting for a thread.
    pub(super) fn can_go_on(&mut self) -> bool {
        self.collect();
        !self.ready.is_empty() || self.place_of_next().is_some()
    }

    /// Returns the time at which the next spawn has to be refused.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending().filter_map(|spawn| spawn.start_by).min()
    }

    /// Removes and returns the spawns that match, in any state. Dropping the start of a job kills the processes that
    /// are not in its table yet.
    pub(super) fn take(&mut self, is_meant: impl Fn(&PendingSpawn) -> bool) -> Vec<PendingSpawn> {
        let mut taken = self.take_unstarted(&is_meant);
        for mut one in std::mem::take(&mut self.starting) {
            match one.spawn.take_if(|spawn| is_meant(spawn)) {
                Some(spawn) => taken.push(spawn),
                None => self.starting.push_back(one),
            }
        }
        taken
    }

    /// Removes and returns the spawns that match, unless processes of their jobs are being started.
    pub(super) fn take_unstarted(
        &mut self,
        is_meant: impl Fn(&PendingSpawn) -> bool,
    ) -> Vec<PendingSpawn> {
        let mut taken = Vec::new();
        let (asked, preparing, ready) = (
            std::mem::take(&mut self.asked),
            std::mem::take(&mut self.preparing),
            std::mem::take(&mut self.ready),
        );
        for one in asked {
            match is_meant(&one.spawn) {
                true => taken.push(one.spawn),
                false => self.asked.push_back(one),
            }
        }
        for (spawn, task) in preparing {
            match is_meant(&spawn) {
                // Dropping the task cancels its work.
                true => taken.push(spawn),
                false => self.preparing.push((spawn, task)),
            }
        }
        for (spawn, readied) in ready {
            match is_meant(&spawn) {
                true => taken.push(spawn),
                false => self.ready.push_back((spawn, readied)),
            }
        }
        taken
    }

    /// Returns all spawns.
    pub(super) fn pending(&self) -> impl Iterator<Item = &PendingSpawn> {
        let asked = self.asked.iter().map(|asked| &asked.spawn);
        asked.chain(self.past_asked())
    }

    fn past_asked(&self) -> impl Iterator<Item = &PendingSpawn> {
        let preparing = self.preparing.iter().map(|(spawn, _)| spawn);
        let ready = self.ready.iter().map(|(spawn, _)| spawn);
        let starting = self.starting.iter().filter_map(|job| job.spawn.as_ref());
        preparing.chain(ready).chain(starting)
    }

    fn place_of_next(&self) -> Option<usize> {
        if self.past_asked().count() >= MOST_PREPARING {
            return None;
        }
        let is_busy = |asker: &Proc<'_>| self.past_asked().any(|spawn| spawn.asker == *asker);
        let mut asked = self.asked.iter();
        asked.position(|asked| !is_busy(&asked.spawn.asker))
    }

    /// Moves the spawns whose threads have finished to the ready ones.
    fn collect(&mut self) {
        for (spawn, mut task) in std::mem::take(&mut self.preparing) {
            match task.poll() {
                TaskState::Pending => self.preparing.push((spawn, task)),
                TaskState::Done(readied) => self.ready.push_back((spawn, Some(readied))),
                TaskState::Lost => self.ready.push_back((spawn, None)),
            }
        }
    }
}
