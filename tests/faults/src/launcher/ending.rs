// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of `pmix run`: by SIGKILL, and by a signal or time limit while processes flood it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Launcher, MEMORY, OBEYED, PATIENCE, allowed, build, is_alive, is_empty, own};
use crate::wait::{shown, until};
use crate::{Field, Verdict};

/// The time within which processes end after their launcher was killed.
const GONE: Duration = Duration::from_secs(1);

/// The limit of a fence of a process beside 16 that attack the launcher.
const FENCE: Duration = Duration::from_millis(250);

/// Kills launchers: their processes, the children of these and all files must be removed.
pub(crate) fn killed(field: &Field) -> Result<Verdict, String> {
    const RANKS: usize = 16;
    let pmix = build(field)?;
    let own = own()?;
    let registered = field.directory("launcher-registered")?;
    let times = field.count(10, 3);
    let mut longest = Duration::ZERO;
    for number in 0..times {
        // A child in a session of its own is not reached by a signal to the process group.
        let stubborn = "trap '' TERM HUP INT; setsid sleep 1000 & echo $! $$; wait";
        let num = RANKS.to_string();
        let mut job = vec!["sh", "-c", stubborn, ":", "-n", "1"];
        // Register a file for removal, as MPI libraries do with their shared memory.
        let file = registered.join(number.to_string());
        fs::write(&file, "x").map_err(|e| e.to_string())?;
        let (path, told) = (file.to_string_lossy(), registered.join("told"));
        let told_path = told.to_string_lossy();
        job.extend([&*own, "peer", "registers", &*path, &*told_path]);
        let mut launcher = Launcher::start(field, &pmix, &["-n", &num], &job)?;
        let pids = launcher.pids(RANKS, PATIENCE)?;
        let is_told = until(PATIENCE, || told.exists().then_some(()));
        is_told.ok_or_else(|| format!("nothing was registered: {}", launcher.give_up()))?;
        let begun = Instant::now();
        launcher.signal(Signal::KILL)?;
        let gone = until(PATIENCE, || {
            (!pids.iter().any(|pid| is_alive(*pid))).then(|| begun.elapsed())
        });
        let gone = gone.ok_or("processes go on without their launcher")?;
        launcher.end(PATIENCE)?;
        let sessions = field.home.join("launcher");
        let removed = until(PATIENCE, || {
            (!file.exists() && is_empty(&sessions).is_ok()).then(|| begun.elapsed())
        });
        let removed = removed.ok_or_else(|| match is_empty(&sessions) {
            Ok(()) => "a file that was registered for removal is left".to_owned(),
            Err(left) => left,
        })?;
        longest = longest.max(gone).max(removed);
        fs::remove_file(&told).map_err(|e| e.to_string())?;
    }
    let figures = format!(
        "{} processes of {times} launchers, the last of them and of their files gone after {}",
        (2 * RANKS + 1) * times,
        shown(longest)
    );
    match longest < allowed(field, GONE) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Sends SIGTERM and lets the time limit expire, while attackers request as much as they may.
pub(crate) fn attacked(field: &Field) -> Result<Verdict, String> {
    const ATTACKERS: usize = 16;
    let pmix = build(field)?;
    let own = own()?;
    let share = field.count(4, 16).to_string();
    let time = field.count(5_000, 1_000).to_string();
    let told = field.directory("launcher-attacked")?.join("longest");
    let path = told.to_string_lossy().into_owned();
    // One process attacks in the names of all, so that the packed requests exist once.
    let others = (ATTACKERS - 1).to_string();
    let count = ATTACKERS.to_string();
    let job = [
        &*own,
        "peer",
        "attack",
        &count,
        &share,
        ":",
        "-n",
        &others,
        "sleep",
        "1000",
        ":",
        &own,
        "peer",
        "own-fences",
        &time,
        &path,
    ];
    let options = ["--nspace", "greedy", "--keep-going", "--grace", "0.2"];
    let mut launcher = Launcher::start(field, &pmix, &options, &job)?;
    let longest = until(PATIENCE, || {
        let longest = fs::read_to_string(&told).ok()?.trim().parse().ok()?;
        Some(Duration::from_micros(longest))
    });
    let longest = longest.ok_or_else(|| format!("no fence ended: {}", launcher.give_up()))?;
    let memory = launcher.memory()?;
    let ranks = launcher.ranks()?;
    let (mut clock, whole) = (launcher.clock(), launcher.clock());
    launcher.signal(Signal::TERM)?;
    let gone = until(PATIENCE, || {
        let elapsed = clock.elapsed();
        let alive = ranks.iter().any(|pid| is_alive(*pid));
        (!alive).then_some(elapsed)
    });
    let obeyed = gone.ok_or("the processes go on after SIGTERM")?;
    let (code, ended) = launcher.end_after(whole)?;

    let limit = Duration::from_secs(3);
    let mut timed = vec!["--timeout", "3"];
    timed.extend(options);
    let begun = Instant::now();
    let mut launcher = Launcher::start(field, &pmix, &timed, &job[..10])?;
    let timed = launcher.end(PATIENCE)?;
    let late = begun.elapsed().saturating_sub(limit);
    let figures = format!(
        "{ATTACKERS} attackers: longest fence {}, {} MiB, SIGTERM obeyed after {}, ended after {}, and {} after \
         the time limit, exit codes {} and {}",
        shown(longest),
        memory >> 10,
        shown(obeyed),
        shown(ended),
        shown(late),
        code.unwrap_or(-1),
        timed.unwrap_or(-1),
    );
    let most = if field.short { OBEYED * 4 } else { OBEYED };
    let prompt = ended < most && late < allowed(field, OBEYED * 10);
    let held = longest < FENCE && memory < MEMORY;
    match prompt && held && code == Some(143) && timed == Some(124) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}
