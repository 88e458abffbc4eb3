// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that outlives a killed launcher, and ends the processes of its job.
//!
//! It is told of each process that starts through a pipe, whose end it sees however the launcher ends.
//! One such process for a job costs less than to have the system do it for each process
//! (`PR_SET_PDEATHSIG`): only a process itself can ask for that, so each would be started by way of
//! another program, and what it starts in turn would still go on.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// What a launcher says that ends by itself.
const OVER: &str = "over";

/// The process that watches the launcher.
pub(crate) struct Watcher {
    /// None when it could not be started, or has ended.
    process: Option<(Child, ChildStdin)>,
}

impl Watcher {
    /// Starts it by a command that calls [`end_with_launcher`]. A job runs without it, too.
    pub(crate) fn start(command: Option<&[OsString]>) -> Self {
        let Some((program, args)) = command.and_then(<[OsString]>::split_first) else {
            return Self { process: None };
        };
        let started = Command::new(program)
            .args(args)
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
                Self {
                    process: input.map(|input| (child, input)),
                }
            }
            Err(e) => {
                tracing::debug!("processes go on if the launcher is killed: {e}");
                Self { process: None }
            }
        }
    }

    /// Its process number, as long as it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let (child, _) = self.process.as_ref()?;
        Some(Pid::from_child(child))
    }

    /// Tells it of a process that leads a process group.
    pub(crate) fn tell(&mut self, pid: Pid) {
        self.write(&format!("{}\n", pid.as_raw_nonzero()));
    }

    /// Nothing of the job is left, so there is nothing to end.
    pub(crate) fn end(&mut self) {
        self.write(&format!("{OVER}\n"));
        if let Some((mut child, input)) = self.process.take() {
            drop(input);
            let _ = child.wait();
        }
    }

    fn write(&mut self, line: &str) {
        // A few bytes, which it reads at once. Somebody may have killed it.
        if let Some((_, input)) = &mut self.process
            && let Err(e) = input.write_all(line.as_bytes())
        {
            tracing::debug!("processes go on if the launcher is killed: {e}");
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the launcher has ended that started this process as its
/// [`watcher`](crate::Plan::watcher), and kills the process groups that it leaves behind, if it does.
/// Returns how many it told of.
///
/// # Errors
/// Standard input is not what a launcher writes, or cannot be read; nobody is killed then.
pub fn end_with_launcher(input: impl Read) -> io::Result<usize> {
    let mut groups = Vec::new();
    for line in BufReader::new(input).lines() {
        let line = line?;
        if line == OVER {
            return Ok(groups.len());
        }
        let pid = line.parse().ok().filter(|pid| *pid > 1);
        let pid = pid.and_then(Pid::from_raw);
        groups.push(pid.ok_or(io::ErrorKind::InvalidData)?);
    }
    for &group in &groups {
        // One that has ended with all that it started is killed in vain.
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(groups.len())
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
    fn processes_end_with_a_launcher_that_says_nothing_at_its_end() {
        let mut child = sleeper();
        let said = format!("{}\n", child.id());
        assert_eq!(end_with_launcher(said.as_bytes()).unwrap(), 1);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn nobody_is_killed_by_a_launcher_that_ends_itself_or_by_what_it_never_says() {
        let mut child = sleeper();
        let pid = child.id();
        assert_eq!(
            end_with_launcher(format!("{pid}\nover\n").as_bytes()).unwrap(),
            1
        );
        for bad in ["0", "1", "-1", "x", ""] {
            let said = format!("{pid}\n{bad}\n");
            assert!(end_with_launcher(said.as_bytes()).is_err(), "{bad}");
        }
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
