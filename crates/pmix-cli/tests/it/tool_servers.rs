// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of tools that choose one of several servers. Two servers have the same name, one server is
//! stopped, or no server has the job.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::process::Stdio;

use crate::command::{self, Running, command, finish};
use crate::tool_node::jobs;

/// Ends a job by the process ID of its server.
fn end(running: Running) {
    let pid = running.child.id().to_string();
    let procs = running.tool(&["--json", "ps", "--pid", &pid]).json();
    let nspace = procs["nspace"].as_str().unwrap();
    assert_eq!(running.tool(&["kill", "--pid", &pid, nspace]).code, 0);
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn two_servers_of_one_name_are_both_shown_and_asked_by_their_processes() {
    let (first, second) = jobs("mine", "mine");
    let pids = [&first, &second].map(|running| running.child.id().to_string());
    for args in [&["ps"][..], &["ps", "mine"]] {
        let outcome = first.tool(args);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        let text = outcome.text();
        for pid in &pids {
            let server = format!("server mine.server, process {pid}\n");
            assert!(text.contains(&server), "{text}");
        }
    }
    let vague = first.tool(&["kill", "mine"]);
    assert_eq!(vague.code, 1);
    let said = "2 servers have a job \"mine\"; select one with --pid";
    assert!(vague.stderr.contains(said), "{}", vague.stderr);
    for pid in &pids {
        let server = format!("pid {pid}, mine.server");
        assert!(vague.stderr.contains(&server), "{}", vague.stderr);
    }
    end(second);
    end(first);
}

#[test]
fn a_job_that_no_server_has_is_named() {
    let (first, second) = jobs("one@1", "two@1");
    for args in [
        &["kill", "nosuch"][..],
        &["release", "nosuch"],
        &["attach", "nosuch"],
        &["events", "nosuch"],
        &["top", "nosuch"],
        &["query", "--nspace", "nosuch", "JOB_SIZE"],
        &["ps", "nosuch"],
    ] {
        let outcome = first.tool(args);
        assert_eq!((outcome.code, outcome.text().as_str()), (1, ""), "{args:?}");
        let said = "no server that replied has a job \"nosuch\"";
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
        let json = first.tool(&[&["--json"], args].concat());
        assert_eq!(json.code, 1, "{args:?}");
    }
    // Only the complete namespace names a job, so there is no job "two".
    let outcome = first.tool(&["kill", "two"]);
    let said = "has a job \"two\"";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    end(second);
    end(first);
}

#[test]
fn a_job_without_any_server_may_be_over() {
    let top = tempfile::tempdir().unwrap();
    for args in [
        &["kill", "gone@1"][..],
        &["release", "gone@1"],
        &["ps", "gone@1"],
    ] {
        let mut command = command(args);
        command.env("TMPDIR", top.path());
        let outcome = finish(command, b"");
        assert_eq!(outcome.code, 1);
        let said = outcome.stderr;
        let expected = "no server has a job \"gone@1\"; it may have ended: no server has a";
        assert!(said.contains(expected), "{said}");
        assert!(said.contains(top.path().to_str().unwrap()), "{said}");
    }
}

#[test]
fn a_server_that_is_stopped_does_not_keep_tools_from_the_job_of_another() {
    let (stopped, live) = jobs("stopped@1", "live@1");
    let pid = stopped.child.id().to_string();
    stopped.signal("STOP");
    let nobody = stopped.tool(&["kill", "--timeout", "0.5", "nosuch"]);
    // A time limit longer than the watchdog's.
    let killed = stopped.tool(&["kill", "--timeout", "3600", "live@1"]);
    stopped.signal("CONT");
    assert_eq!((killed.code, killed.stderr.as_str()), (0, ""));
    assert_eq!(nobody.code, 1);
    let said = nobody.stderr;
    assert!(said.contains("has a job \"nosuch\""), "{said}");
    // The message names the server that did not reply.
    let silent = format!("\n  pid {pid}, stopped@1.server: ");
    assert!(said.contains(&silent), "{said}");
    assert_eq!(live.end().0, Some(128 + 15));
    end(stopped);
}

#[test]
fn ps_shows_replies_without_waiting_for_a_stopped_server() {
    let (stopped, live) = jobs("stopped@1", "live@1");
    stopped.signal("STOP");
    // A time limit longer than the watchdog's.
    let mut ps = stopped.tool_command(&["ps", "--timeout", "3600"]);
    let mut ps = ps.stdout(Stdio::piped()).spawn().unwrap();
    let _watchdog = command::Watchdog::of(&ps);
    let mut lines = BufReader::new(ps.stdout.take().unwrap()).lines();
    let mut line = || lines.next().map(Result::unwrap).unwrap_or_default();
    assert!(line().starts_with("server live@1.server, "));
    assert_eq!(line(), "  job live@1");
    assert!(line().contains("rank") && line().ends_with(" sh"));
    stopped.signal("CONT");
    assert!(line().starts_with("server stopped@1.server, "));
    assert_eq!(ps.wait().unwrap().code(), Some(0));
    end(live);
    end(stopped);
}

#[test]
fn a_launcher_writes_the_requested_rendezvous_file() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join("launcher");
    let (mut command, tmp) = command::launcher(&[
        "-n",
        "1",
        "--nspace",
        "found@1",
        "sh",
        "-c",
        "echo \"up $PMIX_LAUNCHER_RENDEZVOUS_FILE\"; read line; exit 0",
    ]);
    command
        .env("PMIX_LAUNCHER_RENDEZVOUS_FILE", &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _watchdog = command::Watchdog::of(&child);
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    // The namespace of the job differs from that of the launcher.
    assert_eq!(line, "up \n");
    let mut tool = command::command(&["--json", "ps", "--file", file.to_str().unwrap()]);
    // A directory without a server.
    tool.env("TMPDIR", top.path());
    let procs = finish(tool, b"").json();
    assert_eq!(procs["nspace"], "found@1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!file.exists());
    command::assert_nothing_left(&tmp);
}

#[test]
fn servers_that_do_not_answer_are_asked_at_once() {
    let top = tempfile::tempdir().unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let own = std::fs::metadata(top.path()).unwrap();
    // Two processes that outlive this test.
    let pids = [std::process::id(), std::os::unix::process::parent_id()];
    let silent = pids.map(|pid| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (user, group) = (own.uid(), own.gid());
        let text =
            format!("silent{pid}.0;tcp4://{address}\n5.0.11\n{pid}\n{user}:{group}\nnow\n\n");
        let file = top.path().join(format!("pmix.{}.tool.{pid}", host.trim()));
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(file);
        opened.unwrap().write_all(text.as_bytes()).unwrap();
        listener
    });
    // No listener replies before the other one is contacted, too.
    std::thread::spawn(move || silent.map(|listener| listener.accept().unwrap()));
    let mut command = command(&["ps", "--timeout", "3600"]);
    command.env("TMPDIR", top.path());
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = outcome.text();
    for pid in pids {
        assert!(text.contains(&format!("process {pid}\n")), "{text}");
    }
}
