// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that outlives a killed launcher, terminates the processes of its jobs, removes their files, and restores the
//! modes of the terminal.
//!
//! The launcher writes each started process and each path that is registered for removal to a pipe. The watcher sees
//! the end of the pipe however the launcher ends. It finds processes that left their process group (`setsid`) by
//! their environment. Every process of the job and its descendants have the directory of the session in it, whose
//! name cannot be guessed.
//!
//! One watcher for a job costs less than a parent-death signal (`PR_SET_PDEATHSIG`) for each process. Only a process
//! itself can request that signal, so each would have to be started through another program. Its descendants would
//! also survive.

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
use crate::input::SavedModes;
use crate::null;

/// The number of lines per write. Each write wakes the watcher, which takes a noticeable part of a launch.
const AT_ONCE: usize = 32;

/// The limit in bytes of lines that wait to be written. The watcher reads at once unless it is stopped or starved;
/// beyond the limit the launcher continues without it.
const MOST_WAITING: usize = 96 << 20;

/// The delay before the next write if the pipe to the watcher is full.
const RETRY: Duration = Duration::from_millis(20);

/// The variable in the environment of watchers.
const WATCHER: &str = "PMIX_RUN_WATCHER";

/// Returns `true` if a process is the watcher of another launcher, or claims to be one.
pub(crate) fn is_watcher(pid: Pid) -> bool {
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    let mark = [WATCHER.as_bytes(), b"=1"].concat();
    environment.is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == mark))
}

/// The time that the watcher has to exit together with its launcher.
const END: Duration = Duration::from_millis(500);

/// The connection to the process that watches the launcher.
///
/// Lines may wait for more lines or for [`Self::flush`]. A process of which the watcher does not learn in time is
/// found by the directory of the session.
pub(crate) struct Watcher {
    /// The watcher and its input; `None` if it could not be started or has ended.
    process: Option<(Child, ChildStdin)>,
    /// The lines that wait, and the number of lines since the last write.
    waiting: Vec<u8>,
    num_waiting: usize,
    /// `true` if the launcher exits before its removals complete and leaves the rest to the watcher.
    has_rest: bool,
}

impl Watcher {
    /// Starts the watcher by a command that calls [`end_with_launcher`]. Jobs also run if that fails.
    pub(crate) fn start(command: Option<&[OsString]>, session: &Path) -> Self {
        let Some((program, args)) = command.and_then(<[OsString]>::split_first) else {
            return Self::of(None);
        };
        // No process is served yet, so nothing else waits until the watcher is executed.
        let mut command = Command::new(program);
        command
            .args(args)
            // An inherited environment could name the session of an outer launcher, whose watcher would kill this
            // one.
            .env_clear()
            .env(WATCHER, "1")
            .current_dir("/")
            .stdin(Stdio::piped())
            // Signals to the process group of the launcher, such as Ctrl-C, must not reach the watcher.
            .process_group(0);
        let started = null::output().and_then(|output| {
            let errors = null::output()?;
            command.stdout(output).stderr(errors).spawn()
        });
        match started {
            Ok(mut child) => {
                let input = child.stdin.take();
                let mut watcher = Self::of(input.map(|input| (child, input)));
                watcher.never_wait();
                watcher.queue(&Line::Session(session));
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

    /// Makes the pipe nonblocking: a stopped watcher must not block the launcher.
    fn never_wait(&mut self) {
        if let Some((_, input)) = &self.process
            && let Err(e) = rustix::io::ioctl_fionbio(input, true)
        {
            tracing::debug!("writes to the watcher process may block: {e}");
        }
    }

    /// Returns the process id of the watcher while it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let (child, _) = self.process.as_ref()?;
        Some(Pid::from_child(child))
    }

    /// Protects directories that the launcher does not remove either.
    pub(crate) fn keep(&mut self, paths: &[PathBuf]) {
        // The watcher has another working directory, so a relative path would name another directory there. The root
        // is protected in any case.
        let useful = paths.iter().filter(|path| line::is_below_root(path));
        useful.for_each(|path| self.queue(&Line::Kept(path)));
    }

    /// Registers the modes of the launcher's terminal, which the launcher changes.
    pub(crate) fn restore_terminal_later(&mut self, modes: &SavedModes) {
        self.queue(&Line::Terminal(modes));
        self.flush();
    }

    /// Registers a process that leads a process group.
    pub(crate) fn register(&mut self, pid: Pid) {
        self.queue(&Line::Started(pid.as_raw_nonzero().get()));
    }

    /// Deregisters a process whose group is empty: its process id may be reused.
    pub(crate) fn deregister(&mut self, pid: Pid) {
        self.queue(&Line::Gone(pid.as_raw_nonzero().get()));
        self.flush();
    }

    /// Registers the paths that a user wants removed at the end of a process or a job.
    pub(crate) fn remove_later(&mut self, target: &Proc<'_>, uid: u32, cleanup: &Cleanup) {
        let key = Key::of(target, uid);
        for file in &cleanup.files {
            self.queue(&Line::Remove(&key, Removal::File(file.as_bytes())));
        }
        for directory in &cleanup.directories {
            self.queue(&Line::Remove(&key, Removal::directory(directory)));
        }
        for left in &cleanup.ignored {
            self.queue(&Line::Remove(&key, Removal::Ignored(left.as_bytes())));
        }
    }

    /// Deregisters paths that the launcher has removed.
    pub(crate) fn removed(&mut self, target: &Proc<'_>, uid: u32) {
        self.queue(&Line::Removed(&Key::of(target, uid)));
    }

    /// Leaves to the watcher, for the time after this is dropped, the directory of the session and the paths that are
    /// not [removed](Self::removed). Returns its process id, or `None` if it does not run.
    pub(crate) fn leave_rest(&mut self) -> Option<Pid> {
        self.has_rest = true;
        self.pid()
    }

    /// Ends the watcher, or lets it remove the remaining files. No process of a job may be left.
    pub(crate) fn end(&mut self) {
        self.queue(match self.has_rest {
            true => &Line::Rest,
            false => &Line::Over,
        });
        self.flush();
        if let Some((mut child, input)) = self.process.take() {
            // The watcher exits after the launcher, since a removal can take long. Without the last line it would
            // kill processes, therefore it must have got all lines.
            if self.has_rest && self.waiting.is_empty() {
                return;
            }
            // A stopped watcher, or one that has not read all lines, does not exit by itself. It has to be dead
            // before its input ends without the last line, because it would kill processes then.
            let over = self.waiting.is_empty() && ends_by_itself(&child);
            if !over && let Err(e) = child.kill() {
                tracing::debug!("cannot kill the watcher process: {e}");
            }
            drop(input);
            let _ = child.wait();
        }
    }

    fn queue(&mut self, line: &Line<'_>) {
        if self.process.is_none() {
            return;
        }
        line.write(&mut self.waiting);
        self.num_waiting += 1;
        if self.num_waiting >= AT_ONCE {
            self.flush();
        }
    }

    /// Writes the waiting lines as far as the pipe has room.
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
                // A user may have killed the watcher.
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

    /// Returns the time for the next [`Self::flush`] if lines wait for room in the pipe.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| now + RETRY)
    }

    /// Kills the watcher and continues without it.
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

/// Waits for the exit of a watcher that has got its last line. Returns `true` if it exited in time.
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
    fn lines_to_the_watcher_are_batched_and_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("told");
        let words = ["/bin/sh", "-c", "exec cat > \"$0\""].map(OsString::from);
        let command = [&words[..], &[file.clone().into()]].concat();
        let mut watcher = Watcher::start(Some(&command), Path::new("/s"));
        let pid = |number| Pid::from_raw(number).unwrap();
        watcher.register(pid(7));
        watcher.register(pid(8));
        assert_eq!(watcher.waiting, b"7\n8\n");
        watcher.deregister(pid(7));
        assert_eq!(watcher.waiting, b"");
        (0..i32::try_from(AT_ONCE).unwrap()).for_each(|number| watcher.register(pid(100 + number)));
        assert_eq!(watcher.waiting, b"");
        watcher.end();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(
            text.starts_with("session /s\n7\n8\ngone 7\n100\n101\n"),
            "{text}"
        );
        assert!(text.ends_with("130\n131\nover\n"), "{text}");
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
        let text = std::fs::read_to_string(all).unwrap();
        assert_eq!(text, "session /s\nrest\n");
    }
}
