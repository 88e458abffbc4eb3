// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of failing spawn requests of a tool: each cause has its status and is reported by an
//! event.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use std::time::Duration;

use crate::command::Running;
use pmix_proto::Event;
use pmix_types::{App, Info, Status, Value, keys};
use rustix::process::{Pid, Resource, Rlimit, geteuid, prlimit};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a launcher whose root privileges do not open directories of other users.
fn without_rights(args: &[&str]) -> Running {
    let start = || {
        if geteuid().is_root() {
            for right in [CapabilitySet::DAC_OVERRIDE, CapabilitySet::DAC_READ_SEARCH] {
                remove_capability_from_bounding_set(right).unwrap();
            }
        }
        Running::start(args)
    };
    // The limit applies to this thread and to the programs that it starts.
    std::thread::scope(|scope| scope.spawn(start).join().unwrap())
}

fn about<'e>(event: &'e Event<'static>, key: &str) -> &'e Value<'static> {
    let info = event.infos.iter().find(|info| info.key.is(key));
    &info.unwrap_or_else(|| panic!("{event:?} has {key}")).value
}

#[test]
fn each_cause_of_a_failed_spawn_is_reported() {
    let script = "echo up; exec sleep 1000";
    let mut running = without_rights(&["--node-name", "n1", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    let (tool, events) = running.attach();
    let codes = vec![
        Status::ERR_JOB_EXE_NOT_FOUND,
        Status::ERR_JOB_APP_NOT_EXECUTABLE,
        Status::ERR_JOB_NO_EXE_SPECIFIED,
        Status::ERR_JOB_WDIR_NOT_FOUND,
        Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
        Status::ERR_JOB_FAILED_TO_LAUNCH,
        Status::ERR_PROC_FAILED_TO_START,
    ];
    tool.register_events(codes, Vec::new()).wait().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, mode: u32, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = file("text", 0o644, b"#!/bin/sh\n");
    let uninterpreted = file("uninterpreted", 0o755, b"#!/no/such/interpreter\n");
    let broken = file("broken", 0o755, b"\x7fELF and no more of it");
    let busy = file("busy", 0o755, b"#!/bin/sh\n");
    // The system executes no file that is open for writing.
    let _writer = fs::OpenOptions::new().write(true).open(&busy).unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
    let inside = closed.join("inside");
    let (closed, inside) = (closed.to_str().unwrap(), inside.to_str().unwrap());
    let folder = dir.path().to_str().unwrap();
    for (program, wdir, status, said) in [
        (
            "/no/such/program",
            None,
            Status::ERR_JOB_EXE_NOT_FOUND,
            "/no/such/program",
        ),
        (
            "no-such-program",
            None,
            Status::ERR_JOB_EXE_NOT_FOUND,
            "no-such-program",
        ),
        (
            &uninterpreted,
            None,
            Status::ERR_JOB_EXE_NOT_FOUND,
            "/no/such/interpreter",
        ),
        (&text, None, Status::ERR_JOB_APP_NOT_EXECUTABLE, "text"),
        (folder, None, Status::ERR_JOB_APP_NOT_EXECUTABLE, folder),
        (&broken, None, Status::ERR_JOB_APP_NOT_EXECUTABLE, "broken"),
        (&busy, None, Status::ERR_JOB_FAILED_TO_LAUNCH, "busy"),
        ("", None, Status::ERR_JOB_NO_EXE_SPECIFIED, "program"),
        (
            "true",
            Some("/no/such/place"),
            Status::ERR_JOB_WDIR_NOT_FOUND,
            "/no/such/place",
        ),
        (
            "true",
            Some(text.as_str()),
            Status::ERR_JOB_WDIR_NOT_FOUND,
            "text",
        ),
        (
            "true",
            Some(closed),
            Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
            "closed",
        ),
        (
            "true",
            Some(inside),
            Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
            "inside",
        ),
    ] {
        let app = App {
            cmd: Some(program.to_owned().into()),
            argv: vec![program.to_owned().into()],
            cwd: wdir.map(|wdir| wdir.to_owned().into()),
            maxprocs: 2,
            ..App::default()
        };
        let refused = tool.spawn(Vec::new(), vec![app]).wait().unwrap_err();
        assert_eq!(refused.status(), status, "{program:?}: {refused}");
        let mut event = events.recv_timeout(LIMIT).unwrap();
        // A fault that only the system detects affects each process of the job.
        let is_of_system = program == broken || program == busy;
        for rank in (0..2).filter(|_| is_of_system) {
            assert_eq!(event.status, Status::ERR_PROC_FAILED_TO_START);
            let affected = about(&event, keys::EVENT_AFFECTED_PROC);
            assert!(
                matches!(affected, Value::Proc(proc) if proc.rank.as_raw() == rank),
                "{event:?}"
            );
            event = events.recv_timeout(LIMIT).unwrap();
        }
        assert_eq!(event.status, status, "{program:?}");
        assert_eq!(
            about(&event, keys::REQUESTOR),
            &Value::from(tool.proc().unwrap().clone())
        );
        let Value::String(Some(text)) = about(&event, keys::EVENT_TEXT_MESSAGE) else {
            panic!("{event:?}");
        };
        assert!(text.to_str_lossy().contains(said), "{text:?}");
    }
    tool.finalize().unwrap();
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn a_job_that_the_launcher_has_too_few_descriptors_for_is_refused_by_a_status_of_its_own() {
    let script = "echo up; exec sleep 1000";
    let mut running = Running::start(&["--node-name", "n1", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    let (tool, events) = running.attach();
    let status = Status::ERR_JOB_INSUFFICIENT_RESOURCES;
    let told = tool.register_events(vec![status], Vec::new()).wait();
    told.unwrap();
    let launcher = Pid::from_child(&running.child);
    let few = Rlimit {
        current: Some(64),
        maximum: Some(64),
    };
    prlimit(Some(launcher), Resource::Nofile, few).unwrap();
    let app = App {
        argv: vec!["true".into()],
        maxprocs: 64,
        ..App::default()
    };
    let refused = tool.spawn(Vec::new(), vec![app]).wait().unwrap_err();
    assert_eq!(refused.status(), status, "{refused}");
    let event = events.recv_timeout(LIMIT).unwrap();
    let Value::String(Some(text)) = about(&event, keys::EVENT_TEXT_MESSAGE) else {
        panic!("{event:?}");
    };
    let text = text.to_str_lossy();
    assert!(
        text.contains("descriptors") && text.contains("of 64 are in use"),
        "{text}"
    );
    tool.finalize().unwrap();
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn queued_jobs_are_canceled_at_the_end_of_the_session() {
    const NUM_JOBS: usize = 16;
    let script = "echo up; exec sleep 1000";
    let mut running = Running::start(&["--node-name", "n1", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    let (tool, events) = running.attach();
    let canceled = vec![Status::ERR_JOB_CANCELED];
    tool.register_events(canceled, Vec::new()).wait().unwrap();
    let client = tool.primary().unwrap();
    let (sender, answers) = mpsc::channel();
    // The launcher must read all requests at once.
    running.signal("STOP");
    for _ in 0..NUM_JOBS {
        let app = App {
            cmd: Some("sleep".into()),
            argv: ["sleep", "1000"].map(Into::into).to_vec(),
            maxprocs: 1,
            ..App::default()
        };
        let sender = sender.clone();
        let answer = move |answer: Result<_, pmix_client::Error>| {
            let status = answer.map_or_else(|error| error.status(), |_| Status::SUCCESS);
            sender.send(status).unwrap();
        };
        client.spawn(Vec::new(), vec![app]).start(answer).unwrap();
    }
    let end = vec![Info::new(keys::SESSION_TERMINATE, true)];
    client.session_control(u32::MAX, end).start(|_| {}).unwrap();
    running.signal("CONT");
    let answers = (0..NUM_JOBS).map(|_| answers.recv_timeout(LIMIT).unwrap());
    let (canceled, started): (Vec<_>, Vec<_>) =
        answers.partition(|status| *status == Status::ERR_JOB_CANCELED);
    // Spawns before the end of the session have succeeded.
    assert!(started.iter().all(|status| *status == Status::SUCCESS));
    assert!(!canceled.is_empty());
    for _ in canceled {
        let event = events.recv_timeout(LIMIT).unwrap();
        assert_eq!(event.status, Status::ERR_JOB_CANCELED);
        assert_eq!(
            about(&event, keys::REQUESTOR),
            &Value::from(tool.proc().unwrap().clone())
        );
    }
    assert_eq!(running.end().0, Some(128 + 15));
}
