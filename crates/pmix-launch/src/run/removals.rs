// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and directories that are removed while others are served: those registered for cleanup, and the directories of
//! jobs and of the session. A directory may hold any number of files, and a disk may never answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pmix_host::cleanup::{self, ProtectedPaths};
use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_server::Cleanup;
use pmix_types::Proc;

use crate::session_dir::{JobDir, SessionDir, remove_tree};

/// How many directories are removed at a time.
const MOST_THREADS: usize = 4;

/// How long the end of the launcher waits for a disk that removes nothing.
const PATIENCE: Duration = Duration::from_millis(250);

/// The process or job, and the user, for which paths were registered for cleanup.
pub(super) type Registered = (Proc<'static>, u32);

/// The removals that helper threads do.
pub(super) struct Removals {
    helpers: Helpers,
    tasks: Vec<(Task<Vec<String>>, Option<Registered>)>,
    /// How many entries of directories were removed.
    num_removed: Arc<AtomicU64>,
}

impl Removals {
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            helpers: Helpers::new("pmix-removal", MOST_THREADS, wake),
            tasks: Vec::new(),
            num_removed: Arc::default(),
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
        let (protected, num_removed) = (Arc::clone(protected), Arc::clone(&self.num_removed));
        self.run(Some((target, user)), move || {
            let errors = cleanup::remove_counted(&cleanup, user, &protected, &num_removed);
            errors.iter().map(ToString::to_string).collect()
        });
    }

    /// Removes the directory of a job with all that is in it.
    pub(super) fn job_dir(&mut self, dir: &JobDir) {
        self.tree(dir.path().to_owned());
    }

    /// Says what could not be removed. Returns for which processes and jobs everything was tried that was registered.
    pub(super) fn turn(&mut self) -> Vec<Registered> {
        let mut ended = Vec::new();
        self.tasks
            .retain_mut(|(task, registered)| match task.poll() {
                TaskState::Pending => true,
                state => {
                    warn_of(state);
                    ended.extend(registered.take());
                    false
                }
            });
        ended
    }

    /// Removes the directory of the session, and waits for all removals as long as they make progress.
    pub(super) fn finish(&mut self, session: &mut SessionDir) {
        self.tree(session.leave());
        let mut last = (self.num_removed.load(Ordering::Relaxed), Instant::now());
        for (mut task, _) in std::mem::take(&mut self.tasks) {
            loop {
                let state = task.wait(PATIENCE / 5);
                if !matches!(state, TaskState::Pending) {
                    warn_of(state);
                    last.1 = Instant::now();
                    break;
                }
                let num_removed = self.num_removed.load(Ordering::Relaxed);
                if num_removed != last.0 {
                    last = (num_removed, Instant::now());
                } else if last.1.elapsed() >= PATIENCE {
                    let path = session.path().display();
                    return tracing::warn!(
                        "{path} and paths that were registered for cleanup may remain: the file system does not answer"
                    );
                }
            }
        }
    }

    fn tree(&mut self, path: PathBuf) {
        let num_removed = Arc::clone(&self.num_removed);
        self.run(None, move || {
            let removed = remove_tree(&path, &num_removed);
            let error = removed.err();
            let error = error.map(|e| format!("cannot remove {}: {e}", path.display()));
            error.into_iter().collect()
        });
    }

    fn run(
        &mut self,
        registered: Option<Registered>,
        work: impl FnOnce() -> Vec<String> + Send + 'static,
    ) {
        // Removals are not cancelled: a task is kept until its work has ended.
        match self.helpers.run(|_| work()) {
            Ok(task) => self.tasks.push((task, registered)),
            Err(error) => tracing::warn!("files are not removed before the launcher ends: {error}"),
        }
    }
}

/// Says what could not be removed.
fn warn_of(state: TaskState<Vec<String>>) {
    match state {
        TaskState::Done(errors) => errors.iter().for_each(|error| tracing::warn!("{error}")),
        TaskState::Pending => {}
        TaskState::Lost => tracing::warn!("the thread that removes files failed"),
    }
}
