// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a collective that waits for long, and the report at the time limit.
#![allow(clippy::disallowed_methods, reason = "the environment has a path")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmix_client::Client;
use pmix_proto::{Request, request};
use pmix_types::{App, Info, keys};

use crate::stage::play_plan;

/// The patience with processes on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(40);

fn wait_until(is_done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < end, "the others are late");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls two fences. All ranks are ready for each before one calls it, and rank 1 calls it later by a given time.
pub(crate) fn late(client: Client) {
    let place = PathBuf::from(std::env::var_os("PLACE").unwrap());
    let delay = std::env::var("DELAY").unwrap().parse().unwrap();
    let rank = client.proc().rank.as_raw();
    for fence in 0..2 {
        let file = |rank: u32| place.join(format!("{fence}.{rank}"));
        std::fs::write(file(rank), "").unwrap();
        // Not by a fence: the launcher would report it as well if a process starts late.
        wait_until(|| (0..3).all(|rank| file(rank).exists()));
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(delay));
        }
        client.fence([], &[]).wait().unwrap();
    }
    client.finalize().unwrap();
}

/// Finalizes and fails as rank 1, at once. Rank 0 prints a line a moment later, after its own finalize if `LINK` says so.
pub(crate) fn exits_later(client: Client) {
    client.fence([], &[]).wait().unwrap();
    let is_first = client.proc().rank.as_raw() == 0;
    let finalizes = !is_first || std::env::var("LINK").unwrap() == "finalized";
    let left = match finalizes {
        true => client.finalize().map(|()| None).unwrap(),
        false => Some(client),
    };
    if !is_first {
        std::process::exit(3);
    }
    std::thread::sleep(Duration::from_millis(100));
    println!("the last line");
    if let Some(client) = left {
        client.finalize().unwrap();
    }
}

// MPI programs return from MPI_Finalize at the same time, and one of them then exits with a failure.
#[test]
fn processes_may_exit_by_themselves_after_a_finalized_process_has_failed() {
    for link in ["finalized", "connected"] {
        let played = play_plan("exits_later", 2, &[("LINK", Path::new(link))], |_| {});
        assert_eq!(played.outcome.exit_code(), 3, "{link}: {}", played.errors);
        let ending = played.outcome.ranks[0].ending;
        assert!(ending.is_success(), "{link}: {ending:?}");
        assert!(played.output.contains("the last line"), "{link}");
    }
}

#[test]
fn a_collective_that_waits_for_long_is_reported_once() {
    let after = |notice_after: Option<Duration>, delay: &str| {
        let place = tempfile::tempdir().unwrap();
        let vars = [("PLACE", place.path()), ("DELAY", Path::new(delay))];
        let played = play_plan("late", 3, &vars, |plan| {
            plan.diagnosis.notice_after = notice_after;
        });
        assert_eq!(played.outcome.cause, None, "{}", played.errors);
        let lines = played.errors.lines();
        let notices = lines.filter(|line| line.starts_with("pmix run: fence, "));
        let notices: Vec<_> = notices.map(str::to_owned).collect();
        let named = |line: &String| line.contains(" s: waits for rank 1; called by ranks 0, 2 (");
        assert!(notices.iter().all(named), "{}", played.errors);
        notices.len()
    };
    // The other ranks have a second to call, and the launcher has two for the notice.
    assert_eq!(after(Some(Duration::from_secs(1)), "3000"), 2);
    assert_eq!(after(None, "300"), 0);
}

/// Spawns this act again with a time limit. The spawned process spawns a job without one, and ends during the report
/// at its own limit.
pub(crate) fn ends_late(mut client: Client) {
    if std::env::var_os("CHILD").is_some() {
        crate::actors::spawn_one(&mut client);
        // The standard error of a single process is that of the launcher.
        let said = || std::fs::read_to_string("/proc/self/fd/2").unwrap_or_default();
        wait_until(|| said().contains(" is lost; "));
    } else {
        let argv: Vec<_> = std::env::args().map(Into::into).collect();
        let app = App {
            cmd: argv.first().cloned(),
            argv,
            env: vec!["ACT=ends_late".into(), "CHILD=sleep 300".into()],
            maxprocs: 1,
            ..App::default()
        };
        let request = request::Spawn {
            infos: vec![Info::new(keys::JOB_TIMEOUT, 4i32)],
            apps: vec![app],
        };
        client.request(Request::Spawn(request)).wait().unwrap();
    }
    client.finalize().unwrap();
}

#[test]
fn a_job_that_ends_during_its_report_ends_the_jobs_that_it_spawned() {
    let began = Instant::now();
    let played = play_plan("ends_late", 1, &[], |plan| {
        // Jobs without a time limit of their own have that of the launcher.
        plan.timeout = Some(Duration::from_secs(90));
    });
    let errors = &played.errors;
    assert_eq!(played.outcome.num_spawned, 2, "{errors}");
    let named = |number: u32| format!("ends_late@{number}: no rank waits for others");
    assert!(errors.contains(&named(2)), "{errors}");
    // The last job has not reached a time limit.
    assert!(!errors.contains(&named(3)), "{errors}");
    assert!(began.elapsed() < Duration::from_secs(80), "{errors}");
}
