// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that outlives a killed launcher, and ends the processes of its job.
//!
//! It is told of each process that starts through a pipe, whose end it sees however the launcher ends.
//! What left its process group (`setsid`) is told by its environment: the directory of the session,
//! whose name nobody can foresee, is in that of every process of the job and of what it started.
//! One such process for a job costs less than to have the system do it for each process
//! (`PR_SET_PDEATHSIG`): only a process itself can ask for that, so each would be started by way of
//! another program, and what it starts in turn would still go on.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// What a launcher says that ends by itself.
const OVER: &str = "over";

/// What stands in front of a process that was reaped with all of its group.
const GONE: &str = "gone ";

/// What stands in front of the directory of the session.
const SESSION: &str = "session ";

/// How often it is looked for processes that start others while they are killed.
const ROUNDS: usize = 100;

/// How many processes it is told of at once: whoever writes to it wakes it, which takes as long as a part of a
/// launch.
const AT_ONCE: usize = 32;

/// The process that watches the launcher.
///
/// What it is told of processes may wait until it is told more, or [`Self::flush`] is called: one that it does
/// not hear of in time it finds by the directory of the session.
pub(crate) struct Watcher {
    /// None when it could not be started, or has ended.
    process: Option<(Child, ChildStdin)>,
    /// Lines that wait, and how many.
    waiting: String,
    num_waiting: usize,
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
            // Whoever kills the process group of the launcher does not mean it.
            .process_group(0)
            .spawn();
        match started {
            Ok(mut child) => {
                let input = child.stdin.take();
                let mut watcher = Self::of(input.map(|input| (child, input)));
                // A name that is no line is not told: process groups are then all that is ended.
                if let Some(name) = session.to_str().filter(|name| !name.contains('\n')) {
                    watcher.say(&format!("{SESSION}{name}"));
                    watcher.flush();
                }
                watcher
            }
            Err(e) => {
                tracing::debug!("processes go on if the launcher is killed: {e}");
                Self::of(None)
            }
        }
    }

    fn of(process: Option<(Child, ChildStdin)>) -> Self {
        Self {
            process,
            waiting: String::new(),
            num_waiting: 0,
        }
    }

    /// Its process number, as long as it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let (child, _) = self.process.as_ref()?;
        Some(Pid::from_child(child))
    }

    /// Tells it of a process that leads a process group.
    pub(crate) fn tell(&mut self, pid: Pid) {
        self.say(&pid.as_raw_nonzero().to_string());
    }

    /// Tells it that nothing is left of a process and its group: its number may be another's now.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.say(&format!("{GONE}{}", pid.as_raw_nonzero()));
        // Nobody else is to be killed for it.
        self.flush();
    }

    /// Nothing of the job is left, so there is nothing to end.
    pub(crate) fn end(&mut self) {
        self.say(OVER);
        self.flush();
        if let Some((mut child, input)) = self.process.take() {
            drop(input);
            let _ = child.wait();
        }
    }

    fn say(&mut self, line: &str) {
        if self.process.is_none() {
            return;
        }
        self.waiting.push_str(line);
        self.waiting.push('\n');
        self.num_waiting += 1;
        if self.num_waiting >= AT_ONCE {
            self.flush();
        }
    }

    /// Tells what waits to be told.
    pub(crate) fn flush(&mut self) {
        if self.num_waiting == 0 {
            return;
        }
        // Some hundred bytes, which it reads at once. Somebody may have killed it.
        if let Some((_, input)) = &mut self.process
            && let Err(e) = input.write_all(self.waiting.as_bytes())
        {
            tracing::debug!("processes go on if the launcher is killed: {e}");
        }
        self.waiting.clear();
        self.num_waiting = 0;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the launcher has ended that started this process as its
/// [`watcher`](crate::Plan::watcher), and kills the process groups that it leaves behind and what has
/// the directory of its session in its environment, if it does. Returns how many groups it told of.
///
/// # Errors
/// Standard input is not what a launcher writes, or cannot be read; nobody is killed then.
pub fn end_with_launcher(input: impl Read) -> io::Result<usize> {
    let mut groups = BTreeSet::new();
    let mut session = None;
    for line in BufReader::new(input).lines() {
        let line = line?;
        if line == OVER {
            return Ok(groups.len());
        }
        if let Some(name) = line.strip_prefix(SESSION) {
            session = Some(name.to_owned());
            continue;
        }
        let number = |word: &str| word.parse::<i32>().ok().filter(|pid| *pid > 1);
        if let Some(gone) = line.strip_prefix(GONE) {
            groups.remove(&number(gone).ok_or(io::ErrorKind::InvalidData)?);
            continue;
        }
        groups.insert(number(&line).ok_or(io::ErrorKind::InvalidData)?);
    }
    for group in groups.iter().copied().filter_map(Pid::from_raw) {
        // One that has ended with all that it started is killed in vain.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Some(session) = session.filter(|name| name.len() > 1 && name.starts_with('/')) {
        for _ in 0..ROUNDS {
            if kill_of_session(session.as_bytes()) == 0 {
                break;
            }
        }
    }
    Ok(groups.len())
}

/// Kills every process whose environment names a directory or a file in it. Returns how many.
fn kill_of_session(session: &[u8]) -> usize {
    let own = rustix::process::getpid();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = pids.filter_map(Pid::from_raw).filter(|pid| *pid != own);
    let killed = pids.filter(|&pid| {
        // A descriptor, so that the process that is killed is the one that was looked at.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let environment = std::fs::read(path).unwrap_or_default();
        let mut vars = environment.split(|&byte| byte == 0);
        vars.any(|var| is_in(var, session)) && pidfd_send_signal(&process, Signal::KILL).is_ok()
    });
    killed.count()
}

/// Whether the value of a variable is that directory, or a path in it.
fn is_in(var: &[u8], directory: &[u8]) -> bool {
    let value = var
        .iter()
        .position(|&byte| byte == b'=')
        .map(|at| &var[at + 1..]);
    let rest = value.and_then(|value| value.strip_prefix(directory));
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).spawn().unwrap()
    }

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
        assert_eq!(watcher.waiting, "7\n8\n");
        watcher.forget(pid(7));
        assert_eq!(watcher.waiting, "");
        (0..i32::try_from(AT_ONCE).unwrap()).for_each(|number| watcher.tell(pid(100 + number)));
        assert_eq!(watcher.waiting, "");
        watcher.end();
        let told = std::fs::read_to_string(file).unwrap();
        assert!(
            told.starts_with("session /s\n7\n8\ngone 7\n100\n101\n"),
            "{told}"
        );
        assert!(told.ends_with("130\n131\nover\n"), "{told}");
    }

    #[test]
    fn processes_end_with_a_launcher_that_says_nothing_at_its_end() {
        let mut child = sleeper();
        let said = format!("{}\n", child.id());
        assert_eq!(end_with_launcher(said.as_bytes()).unwrap(), 1);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn what_left_its_group_is_found_by_its_environment_and_nobody_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session").display().to_string();
        let start = |value: String| {
            let mut command = Command::new("sleep");
            let command = command.arg("1000").env("PMIX_SERVER_TMPDIR", value);
            command.process_group(0).spawn().unwrap()
        };
        let mut inside = [start(session.clone()), start(format!("{session}/rank.0"))];
        let mut outside = start(format!("{session}.other"));
        let said = format!("{SESSION}{session}\n");
        assert_eq!(end_with_launcher(said.as_bytes()).unwrap(), 0);
        for child in &mut inside {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(outside.try_wait().unwrap().is_none());
        let over = format!("{SESSION}{}\n{OVER}\n", dir.path().display());
        assert_eq!(end_with_launcher(over.as_bytes()).unwrap(), 0);
        assert!(outside.try_wait().unwrap().is_none());
        outside.kill().unwrap();
        outside.wait().unwrap();
    }

    #[test]
    fn nobody_is_killed_by_a_launcher_that_ends_itself_or_by_what_it_never_says() {
        let mut child = sleeper();
        let pid = child.id();
        assert_eq!(
            end_with_launcher(format!("{pid}\nover\n").as_bytes()).unwrap(),
            1
        );
        let forgotten = format!("{pid}\ngone {pid}\n");
        assert_eq!(end_with_launcher(forgotten.as_bytes()).unwrap(), 0);
        for bad in ["0", "1", "-1", "x", "", "gone x"] {
            let said = format!("{pid}\n{bad}\n");
            assert!(end_with_launcher(said.as_bytes()).is_err(), "{bad}");
        }
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
