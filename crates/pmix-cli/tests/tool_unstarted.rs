// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that a tool asks for and that cannot be started: each reason has its status, and is told to who listens.

mod command;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use std::time::Duration;

use command::launcher::Running;
use pmix_client::{Ask, ClientEvent};
use pmix_tool::{Search, Target, Tool};
use pmix_types::{App, Status, Value, keys};

/// Longer than anything takes here, so that a fault of the test ends it.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn each_reason_for_which_a_job_does_not_start_is_told() {
    let script = "echo up; exec sleep 1000";
    let mut running = Running::start(&["--node-name", "n1", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    let search = Search::from_env().host("n1").server_dir(running.tmp.path());
    let found = search
        .target(Target::Pid(running.child.id()))
        .find()
        .unwrap();
    let (sender, events) = mpsc::channel();
    let mut tool = Tool::new();
    let listener = move |event| {
        if let ClientEvent::Event(event) = event {
            sender.send(event).unwrap();
        }
    };
    tool.attach(&found, listener).unwrap();
    let codes = vec![
        Status::ERR_JOB_EXE_NOT_FOUND,
        Status::ERR_JOB_APP_NOT_EXECUTABLE,
        Status::ERR_JOB_NO_EXE_SPECIFIED,
        Status::ERR_JOB_WDIR_NOT_FOUND,
        Status::ERR_JOB_FAILED_TO_LAUNCH,
    ];
    tool.wait(Ask::register_events(codes, Vec::new())).unwrap();
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
    ] {
        let app = App {
            cmd: Some(program.to_owned().into()),
            argv: vec![program.to_owned().into()],
            cwd: wdir.map(|wdir| wdir.to_owned().into()),
            maxprocs: 2,
            ..App::default()
        };
        let refused = tool.wait(Ask::spawn(Vec::new(), vec![app])).unwrap_err();
        assert_eq!(refused.status(), status, "{program:?}: {refused}");
        let event = events.recv_timeout(LIMIT).unwrap();
        assert_eq!(event.status, status, "{program:?}");
        let about = |key: &str| event.infos.iter().find(|info| info.key.is(key)).unwrap();
        assert_eq!(
            about(keys::REQUESTOR).value,
            Value::from(tool.proc().unwrap().clone())
        );
        let Value::String(Some(text)) = &about(keys::EVENT_TEXT_MESSAGE).value else {
            panic!("{event:?}");
        };
        assert!(text.to_str_lossy().contains(said), "{text:?}");
    }
    tool.finalize().unwrap();
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}
