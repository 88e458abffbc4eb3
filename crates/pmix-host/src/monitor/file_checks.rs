// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that check files, one for each process with monitored files. A file system that does not respond,
//! such as one of a lost file server, then blocks neither the host nor the monitors of other processes.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use pmix_types::{Proc, Status};

use super::{MOST_OF_ONE, error};
use crate::Error;

/// Maximum number of threads that check files, including threads blocked by a file system that no monitor
/// needs any more.
const MOST_THREADS: usize = 64;
/// Time that the host waits for the checks it requested at once. A later result is used at the next check of
/// the file.
const WAIT: Duration = Duration::from_millis(20);
/// Stack size of the threads.
const STACK_BYTES: usize = 128 << 10;

/// The observed state of a file: its size, and seconds and nanoseconds of its last access and modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) size: u64,
    pub(super) access: (i64, i64),
    pub(super) modification: (i64, i64),
}

/// The function that checks a file; `None` if the file does not exist.
type CheckFn = dyn Fn(&Path) -> Option<FileState> + Send + Sync;

/// The id of a check of a file by a thread.
pub(super) type FileCheckId = u64;

/// The threads that check files, by process.
pub(super) struct FileChecks {
    check_file: Arc<CheckFn>,
    threads: BTreeMap<Proc<'static>, Thread>,
    wait: Duration,
    /// The count of threads: each holds a clone.
    running: Arc<()>,
    last: FileCheckId,
    result_sender: Sender<(FileCheckId, Option<FileState>)>,
    results: Receiver<(FileCheckId, Option<FileState>)>,
}

/// The thread that checks the files of one process.
struct Thread {
    /// The queue of files to check. The thread ends when the queue is empty and this sender is dropped.
    requests: Sender<(FileCheckId, PathBuf)>,
    /// The checks that are not known to have ended.
    open: HashSet<FileCheckId>,
    /// The results of completed checks that were not taken, at most one for each possible monitor of a
    /// process.
    ended: BTreeMap<FileCheckId, Option<FileState>>,
}

impl Default for FileChecks {
    fn default() -> Self {
        Self::with(Arc::new(check_file), WAIT)
    }
}

impl fmt::Debug for FileChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileChecks")
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

impl FileChecks {
    fn with(check_file: Arc<CheckFn>, wait: Duration) -> Self {
        let (result_sender, results) = mpsc::channel();
        Self {
            check_file,
            threads: BTreeMap::new(),
            wait,
            running: Arc::new(()),
            last: 0,
            result_sender,
            results,
        }
    }

    /// Requests a check at a file of a process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if there is no thread for it.
    pub(super) fn request(
        &mut self,
        owner: &Proc<'static>,
        path: &Path,
    ) -> Result<FileCheckId, Error> {
        let thread = match self.threads.get_mut(owner) {
            Some(thread) => thread,
            None => {
                let thread = self.begin()?;
                self.threads.entry(owner.clone()).or_insert(thread)
            }
        };
        // Checks of a blocked file system would collect without end.
        if thread.open.len() >= MOST_OF_ONE {
            let message = format!(
                "{MOST_OF_ONE} checks of monitored files of the process have not completed"
            );
            return Err(error(Status::ERR_OUT_OF_RESOURCE, message));
        }
        self.last += 1;
        if thread.requests.send((self.last, path.to_owned())).is_err() {
            self.threads.remove(owner);
            let message = "the thread that checks the monitored files of the process has ended";
            return Err(error(Status::ERR_OUT_OF_RESOURCE, message));
        }
        thread.open.insert(self.last);
        Ok(self.last)
    }

    /// Returns `true` if all checks of a process have completed, so that the next one runs soon.
    pub(super) fn is_idle(&self, owner: &Proc<'static>) -> bool {
        let thread = self.threads.get(owner);
        thread.is_none_or(|thread| thread.open.is_empty())
    }

    /// Returns `true` if a check of a process is not known to have completed.
    pub(super) fn is_open(&self, owner: &Proc<'static>, id: FileCheckId) -> bool {
        let thread = self.threads.get(owner);
        thread.is_some_and(|thread| thread.open.contains(&id))
    }

    /// Removes and returns the result of a check, if it has ended.
    pub(super) fn take(
        &mut self,
        owner: &Proc<'static>,
        id: FileCheckId,
    ) -> Option<Option<FileState>> {
        self.threads.get_mut(owner)?.ended.remove(&id)
    }

    /// Returns the last requested check.
    pub(super) const fn last(&self) -> FileCheckId {
        self.last
    }

    /// Waits a short time for the checks requested after `after`.
    pub(super) fn wait(&mut self, after: FileCheckId) {
        let end = Instant::now() + self.wait;
        let is_waited_for = |id: &&FileCheckId| **id > after;
        let open = self.threads.values().flat_map(|thread| &thread.open);
        let mut num_left = open.filter(is_waited_for).count();
        while num_left > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let Ok((id, seen)) = self.results.recv_timeout(left) else {
                break;
            };
            // Results of earlier checks may arrive, too.
            if self.add_result(id, seen) && id > after {
                num_left -= 1;
            }
        }
    }

    /// Stores the results of checks that have ended since.
    pub(super) fn drain(&mut self) {
        while let Ok((id, seen)) = self.results.try_recv() {
            self.add_result(id, seen);
        }
    }

    /// Stores the result of a check. Returns `true` if its process still has monitored files.
    fn add_result(&mut self, id: FileCheckId, seen: Option<FileState>) -> bool {
        let mut threads = self.threads.values_mut();
        let Some(thread) = threads.find_map(|thread| thread.open.remove(&id).then_some(thread))
        else {
            return false;
        };
        thread.ended.insert(id, seen);
        // Results of cancelled monitors are never taken, so the map is bounded here.
        if thread.ended.len() > MOST_OF_ONE {
            thread.ended.pop_first();
        }
        true
    }

    /// Removes a process that has no monitored files any more.
    pub(super) fn forget(&mut self, owner: &Proc<'static>) {
        self.threads.remove(owner);
    }

    fn begin(&self) -> Result<Thread, Error> {
        let refused = |message: String| error(Status::ERR_OUT_OF_RESOURCE, message);
        // This object holds one clone itself.
        if Arc::strong_count(&self.running) > MOST_THREADS {
            return Err(refused(format!(
                "the limit of {MOST_THREADS} processes with monitored files is reached; checks on file \
                systems that do not respond also count"
            )));
        }
        let (requests, queue) = mpsc::channel::<(FileCheckId, PathBuf)>();
        let (check_file, result_sender) =
            (Arc::clone(&self.check_file), self.result_sender.clone());
        let running = Arc::clone(&self.running);
        let named = thread::Builder::new().name("pmix-files".to_owned());
        let begun = named.stack_size(STACK_BYTES).spawn(move || {
            for (id, path) in queue {
                let seen = check_file(&path);
                if result_sender.send((id, seen)).is_err() {
                    break;
                }
            }
            // The clone counts the thread until its end, even if no monitor needs it any more.
            drop(running);
        });
        begun.map_err(|error| {
            refused(format!("cannot start a thread that checks a file: {error}"))
        })?;
        Ok(Thread {
            requests,
            open: HashSet::new(),
            ended: BTreeMap::new(),
        })
    }
}

fn check_file(path: &Path) -> Option<FileState> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileState {
        size: metadata.size(),
        access: (metadata.atime(), metadata.atime_nsec()),
        modification: (metadata.mtime(), metadata.mtime_nsec()),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Condvar, Mutex};

    use pmix_types::Rank;

    use super::*;

    /// A limit beyond the duration of a test on any machine.
    const LONG: Duration = Duration::from_secs(600);

    impl FileChecks {
        /// Creates threads whose checks are always waited for.
        pub(crate) fn patient() -> Self {
            Self::with(Arc::new(check_file), LONG)
        }

        /// Creates threads that map `/hung` to `/` and block there until the gate opens.
        pub(crate) fn with_gate(gate: &Arc<Gate>, wait: Duration) -> Self {
            let gate = Arc::clone(gate);
            let check_file = move |path: &Path| match path.strip_prefix("/hung") {
                Ok(path) => {
                    gate.pass();
                    check_file(&Path::new("/").join(path))
                }
                Err(_) => check_file(path),
            };
            Self::with(Arc::new(check_file), wait)
        }
    }

    /// A gate that blocks checks until it is opened.
    #[derive(Default)]
    pub(crate) struct Gate {
        is_open: Mutex<bool>,
        opened: Condvar,
    }

    impl Gate {
        fn pass(&self) {
            let shut = |is_open: &mut bool| !*is_open;
            drop(
                self.opened
                    .wait_while(self.is_open.lock().unwrap(), shut)
                    .unwrap(),
            );
        }

        pub(crate) fn open(&self) {
            *self.is_open.lock().unwrap() = true;
            self.opened.notify_all();
        }

        pub(crate) fn shut(&self) {
            *self.is_open.lock().unwrap() = false;
        }
    }

    fn owner(rank: u32) -> Proc<'static> {
        Proc::new("job", Rank::new(rank))
    }

    #[test]
    fn a_blocked_file_system_does_not_delay_other_processes() {
        let gate = Arc::<Gate>::default();
        let mut checks = FileChecks::with_gate(&gate, LONG);
        let hung = checks
            .request(&owner(0), Path::new("/hung/absent"))
            .unwrap();
        let other = checks.request(&owner(1), Path::new("/")).unwrap();
        // The first check is not waited for, because the second was requested after it.
        checks.wait(hung);
        assert!(checks.is_open(&owner(0), hung) && !checks.is_open(&owner(1), other));
        assert!(checks.take(&owner(1), other).flatten().is_some());
        assert!(!checks.is_idle(&owner(0)) && checks.is_idle(&owner(1)));
        gate.open();
        checks.wait(hung - 1);
        assert_eq!(checks.take(&owner(0), hung), Some(None));
        assert!(checks.is_idle(&owner(0)));
    }

    #[test]
    fn looks_of_one_process_are_bounded() {
        let gate = Arc::<Gate>::default();
        let mut checks = FileChecks::with_gate(&gate, LONG);
        for _ in 0..MOST_OF_ONE {
            checks
                .request(&owner(0), Path::new("/hung/absent"))
                .unwrap();
        }
        let refused = checks
            .request(&owner(0), Path::new("/hung/absent"))
            .unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        gate.open();
        checks.wait(0);
        let last = checks
            .request(&owner(0), Path::new("/hung/absent"))
            .unwrap();
        checks.wait(0);
        // The results were not taken.
        assert_eq!(checks.take(&owner(0), 1), None);
        assert_eq!(checks.take(&owner(0), last), Some(None));
    }

    #[test]
    fn threads_that_wait_for_ever_are_bounded() {
        let gate = Arc::<Gate>::default();
        let mut checks = FileChecks::with_gate(&gate, Duration::ZERO);
        let most = u32::try_from(MOST_THREADS).unwrap();
        for rank in 0..most {
            checks
                .request(&owner(rank), Path::new("/hung/absent"))
                .unwrap();
            checks.forget(&owner(rank));
        }
        let refused = checks.request(&owner(most), Path::new("/")).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        gate.open();
        while Arc::strong_count(&checks.running) > 1 {
            thread::yield_now();
        }
        assert!(checks.request(&owner(most), Path::new("/")).is_ok());
    }
}
