// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole sessions: unmodified clients under our server, and our client under real servers.
//!
//! The programs of `tests/server` check their own results. The examples of libpmix-dev are judged
//! by their output, and Open MPI by the exit codes of its programs. Each run has a time limit, so
//! that a server that does not reply causes a failure and no hang. The same programs also run under
//! a small host with each real library and under prterun. This proves that the programs require
//! nothing that a real server does not support.

pub mod case;
pub(crate) mod debugged;
pub(crate) mod examples;
pub mod launcher;
mod mpi;
pub mod programs;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use xtask::install;

use super::Options;
use super::ours::Ours;
use super::peers::Peer;
use super::tally::Tally;
use case::{Case, Judge, run_within};
use launcher::{Far, Launcher};

/// The additional Debian packages of these checks.
pub(crate) const PACKAGES: &[&str] = &[
    "libopenmpi-dev",
    "openmpi-bin",
    "python3-pmix",
    "python3-mpi4py",
];

/// The number of concurrent runs. With two of them, two processors are idle for half of the time.
const AT_ONCE: usize = 3;

/// The time limit of all runs together.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the checks with every peer. The short form leaves out the runs that involve no part of ours.
///
/// # Errors
/// Returns a message if a crate of ours does not build.
pub(super) fn run(peers: &[Peer], options: &Options, tally: &mut Tally) -> Result<(), String> {
    let pmix = Ours::build(&options.profile)?.program;
    let ours = Launcher::Ours(pmix.clone());
    let mut theirs = Vec::new();
    for peer in peers {
        theirs.push(Launcher::host(peer)?);
        theirs.extend(Launcher::prterun(peer));
    }
    let mut all = theirs.clone();
    all.insert(0, ours.clone());

    for peer in peers {
        compare_large(peer, &ours, tally)?;
    }
    let mut cases = Vec::new();
    for peer in peers {
        cases.extend(programs::cases(&peer.version, &peer.library, &all)?);
        cases.extend(debugged::cases(&peer.version, &peer.library, &pmix)?);
        cases.push(debugged::initiator(&peer.version, &peer.library, &ours)?);
        match examples::cases(&peer.version, &peer.library, std::slice::from_ref(&ours)) {
            Ok(examples) => cases.extend(examples),
            Err(why) => missing(&why, tally),
        }
        for example in [debugged::example, examples::of_system] {
            match example(&peer.version, &peer.library, &pmix) {
                Ok(example) => cases.push(example),
                Err(why) => missing(&why, tally),
            }
        }
    }
    cases.extend(all.iter().flat_map(|launcher| hello(&pmix, launcher)));
    let others = mpi::cases(peers, &ours).into_iter();
    let others = others.chain(mpi::small(peers)?);
    for case in others.chain(mpi::python(&ours)) {
        match case {
            Ok(case) => cases.push(case),
            Err(why) => missing(&why, tally),
        }
    }
    if options.short {
        cases.retain(|case| !case.is_control);
    }
    run_all(cases, Instant::now() + LIMIT, tally)
}

/// Runs the examples about groups `times` times each under our launcher.
///
/// # Errors
/// Returns a message if a crate of ours does not build or an example does not compile.
pub(super) fn groups(
    peers: &[Peer],
    times: usize,
    profile: &str,
    tally: &mut Tally,
) -> Result<(), String> {
    let ours = Launcher::Ours(Ours::build(profile)?.program);
    let mut cases = Vec::new();
    for peer in peers {
        let (release, library) = (&peer.version, &peer.library);
        cases.extend(examples::groups(release, library, &ours, times)?);
    }
    run_all(cases, Instant::now() + LIMIT, tally)
}

/// Records a missing dependency: a failure in CI, and a printed note elsewhere.
pub(crate) fn missing(why: &str, tally: &mut Tally) {
    if xtask::process::in_ci() {
        tally.fail("server: peers", &format!("missing: {why}"));
    } else {
        tally.skip("server: peers", why);
    }
}

/// Returns the runs of our own client under a launcher.
fn hello(pmix: &Path, launcher: &Launcher) -> Vec<Case> {
    let runs: [(u32, &[&str]); 4] = [
        (1, &[]),
        (4, &["--no-collect"]),
        (4, &["--fences", "200", "--bytes", "20000"]),
        (32, &[]),
    ];
    let case = |(size, args): (u32, &[&str])| {
        let mut command = launcher.command(size);
        command.arg(pmix).arg("hello").args(args);
        let told = (" replied", usize::try_from(size).unwrap_or(0));
        Case {
            what: format!("server: pmix hello under {}", launcher.title()),
            name: format!("pmix hello {} on {size}", args.join(" ")),
            command,
            limit: Duration::from_secs(30),
            judge: Judge::Says(vec![told], &[]),
            is_control: false,
        }
    };
    runs.into_iter().map(case).collect()
}

/// The number of longest runs that are printed.
const LONGEST: usize = 8;

/// The results of a thread of the checks: counts, and the duration of each run.
#[derive(Default)]
struct Work {
    tally: Tally,
    took: Vec<(Duration, String)>,
}

/// Runs every case, a few at a time.
///
/// # Errors
/// Returns a message if a folder cannot be created or a thread of the checks panicked.
pub(crate) fn run_all(cases: Vec<Case>, until: Instant, tally: &mut Tally) -> Result<(), String> {
    let home = install::scratch("interop/server")?;
    let began = Instant::now();
    let waiting = Mutex::new(cases.into_iter().enumerate().collect::<VecDeque<_>>());
    let works: Vec<Option<Work>> = std::thread::scope(|scope| {
        let worker = || {
            let mut work = Work::default();
            // The lock is released before the run, so that the workers run at the same time.
            let next = || waiting.lock().ok()?.pop_front();
            while let Some((number, mut case)) = next() {
                let output = home.join(format!("output-{number}"));
                let began = Instant::now();
                match case.run(&output, &home, until) {
                    Ok(()) => work.tally.pass(&case.what),
                    Err(why) => work.tally.fail(&case.what, &why),
                }
                let title = format!("{}: {}", case.what, case.name);
                work.took.push((began.elapsed(), title));
            }
            Some(work)
        };
        let running: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        running
            .into_iter()
            .map(|r| r.join().ok().flatten())
            .collect()
    });
    let mut took = Vec::new();
    for work in works {
        let work = work.ok_or("a thread of the checks panicked")?;
        tally.merge(work.tally);
        took.extend(work.took);
    }
    took.sort_unstable();
    let (runs, time) = (took.len(), began.elapsed().as_secs());
    println!("{runs} runs in {time} s, {AT_ONCE} at a time; the longest:");
    for (time, title) in took.iter().rev().take(LONGEST) {
        println!("  {:5.1} s  {title}", time.as_secs_f64());
    }
    Ok(())
}

// Clients that receive the info of a large job in part: `answers` must give the same results as with the whole job
// info.

/// The remote nodes.
const FAR: Far = Far(&[(2, 3), (1, 2)]);

/// The number of local processes.
const LOCAL: u32 = 4;

/// The ranks whose values `answers` gets: two local ones, a remote one in the middle of the job, and the last one.
const ASKED: [&str; 4] = ["0", "2", "5", "11"];

/// Compares the answers to each question line by line.
///
/// # Errors
/// Returns a message if the program does not compile.
fn compare_large(peer: &Peer, ours: &Launcher, tally: &mut Tally) -> Result<(), String> {
    let program = programs::compile(peer, "answers")?;
    let what = format!("server: large job of {}", peer.version);
    let home = install::scratch("interop/server")?;
    let answers = |whole: &str| {
        let mut command = ours.command_of_larger(LOCAL, FAR)?;
        command.args(["--mca", "gds_hash_whole", whole]);
        command.arg(&program).args(ASKED);
        let output = home.join(format!("answers-{whole}"));
        let status = run_within(&mut command, Duration::from_secs(30), &output, &home)?;
        let text = std::fs::read_to_string(&output).map_err(|e| e.to_string())?;
        match status.success() {
            true => Ok(text),
            false => Err(format!("{status}: {text:.300}")),
        }
    };
    match answers("-1").and_then(|whole| Ok((whole, answers("0")?))) {
        Ok((whole, part)) => judge_part(&what, &whole, &part, tally),
        Err(why) => tally.fail(&what, &why),
    }
    Ok(())
}

fn judge_part(what: &str, whole: &str, part: &str, tally: &mut Tally) {
    let found = whole.lines().filter(|line| line.contains(": 0 ")).count();
    if found < 60 {
        let why = format!("only {found} answers about a job that is registered as a whole");
        tally.fail(what, &why);
    }
    let (whole, part): (Vec<_>, Vec<_>) = (whole.lines().collect(), part.lines().collect());
    for number in 0..whole.len().max(part.len()) {
        let line = |lines: &[&str]| lines.get(number).copied().unwrap_or("nothing").to_owned();
        let (expected, found) = (line(&whole), line(&part));
        match expected == found {
            true => tally.pass(what),
            false => tally.fail(what, &format!("{found}, not {expected}")),
        }
    }
}
