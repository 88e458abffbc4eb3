// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories of processes, each created when its process connects.
//!
//! A client may use the path as soon as it is connected, so the directory is created before the reply. A file system
//! in memory does not wait for anything. On any other file system a thread creates the directory and the launcher waits
//! only a moment for it, so that other clients are served while a server does not answer or a disk is busy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pmix_host::helpers::{Helpers, Task, TaskState};
use pmix_server::HostObject;
use pmix_types::Rank;

use crate::session_dir::{name_of, private};

/// The time that the launcher waits for a directory on a file system that may be remote.
const PATIENCE: Duration = Duration::from_millis(10);

/// The time that the launcher waits for a directory on a local disk. A disk answers unless it is broken or very busy,
/// while the thread may have to wait for a processor.
const PATIENCE_WITH_DISKS: Duration = Duration::from_millis(250);

/// The types of file systems in memory (`statfs(2)`): tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// The types of file systems on a local disk (`statfs(2)`): ext4, XFS, Btrfs, ZFS, F2FS and overlayfs, whose upper
/// layer is one of these.
const ON_DISK: [u32; 6] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0x794c_7630,
];

/// The directories of processes, below those of their jobs.
#[derive(Debug)]
pub(crate) struct ProcessDirs {
    /// The directory of the session.
    session: PathBuf,
    /// The thread that creates directories; `None` if the file system is in memory.
    thread: Option<DirThread>,
}

/// The thread that creates directories.
struct DirThread {
    helpers: Helpers,
    make: Arc<dyn Fn(&Path) + Send + Sync>,
    patience: Duration,
    /// The directories that were not created in time. The launcher does not wait again until all of them exist.
    late: Mutex<Vec<Task<()>>>,
}

impl ProcessDirs {
    /// Returns the directories for a session. The type of its file system decides if a thread is used.
    pub(crate) fn of(session: &Path) -> Self {
        let kind = rustix::fs::statfs(session).map(|about| about.f_type);
        let is_one = |kinds: &[u32]| kinds.iter().any(|own| kind == Ok((*own).into()));
        let patience = match is_one(&ON_DISK) {
            true => PATIENCE_WITH_DISKS,
            false => PATIENCE,
        };
        Self {
            session: session.to_owned(),
            thread: (!is_one(&IN_MEMORY)).then(|| DirThread::new(make, patience)),
        }
    }

    /// Returns the object that the server keeps for a process. It encodes the directory: the number of the job, or
    /// the largest number that fits, and the rank.
    pub(crate) fn object(number: Option<u64>, rank: Rank) -> HostObject {
        let number = u32::try_from(number.unwrap_or(0)).unwrap_or(u32::MAX);
        HostObject(u64::from(number) << 32 | u64::from(rank.as_raw()))
    }

    /// Creates the directory of a process that connects, if it does not exist. If the file system hangs, the call
    /// returns before the directory exists.
    pub(crate) fn make(&self, HostObject(object): HostObject) {
        let (number, rank) = (object >> 32, object & u64::from(u32::MAX));
        let path = self.session.join(name_of(number)).join(rank.to_string());
        match &self.thread {
            Some(thread) => thread.make(path),
            None => make(&path),
        }
    }
}

impl DirThread {
    fn new(make: impl Fn(&Path) + Send + Sync + 'static, patience: Duration) -> Self {
        Self {
            // Results are polled, so no wake-up is needed.
            helpers: Helpers::new("pmix-directory", 1, || ()),
            make: Arc::new(make),
            patience,
            late: Mutex::default(),
        }
    }

    /// Lets the thread create a directory and waits a moment for it.
    fn make(&self, path: PathBuf) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain_mut(|task| task.poll() == TaskState::Pending);
        let (work, dir) = (Arc::clone(&self.make), path.clone());
        let mut task = match self.helpers.run(move |_| work(&dir)) {
            Ok(task) => task,
            Err(error) => {
                return tracing::warn!("{} is not made: {error}", path.display());
            }
        };
        // While an earlier directory is late, the file system is taken to hang. Waiting again would add up over many
        // clients.
        let is_alone = late.is_empty();
        if !is_alone || task.wait(self.patience) == TaskState::Pending {
            if is_alone {
                tracing::warn!("{} does not answer, and is made later", path.display());
            }
            late.push(task);
        }
    }
}

fn make(path: &Path) {
    match private().create(path) {
        Ok(()) => {}
        // A restarted process has the directory of its predecessor.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => tracing::warn!("cannot make {}: {e}", path.display()),
    }
}

impl std::fmt::Debug for DirThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("DirThread")
            .field("late", &late.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;
    use crate::session_dir::{JobDir, SessionDir};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_directory_of_a_process_is_there_at_once_with_a_thread_and_without() {
        let tmp = tempfile::tempdir().unwrap();
        let session = SessionDir::create(tmp.path()).unwrap();
        let job = JobDir::create(session.path(), None).unwrap();
        let spawned = JobDir::create(session.path(), Some(1)).unwrap();
        for (number, thread) in [None, Some(DirThread::new(make, LONG))]
            .into_iter()
            .enumerate()
        {
            let session = session.path().to_owned();
            let dirs = ProcessDirs { session, thread };
            let rank = Rank::new(u32::try_from(number).unwrap());
            // A restarted process finds its directory.
            for (job, number) in [(&job, None), (&job, None), (&spawned, Some(1))] {
                dirs.make(ProcessDirs::object(number, rank));
                assert!(job.of_process(rank).is_dir());
            }
        }
    }

    #[test]
    fn a_file_system_that_does_not_answer_is_waited_for_once() {
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let (say, said) = channel();
        let make = move |path: &Path| {
            // The sender is dropped before the second directory.
            let _ = gate.lock().unwrap().recv();
            let _ = say.send(path.to_owned());
        };
        let patience = Duration::from_millis(100);
        let dirs = ProcessDirs {
            session: "/session".into(),
            thread: Some(DirThread::new(make, patience)),
        };
        let object = |rank| ProcessDirs::object(None, Rank::new(rank));
        let begun = Instant::now();
        dirs.make(object(0));
        assert!(begun.elapsed() >= patience);
        (1..1000).for_each(|rank| dirs.make(object(rank)));
        // Without the limit each of them would take as long as the first.
        assert!(begun.elapsed() < 500 * patience);
        assert!(said.try_recv().is_err());
        drop(open);
        for rank in 0..1000 {
            let expected = Path::new("/session/job").join(rank.to_string());
            assert_eq!(said.recv_timeout(LONG), Ok(expected));
        }
    }

    #[test]
    fn the_file_system_of_a_session_decides_whether_a_thread_makes_its_directories() {
        assert!(ProcessDirs::of(Path::new("/proc")).thread.is_some());
        assert!(ProcessDirs::of(Path::new("/no/such")).thread.is_some());
        assert!(ProcessDirs::of(Path::new("/dev/shm")).thread.is_none());
    }
}
