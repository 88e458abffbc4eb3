// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix hello` without a server, or with one that rejects it. The tests of launchers and servers cover successful
//! runs.

use std::net::{Ipv4Addr, TcpListener};

use crate::command;
use crate::command::pmix;

#[test]
fn a_process_without_a_launcher_prints_how_to_start_it() {
    let outcome = pmix(&["hello"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("pmix run -n 4 pmix hello"),
        "{}",
        outcome.stderr
    );
    let outcome = pmix(&["hello", "--json"]);
    assert_eq!(outcome.json_error()["status"], -64);
}

#[test]
fn a_server_that_says_nothing_is_waited_for_as_long_as_was_said() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = command::command(&["hello", "--timeout", "0.5"]);
    command.env("PMIX_NAMESPACE", "job").env("PMIX_RANK", "0");
    command.env(
        "PMIX_SERVER_URI41",
        format!("server.0;tcp4://127.0.0.1:{port}"),
    );
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("no reply to the hello within the time limit (PMIX_ERR_TIMEOUT (-24))"),
        "{stderr}"
    );
}

#[test]
fn a_time_limit_is_a_time() {
    for wrong in ["0", "-1", "soon", "nan", "1e30"] {
        let outcome = pmix(&["hello", &format!("--timeout={wrong}")]);
        assert_eq!(outcome.code, 2, "{wrong}");
    }
}
