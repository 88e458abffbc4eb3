// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and directories that are removed while others are served: those registered for cleanup, and the directories of
//! jobs and of the session. A directory may hold any number of files, and a disk may never answer.

use std::collections::VecDeque;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pmix_host::cleanup::{self, ProtectedPaths};
use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_server::Cleanup;
use pmix_types::Proc;

use crate::session_dir::{JobDir, SessionDir, remove_tree};

/// The number of removals that run at a time.
const MOST_THREADS: usize = 4;

/// The number of removals that are handed to the threads at a time.
const MOST_HANDED: usize = 64;

/// The time that the end of the launcher waits for a disk that makes no progress.
const PATIENCE: Duration = Duration::from_millis(250);

/// The process or job, and the user, for which paths were registered for cleanup.
pub(super) type Registered = (Proc<'static>, u32);

/// The removals that helper threads do.
pub(super) struct Removals {
    helpers: Helpers,
    running: Vec<Running>,
    /// Removals that no thread has. They follow as others end.
    backlog: VecDeque<Removal>,
    /// The number of entries of directories that were looked at.
    progress: Arc<AtomicU64>,
    /// The time without progress after which [`Self::finish`] returns.
    patience: Duration,
}

/// A removal that no thread has begun. It returns its errors.
struct Removal {
    target: Target,
    work: Box<dyn FnOnce() -> Vec<String> + Send>,
}

/// A removal that a thread does, or that waits for a thread.
struct Running {
    target: Target,
    task: Task<Vec<String>>,
}

/// The object of a removal.
#[derive(Clone, Debug)]
enum Target {
    Registered(Registered),
    Tree(PathBuf),
}

/// The state of all removals at the end of the launcher.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// The processes and jobs whose registered paths were all tried.
    pub(super) ended: Vec<Registered>,
    /// The names of removals that are not done, as the disk makes no progress.
    pub(super) remaining: Vec<String>,
}

impl Removals {
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
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
            patience,
        }
    }

    /// Removes the paths that a user registered for cleanup at the end of a process or a job.
    pub(super) fn clean(
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

    /// Removes the directory of a job with all that is in it.
    pub(super) fn job_dir(&mut self, dir: &JobDir) {
        self.tree(dir.path().to_owned());
    }

    /// Logs the errors of removals that have ended, and hands on those that wait. Returns the processes and jobs whose
    /// registered paths were all tried.
    pub(super) fn turn(&mut self) -> Vec<Registered> {
        let mut ended = Vec::new();
        self.running
            .retain_mut(|Running { target, task }| match task.poll() {
                TaskState::Pending => true,
                state => {
                    ended.extend(target.end(state));
                    false
                }
            });
        self.hand_on();
        ended
    }

    /// Removes the directory of the session, and waits for all removals as long as they make progress.
    pub(super) fn finish(&mut self, session: &mut SessionDir) -> Finished {
        self.tree(session.leave());
        let mut finished = Finished::default();
        let mut seen = (self.progress.load(Ordering::Relaxed), Instant::now());
        loop {
            let ended = self.turn();
            finished.ended.extend(ended);
            let Some(first) = self.running.first_mut() else {
                // No thread can start, or all is done.
                let Some(Removal { target, work }) = self.backlog.pop_front() else {
                    return finished;
                };
                finished.ended.extend(target.end(TaskState::Done(work())));
                continue;
            };
            let state = first.task.wait(self.patience / 5);
            let progress = self.progress.load(Ordering::Relaxed);
            if !matches!(state, TaskState::Pending) {
                let Running { target, .. } = self.running.swap_remove(0);
                finished.ended.extend(target.end(state));
                seen = (progress, Instant::now());
            } else if progress != seen.0 {
                seen = (progress, Instant::now());
            } else if seen.1.elapsed() >= self.patience {
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
            let error = removed.err();
            let error = error.map(|e| format!("cannot remove {}: {e}", path.display()));
            error.into_iter().collect()
        });
    }

    fn run(&mut self, target: Target, work: impl FnOnce() -> Vec<String> + Send + 'static) {
        let work = Box::new(work);
        self.backlog.push_back(Removal { target, work });
        self.hand_on();
    }

    /// Hands removals to threads. One that is refused is handed on later, or done by [`Self::finish`].
    fn hand_on(&mut self) {
        while self.running.len() < MOST_HANDED
            && let Some(Removal { target, work }) = self.backlog.pop_front()
        {
            // A refusal drops the closure, and the removal is still needed then.
            let kept = Arc::new(Mutex::new(Some(work)));
            let taken = Arc::clone(&kept);
            let take = |kept: &Mutex<Option<_>>| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.take()
            };
            // Removals are not cancelled: the task is kept until its work has ended.
            let handed =
                (self.helpers).run(move |_| take(&taken).map_or_else(Vec::new, |work| work()));
            match handed {
                Ok(task) => self.running.push(Running { target, task }),
                Err(error) => {
                    tracing::debug!("{} is removed later: {error}", target.name());
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
    /// Logs the errors of a removal that has ended. Returns the process or job whose registered paths were tried.
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
                format!(
                    "the paths that are registered for cleanup at the end of rank {rank} of {nspace}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use pmix_types::{Rank, Text};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// The registration of one file, and the process that registered it.
    fn registered(path: &std::path::Path, rank: u32) -> (Cleanup, Proc<'static>) {
        let cleanup = Cleanup {
            files: vec![Text::new(path.as_os_str().as_encoded_bytes().to_vec())],
            ..Cleanup::default()
        };
        (cleanup, Proc::new("job", Rank::new(rank)))
    }

    /// Registers more files than helpers take, and removes them and a session. Returns the number of processes whose
    /// files were removed.
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
