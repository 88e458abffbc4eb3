// SPDX-License-Identifier: MIT OR Apache-2.0
//! The removal of files and directories by helper threads: paths registered for cleanup, and the directories of jobs
//! and of the session. A directory may contain any number of files, and a file system may hang, so the session does
//! not wait.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use pmix_host::cleanup::{self, ProtectedPaths};
use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_server::Cleanup;
use pmix_types::Proc;

use crate::preparation::Discarded;
use crate::session_dir::{JobDir, SessionDir, remove_tree};

/// The largest number of removals that run at a time.
const MOST_THREADS: usize = 4;

/// The largest number of removals that are queued for the threads.
const MOST_QUEUED: usize = 64;

/// The time for which the exit of the launcher waits without progress of removals.
const PATIENCE: Duration = Duration::from_millis(250);

/// The number of checks for progress in that time. Checks without progress are counted, not the time: a launcher that
/// was stopped or starved has checked nothing meanwhile.
const CHECKS: u32 = 5;

/// The time after which a removal without progress is reported.
const STALLED: Duration = Duration::from_secs(30);

/// The delay after which removals are queued again that no thread could take. No other event wakes the session for
/// them.
const RETRY: Duration = Duration::from_millis(100);

/// The process or job, and the user, for which paths were registered for cleanup.
pub(crate) type Registered = (Proc<'static>, u32);

/// The removals by helper threads.
pub(crate) struct Removals {
    helpers: Helpers,
    running: Vec<Running>,
    /// The removals that wait for room in the queue of the threads.
    backlog: VecDeque<Removal>,
    /// The number of directory entries that were processed.
    progress: Arc<AtomicU64>,
    /// The progress at the last check, and the time when it was first seen.
    seen: (u64, Instant),
    /// The time without progress after which [`Self::finish`] returns.
    patience: Duration,
}

/// A removal that was not started. It returns its error messages.
struct Removal {
    target: Target,
    work: Box<dyn FnOnce() -> Vec<String> + Send>,
}

/// A removal that runs or is queued for a thread.
struct Running {
    target: Target,
    task: Task<Vec<String>>,
    since: Instant,
    /// `true` after its lack of progress was reported.
    is_reported: bool,
}

/// The object of a removal.
#[derive(Clone, Debug)]
enum Target {
    Registered(Registered),
    Tree(PathBuf),
}

/// The state of all removals when the launcher exits.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// The targets whose registered paths were all processed.
    pub(crate) ended: Vec<Registered>,
    /// The names of removals that did not complete, because the file system makes no progress.
    pub(crate) remaining: Vec<String>,
}

impl Removals {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_limits(MOST_THREADS, PATIENCE, wake)
    }

    fn with_limits(
        most_threads: usize,
        patience: Duration,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            helpers: Helpers::new("pmix-removal", most_threads, wake),
            running: Vec::new(),
            backlog: VecDeque::new(),
            progress: Arc::default(),
            seen: (0, Instant::now()),
            patience,
        }
    }

    /// Removes the paths that a user registered for cleanup at the end of a process or a job.
    pub(crate) fn clean(
        &mut self,
        cleanup: Cleanup,
        target: Proc<'static>,
        user: u32,
        protected: &Arc<ProtectedPaths>,
    ) {
        let (protected, progress) = (Arc::clone(protected), Arc::clone(&self.progress));
        self.run(Target::Registered((target, user)), move || {
            let errors = cleanup::remove_counted(&cleanup, user, &protected, &progress);
            errors.iter().map(ToString::to_string).collect()
        });
    }

    /// Removes the directory of a job with its content.
    pub(crate) fn job_dir(&mut self, dir: &JobDir) {
        self.tree(dir.path().to_owned());
    }

    /// Removes all that was created for a job that is not started.
    pub(crate) fn discard(&mut self, discarded: Discarded) {
        let progress = Arc::clone(&self.progress);
        self.run(Target::Tree(discarded.dir.clone()), move || {
            let removed = discarded.remove(&progress);
            tree_errors(&discarded.dir, removed)
        });
    }

    /// Logs the errors of completed removals and the names of stalled ones, and queues waiting removals. Returns the
    /// targets whose registered paths were all processed.
    pub(crate) fn turn(&mut self) -> Vec<Registered> {
        let mut ended = Vec::new();
        self.running
            .retain_mut(|Running { target, task, .. }| match task.poll() {
                TaskState::Pending => true,
                state => {
                    ended.extend(target.end(state));
                    false
                }
            });
        self.queue_waiting();
        for name in self.stalled(Instant::now()) {
            tracing::warn!(
                "{name}: the removal makes no progress for {} s, as the file system may not answer",
                STALLED.as_secs()
            );
        }
        ended
    }

    /// Returns the time for the next [`Self::turn`] if no removal completes before.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let is_refused = !self.backlog.is_empty() && self.running.len() < MOST_QUEUED;
        let unreported = self.running.iter().filter(|running| !running.is_reported);
        let stalled = unreported.map(|running| running.since.max(self.seen.1) + STALLED);
        let retry = is_refused.then(|| now + RETRY);
        stalled.chain(retry).min()
    }

    /// Returns the names of removals that stalled, each once.
    fn stalled(&mut self, now: Instant) -> Vec<String> {
        let progress = self.progress.load(Ordering::Relaxed);
        if progress != self.seen.0 {
            self.seen = (progress, now);
        }
        let seen = self.seen.1;
        let is_stalled = |running: &&mut Running| {
            let since = now.saturating_duration_since(running.since.max(seen));
            !running.is_reported && since >= STALLED
        };
        let stalled = self.running.iter_mut().filter(is_stalled);
        let report = |running: &mut Running| {
            running.is_reported = true;
            running.target.name()
        };
        stalled.map(report).collect()
    }

    /// Removes the directory of the session, and waits for all removals while they make progress.
    pub(crate) fn finish(&mut self, session: &mut SessionDir) -> Finished {
        self.tree(session.leave());
        let mut finished = Finished::default();
        let (mut seen, mut num_checks) = (self.progress.load(Ordering::Relaxed), 0);
        loop {
            let ended = self.turn();
            finished.ended.extend(ended);
            let Some(first) = self.running.first_mut() else {
                // Either all removals completed, or no thread could be started: then the rest is done here.
                let Some(Removal { target, work }) = self.backlog.pop_front() else {
                    return finished;
                };
                finished.ended.extend(target.end(TaskState::Done(work())));
                continue;
            };
            let state = first.task.wait(self.patience / CHECKS);
            let progress = self.progress.load(Ordering::Relaxed);
            if !matches!(state, TaskState::Pending) {
                let Running { target, .. } = self.running.swap_remove(0);
                finished.ended.extend(target.end(state));
                (seen, num_checks) = (progress, 0);
            } else if progress != seen {
                (seen, num_checks) = (progress, 0);
            } else {
                num_checks += 1;
            }
            if num_checks >= CHECKS {
                let running = mem::take(&mut self.running).into_iter();
                let waiting = mem::take(&mut self.backlog).into_iter();
                let remaining = (running.map(|running| running.target))
                    .chain(waiting.map(|removal| removal.target));
                finished.remaining = remaining.map(|target| target.name()).collect();
                return finished;
            }
        }
    }

    fn tree(&mut self, path: PathBuf) {
        let progress = Arc::clone(&self.progress);
        self.run(Target::Tree(path.clone()), move || {
            let removed = remove_tree(&path, &progress);
            tree_errors(&path, removed)
        });
    }

    fn run(&mut self, target: Target, work: impl FnOnce() -> Vec<String> + Send + 'static) {
        let work = Box::new(work);
        self.backlog.push_back(Removal { target, work });
        self.queue_waiting();
    }

    /// Queues removals for the threads. A rejected one is queued later, or executed by [`Self::finish`].
    fn queue_waiting(&mut self) {
        while self.running.len() < MOST_QUEUED
            && let Some(Removal { target, work }) = self.backlog.pop_front()
        {
            // A rejected closure is dropped, so the work is kept outside of it for another attempt.
            let kept = Arc::new(Mutex::new(Some(work)));
            let taken = Arc::clone(&kept);
            let take = |kept: &Mutex<Option<_>>| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.take()
            };
            // Dropping a task would cancel its work, so the task is kept until the removal has completed.
            let queued =
                (self.helpers).run(move |_| take(&taken).map_or_else(Vec::new, |work| work()));
            match queued {
                Ok(task) => self.running.push(Running {
                    target,
                    task,
                    since: Instant::now(),
                    is_reported: false,
                }),
                Err(error) => {
                    tracing::debug!(
                        "cannot remove {} now; retrying later: {error}",
                        target.name()
                    );
                    if let Some(work) = take(&kept) {
                        self.backlog.push_front(Removal { target, work });
                    }
                    return;
                }
            }
        }
    }
}

impl Target {
    /// Logs the errors of a completed removal. Returns its target if it was for registered paths.
    fn end(&self, state: TaskState<Vec<String>>) -> Option<Registered> {
        match state {
            TaskState::Pending => return None,
            TaskState::Done(errors) => errors.iter().for_each(|error| tracing::warn!("{error}")),
            TaskState::Lost => {
                tracing::warn!("{} may remain: the removal failed", self.name());
            }
        }
        match self {
            Self::Registered(registered) => Some(registered.clone()),
            Self::Tree(_) => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Tree(path) => path.display().to_string(),
            Self::Registered((Proc { nspace, rank }, _)) => {
                format!("the paths registered for cleanup at the end of rank {rank} of {nspace}")
            }
        }
    }
}

/// Returns the message of a removal that failed.
fn tree_errors(path: &Path, removed: io::Result<()>) -> Vec<String> {
    let error = removed.err();
    let error = error.map(|e| format!("cannot remove {}: {e}", path.display()));
    error.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use pmix_types::{Rank, Text};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns the registration of one file, and the process that registered it.
    fn registered(path: &std::path::Path, rank: u32) -> (Cleanup, Proc<'static>) {
        let cleanup = Cleanup {
            files: vec![Text::new(path.as_os_str().as_encoded_bytes().to_vec())],
            ..Cleanup::default()
        };
        (cleanup, Proc::new("job", Rank::new(rank)))
    }

    /// Registers more files than the queue holds, and removes them and a session. Returns the number of processes
    /// whose files were removed.
    fn remove_many(removals: &mut Removals, num: u32, begin: impl FnOnce()) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut session = SessionDir::create(&root).unwrap();
        fs::write(session.path().join("left"), "x").unwrap();
        let user = rustix::process::getuid().as_raw();
        for number in 0..num {
            let path = root.join(number.to_string());
            fs::write(&path, "").unwrap();
            let (cleanup, target) = registered(&path, number);
            removals.clean(cleanup, target, user, &Arc::default());
        }
        begin();
        let finished = removals.finish(&mut session);
        assert!(finished.remaining.is_empty(), "{finished:?}");
        drop(session);
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
        finished.ended.len()
    }

    #[test]
    fn more_removals_than_threads_take_at_once_are_all_done() {
        let mut removals = Removals::with_limits(MOST_THREADS, LONG, || ());
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let hold = Arc::new(move || _ = gate.lock().unwrap().recv());
        for _ in 0..MOST_THREADS {
            let hold = Arc::clone(&hold);
            removals.run(Target::Tree("held".into()), move || {
                hold();
                Vec::new()
            });
        }
        let num = 5000;
        let num_ended = remove_many(&mut removals, num, || drop(open));
        assert_eq!(num_ended, num as usize);
    }

    #[test]
    fn removals_that_no_thread_takes_are_handed_on_again_after_a_while() {
        let mut removals = Removals::with_limits(0, LONG, || ());
        let now = Instant::now();
        assert_eq!(removals.deadline(now), None);
        removals.run(Target::Tree("refused".into()), Vec::new);
        assert_eq!(removals.deadline(now), Some(now + RETRY));
        removals.helpers = Helpers::new("test", 1, || ());
        removals.turn();
        while !removals.running.is_empty() {
            removals.turn();
        }
        assert_eq!(removals.deadline(now), None);
    }

    #[test]
    fn a_removal_without_progress_is_reported_once() {
        let mut removals = Removals::with_limits(MOST_THREADS, LONG, || ());
        let (open, gate) = channel::<()>();
        let progress = Arc::clone(&removals.progress);
        removals.run(Target::Tree("dead".into()), move || {
            let _ = gate.recv();
            Vec::new()
        });
        let due = |removals: &Removals| removals.deadline(Instant::now()).unwrap();
        let begun = due(&removals) - STALLED;
        assert!(removals.stalled(begun + STALLED / 2).is_empty());
        // Any progress of a removal restarts the time.
        progress.fetch_add(1, Ordering::Relaxed);
        assert!(removals.stalled(begun + STALLED).is_empty());
        assert_eq!(due(&removals), begun + 2 * STALLED);
        assert_eq!(removals.stalled(begun + 2 * STALLED), ["dead"]);
        assert!(removals.stalled(begun + 4 * STALLED).is_empty());
        assert_eq!(removals.deadline(begun), None);
        drop(open);
    }

    #[test]
    fn removals_are_done_at_the_end_if_no_thread_can_start() {
        let mut removals = Removals::with_limits(0, LONG, || ());
        assert_eq!(remove_many(&mut removals, 10, || ()), 10);
    }

    #[test]
    fn removals_that_look_at_entries_are_waited_for_and_others_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut session = SessionDir::create(dir.path()).unwrap();
        let patience = Duration::from_secs(1);
        let mut removals = Removals::with_limits(MOST_THREADS, patience, || ());
        let progress = Arc::clone(&removals.progress);
        let (open, gate) = channel::<()>();
        removals.run(Target::Tree("slow".into()), move || {
            for _ in 0..150 {
                std::thread::sleep(patience / 100);
                progress.fetch_add(1, Ordering::Relaxed);
            }
            Vec::new()
        });
        removals.run(Target::Tree("dead".into()), move || {
            let _ = gate.recv();
            Vec::new()
        });
        let finished = removals.finish(&mut session);
        assert_eq!(finished.remaining, ["dead"]);
        drop(open);
    }
}
