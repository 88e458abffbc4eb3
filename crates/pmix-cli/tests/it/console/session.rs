// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the commands of one block in one terminal session.

use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::shown::{Bound, Marks, with_bound};
use crate::command::Watchdog;

/// The time limit of a command, longer than any command of a page takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal session: its directory, its background commands, and the values of variable words.
pub(crate) struct Session<'a> {
    dir: &'a Path,
    /// The directory of sessions, so that a page only finds its own servers.
    tmp: TempDir,
    background: Vec<Background>,
    bound: Bound,
}

/// A background command (` &`).
struct Background {
    child: Child,
    lines: Receiver<String>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(dir: &'a Path) -> Self {
        Self {
            dir,
            tmp: tempfile::tempdir().expect("a directory"),
            background: Vec::new(),
            bound: Bound::new(),
        }
    }

    /// Runs a command. Returns the lines that the page must show after it, which are the shown ones if these are
    /// correct.
    pub(crate) fn run(&mut self, command: &str, shown: &[&str], marks: &Marks) -> Vec<String> {
        let command = with_bound(command, &self.bound);
        let until = Instant::now() + LIMIT;
        loop {
            let mut has_changed = false;
            let made = match command.strip_suffix(" &") {
                Some(command) => self.begin(command, shown.len()),
                None if command == "wait" => self.wait(),
                None => {
                    let (lines, is_success) = self.in_foreground(&command);
                    has_changed = is_success && changes(&command);
                    lines
                }
            };
            let lines: Vec<_> = made.iter().map(String::as_str).collect();
            if let Some(bound) = marks.matches(shown, &lines) {
                self.bound.extend(bound);
                return shown.iter().map(|line| (*line).to_owned()).collect();
            }
            // A reader types the next command after the job has started; a test may be faster, so the command is
            // repeated.
            let is_early = !self.background.is_empty() && !command.ends_with(" &");
            if !is_early || has_changed || command == "wait" || Instant::now() > until {
                return made;
            }
        }
    }

    fn command(&self, script: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_pmix"))
            .parent()
            .expect("a directory");
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(self.dir)
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", "/nonexistent")
            .env("TMPDIR", self.tmp.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command; returns its output, and `true` if it succeeds.
    fn in_foreground(&self, command: &str) -> (Vec<String>, bool) {
        let mut shell = self.command(&format!("{{ {command}\n}} 2>&1"));
        let child = shell.stdout(Stdio::piped()).spawn().expect("a shell");
        let _watchdog = Watchdog::of(&child);
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(str::to_owned).collect();
        (lines, output.status.success())
    }

    /// Starts a command, and waits for as many lines as the page shows.
    fn begin(&mut self, command: &str, num_lines: usize) -> Vec<String> {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut shell = self.command(&format!("exec 2>&1; exec {command}"));
        let child = shell.stdout(writer).spawn().expect("a shell");
        // Close the shell's end of the pipe, so that the reader sees the end.
        drop(shell);
        let started = Background {
            child,
            lines: read(reader),
        };
        let until = Instant::now() + LIMIT;
        let left = || until.saturating_duration_since(Instant::now());
        let made = (0..num_lines).map_while(|_| started.lines.recv_timeout(left()).ok());
        let made = made.collect();
        self.background.push(started);
        made
    }

    /// Waits for the background commands, and returns their output since the last command.
    fn wait(&mut self) -> Vec<String> {
        let mut made = Vec::new();
        for mut ended in self.background.drain(..) {
            made.extend(ended.rest());
        }
        made
    }

    /// Ends all background commands of the block.
    pub(crate) fn end(mut self) {
        self.wait();
        let left: Vec<_> = std::fs::read_dir(&self.tmp)
            .expect("the directory")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Background {
    /// Returns its output up to its end.
    fn rest(&mut self) -> Vec<String> {
        let until = Instant::now() + LIMIT;
        let mut made = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => made.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("a command in the background does not end: {made:?}")
                }
            }
        }
        self.child.wait().expect("it ends");
        made
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Killing a reaped child fails, which is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(reader: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver is dropped when it has the output it needs.
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Returns `true` if a command must not be run twice.
fn changes(command: &str) -> bool {
    const CHANGING: [&str; 4] = ["pmix kill", "pmix release", "pmix publish", "pmix run"];
    CHANGING.iter().any(|words| command.contains(words))
}

#[test]
fn only_commands_without_side_effects_are_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut session = Session::new(dir.path());
    let marks = Marks::default();
    session.run("sleep 600 &", &[], &marks);
    let said = session.run("echo a >> done; : pmix kill; cat done", &["b"], &marks);
    assert_eq!(said, ["a"]);
    let looks = "echo a >> seen; wc -l < seen";
    assert_eq!(session.run(looks, &["3"], &marks), ["3"]);
    let fails = "echo a >> failed; wc -l < failed; : pmix kill; [ $(wc -l < failed) = 3 ]";
    assert_eq!(session.run(fails, &["3"], &marks), ["3"]);
}
