// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` with readers that pause or never read, processes that flood it, resource limits, and kills.

mod blocked;
mod ending;
mod limits;
mod streams;
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use xtask::{install, process};

use super::Field;
use super::wait::{FairClock, shown, until};

pub(super) use blocked::{blocked, blocks, cleans, fills};
pub(super) use ending::{attacked, killed};
pub(super) use limits::{asks_for_memory, files, names, pulls, short_of_memory, too_many};
pub(super) use streams::{errors, output, paused};
pub(super) use terminal::{hung_up, ignored};

/// The time limit of every step that is not measured.
const PATIENCE: Duration = Duration::from_secs(60);

/// The limit of every measured time in the short form. It only distinguishes slow from blocked,
/// because other programs may load the machine.
const SHORT: Duration = Duration::from_secs(30);

/// The limit of the memory of an attacked launcher, in KiB.
const MEMORY: u64 = 512 << 10;

/// The time within which the launcher obeys a signal or a time limit.
const OBEYED: Duration = Duration::from_millis(500);

/// Returns the limit of a measured time for the form of this run.
fn allowed(field: &Field, limit: Duration) -> Duration {
    if field.short { SHORT } else { limit }
}

/// Builds the command. The short form, which measures nothing, uses the test build.
pub(super) fn build(field: &Field) -> Result<PathBuf, String> {
    let profile = if field.short { "dev" } else { "dist" };
    let command = process::selection(profile, "pmix-cli");
    process::run(process::cargo(["build", "--bin", "pmix"]).args(command))?;
    Ok(install::built(profile).join("pmix"))
}

/// Returns a path of this program that processes of a job can execute.
fn own() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(own.to_string_lossy().into_owned())
}

/// A launcher whose standard output and error are read only on request.
struct Launcher {
    child: Child,
}

impl Launcher {
    fn start(field: &Field, pmix: &Path, options: &[&str], job: &[&str]) -> Result<Self, String> {
        Self::by(
            Command::new(pmix),
            &field.directory("launcher")?,
            options,
            job,
        )
    }

    /// Starts a launcher as [`Self::start`] does, with a resource limit of the shell and this directory for sessions.
    fn limited(
        tmpdir: &Path,
        pmix: &Path,
        (kind, limit): (&str, &str),
        options: &[&str],
        job: &[&str],
    ) -> Result<Self, String> {
        let script = format!("ulimit {kind} {limit} && exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(pmix);
        Self::by(command, tmpdir, options, job)
    }

    fn by(
        mut command: Command,
        tmpdir: &Path,
        options: &[&str],
        job: &[&str],
    ) -> Result<Self, String> {
        command
            .arg("run")
            .args(options)
            .args(job)
            .env("TMPDIR", tmpdir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn();
        let child = child.map_err(|e| format!("the launcher cannot be started: {e}"))?;
        Ok(Self { child })
    }

    /// Returns the whole standard output.
    fn output(&mut self, limit: Duration) -> Result<String, String> {
        let output = self.child.stdout.take().ok_or("the output was read")?;
        within(limit, "end of the output", || text(output))?
    }

    /// Returns the whole standard error.
    fn errors(&mut self, limit: Duration) -> Result<String, String> {
        let errors = self.child.stderr.take().ok_or("the errors were read")?;
        within(limit, "end of the errors", || text(errors))?
    }

    /// Reads the process IDs that `ranks` processes print, one per line.
    fn pids(&mut self, ranks: usize, limit: Duration) -> Result<Vec<i32>, String> {
        let output = self.child.stdout.take().ok_or("the output was read")?;
        let mut output = BufReader::new(output);
        let read = move || {
            let mut pids = Vec::new();
            for line in output.by_ref().lines().take(ranks) {
                let line = line.map_err(|e| e.to_string())?;
                pids.extend(line.split(' ').filter_map(|pid| pid.parse::<i32>().ok()));
            }
            Ok::<_, String>((pids, output))
        };
        let (pids, output) = within(limit, "word of all ranks", read)??;
        self.child.stdout = Some(output.into_inner());
        match pids.len() == 2 * ranks {
            true => Ok(pids),
            false => Err(format!("{} of {ranks} ranks started", pids.len() / 2)),
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = self.pid().ok_or("the launcher has exited")?;
        kill_process(pid, signal).map_err(|e| format!("the launcher has exited: {e}"))
    }

    /// Returns the processes of the job.
    fn ranks(&self) -> Result<Vec<i32>, String> {
        let own = self.child.id().to_string();
        let entries = fs::read_dir("/proc").map_err(|e| format!("/proc: {e}"))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let pids = names.filter_map(|name| name.to_str()?.parse().ok());
        let is_rank = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1));
            // Skip the launcher's own helper process, which ends with it.
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            parent == Some(own.as_str()) && !words.ends_with(b"run-watcher\0")
        };
        let ranks: Vec<_> = pids.filter(is_rank).collect();
        match ranks.is_empty() {
            true => Err("the launcher has no processes".to_owned()),
            false => Ok(ranks),
        }
    }

    /// Returns the peak memory of the launcher, in KiB.
    fn memory(&self) -> Result<u64, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.map_err(|e| format!("the launcher has exited: {e}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
        number.ok_or_else(|| "no peak memory in its status".to_owned())
    }

    /// Returns the exit code, or `None` if a signal ended the launcher.
    fn end(&mut self, limit: Duration) -> Result<Option<i32>, String> {
        let status = until(limit, || self.child.try_wait().ok().flatten());
        let status =
            status.ok_or_else(|| format!("the launcher does not end: {}", self.give_up()))?;
        Ok(status.code())
    }

    /// Starts a clock that does not count the time in which the launcher waits for a processor.
    fn clock(&self) -> FairClock {
        FairClock::start(&[self.child.id()])
    }

    /// Waits for the end as [`Self::end`] does. Returns the exit code and the time that it took.
    fn end_after(&mut self, mut clock: FairClock) -> Result<(Option<i32>, Duration), String> {
        let mut took = Duration::ZERO;
        let status = until(PATIENCE, || {
            took = clock.elapsed();
            self.child.try_wait().ok().flatten()
        });
        let status =
            status.ok_or_else(|| format!("the launcher does not end: {}", self.give_up()))?;
        Ok((status.code(), took))
    }

    /// Kills the launcher and returns its standard error.
    fn give_up(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors(Duration::from_secs(5)).unwrap_or_default()
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fails unless the directory of sessions is empty.
fn is_empty(sessions: &Path) -> Result<(), String> {
    let left = fs::read_dir(sessions).map_err(|e| e.to_string())?.flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("the launcher left {left:?}")),
    }
}

/// Runs a function in a thread, because it may never return, and returns its result.
fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, came) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    came.recv_timeout(limit)
        .map_err(|_| format!("no {what} after {}", shown(limit)))
}

fn text(mut from: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns `true` if the process runs and is no zombie.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
    state.is_some_and(|rest| !rest.starts_with(b"Z") && !rest.starts_with(b"X"))
}
