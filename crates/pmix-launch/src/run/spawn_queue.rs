// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spawns whose jobs have not started.
//!
//! | state | what happens | next |
//! | --- | --- | --- |
//! | asked | the request waits for its turn | it is read, and a helper thread prepares the job |
//! | preparing | the thread finds programs, checks directories and binds processes | ready, once the host is woken |
//! | ready | the job waits for its turn | it gets a name and is prepared once more, or is refused |
//! | preparing | the thread makes the directory of the job and opens the files of its output | ready |
//! | ready | the job waits for its turn | it is started, or refused |
//!
//! Each process or tool has one spawn at a time that is past the first state, so its jobs start in their order, and a
//! directory that does not answer delays the jobs of one that asks, not those of others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use pmix_host::helpers::{Task, TaskState};
use pmix_server::Completion;
use pmix_server::upcall::Spawn;
use pmix_types::{Nspace, Proc};

use super::request::Request;
use crate::preparation::{JobPlace, Prepared};
use crate::{Error, Plan};

/// The number of jobs that are prepared at a time, each by one thread.
pub(super) const MOST_PREPARING: usize = 16;

/// A spawn that was asked for and not read.
pub(super) struct AskedSpawn {
    pub(super) call: Spawn,
    pub(super) spawn: PendingSpawn,
}

/// A spawn whose job has not started.
pub(super) struct PendingSpawn {
    /// The process or tool that asks for it.
    pub(super) asker: Proc<'static>,
    /// When it was asked for.
    pub(super) asked: Instant,
    /// When it is refused if its job has not started, if there is a limit.
    pub(super) start_by: Option<Instant>,
    pub(super) done: Completion<Nspace<'static>>,
    /// The daemons of a debugger that are started after the job.
    pub(super) daemons: Option<Spawn>,
    /// The job that was started, while its daemons are prepared.
    pub(super) started: Option<Nspace<'static>>,
    /// The processes that the job debugs, if it is daemons of a debugger.
    pub(super) debug_target: Option<Proc<'static>>,
}

/// The result of a step of the preparation of a job.
pub(super) enum Readied {
    /// Its programs were found, and its processes are bound.
    Prepared(Box<Request>, Result<Prepared, Error>),
    /// Its directory was made, and the files of its output are open.
    Placed(Box<NamedSpawn>, Result<JobPlace, Error>),
}

/// A job that has a name and was not started.
pub(super) struct NamedSpawn {
    /// The request, without its applications, which are in the plan.
    pub(super) request: Box<Request>,
    pub(super) num_procs: u32,
    pub(super) prepared: Prepared,
    pub(super) plan: Arc<Plan>,
    /// The number of the job among those that were spawned.
    pub(super) number: u64,
}

/// The spawns in their states.
#[derive(Default)]
pub(super) struct SpawnQueue {
    asked: VecDeque<AskedSpawn>,
    preparing: Vec<(PendingSpawn, Task<Readied>)>,
    ready: VecDeque<(PendingSpawn, Option<Readied>)>,
}

impl SpawnQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.preparing.is_empty() && self.ready.is_empty()
    }

    pub(super) fn ask(&mut self, asked: AskedSpawn) {
        self.asked.push_back(asked);
    }

    pub(super) fn prepare(&mut self, spawn: PendingSpawn, task: Task<Readied>) {
        self.preparing.push((spawn, task));
    }

    /// Takes the first spawn that may be read and prepared.
    pub(super) fn next_asked(&mut self) -> Option<AskedSpawn> {
        let place = self.place_of_next()?;
        self.asked.remove(place)
    }

    /// Takes the first spawn whose job is ready, with what the thread made of it; without anything if the thread
    /// ended before.
    pub(super) fn next_ready(&mut self) -> Option<(PendingSpawn, Option<Readied>)> {
        self.collect();
        self.ready.pop_front()
    }

    /// Returns `true` if a spawn can go on without waiting for a thread.
    pub(super) fn can_go_on(&mut self) -> bool {
        self.collect();
        !self.ready.is_empty() || self.place_of_next().is_some()
    }

    /// Returns when the first spawn is to be refused.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending().filter_map(|spawn| spawn.start_by).min()
    }

    /// Takes the spawns that are meant, in whatever state.
    pub(super) fn take(&mut self, is_meant: impl Fn(&PendingSpawn) -> bool) -> Vec<PendingSpawn> {
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
                // This cancels what the thread does.
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
        preparing.chain(self.ready.iter().map(|(spawn, _)| spawn))
    }

    fn place_of_next(&self) -> Option<usize> {
        if self.preparing.len() + self.ready.len() >= MOST_PREPARING {
            return None;
        }
        let is_busy = |asker: &Proc<'_>| self.past_asked().any(|spawn| spawn.asker == *asker);
        let mut asked = self.asked.iter();
        asked.position(|asked| !is_busy(&asked.spawn.asker))
    }

    /// Moves the jobs that threads have prepared to those that are ready.
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
