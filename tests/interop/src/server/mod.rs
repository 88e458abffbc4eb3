// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole sessions: unmodified clients under our server, and our client under real servers.
//!
//! The programs of `tests/server` check their own results. The examples of libpmix-dev are judged by their output, and
//! Open MPI by the exit codes of its programs. Each run has a time limit, so that a server that does not reply causes a
//! failure and no hang. The same programs also run under a small host with each real library and under prterun, which
//! proves that they require nothing that a real server does not support.

pub mod case;
pub(crate) mod debugged;
pub(crate) mod examples;
mod large;
pub mod launcher;
mod mpi;
pub mod programs;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::ours::Ours;
use super::peers::Peer;
use super::tally::Tally;
use case::{Case, Judge};
use launcher::Launcher;
use xtask::install;

/// The additional Debian packages of these checks.
pub(crate) const PACKAGES: &[&str] = &[
    "libopenmpi-dev",
    "openmpi-bin",
    "python3-pmix",
    "python3-mpi4py",
];

/// The number of concurrent runs.
const AT_ONCE: usize = 2;

/// The time limit of all runs together.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the checks with every peer.
///
/// # Errors
/// Returns a message if a crate of ours does not build.
pub(super) fn run(peers: &[Peer], profile: &str, tally: &mut Tally) -> Result<(), String> {
    let pmix = Ours::build(profile)?.program;
    let ours = Launcher::Ours(pmix.clone());
    let mut theirs = Vec::new();
    for peer in peers {
        theirs.push(Launcher::host(peer)?);
        theirs.extend(Launcher::prterun(peer));
    }
    let mut all = theirs.clone();
    all.insert(0, ours.clone());

    for peer in peers {
        large::compare(peer, &ours, tally)?;
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
            while let Some((number, mut case)) = waiting.lock().ok()?.pop_front() {
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
