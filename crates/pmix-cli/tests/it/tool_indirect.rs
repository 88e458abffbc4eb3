// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a debugger that requests a launcher through another launcher, and finds the job of the
//! second launcher.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{self, Outcome, Running};
use pmix_tool::{FoundServer, Search, Target, Tool};
use pmix_types::{App, DataArray, Envar, Info, Proc, Query, Rank, Status, Value, keys};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// Attaches a tool in this process to the launcher's server.
fn attached(outer: &Running) -> Tool {
    let search = Search::from_env()
        .host("n1")
        .server_dir(outer.tmp.path())
        .target(Target::Pid(outer.child.id()));
    let found = search.find().unwrap();
    let mut tool = Tool::new();
    let made = tool.attach(&found, |_| {});
    made.unwrap();
    tool
}

/// Starts a launcher whose job runs until the test ends it.
fn outer() -> Running {
    let mut outer = Running::start(&[
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        "outer@1",
        "--keep-going",
        "sh",
        "-c",
        "echo up; while test ! -e \"$TMPDIR/over\"; do sleep 0.05; done; rm \"$TMPDIR/over\"",
    ]);
    assert_eq!(outer.line(), "up");
    outer
}

/// Ends the launcher and returns the output of its jobs since.
fn end(outer: Running) -> String {
    std::fs::write(outer.tmp.path().join("over"), "").unwrap();
    let (code, rest, errors) = outer.end();
    assert_eq!(code, Some(0), "{errors}");
    rest
}

/// Requests a launcher that waits for the tool, with directives of the tool. Returns when the
/// launcher is ready. The launcher writes its address to the file.
fn start_waiting(tool: &Tool, file: &Path, job: &[&str], directives: Vec<Info<'static>>) {
    let pmix = env!("CARGO_BIN_EXE_pmix");
    let run = [pmix, "run", "--node-name", "n1", "--nspace", "inner@1"];
    let launcher = App {
        cmd: Some(pmix.into()),
        argv: [&run, job]
            .concat()
            .into_iter()
            .map(|word| word.to_owned().into())
            .collect(),
        maxprocs: 1,
        ..App::default()
    };
    let directives = Value::DataArray(DataArray::Info(directives));
    let infos = vec![
        Info::new(keys::SPAWN_TOOL, true).required(),
        Info::new(keys::DEBUG_STOP_IN_INIT, true).required(),
        Info::new(keys::LAUNCH_DIRECTIVES, directives).required(),
        Info::new(
            keys::LAUNCHER_RENDEZVOUS_FILE,
            file.to_str().unwrap().to_owned(),
        ),
    ];
    let started = tool.spawn(infos, vec![launcher]).wait().unwrap();
    assert_eq!(started.to_string(), "outer@2");
}

/// Returns the server of a launcher once its file exists.
fn server_of(file: &Path) -> FoundServer {
    let search = Search::from_env().target(Target::File(file.to_owned()));
    let tries = u32::try_from(LIMIT.as_millis() / 10).unwrap();
    search
        .tries(tries, Duration::from_millis(10))
        .find()
        .unwrap()
}

/// Starts a launcher that waits for a tool without a parent server, with its watchdog. It writes its address to the
/// file `inner` of the directory.
fn unstarted(args: &[&str]) -> (Child, command::Watchdog, TempDir) {
    let named = ["--node-name", "n1", "--nspace", "inner@1"];
    let (mut command, tmp) = command::launcher(&[&named, args].concat());
    command
        .env("PMIX_LAUNCHER_PAUSE_FOR_TOOL", "1")
        .env("PMIX_LAUNCHER_RENDEZVOUS_FILE", tmp.path().join("inner"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let watchdog = command::Watchdog::of(&child);
    (child, watchdog, tmp)
}

/// Runs a command with the launcher of a rendezvous file.
fn at(outer: &Running, file: &Path, args: &[&str]) -> Outcome {
    let at_file = ["--file", file.to_str().unwrap()];
    outer.tool(&[args, &at_file].concat())
}

#[test]
fn a_launcher_waits_for_its_tool_and_obeys_its_directives() {
    let mut outer = outer();
    let tool = attached(&outer);
    let file = outer.tmp.path().join("inner");
    let red = Envar {
        envar: Some("COLOUR".into()),
        value: Some("red".into()),
        separator: b':',
    };
    let directives = vec![
        Info::new(keys::SET_ENVAR, Value::Envar(Box::new(red))),
        Info::new(keys::DEBUG_STOP_ON_EXEC, true),
        Info::new(keys::TAG_OUTPUT, true),
    ];
    let job = [
        "-n",
        "2",
        "sh",
        "-c",
        "echo \"$COLOUR $PMIX_LAUNCHER_PAUSE_FOR_TOOL.\"",
    ];
    start_waiting(&tool, &file, &job, directives);
    let found = server_of(&file);
    assert_eq!(found.uri.server.nspace.to_string(), "inner@1.server");
    let at = |args: &[&str]| at(&outer, &file, args);
    let event = |code: &str| {
        let told = at(&["--json", "events", "--count", "1", "--code", code]);
        told.json()["name"].as_str().unwrap().to_owned()
    };
    // The event is kept for later tools, and no process starts before the launcher is released.
    assert_eq!(event("PMIX_LAUNCHER_READY"), "PMIX_LAUNCHER_READY");
    let pid = outer.child.id().to_string();
    let of_outer = |args: &[&str]| outer.tool(&[args, &["--pid", &pid]].concat());
    let ready = [
        "--json",
        "events",
        "--count",
        "1",
        "--code",
        "PMIX_READY_FOR_DEBUG",
    ];
    let ready = of_outer(&ready).json();
    assert_eq!(ready["affected"][0]["nspace"], "outer@2");
    let waiting = of_outer(&["--json", "ps", "outer@2"]).json();
    assert_eq!(waiting["procs"][0]["waits_at"], "pmix-init");
    let words = of_outer(&["ps", "outer@2"]).text();
    assert!(words.contains(" waits at pmix-init "), "{words}");
    assert!(
        at(&["ps"]).text().ends_with("\n  no job"),
        "{}",
        at(&["ps"]).text()
    );
    // The release goes through the server that started the launcher.
    assert_eq!(of_outer(&["release", "outer@2"]).code, 0);
    assert_eq!(event("PMIX_READY_FOR_DEBUG"), "PMIX_READY_FOR_DEBUG");
    let procs = at(&["--json", "ps", "inner@1"]).json();
    let points: Vec<_> = procs["procs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["waits_at"])
        .collect();
    assert_eq!(points, ["exec", "exec"]);
    assert!(of_outer(&["--json", "ps", "outer@2"]).json()["procs"][0]["waits_at"].is_null());
    assert_eq!(at(&["release", "inner@1"]).code, 0);
    let mut lines = [outer.line(), outer.line()];
    lines.sort();
    let line = |rank: u32| format!("[inner@1,{rank}]<stdout>: red .");
    assert_eq!(lines, [line(0), line(1)]);
    tool.finalize().unwrap();
    assert_eq!(end(outer), "");
}

#[test]
fn a_tool_that_attaches_to_a_waiting_launcher_releases_it() {
    let mut outer = outer();
    let tool = attached(&outer);
    let file = outer.tmp.path().join("inner");
    // The launcher must still run when the test queries whether it waits.
    let asked_dir = tempfile::tempdir().unwrap();
    let asked_already = asked_dir.path().join("asked");
    let job = "echo here; while test ! -e \"$0\"; do sleep 0.05; done";
    let job = ["sh", "-c", job, asked_already.to_str().unwrap()];
    start_waiting(&tool, &file, &job, Vec::new());
    let pid = outer.child.id().to_string();
    let waits_at = || {
        let found = outer.tool(&["--json", "ps", "outer@2", "--pid", &pid]);
        let found = found.json()["procs"][0].clone();
        assert_eq!(found["rank"], 0, "{found}");
        found["waits_at"].clone()
    };
    let ready = ["--json", "events", "--count", "1", "--pid", &pid, "--code"];
    let ready = outer.tool(&[&ready[..], &["PMIX_READY_FOR_DEBUG"]].concat());
    assert_eq!(ready.json()["affected"][0]["nspace"], "outer@2");
    assert_eq!(waits_at(), "pmix-init");
    let mut at_inner = Tool::new();
    at_inner.attach(&server_of(&file), |_| {}).unwrap();
    // The release names other processes, so the launcher still waits.
    at_inner
        .release(vec![Proc::new("inner@1", Rank::WILDCARD)])
        .unwrap();
    let asked = App {
        cmd: Some("/bin/sh".into()),
        argv: ["sh", "-c", "echo asked for"].map(Into::into).to_vec(),
        maxprocs: 1,
        ..App::default()
    };
    // Jobs spawned meanwhile are started after the job of the launcher.
    let primary = at_inner.primary().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    primary
        .spawn([], [asked])
        .start(move |answer| sender.send(answer).unwrap())
        .unwrap();
    assert!(
        outer
            .tool(&["ps", "--file", file.to_str().unwrap()])
            .text()
            .ends_with("no job")
    );
    // Both names mean the launcher, which has one process.
    let release = |args: &[&str]| {
        let at_file = ["release", "--file", file.to_str().unwrap()];
        outer.tool(&[&at_file[..], args].concat())
    };
    let other = release(&["outer@2", "--ranks", "1"]);
    assert_eq!(other.code, 1, "{}", other.stderr);
    assert!(other.stderr.contains("has no rank 1"), "{}", other.stderr);
    assert_eq!(waits_at(), "pmix-init");
    let released = release(&["outer@2"]);
    assert_eq!(released.code, 0, "{}", released.stderr);
    assert_eq!(
        receiver.recv_timeout(LIMIT).unwrap().unwrap().to_string(),
        "inner@2"
    );
    // The server that started the launcher is notified before the job starts.
    assert!(waits_at().is_null());
    // The launcher does not wait any more under either name.
    let again = release(&["inner@1.server"]);
    assert_eq!(again.code, 1, "{}", again.stderr);
    let said = "the launcher of \"inner@1.server\" is not waiting for a release";
    assert!(again.stderr.contains(said), "{}", again.stderr);
    assert_eq!(release(&["outer@2"]).code, 1);
    std::fs::write(&asked_already, "").unwrap();
    let mut lines = [outer.line(), outer.line()];
    lines.sort();
    assert_eq!(lines, ["asked for", "here"]);
    at_inner.finalize().unwrap();
    tool.finalize().unwrap();
    assert_eq!(end(outer), "");
}

#[test]
fn the_metrics_of_a_server_without_a_job_have_its_figures() {
    let (mut child, _watchdog, tmp) = unstarted(&["true"]);
    let found = server_of(&tmp.path().join("inner"));
    let pid = found.pid.unwrap().to_string();
    let mut top = command::command(&["top", "--openmetrics", "--pid", &pid]);
    top.env("TMPDIR", tmp.path()).env("PMIX_HOSTNAME", "n1");
    let outcome = command::finish(top, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = outcome.text();
    for (name, value) in [
        ("pmix_server_up", "1"),
        ("pmix_server_jobs", "0"),
        ("pmix_server_connections", "1"),
    ] {
        let sample = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")));
        let sample = sample.unwrap_or_else(|| panic!("{name} is not in {text}"));
        assert!(sample.ends_with(&format!("}} {value}")), "{sample}");
    }
    assert!(text.contains("pmix_server_queued_bytes{"), "{text}");
    assert!(!text.contains("job="), "{text}");
    let launcher = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(launcher, Signal::TERM).unwrap();
    child.wait().unwrap();
}

#[test]
fn an_unreleased_launcher_ends_by_a_signal_or_its_timeout() {
    let start = |args: &[&str]| unstarted(&[args, &["echo", "here"]].concat());
    let said = |child: Child| {
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), ended.stdout.as_slice()),
            (Some(1), &b""[..])
        );
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let (child, _watchdog, tmp) = start(&[]);
    let _ = server_of(&tmp.path().join("inner"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let text = said(child);
    assert!(
        text.contains("it received SIGTERM before it was released"),
        "{text}"
    );
    command::assert_nothing_left(&tmp);
    let (child, _watchdog, tmp) = start(&["--timeout", "0.05"]);
    let text = said(child);
    assert!(
        text.contains("its time limit expired before it was released"),
        "{text}"
    );
    command::assert_nothing_left(&tmp);
    let (child, _watchdog, tmp) = start(&[]);
    let mut tool = Tool::new();
    tool.attach(&server_of(&tmp.path().join("inner")), |_| {})
        .unwrap();
    let job = Proc::new("inner@1", Rank::WILDCARD);
    tool.abort(Status::ERROR.as_raw(), None, [job])
        .wait()
        .unwrap();
    let text = said(child);
    assert!(
        text.contains("a tool aborted it before it was released"),
        "{text}"
    );
    command::assert_nothing_left(&tmp);
    // Without a parent server, the launcher is released by its own name.
    let (mut child, _watchdog, tmp) = start(&[]);
    let file = tmp.path().join("inner");
    let _ = server_of(&file);
    let release = [
        "release",
        "--file",
        file.to_str().unwrap(),
        "inner@1.server",
    ];
    assert_eq!(command::pmix(&release).code, 0);
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(
        (text.as_str(), child.wait().unwrap().code()),
        ("here\n", Some(0))
    );
    command::assert_nothing_left(&tmp);
}

#[test]
fn a_job_that_is_asked_for_at_a_waiting_launcher_is_refused_when_its_time_is_over() {
    let (child, _watchdog, tmp) = unstarted(&["echo", "here"]);
    let mut tool = Tool::new();
    tool.attach(&server_of(&tmp.path().join("inner")), |_| {})
        .unwrap();
    let app = App {
        cmd: Some("true".into()),
        argv: vec!["true".into()],
        maxprocs: 1,
        ..App::default()
    };
    let client = tool.primary().unwrap();
    let (sender, answers) = std::sync::mpsc::channel();
    let later = sender.clone();
    let spawn = |limit: u32| client.spawn([Info::new(keys::TIMEOUT, limit)], [app.clone()]);
    let asked = spawn(1000).start(move |answer| later.send(answer).unwrap());
    asked.unwrap();
    let asked = spawn(1).start(move |answer| sender.send(answer).unwrap());
    asked.unwrap();
    // The launcher still waits, so no job was started.
    let refused = answers.recv_timeout(LIMIT).unwrap().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_TIMEOUT);
    tool.release(vec![Proc::new("inner@1.server", Rank::new(0))])
        .unwrap();
    let started = answers.recv_timeout(LIMIT).unwrap().unwrap();
    assert_eq!(started.to_string(), "inner@2");
    // Both jobs end at the same time, and the launcher with them, perhaps before the tool has finalized.
    if let Err(error) = tool.finalize() {
        assert_eq!(error.status(), Status::ERR_UNREACH);
    }
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.stdout, b"here\n");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{errors}");
    assert!(errors.contains("PMIx_Spawn from "), "{errors}");
    command::assert_nothing_left(&tmp);
}

#[test]
fn the_time_limit_counts_from_when_the_launcher_began() {
    let job = ["--timeout", "1000", "sh", "-c", "echo up; exec sleep 1000"];
    let (mut child, _watchdog, tmp) = unstarted(&job);
    let file = tmp.path().join("inner");
    let mut tool = Tool::new();
    tool.attach(&server_of(&file), |_| {}).unwrap();
    // The launcher is ready: only its own time limit passes now.
    std::thread::sleep(Duration::from_millis(1100));
    tool.release(vec![Proc::new("inner@1.server", Rank::new(0))])
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let query = Query {
        keys: vec![keys::TIME_REMAINING.into()],
        qualifiers: vec![Info::new(keys::NSPACE, "inner@1")],
    };
    let (_, found) = tool.query(vec![query]).wait().unwrap();
    let left: u32 = found[0].value.to_number().unwrap();
    assert!(left <= 998, "{left}");
    tool.finalize().unwrap();
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    command::assert_nothing_left(&tmp);
}

#[test]
fn directives_that_a_launcher_cannot_obey_end_it_by_name() {
    let mut outer = outer();
    let tool = attached(&outer);
    let file = outer.tmp.path().join("inner");
    let directives = vec![Info::new(keys::EXEC_AGENT, "nice")];
    start_waiting(&tool, &file, &["echo", "here"], directives);
    let mut said = BufReader::new(outer.child.stderr.take().unwrap()).lines();
    let name = "pmix run does not support PMIX_EXEC_AGENT among PMIX_LAUNCH_DIRECTIVES";
    assert!(said.any(|line| line.unwrap().contains(name)));
    tool.finalize().unwrap();
}

/// Checks that a launcher with one end of a pipe as descriptor 7 ends like on SIGTERM when the test
/// closes the other end.
fn ends_with_pipe(direction: &str, pipe: impl FnOnce(&mut Command)) {
    let args = [
        "--node-name",
        "n1",
        "--nspace",
        "inner@1",
        "sh",
        "-c",
        "test -e /proc/$$/fd/7 && echo the job has the pipe; echo up >&2; exec sleep 1000",
    ];
    let (launcher, tmp) = command::launcher(&args);
    // The pipe is a standard stream of the shell, so that its number is known.
    let mut command = Command::new("sh");
    let script = format!("exec 7{direction} <&- >&2; exec \"$0\" \"$@\"");
    command
        .args(["-c", &script])
        .arg(launcher.get_program())
        .args(launcher.get_args());
    for (name, value) in launcher.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .env("PMIX_KEEPALIVE_PIPE", "7")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    pipe(&mut command);
    let mut child = command.spawn().unwrap();
    drop(command);
    let _watchdog = command::Watchdog::of(&child);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n", "{direction}");
    assert!(child.try_wait().unwrap().is_none(), "{direction}");
    drop((child.stdin.take(), child.stdout.take()));
    assert_eq!(child.wait().unwrap().code(), Some(143), "{direction}");
    command::assert_nothing_left(&tmp);
}

#[test]
fn a_launcher_ends_when_its_tool_lets_go_of_the_pipe() {
    ends_with_pipe("<&0", |command| {
        command.stdin(Stdio::piped());
    });
    // The direction in which tools with libraries of OpenPMIx pass the pipe.
    ends_with_pipe(">&1", |command| {
        command.stdout(Stdio::piped());
    });
}

#[test]
fn a_variable_that_names_no_pipe_of_the_tool_is_ignored_with_a_warning() {
    for (named, why) in [
        ("no number", "invalid digit"),
        ("-1", "invalid digit"),
        ("77", "the descriptor is not open"),
        ("99999999999", "too large"),
        // The null device.
        ("0", "not a pipe"),
        // A pipe that is a standard stream of the launcher.
        ("1", "did not inherit the descriptor"),
    ] {
        let job = ["sh", "-c", "echo here ${PMIX_KEEPALIVE_PIPE-unset}"];
        let (mut command, tmp) = command::launcher(&job);
        command
            .env("PMIX_KEEPALIVE_PIPE", named)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{named}: {said}");
        assert_eq!(output.stdout, b"here unset\n", "{named}");
        let expected = format!("pmix run: warning: PMIX_KEEPALIVE_PIPE={named:?} is ignored: ");
        assert!(said.starts_with(&expected) && said.contains(why), "{said}");
        command::assert_nothing_left(&tmp);
    }
}

#[test]
fn a_debugger_starts_a_launcher_and_releases_the_job_that_it_starts() {
    let mut outer = outer();
    let tool = attached(&outer);
    let (pmix, file) = (env!("CARGO_BIN_EXE_pmix"), outer.tmp.path().join("inner"));
    let argv = [
        pmix,
        "run",
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        "inner@1",
        "--stop-in-init",
        pmix,
        "hello",
    ];
    let launcher = App {
        cmd: Some(pmix.into()),
        argv: argv.map(Into::into).to_vec(),
        maxprocs: 1,
        ..App::default()
    };
    let infos = vec![
        Info::new(keys::SPAWN_TOOL, true).required(),
        Info::new(
            keys::LAUNCHER_RENDEZVOUS_FILE,
            file.to_str().unwrap().to_owned(),
        ),
    ];
    let started = tool.spawn(infos, vec![launcher]).wait().unwrap();
    assert_eq!(started.to_string(), "outer@2");
    let inner = server_of(&file).uri.server;
    assert_eq!(inner.nspace.to_string(), "inner@1.server");
    let at = |args: &[&str]| at(&outer, &file, args);
    let ready = at(&[
        "--json",
        "events",
        "--count",
        "1",
        "--code",
        "PMIX_READY_FOR_DEBUG",
    ]);
    assert_eq!(ready.json()["name"], "PMIX_READY_FOR_DEBUG");
    let procs = at(&["--json", "ps"]).json();
    assert_eq!(procs["nspace"], "inner@1");
    assert_eq!(procs["procs"].as_array().map(Vec::len), Some(2));
    assert_eq!(at(&["release", "inner@1"]).code, 0);
    let mut lines = [outer.line(), outer.line()];
    lines.sort();
    for (rank, line) in lines.iter().enumerate() {
        assert!(line.contains(&format!("rank {rank} of 2")), "{lines:?}");
    }
    tool.finalize().unwrap();
    assert_eq!(end(outer), "");
}
