// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` among readers that pause or never read, processes that flood it, and kills.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use xtask::{install, process};

use super::wait::{shown, until};
use super::{Field, Verdict};

/// How long anything may take that is not to be waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How soon a signal or a time limit is obeyed, whatever processes send and readers do.
const OBEYED: Duration = Duration::from_millis(500);

/// How long a fence of a bystander may take beside processes that flood the launcher.
const FENCE: Duration = Duration::from_millis(250);

/// How soon processes end after their launcher was killed.
const GONE: Duration = Duration::from_secs(1);

/// How long each of these may take in the short form, which tells what is done from what stands still
/// on a machine that others use, and measures nothing.
const SHORT: Duration = Duration::from_secs(30);

/// How much memory the launcher may take for what nobody reads, in KiB.
const MEMORY: u64 = 64 << 10;

/// A reader that pauses for longer than the launcher waits for anything else gets all.
pub(super) fn paused(field: &Field) -> Result<Verdict, String> {
    const RANKS: usize = 16;
    const LINES: usize = 10_000;
    let (grace, pause) = match field.short {
        false => ("2", Duration::from_secs(4)),
        true => ("0.2", Duration::from_secs(1)),
    };
    let pmix = build(field)?;
    for through in ["--tag-output", "--forward-io"] {
        let job = ["--grace", grace, through, "-n", &RANKS.to_string()];
        let mut launcher = Launcher::start(field, &pmix, &job, &["seq", &LINES.to_string()])?;
        sleep(pause);
        let text = launcher.output(PATIENCE)?;
        let code = launcher.end(PATIENCE)?;
        let lines = text.lines().count();
        if (lines, code) != (RANKS * LINES, Some(0)) {
            let all = RANKS * LINES;
            return Err(format!(
                "{through}: {lines} of {all} lines, exit code {code:?}"
            ));
        }
    }
    let all = 2 * RANKS * LINES;
    Ok(Verdict::Held(format!(
        "{all} of {all} lines of ended processes after a pause of {}",
        shown(pause)
    )))
}

/// A standard error that nobody reads holds up neither the launcher nor its clients, and what is
/// dropped is counted. Fences that fail by the thousand are one line and a count.
pub(super) fn errors(field: &Field) -> Result<Verdict, String> {
    let fences = field.count(16_384, 2_048);
    let warnings = field.count(8_000, 4_000);
    let pmix = build(field)?;
    let exports = (0..warnings).flat_map(|number| ["-x".to_owned(), format!("VARIABLE_{number}")]);
    let exports: Vec<_> = exports.collect();
    let exports: Vec<_> = exports.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let hello = ["pmix", "hello", "--fences", "100", "--quiet"];
    let mut launcher = Launcher::start(field, &pmix, &exports, &hello)?;
    let code = launcher.end(PATIENCE)?;
    let took = begun.elapsed();
    let said = launcher.errors(PATIENCE)?;
    let written = said.lines().filter(|line| line.contains("VARIABLE_"));
    let written = written.count();
    if code != Some(0) || written >= warnings {
        return Err(format!(
            "exit code {code:?}, {written} of {warnings} warnings"
        ));
    }

    let own = own()?;
    let count = fences.to_string();
    let job = [&*own, "peer", "failing-fences", &count, ":", "true"];
    let begun_failing = Instant::now();
    let mut launcher = Launcher::start(field, &pmix, &["--keep-going"], &job)?;
    let said = launcher.errors(PATIENCE)?;
    let code = launcher.end(PATIENCE)?;
    // A line at once for each kind, and every few seconds one that counts.
    let due = 8 + begun_failing.elapsed().as_secs();
    let lines = said.lines().filter(|line| line.contains("did not come"));
    let lines: Vec<_> = lines.collect();
    let counted = lines.iter().filter_map(|line| {
        let (_, count) = line.rsplit_once("and ")?;
        count.split(' ').next()?.parse::<usize>().ok()
    });
    let counted = counted.sum::<usize>();
    let first = lines.iter().filter(|line| !line.contains("times more"));
    if code != Some(0) || lines.len() as u64 > due || counted + first.count() != fences {
        return Err(format!(
            "{} lines for {fences} failed fences, {counted} counted, exit code {code:?}: {said}",
            lines.len()
        ));
    }
    Ok(Verdict::Held(format!(
        "{warnings} warnings to nobody, ended after {}, {written} were written; {} lines for \
         {fences} failed fences",
        shown(took),
        lines.len()
    )))
}

/// An output that nobody reads, while processes write and log without end: fences, memory, signals
/// and the time limit.
pub(super) fn output(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let own = own()?;
    let floods = field.count(8, 2).to_string();
    let time = field.count(10_000, 2_000).to_string();
    let told = field.directory("launcher-output")?.join("longest");
    let path = told.to_string_lossy().into_owned();
    let job = [
        &*own,
        "peer",
        "own-fences",
        &time,
        &path,
        ":",
        "-n",
        "2",
        "yes",
        ":",
        "-n",
        &floods,
        &*own,
        "peer",
        "log-flood",
    ];
    let options = ["--tag-output", "--grace", "0.2"];
    let mut launcher = Launcher::start(field, &pmix, &options, &job)?;
    let longest = until(PATIENCE, || {
        let longest = fs::read_to_string(&told).ok()?.trim().parse().ok()?;
        Some(Duration::from_micros(longest))
    });
    let longest = longest.ok_or_else(|| format!("no fence ended: {}", launcher.give_up()))?;
    let memory = launcher.memory()?;
    let ranks = launcher.ranks()?;
    let begun = Instant::now();
    launcher.signal(Signal::TERM)?;
    let obeyed = until(PATIENCE, || {
        let alive = ranks.iter().any(|pid| is_alive(*pid));
        (!alive).then(|| begun.elapsed())
    });
    let obeyed = obeyed.ok_or("the processes go on after SIGTERM")?;
    let code = launcher.end(PATIENCE)?;

    let limit = Duration::from_secs(1);
    let options = ["--tag-output", "--grace", "0.1", "--timeout", "1"];
    let flood = ["-n", &floods, &*own, "peer", "log-flood", ":", "yes"];
    let begun = Instant::now();
    let mut launcher = Launcher::start(field, &pmix, &options, &flood)?;
    let timed = launcher.end(PATIENCE)?;
    // Grace for the processes, for what they leave and for the reader.
    let late = begun
        .elapsed()
        .saturating_sub(limit + Duration::from_millis(400));
    let figures = format!(
        "longest fence {}, {} MiB, SIGTERM obeyed after {}, the time limit {} late, exit codes {} \
         and {}",
        shown(longest),
        memory >> 10,
        shown(obeyed),
        shown(late),
        code.unwrap_or(-1),
        timed.unwrap_or(-1),
    );
    let prompt = obeyed.max(late) < allowed(field, OBEYED);
    let held = longest < allowed(field, FENCE) && memory < MEMORY && prompt;
    match held && code == Some(143) && timed == Some(124) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Processes, and what they started, end with a launcher that is killed.
pub(super) fn killed(field: &Field) -> Result<Verdict, String> {
    const RANKS: usize = 16;
    let pmix = build(field)?;
    let times = field.count(10, 3);
    let mut longest = Duration::ZERO;
    for _ in 0..times {
        // One of them leaves its session, too.
        let stubborn = "trap '' TERM HUP INT; setsid sleep 1000 & echo $! $$; wait";
        let num = RANKS.to_string();
        let mut launcher = Launcher::start(field, &pmix, &["-n", &num], &["sh", "-c", stubborn])?;
        let pids = launcher.pids(RANKS, PATIENCE)?;
        let begun = Instant::now();
        launcher.signal(Signal::KILL)?;
        let gone = until(PATIENCE, || {
            (!pids.iter().any(|pid| is_alive(*pid))).then(|| begun.elapsed())
        });
        let gone = gone.ok_or("processes go on without their launcher")?;
        launcher.end(PATIENCE)?;
        longest = longest.max(gone);
    }
    let figures = format!(
        "{} processes of {times} launchers, the last gone after {}",
        2 * RANKS * times,
        shown(longest)
    );
    match longest < allowed(field, GONE) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// How long something may take that is to take no longer than that.
fn allowed(field: &Field, limit: Duration) -> Duration {
    if field.short { SHORT } else { limit }
}

/// Builds the command; where nothing is measured, as tests have it.
pub(super) fn build(field: &Field) -> Result<PathBuf, String> {
    let mut command = process::cargo(["build", "--quiet", "--locked"]);
    command.args(["--package", "pmix-cli", "--bin", "pmix"]);
    let profile = if field.short { "debug" } else { "release" };
    if !field.short {
        command.arg("--release");
    }
    process::run(&mut command)?;
    Ok(install::target().join(profile).join("pmix"))
}

/// This program, as processes of a job may start it.
fn own() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(own.to_string_lossy().into_owned())
}

/// A launcher whose output and errors are read when it is asked for, and not before.
struct Launcher {
    child: Child,
}

impl Launcher {
    fn start(field: &Field, pmix: &Path, options: &[&str], job: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(pmix);
        command
            .arg("run")
            .args(options)
            .args(job)
            .env("TMPDIR", field.directory("launcher")?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn();
        let child = child.map_err(|e| format!("the launcher cannot be started: {e}"))?;
        Ok(Self { child })
    }

    /// All that comes on its standard output.
    fn output(&mut self, limit: Duration) -> Result<String, String> {
        let output = self.child.stdout.take().ok_or("the output was read")?;
        within(limit, "end of the output", || text(output))?
    }

    /// All that comes on its standard error.
    fn errors(&mut self, limit: Duration) -> Result<String, String> {
        let errors = self.child.stderr.take().ok_or("the errors were read")?;
        within(limit, "end of the errors", || text(errors))?
    }

    /// The numbers of the processes that so many ranks tell of, a line each.
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
        let pid = self.pid().ok_or("the launcher is gone")?;
        kill_process(pid, signal).map_err(|e| format!("the launcher is gone: {e}"))
    }

    /// The processes of its job.
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
            // One of its children is the launcher's own, and ends with it.
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            parent == Some(own.as_str()) && !words.ends_with(b"run-watcher\0")
        };
        let ranks: Vec<_> = pids.filter(is_rank).collect();
        match ranks.is_empty() {
            true => Err("the launcher has no processes".to_owned()),
            false => Ok(ranks),
        }
    }

    /// The most memory that it ever took, in KiB.
    fn memory(&self) -> Result<u64, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.map_err(|e| format!("the launcher is gone: {e}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
        number.ok_or_else(|| "no memory is told".to_owned())
    }

    /// Its exit code; none where a signal ended it.
    fn end(&mut self, limit: Duration) -> Result<Option<i32>, String> {
        let status = until(limit, || self.child.try_wait().ok().flatten());
        let status =
            status.ok_or_else(|| format!("the launcher does not end: {}", self.give_up()))?;
        Ok(status.code())
    }

    /// Kills it: what it has said.
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

/// What something comes to that is done in a thread of its own, because it may never end.
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

/// Whether a process is there and not only waited for.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
    state.is_some_and(|rest| !rest.starts_with(b"Z") && !rest.starts_with(b"X"))
}
