// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attacked server: a process of its own that takes commands line by line, and its figures from the kernel.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use pmix_client::Uri;
use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};

use super::wait::until;
use xtask::install;
use xtask::process::{self, cargo};

/// The time limit of a command to the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// Builds the server as it ships, or for the short form the test build.
///
/// # Errors
/// Returns a message if the build fails.
pub(super) fn build(short: bool) -> Result<PathBuf, String> {
    let profile = if short { "dev" } else { "dist" };
    let package = process::selection(profile, "pmix-server");
    process::run(cargo(["build", "--example", "fault_host"]).args(package))?;
    Ok(install::built(profile).join("examples/fault_host"))
}

/// Returns the user and group of this process.
pub(super) fn me() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// A running server.
pub(super) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(super) uri: Uri,
    /// The directory of its rendezvous files.
    pub(super) directory: PathBuf,
    log: PathBuf,
}

/// Figures of the kernel about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    /// The resident memory, in KiB.
    pub(super) memory: u64,
    /// The peak resident memory, in KiB.
    pub(super) peak: u64,
    pub(super) descriptors: usize,
    pub(super) threads: usize,
    /// The processor time.
    pub(super) time: Duration,
}

impl Server {
    /// Starts a server with its files in this directory.
    ///
    /// # Errors
    /// Returns the output of a server that does not start.
    pub(super) fn start(program: &Path, directory: &Path, args: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg(directory).args(args);
        Self::start_by(command, directory)
    }

    /// Starts a server by a command.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub(super) fn start_by(mut command: Command, directory: &Path) -> Result<Self, String> {
        let fault = |e: std::io::Error| format!("the server cannot be started: {e}");
        let name = directory.file_name().unwrap_or_default();
        let log = install::scratch("faults")?.join(name).with_extension("log");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).map_err(fault)?);
        let mut child = command.spawn().map_err(fault)?;
        let input = child.stdin.take();
        let Some(output) = child.stdout.take() else {
            return Err("the server has no output".to_owned());
        };
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).map_err(fault)?;
        // A server that started prints its URI first. If the server failed, it has written the
        // reason to its log.
        let Ok(uri) = line.trim_end().parse() else {
            let _ = child.wait();
            let why = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("{line}{}", why.trim()));
        };
        Ok(Self {
            child,
            input,
            output,
            uri,
            directory: directory.to_owned(),
            log,
        })
    }

    /// Sends a command to the server and returns the reply.
    ///
    /// # Errors
    /// Returns a message if the command fails or the server has exited.
    pub(super) fn tell(&mut self, line: &str) -> Result<String, String> {
        let fault = |e: std::io::Error| format!("{line:?}: the server has exited: {e}");
        let input = self.input.as_mut().ok_or("the server was ended")?;
        writeln!(input, "{line}").map_err(fault)?;
        let mut answer = String::new();
        self.output.read_line(&mut answer).map_err(fault)?;
        match answer.trim_end_matches('\n').split_once(' ') {
            Some(("ok", said)) => Ok(said.to_owned()),
            _ => Err(format!("{line:?}: the server says {answer:?}")),
        }
    }

    /// Registers a job of `num_procs` local processes of this user.
    ///
    /// # Errors
    /// See [`Self::tell`].
    pub(super) fn job(&mut self, name: &str, num_procs: u32) -> Result<(), String> {
        let (uid, gid) = me();
        self.tell(&format!("job {name} {num_procs} {num_procs} {uid} {gid}"))
            .map(drop)
    }

    /// Returns the server's figures.
    ///
    /// # Errors
    /// Returns a message if the server has exited.
    pub(super) fn figures(&self) -> Result<Figures, String> {
        Figures::of(self.child.id())
    }

    /// Returns the process ID of the server.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of descriptors below `limit` that are open. The server may have inherited higher ones.
    pub(super) fn descriptors_below(&self, limit: u32) -> u32 {
        let names = files(Path::new(&format!("/proc/{}/fd", self.child.id())));
        let numbers = names.iter().filter_map(|name| name.parse::<u32>().ok());
        numbers.filter(|number| *number < limit).map(|_| 1).sum()
    }

    /// Returns the root of the file systems in the server's mount namespace.
    pub(super) fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.child.id()))
    }

    /// Waits until the server has at most this many descriptors.
    ///
    /// # Errors
    /// Returns a message if it keeps more.
    pub(super) fn settle(&self, descriptors: usize) -> Result<Figures, String> {
        let settled = until(PATIENCE, || {
            let figures = self.figures().ok()?;
            (figures.descriptors <= descriptors).then_some(figures)
        });
        let now = self.figures()?;
        settled.ok_or_else(|| format!("{} descriptors, before {descriptors}", now.descriptors))
    }

    /// Returns the log of the server so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the server.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops all threads of the server. Afterwards it can only be killed.
    ///
    /// # Errors
    /// Returns a message if it does not stop.
    pub(super) fn stop(&self) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let stopped = pid.map(|pid| kill_process(pid, Signal::STOP));
        if stopped.is_none_or(|result| result.is_err()) {
            return Err("the server has exited".to_owned());
        }
        // SIGSTOP stops the threads one after another; none may read a request after this function.
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let is_stopped = |task: &String| {
            let stat = fs::read_to_string(tasks.join(task).join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        let all = until(PATIENCE, || {
            files(&tasks).iter().all(is_stopped).then_some(())
        });
        all.ok_or_else(|| "the server does not stop".to_owned())
    }

    /// Ends the server in good order and returns its log.
    ///
    /// # Errors
    /// Returns a message if the server does not end, fails or leaves files.
    pub(super) fn end(mut self) -> Result<String, String> {
        // The server ends at the end of its input.
        drop(self.input.take());
        let status = until(PATIENCE, || self.child.try_wait().ok().flatten());
        match status {
            Some(status) if status.success() => {}
            Some(status) => return Err(format!("the server ended with {status}: {}", self.log())),
            None => return Err("the server does not end".to_owned()),
        }
        match files(&self.directory) {
            left if left.is_empty() => Ok(self.log()),
            left => Err(format!("the server left {}", left.join(", "))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the names in a directory, sorted.
pub(super) fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Returns the size of the address space of a process, in bytes.
///
/// # Errors
/// Returns a message if the process has exited.
pub(super) fn address_space(pid: u32) -> Result<u64, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.map_err(|e| format!("process {pid} is not there: {e}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let number: Option<u64> = number.and_then(|number| number.parse().ok());
    Ok(number.ok_or("the kernel tells no size")? << 10)
}

/// Returns the processor time of the threads of a process, as far as the kernel has accounted for it.
pub(super) fn processor_time(pid: u32) -> Duration {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let of_task = |task: &String| {
        let said = fs::read_to_string(tasks.join(task).join("schedstat")).unwrap_or_default();
        let first = said.split_whitespace().next();
        first
            .and_then(|nanos| nanos.parse::<u64>().ok())
            .unwrap_or_default()
    };
    Duration::from_nanos(files(&tasks).iter().map(of_task).sum())
}

impl Figures {
    /// Reads the figures of a process.
    ///
    /// # Errors
    /// Returns a message if the process has exited.
    pub(super) fn of(pid: u32) -> Result<Self, String> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let read = |name: &str| {
            fs::read_to_string(proc.join(name)).map_err(|e| format!("the server has exited: {e}"))
        };
        let status = read("status")?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            word.and_then(|word| word.parse::<u64>().ok())
                .ok_or_else(|| format!("no {name} of the server"))
        };
        let stat = read("stat")?;
        // The numbers follow the program's name, which is in parentheses and may contain any character.
        let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum();
        let entries = fs::read_dir(proc.join("fd")).map_err(|e| e.to_string())?;
        Ok(Self {
            memory: number("VmRSS:")?,
            peak: number("VmHWM:")?,
            descriptors: entries.count(),
            threads: usize::try_from(number("Threads:")?).unwrap_or(usize::MAX),
            // Linux reports 100 ticks per second to user space on every machine.
            time: Duration::from_millis(ticks * 10),
        })
    }
}
