// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that outlives a killed launcher, ends the processes of its jobs, and removes what they leave.
//!
//! The launcher writes each process that it starts, and each path that is registered for removal, to a pipe, whose end
//! the watcher sees however the launcher ends. It finds processes that left their process group (`setsid`) by their
//! environment: the directory of the session, whose name nobody can foresee, is in that of every process of the job and
//! of what it started.
//! One such process for a job costs less than to have the system do it for each process
//! (`PR_SET_PDEATHSIG`): only a process itself can ask for that, so each would be started by way of
//! another program, and what it starts in turn would still go on.

mod line;
mod process;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use pmix_server::Cleanup;
use pmix_types::Proc;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::line::{Key, Line, Removal};
pub use self::process::end_with_launcher;

/// The number of lines that the watcher is given at once: each write wakes it, which takes as long as a part of a
/// launch.
const AT_ONCE: usize = 32;

/// The number of bytes that may wait for the watcher to read. It reads at once unless it is stopped or starved; a
/// launcher that has more for it goes on without it.
const MOST_WAITING: usize = 96 << 20;

/// The time after which the launcher writes again to a watcher whose pipe is full.
const RETRY: Duration = Duration::from_millis(20);

/// The time that the watcher has to end by itself with its launcher.
const END: Duration = Duration::from_millis(500);

/// The process that watches the launcher.
///
/// Lines may wait until there are more, or until [`Self::flush`] is called: a process that the watcher does not learn of
/// in time it finds by the directory of the session.
pub(crate) struct Watcher {
    /// None when it could not be started, or has ended.
    process: Option<(Child, ChildStdin)>,
    /// Lines that wait, and how many were added since the last write.
    waiting: Vec<u8>,
    num_waiting: usize,
    /// The launcher ends before its removals do, and leaves the rest of them.
    has_rest: bool,
}

impl Watcher {
    /// Starts it by a command that calls [`end_with_launcher`]. A job runs without it, too.
    pub(crate) fn start(command: Option<&[OsString]>, session: &Path) -> Self {
        let Some((program, args)) = command.and_then(<[OsString]>::split_first) else {
            return Self::of(None);
        };
        let started = Command::new(program)
            .args(args)
            // Or it would be one of the processes of a job that this launcher is a part of.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the process group of the launcher is not for the watcher.
            .process_group(0)
            .spawn();
        match started {
            Ok(mut child) => {
                let input = child.stdin.take();
                let mut watcher = Self::of(input.map(|input| (child, input)));
                watcher.never_wait();
                watcher.say(&Line::Session(session));
                watcher.flush();
                watcher
            }
            Err(e) => {
                tracing::debug!("processes will keep running if the launcher is killed: {e}");
                Self::of(None)
            }
        }
    }

    fn of(process: Option<(Child, ChildStdin)>) -> Self {
        Self {
            process,
            waiting: Vec::new(),
            num_waiting: 0,
            has_rest: false,
        }
    }

    /// Makes writes return when the pipe is full: a watcher that is stopped must not stop the launcher.
    fn never_wait(&mut self) {
        if let Some((_, input)) = &self.process
            && let Err(e) = rustix::io::ioctl_fionbio(input, true)
        {
            tracing::debug!("writes to the watcher process may block: {e}");
        }
    }

    /// Returns its process id as long as it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let (child, _) = self.process.as_ref()?;
        Some(Pid::from_child(child))
    }

    /// Has it keep directories that the launcher does not remove either.
    pub(crate) fn keep(&mut self, paths: &[PathBuf]) {
        // A relative path would mean another directory there. The root is kept in any case.
        let useful = paths.iter().filter(|path| line::is_below_root(path));
        useful.for_each(|path| self.say(&Line::Kept(path)));
    }

    /// Has it kill a process that leads a process group.
    pub(crate) fn tell(&mut self, pid: Pid) {
        self.say(&Line::Started(pid.as_raw_nonzero().get()));
    }

    /// Has it leave a process alone of whose group nothing is left: the number may be given to another process now.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.say(&Line::Gone(pid.as_raw_nonzero().get()));
        self.flush();
    }

    /// Has it remove what a user registered for removal at the end of a process or a job.
    pub(crate) fn remove_later(&mut self, target: &Proc<'_>, uid: u32, cleanup: &Cleanup) {
        let key = Key::of(target, uid);
        for file in &cleanup.files {
            self.say(&Line::Remove(&key, Removal::File(file.as_bytes())));
        }
        for directory in &cleanup.directories {
            self.say(&Line::Remove(&key, Removal::directory(directory)));
        }
        for left in &cleanup.ignored {
            self.say(&Line::Remove(&key, Removal::Ignored(left.as_bytes())));
        }
    }

    /// Has it forget what the launcher has removed.
    pub(crate) fn removed(&mut self, target: &Proc<'_>, uid: u32) {
        self.say(&Line::Removed(&Key::of(target, uid)));
    }

    /// Has it remove, once this is dropped, the directory of the session and the paths that are not
    /// [removed](Self::removed). Returns its process id, or `None` if it does not run.
    pub(crate) fn leave_rest(&mut self) -> Option<Pid> {
        self.has_rest = true;
        self.pid()
    }

    /// Ends it, or lets it remove the rest of the files. No process of a job is left.
    pub(crate) fn end(&mut self) {
        self.say(match self.has_rest {
            true => &Line::Rest,
            false => &Line::Over,
        });
        self.flush();
        if let Some((mut child, input)) = self.process.take() {
            // It ends after the launcher, as a disk may take long, so nothing waits for it. Without the last line it would
            // kill processes, so it is killed if it has not read all lines.
            if self.has_rest && self.waiting.is_empty() {
                return;
            }
            // One that has not read all, or that is stopped, does not end by itself. It has to be dead before its input
            // ends without the last line.
            let over = self.waiting.is_empty() && ends_by_itself(&child);
            if !over && let Err(e) = child.kill() {
                tracing::debug!("cannot kill the watcher process: {e}");
            }
            drop(input);
            let _ = child.wait();
        }
    }

    fn say(&mut self, line: &Line<'_>) {
        if self.process.is_none() {
            return;
        }
        line.write(&mut self.waiting);
        self.num_waiting += 1;
        if self.num_waiting >= AT_ONCE {
            self.flush();
        }
    }

    /// Writes the lines that wait, as far as the pipe has room.
    pub(crate) fn flush(&mut self) {
        self.num_waiting = 0;
        let mut written = 0;
        while let Some((_, input)) = &mut self.process
            && written < self.waiting.len()
        {
            match input.write(&self.waiting[written..]) {
                Ok(len) => written += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // A user may have killed it.
                Err(e) => {
                    tracing::debug!("processes will keep running if the launcher is killed: {e}");
                    written = self.waiting.len();
                }
            }
        }
        self.waiting.drain(..written);
        if self.waiting.len() > MOST_WAITING {
            tracing::warn!(
                "the watcher process of the launcher stopped reading and was killed: if the launcher is \
                killed with SIGKILL, processes and files of its jobs remain"
            );
            self.give_up();
        }
    }

    /// Returns when to call [`Self::flush`] again, if lines wait for room in the pipe.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| now + RETRY)
    }

    /// Goes on without it.
    fn give_up(&mut self) {
        self.waiting = Vec::new();
        if let Some((mut child, input)) = self.process.take() {
            if let Err(e) = child.kill() {
                tracing::debug!("cannot kill the watcher process: {e}");
            }
            drop(input);
            let _ = child.wait();
        }
    }
}

/// Waits for the end of a process that has its last line to read. Returns whether it came in time.
fn ends_by_itself(child: &Child) -> bool {
    let Ok(process) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return false;
    };
    let limit = END.try_into().ok();
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut fds, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_waits_for_more_and_comes_in_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("told");
        let words = ["/bin/sh", "-c", "exec cat > \"$0\""].map(OsString::from);
        let command = [&words[..], &[file.clone().into()]].concat();
        let mut watcher = Watcher::start(Some(&command), Path::new("/s"));
        let pid = |number| Pid::from_raw(number).unwrap();
        watcher.tell(pid(7));
        watcher.tell(pid(8));
        assert_eq!(watcher.waiting, b"7\n8\n");
        watcher.forget(pid(7));
        assert_eq!(watcher.waiting, b"");
        (0..i32::try_from(AT_ONCE).unwrap()).for_each(|number| watcher.tell(pid(100 + number)));
        assert_eq!(watcher.waiting, b"");
        watcher.end();
        let told = std::fs::read_to_string(file).unwrap();
        assert!(
            told.starts_with("session /s\n7\n8\ngone 7\n100\n101\n"),
            "{told}"
        );
        assert!(told.ends_with("130\n131\nover\n"), "{told}");
    }

    #[test]
    fn a_watcher_that_removes_the_rest_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("told");
        let script = "cat > \"$0\"; mv \"$0\" \"$0.all\"";
        let command = [
            "/bin/sh".into(),
            "-c".into(),
            script.into(),
            file.clone().into(),
        ];
        let mut watcher = Watcher::start(Some(&command), Path::new("/s"));
        assert_eq!(watcher.leave_rest(), watcher.pid());
        drop(watcher);
        let all = dir.path().join("told.all");
        while !all.exists() {
            std::thread::sleep(RETRY);
        }
        let told = std::fs::read_to_string(all).unwrap();
        assert_eq!(told, "session /s\nrest\n");
    }
}
