// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of `pmix run` that pause or never read.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Launcher, OBEYED, PATIENCE, allowed, build, is_alive, own};
use crate::server::files;
use crate::wait::{shown, until};
use crate::{Field, Verdict};

/// The limit of a bystander's fence beside processes that flood the launcher.
const FENCE: Duration = Duration::from_millis(250);

/// The limit of the launcher's memory while its output is not read, in KiB.
const MEMORY: u64 = 64 << 10;

/// Pauses the reader for longer than any other time limit of the launcher: no line may be lost.
pub(crate) fn paused(field: &Field) -> Result<Verdict, String> {
    const RANKS: usize = 16;
    const LINES: usize = 10_000;
    let (grace, pause) = match field.short {
        false => ("2", Duration::from_secs(4)),
        true => ("0.2", Duration::from_secs(1)),
    };
    let pmix = build(field)?;
    for through in ["--tag-output", "--forward-io"] {
        let options = ["--grace", grace, through, "-n", &RANKS.to_string()];
        // Each rank creates a file as its last action.
        let ended = field.directory("launcher-ended")?;
        let script = format!("seq {LINES}; : > {}/$PMIX_RANK", ended.display());
        let mut launcher = Launcher::start(field, &pmix, &options, &["sh", "-c", &script])?;
        let all_ended = until(PATIENCE, || (files(&ended).len() == RANKS).then_some(()));
        all_ended.ok_or_else(|| format!("the ranks do not end: {}", launcher.give_up()))?;
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

/// Leaves standard error unread: neither the launcher nor its clients may block, and dropped warnings are counted.
/// Thousands of failed fences must become one line and a count.
pub(crate) fn errors(field: &Field) -> Result<Verdict, String> {
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
    // Each kind is reported at once, and then by a count every few seconds.
    let due = 8 + begun_failing.elapsed().as_secs();
    let lines = said
        .lines()
        .filter(|line| line.contains("did not participate"));
    let lines: Vec<_> = lines.collect();
    let counted = lines.iter().filter_map(|line| {
        let (_, count) = line.rsplit_once("(repeated ")?;
        count.split(' ').next()?.parse::<usize>().ok()
    });
    let counted = counted.sum::<usize>();
    let first = lines.iter().filter(|line| !line.contains(" more times"));
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

/// Leaves standard output unread while processes write and log without end, and checks fences, memory, signals and the
/// time limit.
pub(crate) fn output(field: &Field) -> Result<Verdict, String> {
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
    // The grace period applies to the processes, to their children and to the reader, one after the other.
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
    let held = longest < FENCE && memory < MEMORY && prompt;
    match held && code == Some(143) && timed == Some(124) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}
