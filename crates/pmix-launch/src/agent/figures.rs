// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of processes for the report at the end: the largest memory, which is sampled, and the processor time,
//! which the kernel keeps until a process is reaped.
//!
//! The kernel keeps the largest memory of a process (`VmHWM`) only until the process exits. A thread reads it when the
//! process finalizes, and regularly while it runs.

use std::time::{Duration, Instant};

use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_host::usage;
use pmix_types::Proc;

use super::local_job::LocalJobs;

/// The first and the largest interval between samples. Many processes end soon after their start.
const FIRST: Duration = Duration::from_millis(50);
const LARGEST: Duration = Duration::from_secs(1);

/// The largest number of samplings that wait for the thread.
const MOST_PENDING: usize = 64;

type Samples = Vec<(Proc<'static>, i32, u64)>;

/// The sampling of the memory of processes.
pub(super) struct Figures {
    helpers: Helpers,
    pending: Vec<Task<Samples>>,
    /// The time of the next sampling; `None` if nothing is measured.
    next: Option<Instant>,
    interval: Duration,
}

impl Figures {
    pub(super) fn new(is_wanted: bool, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            helpers: Helpers::new("pmix-figures", 1, wake),
            pending: Vec::new(),
            next: is_wanted.then(|| Instant::now() + FIRST),
            interval: FIRST,
        }
    }

    /// Returns the time of the next sampling.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Samples all processes if it is time, and takes over available results.
    pub(super) fn tick(&mut self, jobs: &mut LocalJobs, now: Instant) {
        if self.next.is_some_and(|next| next <= now) {
            self.interval = self.interval.saturating_mul(2).min(LARGEST);
            self.next = now.checked_add(self.interval);
            let running = jobs.iter().flat_map(super::LocalJob::running);
            self.sample(running.collect());
        }
        self.pending.retain_mut(|task| match task.poll() {
            TaskState::Pending => true,
            TaskState::Lost => false,
            TaskState::Done(samples) => {
                for (proc, pid, bytes) in samples {
                    keep(jobs, &proc, pid, bytes);
                }
                false
            }
        });
    }

    /// Samples a process that has finalized, and will probably exit soon.
    pub(super) fn finalized(&mut self, jobs: &LocalJobs, proc: &Proc<'_>) {
        let process = jobs.process(proc).filter(|_| self.next.is_some());
        // Agents measure the processes of other nodes.
        let process = process.filter(|process| process.node.is_none());
        let job = jobs.named(&proc.nspace);
        if let Some((process, job)) = process.zip(job) {
            let pid = process.pid.as_raw_nonzero().get();
            self.sample(vec![(job.proc(proc.rank), pid)]);
        }
    }

    fn sample(&mut self, procs: Vec<(Proc<'static>, i32)>) {
        if procs.is_empty() || self.pending.len() >= MOST_PENDING {
            return;
        }
        let measure = |(proc, pid)| Some((proc, pid, usage::largest_memory(pid).ok()?));
        let task = (self.helpers).run(move |_| procs.into_iter().filter_map(measure).collect());
        // Without a sample, the largest memory so far remains.
        self.pending.extend(task.ok());
    }
}

fn keep(jobs: &mut LocalJobs, proc: &Proc<'_>, pid: i32, bytes: u64) {
    let job = jobs.named_mut(&proc.nspace);
    let process = job.and_then(|job| job.table.of_rank(proc.rank));
    // The rank may have been restarted as another process.
    if let Some(process) = process.filter(|process| process.pid.as_raw_nonzero().get() == pid) {
        process.largest_memory = process.largest_memory.max(Some(bytes));
    }
}
