// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of an independent tool to `pmix run` in addition to queries: input for processes, credentials,
//! monitors.

use std::time::Duration;

use crate::command::launcher::Running;
use pmix_client::Ask;
use pmix_types::{Info, Proc, Rank, Status, Value, keys};

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

const NAME: &str = "watched@1";

#[test]
fn a_tool_pushes_input_gets_a_credential_and_receives_alerts() {
    let args = ["--node-name", "n1", "--nspace", NAME, "--forward-io"];
    let mut running = Running::start(&[&args[..], &["sh", "-c", "echo up; exec cat"]].concat());
    assert_eq!(running.line(), "up");
    let (tool, events) = running.attach();

    let push = |rank, data: &str| {
        let procs = vec![Proc::new(NAME, Rank::new(rank))];
        let data = Some(data.as_bytes().to_vec());
        tool.wait(Ask::iof_push(procs, Vec::new(), data))
    };
    push(0, "pushed by a tool\n").unwrap();
    assert_eq!(running.line(), "pushed by a tool");
    let refused = push(1, "nobody").unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_FOUND);

    let (credential, _) = tool.wait(Ask::credential(Vec::new())).unwrap();
    let asked = tool.wait(Ask::validate(credential, Vec::new()));
    let (status, about) = asked.unwrap();
    assert_eq!(status, Status::SUCCESS);
    let user = about.iter().find(|info| info.key.is(keys::USERID));
    let user: u32 = user.unwrap().value.to_number().unwrap();
    assert_eq!(user, rustix::process::geteuid().as_raw());

    let codes = vec![Status::MONITOR_FILE_ALERT, Status::MONITOR_HEARTBEAT_ALERT];
    tool.wait(Ask::register_events(codes, Vec::new())).unwrap();
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
        let asked = tool.wait(Ask::monitor(monitor, Status::SUCCESS, infos));
        assert_eq!(asked.unwrap().0, Status::SUCCESS, "{alert}");
        let event = events.recv_timeout(LIMIT).unwrap();
        assert_eq!(event.status, alert);
        let whose = Info::new(keys::EVENT_AFFECTED_PROC, tool.proc().unwrap().clone());
        assert!(event.infos.contains(&whose), "{event:?}");
        let cancel = Info::new(keys::MONITOR_CANCEL, "one");
        let asked = tool.wait(Ask::monitor(cancel, Status::SUCCESS, Vec::new()));
        assert_eq!(asked.unwrap().0, Status::SUCCESS, "{alert}");
    }
    // The end of its input ends the program and so the launcher, which may close the connection first.
    push(0, "").unwrap();
    if let Err(error) = tool.finalize() {
        assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    }
    assert_eq!(running.end().0, Some(0));
}
