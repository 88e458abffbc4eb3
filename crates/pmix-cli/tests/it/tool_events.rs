// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix events` with a job of `pmix run`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use pmix_types::{App, Info, Proc, Query, Rank, Status, Value, keys};
use serde_json::Value as Json;

use crate::command::{Running, Watchdog};

const NAME: &str = "followed@1";

/// Starts a job whose processes end when they are signaled: with success, with a code, by a signal.
fn job() -> Running {
    let script = "ulimit -c 0; trap 'case $PMIX_RANK in 0) exit 0;; 1) exit 3;; *) kill -SEGV $$;; esac' USR1
        echo up; while :; do sleep 0.05; done";
    let mut running = Running::start(&[
        "-n",
        "3",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "--keep-going",
        "sh",
        "-c",
        script,
    ]);
    let up = [running.line(), running.line(), running.line()];
    assert_eq!(up, ["up", "up", "up"]);
    running
}

/// A tool that follows events.
struct Following {
    child: Child,
    output: BufReader<ChildStdout>,
    _watchdog: Watchdog,
}

impl Following {
    fn start(running: &Running, args: &[&str]) -> Self {
        let mut command = running.tool_command(args);
        let mut child = { command.stdin(Stdio::null()).stdout(Stdio::piped()) }
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let _watchdog = Watchdog::of(&child);
        Self {
            child,
            output,
            _watchdog,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Returns the rest of its output, and its exit code.
    fn end(&mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Kill the tool of a failed test. Otherwise it has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn events_are_shown_until_the_server_ends() {
    let running = job();
    let mut json = Following::start(&running, &["--json", "events"]);
    let mut words = Following::start(&running, &["events", NAME]);
    // The start event is kept for later tools, and shows that the tool is registered.
    let first: Json = serde_json::from_str(&json.line()).unwrap();
    assert_eq!(first["name"], "PMIX_EVENT_JOB_START");
    let infos = first["infos"].as_array().unwrap();
    let names_job = |info: &Json| info["value"]["data"] == NAME;
    assert!(infos.iter().any(names_job), "{first}");
    let start = words.line();
    let expected = format!("PMIX_EVENT_JOB_START {NAME}\n");
    assert!(start.ends_with(&expected), "{start}");
    assert_eq!(running.tool(&["kill", "--signal", "USR1", NAME]).code, 0);
    let (text, code) = json.end();
    assert_eq!(code, Some(0), "{text}");
    let events: Vec<Json> = { text.lines() }
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (rank, name, exit_code) in [
        (0, "PMIX_EVENT_PROC_TERMINATED", Json::Null),
        (1, "PMIX_ERR_EXIT_NONZERO_TERM", 3.into()),
        (2, "PMIX_ERR_PROC_ABORTED_BY_SIG", 139.into()),
    ] {
        let is_it = |event: &&Json| event["name"] == name;
        let event = events.iter().find(is_it).expect(name);
        assert_eq!(event["affected"][0]["nspace"], NAME);
        assert_eq!(event["affected"][0]["rank"], rank);
        assert_eq!(event["exit_code"], exit_code);
    }
    let last = events.last().unwrap();
    assert_eq!(last["name"], "PMIX_EVENT_JOB_END");
    // Either of the two may have failed first.
    assert!(
        last["text"].as_str().unwrap().starts_with("rank "),
        "{last}"
    );
    let (text, code) = words.end();
    assert_eq!(code, Some(0));
    let crashed = format!("PMIX_ERR_PROC_ABORTED_BY_SIG {NAME},2: signal SIGSEGV");
    assert!(text.contains(&crashed), "{text}");
    let (code, ..) = running.end();
    assert!(matches!(code, Some(3 | 139)), "{code:?}");
}

#[test]
fn codes_and_a_number_of_events_are_chosen() {
    let running = job();
    // Earlier events are delivered again, so this does not wait.
    let args = [
        "events",
        "--count",
        "1",
        "--code",
        "EVENT_JOB_START",
        "--code",
        "-145",
    ];
    let outcome = running.tool(&args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.text().lines().count(), 1);
    assert_eq!(running.tool(&["events", "--count", "0"]).code, 2);
    let outcome = running.tool(&["events", "--code", "NO_SUCH_STATUS"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("the number of a status"),
        "{}",
        outcome.stderr
    );
    assert_eq!(running.tool(&["kill", "--kill", NAME]).code, 0);
    assert_eq!(running.end().0, Some(137));
}

#[test]
fn the_end_of_a_spawned_job_is_delivered_to_a_late_handler() {
    let pause = [
        "sh",
        "-c",
        "echo up; while test ! -e \"$TMPDIR/over\"; do sleep 0.05; done; rm \"$TMPDIR/over\"",
    ];
    let named = [
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        "outer@1",
        "--keep-going",
    ];
    let mut running = Running::start(&[&named[..], &pause].concat());
    assert_eq!(running.line(), "up");
    let (tool, _) = running.attach();
    let app = App {
        cmd: Some("sh".into()),
        argv: ["sh", "-c", "exit 3"].map(Into::into).to_vec(),
        maxprocs: 1,
        ..App::default()
    };
    let started = tool.spawn(Vec::new(), vec![app]).wait().unwrap();
    assert_eq!(started.to_string(), "outer@2");
    let query = |key: &'static str, qualifiers: Vec<Info<'static>>| {
        let keys = vec![key.into()];
        let (_, found) = tool.query(vec![Query { keys, qualifiers }]).wait().unwrap();
        found[0].value.clone()
    };
    while query(keys::QUERY_NAMESPACES, Vec::new()) != Value::from("outer@1") {}
    let of_job = Info::new(keys::NSPACE, "outer@2");
    let status = query(keys::QUERY_JOB_STATUS, vec![of_job]);
    assert_eq!(status, Value::Status(Status::ERR_JOB_NON_ZERO_TERM));
    let absent = Query {
        keys: vec![keys::QUERY_JOB_STATUS.into()],
        qualifiers: vec![Info::new(keys::NSPACE, "outer@3")],
    };
    let (status, found) = tool.query(vec![absent]).wait().unwrap();
    assert_eq!((status, found.len()), (Status::ERR_NOT_FOUND, 0));
    let args = [
        "--json",
        "events",
        "--count",
        "1",
        "--code",
        "EVENT_JOB_END",
    ];
    let end = running.tool(&args).json();
    assert_eq!(end["affected"][0]["nspace"], "outer@2");
    assert_eq!(end["exit_code"], 3);
    tool.finalize().unwrap();
    std::fs::write(running.tmp.path().join("over"), "").unwrap();
    assert_eq!(running.end().0, Some(3));
}

// Requests of an independent tool to `pmix run` in addition to queries: input for processes, credentials,
// monitors.

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

const WATCHED: &str = "watched@1";

#[test]
fn a_tool_pushes_input_gets_a_credential_and_receives_alerts() {
    let args = ["--node-name", "n1", "--nspace", WATCHED, "--forward-io"];
    let mut running = Running::start(&[&args[..], &["sh", "-c", "echo up; exec cat"]].concat());
    assert_eq!(running.line(), "up");
    let (tool, events) = running.attach();

    let push = |rank, data: &str| {
        let procs = vec![Proc::new(WATCHED, Rank::new(rank))];
        let data = Some(data.as_bytes().to_vec());
        tool.iof_push(procs, Vec::new(), data).wait()
    };
    push(0, "pushed by a tool\n").unwrap();
    assert_eq!(running.line(), "pushed by a tool");
    let refused = push(1, "nobody").unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_FOUND);

    let (credential, _) = tool.get_credential(Vec::new()).wait().unwrap();
    let asked = tool.validate_credential(credential, Vec::new()).wait();
    let (status, about) = asked.unwrap();
    assert_eq!(status, Status::SUCCESS);
    let user = about.iter().find(|info| info.key.is(keys::USERID));
    let user: u32 = user.unwrap().value.to_number().unwrap();
    assert_eq!(user, rustix::process::geteuid().as_raw());

    let codes = vec![Status::MONITOR_FILE_ALERT, Status::MONITOR_HEARTBEAT_ALERT];
    tool.register_events(codes, Vec::new()).wait().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = Value::from(file.path().to_str().unwrap().to_owned());
    for (monitor, time, alert) in [
        (
            Info::new(keys::MONITOR_FILE, path),
            keys::MONITOR_FILE_CHECK_TIME,
            Status::MONITOR_FILE_ALERT,
        ),
        (
            Info::new(keys::MONITOR_HEARTBEAT, true),
            keys::MONITOR_HEARTBEAT_TIME,
            Status::MONITOR_HEARTBEAT_ALERT,
        ),
    ] {
        let infos = vec![Info::new(time, 1_u32), Info::new(keys::MONITOR_ID, "one")];
        let asked = tool.monitor(monitor, Status::SUCCESS, infos).wait();
        assert_eq!(asked.unwrap().0, Status::SUCCESS, "{alert}");
        let event = events.recv_timeout(LIMIT).unwrap();
        assert_eq!(event.status, alert);
        let whose = Info::new(keys::EVENT_AFFECTED_PROC, tool.proc().unwrap().clone());
        assert!(event.infos.contains(&whose), "{event:?}");
        let cancel = Info::new(keys::MONITOR_CANCEL, "one");
        let asked = tool.monitor(cancel, Status::SUCCESS, Vec::new()).wait();
        assert_eq!(asked.unwrap().0, Status::SUCCESS, "{alert}");
    }
    // The end of its input ends the program and so the launcher, which may close the connection first.
    push(0, "").unwrap();
    if let Err(error) = tool.finalize() {
        assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    }
    assert_eq!(running.end().0, Some(0));
}
