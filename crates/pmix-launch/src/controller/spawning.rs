// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spawns whose jobs have not started, and the names and numbers of jobs.

use std::time::Instant;

use pmix_host::helpers::{Cancel, Helpers, Task};
use pmix_types::Nspace;

use super::spawn_queue::{AskedSpawn, MOST_PREPARING, PendingSpawn, Readied, SpawnQueue};
use crate::Error;

/// The spawns that wait, and the numbers of jobs.
pub(crate) struct Spawning {
    queue: SpawnQueue,
    /// The threads that prepare spawned jobs.
    helpers: Helpers,
    numbers: Numbers,
}

/// The numbers of the jobs of a session.
#[derive(Debug, Default)]
struct Numbers {
    /// The number of jobs that were started.
    num_jobs: u64,
    /// The number of jobs to which a namespace was assigned, including those that failed to start.
    num_named: u64,
    /// The number of processes of all jobs that were started.
    num_procs: u32,
    /// The number of jobs that were only prepared; a namespace was assigned to each of them.
    num_prepared: u64,
}

impl Spawning {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            queue: SpawnQueue::default(),
            helpers: Helpers::new("pmix-spawn", MOST_PREPARING, wake),
            numbers: Numbers::default(),
        }
    }

    /// Returns `true` if no spawn waits and no job starts.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns `true` if a spawn can advance without waiting for a thread.
    pub(crate) fn can_advance(&mut self) -> bool {
        self.queue.can_advance()
    }

    /// Returns the spawns by state.
    pub(crate) fn queue(&mut self) -> &mut SpawnQueue {
        &mut self.queue
    }

    /// Returns the time at which the next spawn has to be refused.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queue.deadline()
    }

    /// Lets a thread prepare a spawn. If there is no thread, returns the spawn with the error.
    pub(crate) fn prepare(
        &mut self,
        spawn: PendingSpawn,
        work: impl FnOnce(&Cancel) -> Readied + Send + 'static,
    ) -> Result<(), Box<(PendingSpawn, pmix_host::Error)>> {
        match self.helpers.run(work) {
            Ok(task) => {
                self.queue.prepare(spawn, task);
                Ok(())
            }
            Err(error) => Err(Box::new((spawn, error))),
        }
    }

    /// Lets a thread work for the first job.
    ///
    /// # Errors
    /// Returns [`Error`] if there is no thread.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<Task<T>, Error> {
        let task = self.helpers.run(work);
        task.map_err(|e| Error::no_room(e.to_string()))
    }

    /// Returns the spawn that may be read and prepared next.
    pub(crate) fn next_asked(&mut self) -> Option<AskedSpawn> {
        self.queue.next_asked()
    }

    /// Counts a job to which a namespace is assigned, and returns the number of the jobs before it. The number is not
    /// reused, even if the job fails to start.
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.numbers.num_named;
        self.numbers.num_named += 1;
        number
    }

    /// Counts a job that is only prepared. Its namespace has a number of its own.
    pub(crate) fn count_prepared(&mut self) {
        self.numbers.num_prepared += 1;
    }

    /// Counts a job that was registered, with its processes. Returns the number of processes before.
    pub(crate) fn count_job(&mut self, num_procs: u64) {
        self.numbers.num_jobs += 1;
        let num_procs = u32::try_from(num_procs).unwrap_or(u32::MAX);
        self.numbers.num_procs = self.numbers.num_procs.saturating_add(num_procs);
    }

    /// Returns the number of jobs that were started.
    pub(crate) fn num_jobs(&self) -> u64 {
        self.numbers.num_jobs
    }

    /// Returns the number of processes of all jobs that were started.
    pub(crate) fn num_procs(&self) -> u32 {
        self.numbers.num_procs
    }

    /// Returns the namespace of the next job: the namespace of the first job with another number.
    pub(crate) fn next_nspace(&self, first: &str) -> String {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (base, number) = match first.rsplit_once('@') {
            Some((base, number)) if is_number(number) => (base, number.parse().unwrap_or(0)),
            _ => (first, 1u64),
        };
        let number = number.saturating_add(self.numbers.num_named);
        let suffix = format!("@{}", number.saturating_add(self.numbers.num_prepared));
        let mut most = base.len().min(Nspace::MAX_LEN - suffix.len());
        while !base.is_char_boundary(most) {
            most -= 1;
        }
        format!("{}{suffix}", &base[..most])
    }
}
