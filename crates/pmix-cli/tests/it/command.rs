// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the built command.
#![allow(dead_code)]

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use pmix_client::ClientEvent;
use pmix_proto::Event;
use pmix_tool::{Search, Target, Tool};
use tempfile::TempDir;

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

    /// Returns the result on standard output: one JSON value that is not an error.
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
            // The time limit is longer than any command takes on a busy machine.
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
    // The write fails if the command exits early and closes its input. The test judges the exit.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer ends");
    Outcome {
        code: output.status.code().expect("the command exits"),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a launcher with its own session directory and a `PATH`.
pub(crate) fn launcher(args: &[&str]) -> (Command, TempDir) {
    let tmp = tempfile::tempdir().unwrap();
    (launcher_in(&tmp, args), tmp)
}

fn launcher_in(tmp: &TempDir, args: &[&str]) -> Command {
    let mut command = command(&[&["run"], args].concat());
    command
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", tmp.path());
    command
}

pub(crate) fn run(args: &[&str]) -> Outcome {
    run_with(args, b"")
}

pub(crate) fn run_with(args: &[&str], input: &[u8]) -> Outcome {
    let (command, tmp) = launcher(args);
    let outcome = finish(command, input);
    assert_nothing_left(&tmp);
    outcome
}

pub(crate) fn assert_nothing_left(tmp: &TempDir) {
    let left: Vec<_> = std::fs::read_dir(tmp).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

pub(crate) fn sorted(outcome: &Outcome) -> Vec<String> {
    let text = outcome.text();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns messages with `pid N on NODE` in place of process ids and nodes.
pub(crate) fn without_pid(messages: &str) -> String {
    let mut parts = messages.split(", pid ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (_, rest) = part.split_once(')').expect("a node and a parenthesis");
        text + ", pid N on NODE)" + rest
    })
}

/// A running launcher with its pipes. It is killed on drop, so that a failed test leaves no job.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) output: Option<BufReader<ChildStdout>>,
    pub(crate) tmp: TempDir,
    _watchdog: Watchdog,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), args)
    }

    /// Starts another launcher in the same session directory, so that tools can find both. It must end before this one.
    pub(crate) fn start_beside(&self, args: &[&str]) -> Self {
        Self::start_in(TempDir::new_in(self.tmp.path()).unwrap(), args)
    }

    fn start_in(tmp: TempDir, args: &[&str]) -> Self {
        let command = launcher_in(&tmp, args);
        Self::of(command, tmp)
    }

    /// Starts a launcher with this session directory.
    pub(crate) fn of(mut command: Command, tmp: TempDir) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().map(BufReader::new);
        let _watchdog = Watchdog::of(&child);
        Self {
            child,
            output,
            tmp,
            _watchdog,
        }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Returns a tool that searches the session directory for the servers of a job with `--node-name n1`.
    pub(crate) fn tool_command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command
            .env("TMPDIR", self.tmp.path())
            .env("PMIX_HOSTNAME", "n1");
        command
    }

    pub(crate) fn tool(&self, args: &[&str]) -> Outcome {
        finish(self.tool_command(args), b"")
    }

    /// Attaches a tool in the test's process to a launcher with `--node-name n1`. Returns it with a receiver of its
    /// events.
    pub(crate) fn attach(&self) -> (Tool, Receiver<Event<'static>>) {
        let search = Search::from_env().host("n1").server_dir(self.tmp.path());
        let target = Target::Pid(self.child.id());
        let found = search.target(target).find().unwrap();
        let (sender, events) = mpsc::channel();
        let listener = move |event| {
            if let ClientEvent::Event(event) = event {
                // Sending fails once the test has dropped the receiver.
                let _ = sender.send(event);
            }
        };
        let mut tool = Tool::new();
        tool.attach(&found, listener).unwrap();
        (tool, events)
    }

    /// Waits until the launcher exits. Returns the exit code, the rest of the output, and the
    /// messages.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut rest = String::new();
        self.output().read_to_string(&mut rest).unwrap();
        let (code, errors) = self.end_unread();
        (code, rest, errors)
    }

    /// Returns the exit code after the reader of its output was closed, and its messages.
    pub(crate) fn end_unread(mut self) -> (Option<i32>, String) {
        drop(self.output.take());
        let mut errors = Vec::new();
        let said = self.child.stderr.as_mut().unwrap();
        said.read_to_end(&mut errors).unwrap();
        let status = self.child.wait().unwrap();
        assert_nothing_left(&self.tmp);
        (status.code(), String::from_utf8_lossy(&errors).into_owned())
    }

    pub(crate) fn output(&mut self) -> &mut BufReader<ChildStdout> {
        self.output.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Killing a reaped child fails, which is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
