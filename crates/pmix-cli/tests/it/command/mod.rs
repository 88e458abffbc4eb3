// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the built command.
#![allow(dead_code)]

pub(crate) mod launcher;

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// The result of a finished command.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Returns standard output as text, without the last newline.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout).into_owned();
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    }

    /// Returns the answer on standard output, one JSON value that is no error.
    pub(crate) fn json(&self) -> serde_json::Value {
        let answer = self.any_json();
        let said = &self.stderr;
        let is_error = ["error", "help"]
            .iter()
            .all(|key| answer.get(key).is_some());
        assert!(!is_error, "no answer: {answer} {said}");
        answer
    }

    /// Returns the error on standard output, one JSON value.
    pub(crate) fn json_error(&self) -> serde_json::Value {
        let error = self.any_json();
        assert!(error["error"].is_string(), "no error: {error}");
        error
    }

    fn any_json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).expect("standard output is JSON")
    }
}

/// Returns a command in a clean environment.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmix"));
    command.args(args).env_clear().env("HOME", "/nonexistent");
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs the command with empty standard input.
pub(crate) fn pmix(args: &[&str]) -> Outcome {
    pmix_with(args, b"")
}

/// Runs the command with this standard input.
pub(crate) fn pmix_with(args: &[&str], input: &[u8]) -> Outcome {
    finish(command(args), input)
}

/// A watchdog that kills a command after a time limit, so that no test hangs.
pub(crate) struct Watchdog {
    _ended: Sender<()>,
}

impl Watchdog {
    /// Watches the command until the watchdog is dropped.
    pub(crate) fn of(child: &Child) -> Self {
        let pid = child.id().to_string();
        let (_ended, ended) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            // Longer than any command takes on a busy machine.
            if ended.recv_timeout(Duration::from_secs(240)) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-s", "KILL", &pid]).status();
            }
        });
        Self { _ended }
    }
}

/// Runs a prepared command.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Outcome {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let _watchdog = Watchdog::of(&child);
    let mut stdin = child.stdin.take().expect("standard input is piped");
    let input = input.to_vec();
    // The write fails if the command exits early and closes its input; the test judges the exit.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer ends");
    Outcome {
        code: output.status.code().expect("the command exits"),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
