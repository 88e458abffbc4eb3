// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of `pmix run` that stop for a debugger, and `pmix release`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use pmix_types::{Info, Status, keys};
use serde_json::Value as Json;

use crate::command::Running;

const NAME: &str = "debugged@1";

/// Starts a job of processes that greet each other and stop for a debugger. Returns it with the launcher's message.
fn stopped(args: &[&str]) -> (Running, String) {
    stopped_in(args, &["hello"])
}

/// Starts such a job, whose processes run another command of this project.
fn stopped_in(args: &[&str], command: &[&str]) -> (Running, String) {
    let pmix = [env!("CARGO_BIN_EXE_pmix")];
    let named = ["-n", "3", "--node-name", "n1", "--nspace", NAME];
    let mut running = Running::start(&[&named, args, &pmix, command].concat());
    let mut said = String::new();
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    running.child.stderr = Some(errors.into_inner());
    (running, said)
}

/// Returns the event that all processes have stopped, which is kept for later tools.
fn ready(running: &Running) -> Json {
    let args = [
        "--json",
        "events",
        "--count",
        "1",
        "--code",
        "PMIX_READY_FOR_DEBUG",
    ];
    running.tool(&args).json()
}

/// Returns the value of an event for a key.
fn info<'e>(event: &'e Json, key: &str) -> &'e Json {
    let mut infos = event["infos"].as_array().unwrap().iter();
    let found = infos.find(|info| info["key"] == key);
    &found.unwrap_or_else(|| panic!("{key} in {event}"))["value"]["data"]
}

#[test]
fn events_report_a_job_that_waits_for_a_debugger() {
    let (running, _) = stopped(&["--stop-in-init"]);
    ready(&running);
    let outcome = running.tool(&["events", "--count", "2", NAME]);
    let text = outcome.text();
    assert!(text.contains(" PMIX_READY_FOR_DEBUG debugged@1"), "{text}");
    assert_eq!(running.tool(&["release", NAME]).code, 0);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn processes_wait_in_init_until_they_are_released() {
    let (running, said) = stopped(&["--stop-in-init"]);
    let pids = running.tool(&["--json", "ps", NAME]).json();
    let rank = |rank: usize| format!("rank {rank} is process {}", pids["procs"][rank]["pid"]);
    let expected = format!(
        "pmix run: job {NAME} is waiting in PMIx_Init for a debugger: {}, {}, {}; `pmix release {NAME}` continues it\n",
        rank(0),
        rank(1),
        rank(2)
    );
    assert_eq!(said, expected);
    let event = ready(&running);
    assert_eq!(event["name"], "PMIX_READY_FOR_DEBUG");
    assert_eq!(event["affected"][0]["nspace"], NAME);
    // The event names all ranks by the wildcard, which the text form prints as a word.
    let words = ["events", "--count", "1", "--code", "PMIX_READY_FOR_DEBUG"];
    let words = running.tool(&words).text();
    assert!(
        words.ends_with(&format!("PMIX_READY_FOR_DEBUG {NAME}")),
        "{words}"
    );
    assert_eq!(info(&event, "pmix.brkpnt"), "pmix-init");
    assert_eq!(info(&event, "pmix.nspace"), NAME);
    // The processes have not continued: the single released rank waits for the others.
    let released = running.tool(&["--json", "release", "--ranks", "1", NAME]);
    assert_eq!((released.code, released.stderr.as_str()), (0, ""));
    assert_eq!(released.json()["ranks"], serde_json::json!([[1, 1]]));
    let released = running.tool(&["release", NAME]);
    assert_eq!((released.code, released.text().as_str()), (0, ""));
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(output.lines().count(), 3, "{output}");
}

#[test]
fn a_job_that_waits_is_ended_like_any_other() {
    let (running, _) = stopped(&["--stop-in-init"]);
    assert_eq!(running.tool(&["kill", NAME]).code, 0);
    let (code, ..) = running.end();
    assert_eq!(code, Some(143));
}

#[test]
fn a_job_that_there_is_not_is_not_released() {
    let (running, _) = stopped(&["--stop-in-init"]);
    ready(&running);
    let pid = running.child.id().to_string();
    let args = ["--json", "release", "--pid", &pid, "absent@1"];
    let outcome = running.tool(&args);
    assert_eq!(outcome.code, 1);
    assert_eq!(outcome.json()["status"], -46);
    assert!(
        outcome.stderr.contains("no job \"absent@1\""),
        "{}",
        outcome.stderr
    );
    for args in [
        &["--json", "release", "--ranks", "7", NAME][..],
        &["--json", "release", "--ranks", "0-2,7", NAME],
    ] {
        let outcome = running.tool(args);
        assert_eq!(
            (outcome.code, &outcome.json()["status"]),
            (1, &(-46).into())
        );
        let said = "has no rank 7: it has 3 processes";
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    assert_eq!(running.tool(&["release", "--ranks", "0-2", NAME]).code, 0);
    let (code, ..) = running.end();
    assert_eq!(code, Some(0));
}

#[test]
fn processes_are_stopped_before_their_first_instruction_until_they_are_released() {
    let (running, said) = stopped(&["--stop-on-exec"]);
    assert!(
        said.contains(" is waiting before its first instruction for a debugger: "),
        "{said}"
    );
    let event = ready(&running);
    assert_eq!(info(&event, "pmix.brkpnt"), "exec");
    let procs = running.tool(&["--json", "ps", NAME]).json();
    for proc in procs["procs"].as_array().unwrap() {
        let pid = &proc["pid"];
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        // The process is stopped and has no tracer, so a debugger can attach.
        assert!(status.contains("State:\tT (stopped)"), "{status}");
        assert!(status.contains("TracerPid:\t0"), "{status}");
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(words.ends_with("pmix\0hello\0"), "{words:?}");
        // It has mapped the program and nothing else: the dynamic linker has not run.
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(!maps.contains("libc.so"), "{maps}");
    }
    assert_eq!(running.tool(&["release", NAME]).code, 0);
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(output.lines().count(), 3, "{output}");
}

#[test]
fn each_release_passes_one_stop() {
    let mut running = stopped(&["--stop-on-exec", "--stop-in-init"]).0;
    assert_eq!(running.tool(&["release", NAME]).code, 0);
    // The processes must stop again: the first release is not kept for the second stop.
    let mut said = String::new();
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    running.child.stderr = Some(errors.into_inner());
    assert!(
        said.contains(" is waiting in PMIx_Init for a debugger: "),
        "{said}"
    );
    // The processes have not continued: the single released rank waits for the others.
    let pids = running.tool(&["--json", "ps", NAME]).json();
    assert_eq!(pids["procs"].as_array().unwrap().len(), 3, "{pids}");
    let released = running.tool(&["--json", "release", "--ranks", "1", NAME]);
    assert_eq!(released.code, 0, "{}", released.stderr);
    assert_eq!(running.child.try_wait().unwrap(), None);
    assert_eq!(running.tool(&["release", NAME]).code, 0);
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(output.lines().count(), 3, "{output}");
}

#[test]
fn jobs_that_are_stopped_on_exec_are_ended_like_any_other() {
    let (running, _) = stopped(&["--stop-on-exec", "--grace", "60"]);
    running.signal("TERM");
    let (code, ..) = running.end();
    assert_eq!(code, Some(143));
}

#[test]
fn a_blocked_dynamic_linker_does_not_block_the_launcher() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.so");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // The pipe has no writer, so the dynamic linker blocks when it loads it.
    let preload = format!("LD_PRELOAD={}", pipe.display());
    let (running, said) = stopped(&["--stop-on-exec", "-x", &preload]);
    assert!(said.contains(" is waiting before its first"), "{said}");
    let procs = running.tool(&["--json", "ps", NAME]).json();
    for proc in procs["procs"].as_array().unwrap() {
        let environ = std::fs::read(format!("/proc/{}/environ", proc["pid"])).unwrap();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        assert!(environ.split('\0').any(|one| one == preload), "{environ}");
    }
    running.signal("TERM");
    let (code, ..) = running.end();
    assert_eq!(code, Some(143));
}

#[test]
fn tools_that_a_job_consists_of_wait_in_their_init_too() {
    let (running, _) = stopped_in(&["--stop-in-init"], &["--json", "ps", NAME]);
    ready(&running);
    let procs = running.tool(&["--json", "ps", NAME]).json();
    let rows = procs["procs"].as_array().unwrap().iter();
    let points: Vec<_> = rows.map(|row| row["waits_at"].as_str()).collect();
    assert_eq!(points, [Some("pmix-init"); 3]);
    assert_eq!(running.tool(&["release", NAME]).code, 0);
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(output.lines().count(), 3, "{output}");
}

/// The time limit of each step on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const CONTROLLED: &str = "controlled@1";

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
        CONTROLLED,
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
    let procs = running.tool(&["--json", "ps", CONTROLLED]).json();
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
    let outcome = running.tool(&["kill", "--signal", "usr1", "--ranks", "1", CONTROLLED]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(running.line(), "1 has it");
    let outcome = running.tool(&["--json", "kill", "--pause", "--ranks", "0,0", CONTROLLED]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let json = outcome.json();
    assert_eq!(
        (&json["control"], &json["status"]),
        (&"pause".into(), &0.into())
    );
    wait_for(&running, "T.");
    let text = running.tool(&["ps", CONTROLLED]).text();
    let rows: Vec<_> = text.lines().filter(|row| row.ends_with(" sh")).collect();
    assert!(
        rows[0].contains(" stopped ") && rows[1].contains(" running "),
        "{text}"
    );
    assert_eq!(running.tool(&["kill", "--resume", CONTROLLED]).code, 0);
    wait_for(&running, "..");
    // The default signal ends the job.
    assert_eq!(running.tool(&["kill", CONTROLLED]).code, 0);
    let (code, rest, errors) = running.end();
    assert_eq!((code, rest.as_str()), (Some(128 + 15), ""), "{errors}");
}

#[test]
fn a_tool_stops_continues_signals_and_ends_all_of_a_session() {
    let mut running = job();
    let session = running.child.id();
    let (tool, _) = running.attach();
    let control = |info: Info<'static>| {
        let asked = tool.session_control(session, vec![info]).wait();
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
    for (args, said) in [
        (
            &["kill", "--pid", &pid, "no-such-job"][..],
            "no such running process",
        ),
        (&["kill", "--ranks", "7", CONTROLLED], "has no rank 7"),
    ] {
        let outcome = running.tool(args);
        assert_eq!(outcome.code, 1, "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
        let json = running.tool(&[&["--json"], args].concat());
        assert_eq!((json.code, &json.json()["status"]), (1, &(-46).into()));
    }
    for (args, why) in [
        (
            &["kill", "--signal", "NOPE", CONTROLLED][..],
            "the number of a signal",
        ),
        (&["kill", "--ranks", "0-4294967245", CONTROLLED], "at most"),
        // This rank is the wildcard for all ranks.
        (
            &["kill", "--ranks", "4294967294", CONTROLLED],
            "is not a valid rank",
        ),
        (
            &["kill", "--kill", "--pause", CONTROLLED],
            "cannot be used with",
        ),
    ] {
        let outcome = running.tool(args);
        assert_eq!(outcome.code, 2, "{args:?}");
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    assert_eq!(running.tool(&["kill", "--kill", CONTROLLED]).code, 0);
    assert_eq!(running.end().0, Some(128 + 9));
}
