// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spawns whose jobs have not started.
//!
//! | state | activity | next |
//! | --- | --- | --- |
//! | asked | the request waits for its turn | it is read, and a helper thread reads its hostfiles or prepares the job |
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

use super::request::{Refusal, Request};
use crate::preparation::{JobPlace, Prepared};
use crate::{Error, Layout, Plan};

/// The largest number of jobs that are prepared at a time, each by one thread.
pub(crate) const MOST_PREPARING: usize = 16;

/// A spawn request that was not read yet.
pub(crate) struct AskedSpawn {
    pub(crate) call: Spawn,
    pub(crate) spawn: PendingSpawn,
}

/// A spawn whose job has not started.
pub(crate) struct PendingSpawn {
    /// The process or tool that requested it.
    pub(crate) asker: Proc<'static>,
    /// The time of the request.
    pub(crate) asked: Instant,
    /// The time after which the spawn is refused if its job has not started.
    pub(crate) start_by: Option<Instant>,
    pub(crate) done: Completion<Nspace<'static>>,
    /// The debugger daemons to start after the job.
    pub(crate) daemons: Option<Spawn>,
    /// The job that was started, while its daemons are prepared.
    pub(crate) started: Option<Nspace<'static>>,
    /// The job whose processes are being started.
    pub(crate) starting: Option<Nspace<'static>>,
    /// The target, if the job consists of debugger daemons.
    pub(crate) debug_target: Option<Proc<'static>>,
    /// The layout of its job, once it is known.
    pub(crate) layout: Option<Layout>,
}

impl PendingSpawn {
    /// Returns the layout of a job that is not registered yet.
    pub(crate) fn unregistered_layout(&self) -> Option<&Layout> {
        self.layout.as_ref().filter(|_| self.starting.is_none())
    }
}

/// The result of one step of the preparation.
pub(crate) enum Readied {
    /// The request with the nodes of its hostfiles.
    HostsRead(Box<Request>, Result<(), Refusal>),
    /// The job with its programs and bindings.
    Prepared(Box<Request>, Result<Prepared, Error>),
    /// The job with its directory and its open output files.
    Placed(Box<NamedSpawn>, Result<JobPlace, Error>),
}

/// A job with a name that was not started yet.
pub(crate) struct NamedSpawn {
    /// The request; its applications have moved to the plan.
    pub(crate) request: Box<Request>,
    pub(crate) num_procs: u32,
    pub(crate) prepared: Prepared,
    pub(crate) plan: Arc<Plan>,
    /// The number of the spawned job.
    pub(crate) number: u64,
}

/// The spawns, by state.
#[derive(Default)]
pub(crate) struct SpawnQueue {
    asked: VecDeque<AskedSpawn>,
    preparing: Vec<(PendingSpawn, Task<Readied>)>,
    ready: VecDeque<(PendingSpawn, Option<Readied>)>,
    /// The spawns whose processes are being started, and the first job.
    starting: Vec<PendingSpawn>,
    is_first_starting: bool,
}

impl SpawnQueue {
    pub(crate) fn is_empty(&self) -> bool {
        let is_prepared = self.preparing.is_empty() && self.ready.is_empty();
        let is_started = self.starting.is_empty() && !self.is_first_starting;
        self.asked.is_empty() && is_prepared && is_started
    }

    /// Adds a spawn whose processes are being started.
    pub(crate) fn start(&mut self, spawn: PendingSpawn) {
        self.starting.push(spawn);
    }

    /// Records if the processes of the first job are being started.
    pub(crate) fn set_first_starting(&mut self, is_starting: bool) {
        self.is_first_starting = is_starting;
    }

    /// Removes and returns the spawn whose job has started; `None` for the first job.
    pub(crate) fn take_started(&mut self, nspace: &Nspace<'_>) -> Option<PendingSpawn> {
        let mut starting = self.starting.iter();
        let place = starting.position(|spawn| spawn.starting.as_ref() == Some(nspace))?;
        Some(self.starting.swap_remove(place))
    }

    pub(crate) fn ask(&mut self, asked: AskedSpawn) {
        self.asked.push_back(asked);
    }

    pub(crate) fn prepare(&mut self, spawn: PendingSpawn, task: Task<Readied>) {
        self.preparing.push((spawn, task));
    }

    /// Removes and returns the first spawn that may be read and prepared.
    pub(crate) fn next_asked(&mut self) -> Option<AskedSpawn> {
        let place = self.place_of_next()?;
        self.asked.remove(place)
    }

    /// Removes and returns the first ready spawn with the result of its thread, or `None` if the thread panicked.
    pub(crate) fn next_ready(&mut self) -> Option<(PendingSpawn, Option<Readied>)> {
        self.collect();
        self.ready.pop_front()
    }

    /// Returns `true` if a spawn can proceed without waiting for a thread.
    pub(crate) fn can_advance(&mut self) -> bool {
        self.collect();
        !self.ready.is_empty() || self.place_of_next().is_some()
    }

    /// Returns the time at which the next spawn has to be refused.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pending().filter_map(|spawn| spawn.start_by).min()
    }

    /// Removes and returns the spawns that match, in any state. The
    /// jobs that they have started are given up by the caller.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&PendingSpawn) -> bool) -> Vec<PendingSpawn> {
        let mut taken = self.take_unstarted(&is_meant);
        let starting = std::mem::take(&mut self.starting).into_iter();
        let (meant, others) = starting.partition(|spawn| is_meant(spawn));
        self.starting = others;
        let meant: Vec<_> = meant;
        taken.extend(meant);
        taken
    }

    /// Removes and returns the spawns that match, unless processes of their jobs are being started.
    pub(crate) fn take_unstarted(
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
    pub(crate) fn pending(&self) -> impl Iterator<Item = &PendingSpawn> {
        let asked = self.asked.iter().map(|asked| &asked.spawn);
        asked.chain(self.past_asked())
    }

    fn past_asked(&self) -> impl Iterator<Item = &PendingSpawn> {
        let preparing = self.preparing.iter().map(|(spawn, _)| spawn);
        let ready = self.ready.iter().map(|(spawn, _)| spawn);
        preparing.chain(ready).chain(&self.starting)
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
