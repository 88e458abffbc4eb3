// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix query` and `pmix ps` with a job of `pmix run`.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Running, assert_nothing_left, command, finish, launcher};

/// Starts a job of two processes that run until their output has been read.
fn job() -> Running {
    let script = "echo up; sleep 30 & wait";
    let mut running = Running::start(&["-n", "2", "--node-name", "n1", "sh", "-c", script]);
    assert_eq!([running.line(), running.line()], ["up", "up"]);
    running
}

fn end(running: Running) {
    running.signal("TERM");
    let (code, _, _) = running.end();
    assert_eq!(code, Some(128 + 15));
}

#[test]
fn tools_find_the_server_of_the_system_of_which_a_node_has_one() {
    let running = job();
    assert_eq!(running.tool(&["ps", "--system"]).code, 1);
    end(running);
    let script = "echo up; sleep 30 & wait";
    let options = ["--system-server", "--node-name", "n1"];
    let mut running = Running::start(&[&options[..], &["sh", "-c", script]].concat());
    assert_eq!(running.line(), "up");
    let launcher = running.child.id().to_string();
    let outcome = running.tool(&["--json", "ps", "--system"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.json()["server_pid"].to_string(), launcher);
    let second = running.tool(&[&["run"], &options[..], &["true"]].concat());
    assert_eq!(second.code, 2);
    let named = second.stderr.contains(&format!("process {launcher},"));
    assert!(
        named && second.stderr.contains("pmix.sys.n1"),
        "{}",
        second.stderr
    );
    // A launcher that does not request to be the system server is not rejected.
    let third = running.tool(&["run", "--node-name", "n1", "true"]);
    assert_eq!((third.code, third.stderr.as_str()), (0, ""));
    end(running);
}

#[test]
fn the_place_of_the_system_is_not_taken_through_a_link() {
    let options = ["--system-server", "--node-name", "n1", "true"];
    let (mut command, tmp) = launcher(&options);
    let system = tempfile::tempdir().unwrap();
    let planted = system.path().join("pmix.sys.n1");
    std::os::unix::fs::symlink(system.path().join("victim"), &planted).unwrap();
    command.env("PMIX_SYSTEM_TMPDIR", system.path());
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 2);
    let said = outcome.stderr.contains("pmix.sys.n1 is a symbolic link");
    assert!(said, "{}", outcome.stderr);
    assert!(planted.is_symlink() && !system.path().join("victim").exists());
    assert_nothing_left(&tmp);
}

#[test]
fn ps_shows_the_processes_of_a_job() {
    let running = job();
    let launcher = running.child.id().to_string();
    let outcome = running.tool(&["ps"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = outcome.text();
    assert!(text.contains(&format!("process {launcher}")), "{text}");
    let rows: Vec<_> = text.lines().filter(|line| line.ends_with(" sh")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    for (rank, row) in rows.iter().enumerate() {
        assert!(row.trim_start().starts_with(&rank.to_string()), "{text}");
        assert!(row.contains("running") && row.contains("n1"), "{text}");
    }
    let outcome = running.tool(&["--json", "ps", "--pid", &launcher]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let json = outcome.json();
    assert_eq!(json["server_pid"].to_string(), launcher);
    assert_eq!(json["procs"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["procs"][1]["rank"], 1);
    assert_eq!(json["procs"][1]["state"], "running");
    // A running process has no exit code.
    assert_eq!(json["procs"][1]["exit_code"], serde_json::Value::Null);
    let nspace = json["nspace"].as_str().unwrap().to_owned();
    assert_eq!(running.tool(&["ps", &nspace]).code, 0);
    for options in [
        &["ps", "no-such-job"][..],
        &["ps", "no-such-job", "--pid", &launcher],
    ] {
        let outcome = running.tool(options);
        assert_eq!(outcome.code, 1, "{options:?}");
        // The server has another job, so it is not reported as a server without jobs.
        assert_eq!(outcome.text(), "", "{options:?}");
        assert!(
            outcome.stderr.contains("has a job \"no-such-job\""),
            "{}",
            outcome.stderr
        );
    }
    end(running);
}

#[test]
fn query_asks_for_any_key() {
    let running = job();
    let outcome = running.tool(&["query", "QUERY_NAMESPACES"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = outcome.text();
    let nspace = text.strip_prefix("pmix.qry.ns: ").unwrap().to_owned();
    let about = ["--json", "query", "--nspace", &nspace, "JOB_SIZE"];
    let json = running.tool(&about).json();
    assert_eq!(json["status"], 0);
    assert_eq!(json["answers"][0]["value"]["data"], 2);
    let about = ["query", "--nspace", "no-such-job", "QUERY_PROC_TABLE"];
    let outcome = running.tool(&about);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("the server returned no value"));
    end(running);
}

#[test]
fn qualifiers_have_the_types_of_their_attributes() {
    let script = "echo up; sleep 30 & wait";
    let mut running = Running::start(&[
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        "asked@1",
        "--pset",
        "last=1",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!([running.line(), running.line()], ["up", "up"]);
    let session = running.child.id();
    let session = format!("SESSION_ID={session}");
    for (with, key, answer) in [
        (&["PROCID=asked@1:1"][..], "LOCAL_RANK", "pmix.lrank: 1"),
        (&["PROCID=asked@1:wildcard"], "JOB_SIZE", "pmix.job.size: 2"),
        (
            &["NSPACE=asked@1", "RANK=1"],
            "PROC_STATE_STATUS",
            "pmix.proc.state: 5",
        ),
        (&["NODEID=0", "NODE_INFO"], "HOSTNAME", "pmix.hname: n1"),
        (
            &["NODEID=0", "HOSTNAME=n1"],
            "LOCAL_PROCS",
            "pmix.lprocs: asked@1:0,asked@1:1",
        ),
        (&["APP_INFO", "APPNUM=0"], "APP_SIZE", "pmix.app.size: 2"),
        (
            &[&session, "SESSION_INFO"],
            "UNIV_SIZE",
            "pmix.univ.size: 2",
        ),
        (
            &["PSET_NAME=last"],
            "QUERY_PSET_MEMBERSHIP",
            "pmix.qry.pmems: asked@1:1",
        ),
    ] {
        let with = with.iter().flat_map(|word| ["--with", word]);
        let args: Vec<_> = ["query"].into_iter().chain(with).chain([key]).collect();
        let outcome = running.tool(&args);
        let said = (outcome.code, outcome.stderr.as_str());
        assert_eq!(said, (0, ""), "{args:?}");
        assert_eq!(outcome.text(), answer, "{args:?}");
    }
    for (with, why) in [
        ("PROCID=asked@1", "expected a process, NSPACE:RANK"),
        ("PROCID=asked@1:first", "\"first\" is not a rank"),
        ("RANK=-1", "\"-1\" is not a rank"),
        ("NODEID=x", "not a valid PMIX_UINT32"),
        ("NODEID=-1", "not a valid PMIX_UINT32"),
        ("NODEID", "missing value of type PMIX_UINT32"),
        ("NODE_INFO=perhaps", "expected true or false"),
    ] {
        let outcome = running.tool(&["query", "--with", with, "LOCAL_SIZE"]);
        assert_eq!(outcome.code, 2, "{with}");
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    end(running);
}

#[test]
fn each_key_without_an_answer_is_named() {
    let running = job();
    let args = ["query", "no.such.key", "JOB_SIZE", "QUERY_QUEUE_STATUS"];
    let outcome = running.tool(&args);
    assert_eq!(outcome.code, 1);
    assert_eq!(outcome.text(), "pmix.job.size: 2");
    let errors = outcome.stderr;
    for said in [
        "no.such.key: the server returned no value (PMIX_ERR_NOT_FOUND",
        "QUERY_QUEUE_STATUS: the server returned no value (PMIX_ERR_NOT_SUPPORTED",
    ] {
        assert!(errors.contains(said), "{errors}");
    }
    end(running);
}

#[test]
fn unknown_requests_to_a_launcher_are_rejected_by_name() {
    let running = job();
    let queues = running.tool(&["query", "QUERY_QUEUE_LIST"]);
    assert_eq!(queues.code, 1);
    assert!(queues.stderr.contains("NOT_SUPPORTED"), "{}", queues.stderr);
    let status = running.tool(&["query", "QUERY_JOB_STATUS"]);
    assert_eq!((status.code, status.stderr.as_str()), (0, ""));
    running.signal("TERM");
    let (_, _, errors) = running.end();
    let line = "queried PMIX_QUERY_QUEUE_LIST, which pmix run does not support";
    assert!(errors.contains(line), "{errors}");
}

#[test]
fn query_asks_the_server_that_has_the_job() {
    let running = job();
    let size = ["--json", "query", "--nspace", "other@1", "JOB_SIZE"];
    let mut other = command(&[
        "run",
        "--node-name",
        "n1",
        "--nspace",
        "other@1",
        "-n",
        "3",
        "sleep",
        "30",
    ]);
    let mut other = other
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", running.tmp.path())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let asked = loop {
        let asked = running.tool(&size);
        if asked.code == 0 || begun.elapsed() > Duration::from_secs(20) {
            break asked;
        }
    };
    // Without the job's name there are two candidates.
    let vague = running.tool(&["query", "QUERY_NAMESPACES"]);
    let sent = Command::new("kill").arg(other.id().to_string()).status();
    assert!(sent.unwrap().success());
    other.wait().unwrap();
    assert_eq!((asked.code, asked.stderr.as_str()), (0, ""));
    assert_eq!(asked.json()["answers"][0]["value"]["data"], 3);
    assert_eq!(vague.code, 1);
    assert!(vague.stderr.contains("--pid N"), "{}", vague.stderr);
    end(running);
}

#[test]
fn a_missing_server_is_reported_with_the_searched_places() {
    let top = tempfile::tempdir().unwrap();
    for args in [&["ps"][..], &["query", "JOB_SIZE"], &["ps", "--pid", "77"]] {
        let mut command = command(args);
        command.env("TMPDIR", top.path());
        let outcome = finish(command, b"");
        assert_eq!(outcome.code, 1);
        let said = outcome.stderr;
        assert!(said.contains(top.path().to_str().unwrap()), "{said}");
    }
}
