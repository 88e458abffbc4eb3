// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix kill` with a job of `pmix run`.

use std::fs;
use std::time::{Duration, Instant};

use crate::command::launcher::Running;
use pmix_tool::Ask;
use pmix_types::{Info, Status, keys};

/// The time limit of each step on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const NAME: &str = "controlled@1";

/// Starts a job of two processes that print the signals which they receive.
///
/// A shell that starts programs in a loop may be inside `vfork` when the job is stopped. Such a shell waits for its
/// stopped child and the system never reports it as stopped itself. This one has a single child that `fork` made.
fn job() -> Running {
    let script = "trap 'echo $PMIX_RANK has it' USR1; (trap '' USR1; exec sleep 1000) & echo up; \
                  while :; do wait; done";
    let mut running = Running::start(&[
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "sh",
        "-c",
        script,
    ]);
    assert_eq!([running.line(), running.line()], ["up", "up"]);
    running
}

/// Returns the states of the job's processes according to the system and to `pmix ps`: `T` for a stopped one, `?` if
/// the server's information is not up to date yet.
fn states(running: &Running) -> String {
    let procs = running.tool(&["--json", "ps", NAME]).json();
    let procs = procs["procs"].as_array().unwrap();
    let state = |proc: &serde_json::Value| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", proc["pid"])).unwrap();
        match (stat.contains(") T "), proc["stopped"].as_bool().unwrap()) {
            (true, true) => 'T',
            (false, false) => '.',
            _ => '?',
        }
    };
    procs.iter().map(state).collect()
}

/// Waits until the processes have these states.
fn wait_for(running: &Running, expected: &str) {
    let begun = Instant::now();
    loop {
        let seen = states(running);
        if seen == expected {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "{seen} is not {expected}");
    }
}

#[test]
fn processes_are_signalled_stopped_continued_and_ended() {
    let mut running = job();
    let outcome = running.tool(&["kill", "--signal", "usr1", "--ranks", "1", NAME]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(running.line(), "1 has it");
    let outcome = running.tool(&["--json", "kill", "--pause", "--ranks", "0,0", NAME]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let json = outcome.json();
    assert_eq!(
        (&json["control"], &json["status"]),
        (&"pause".into(), &0.into())
    );
    wait_for(&running, "T.");
    let text = running.tool(&["ps", NAME]).text();
    let rows: Vec<_> = text.lines().filter(|row| row.ends_with(" sh")).collect();
    assert!(
        rows[0].contains(" stopped ") && rows[1].contains(" running "),
        "{text}"
    );
    assert_eq!(running.tool(&["kill", "--resume", NAME]).code, 0);
    wait_for(&running, "..");
    // The default signal ends the job.
    assert_eq!(running.tool(&["kill", NAME]).code, 0);
    let (code, rest, errors) = running.end();
    assert_eq!((code, rest.as_str()), (Some(128 + 15), ""), "{errors}");
}

#[test]
fn a_tool_stops_continues_signals_and_ends_all_of_a_session() {
    let mut running = job();
    let session = running.child.id();
    let (tool, _) = running.attach();
    let control = |info: Info<'static>| {
        let asked = tool.wait(Ask::session_control(session, vec![info]));
        assert_eq!(asked.unwrap().0, Status::SUCCESS);
    };
    control(Info::new(keys::SESSION_PAUSE, true));
    wait_for(&running, "TT");
    control(Info::new(keys::SESSION_RESUME, true));
    wait_for(&running, "..");
    control(Info::new(
        keys::SESSION_SIGNAL,
        rustix::process::Signal::USR1.as_raw(),
    ));
    let mut said = [running.line(), running.line()];
    said.sort();
    assert_eq!(said, ["0 has it", "1 has it"]);
    control(Info::new(keys::SESSION_TERMINATE, true));
    drop(tool);
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn signals_to_missing_processes_are_errors() {
    let running = job();
    let pid = running.child.id().to_string();
    for args in [
        &["kill", "--pid", &pid, "no-such-job"][..],
        &["kill", "--ranks", "7", NAME],
    ] {
        let outcome = running.tool(args);
        assert_eq!(outcome.code, 1, "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("no such running process"),
            "{}",
            outcome.stderr
        );
        let json = running.tool(&[&["--json"], args].concat());
        assert_eq!((json.code, &json.json()["status"]), (1, &(-46).into()));
    }
    for (args, why) in [
        (
            &["kill", "--signal", "NOPE", NAME][..],
            "the number of a signal",
        ),
        (&["kill", "--ranks", "0-4294967245", NAME], "at most"),
        // This rank is the wildcard for all ranks.
        (
            &["kill", "--ranks", "4294967294", NAME],
            "is not a valid rank",
        ),
        (&["kill", "--kill", "--pause", NAME], "cannot be used with"),
    ] {
        let outcome = running.tool(args);
        assert_eq!(outcome.code, 2, "{args:?}");
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    assert_eq!(running.tool(&["kill", "--kill", NAME]).code, 0);
    assert_eq!(running.end().0, Some(128 + 9));
}
