// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the commands that attach to a server, each on its own terminal: output and end, and
//! that control sequences of others do not reach the terminal. `tool_top.rs` tests `pmix top`.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};

use crate::command::{Running, Watchdog};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const NAME: &str = "seen@1";

/// The sequence that clears a screen.
const CLEAR: &str = "\x1b[2J";

/// Starts a job of two processes, whose program name would clear the screen, and which exit with 3 when they are
/// signaled.
fn job() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(format!("sh{CLEAR}"));
    symlink("/bin/sh", &program).unwrap();
    let script = "trap 'exit 3' USR1; echo up; while :; do sleep 0.05; done";
    let mut running = Running::start(&[
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "--forward-io",
        program.to_str().unwrap(),
        "-c",
        script,
    ]);
    assert_eq!([running.line(), running.line()], ["up", "up"]);
    running
}

/// A command whose standard streams are a terminal. The test has the other side of the terminal.
struct Shown {
    child: Child,
    screen: File,
    seen: Vec<u8>,
    _watchdog: Watchdog,
}

impl Shown {
    fn start(running: &Running, args: &[&str]) -> Self {
        let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&side).unwrap();
        unlockpt(&side).unwrap();
        let name = ptsname(&side, Vec::new()).unwrap().into_string().unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = running.tool_command(args);
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().unwrap();
        let _watchdog = Watchdog::of(&child);
        // The other side sees the end only after all descriptors of the terminal are closed, so `command` is
        // dropped here.
        Self {
            child,
            screen: File::from(side),
            seen: Vec::new(),
            _watchdog,
        }
    }

    /// Reads more output. Returns `true` if there was any.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        // Reading fails after the last process has closed the terminal.
        match self.screen.read(&mut buffer) {
            Ok(len) if len > 0 => {
                self.seen.extend_from_slice(&buffer[..len]);
                true
            }
            _ => false,
        }
    }

    /// Waits until this text is on the screen.
    fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            assert!(self.read(), "{text:?} is not shown: {:?}", self.seen);
        }
    }

    /// Waits for the end. Returns all output, with line ends as in files, and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        while self.read() {}
        let code = self.child.wait().unwrap().code();
        let text = String::from_utf8_lossy(&self.seen).replace("\r\n", "\n");
        assert!(!text.contains(CLEAR), "{text:?}");
        (text, code)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // Kill the command of a failed test. Otherwise it has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the output of a command that exits by itself.
fn shown(running: &Running, args: &[&str]) -> (String, Option<i32>) {
    Shown::start(running, args).end()
}

#[test]
fn commands_print_the_same_on_a_terminal() {
    let running = job();
    let pid = running.child.id();
    let (text, code) = shown(&running, &["ps"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with(&format!("server {NAME}.server, process {pid}\n")),
        "{text}"
    );
    let rows = text.lines().filter(|line| line.contains(" running "));
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 2, "{text}");
    // The control sequence in the program name is shown escaped.
    assert!(
        rows.iter().all(|row| row.ends_with("sh\\u{1b}[2J")),
        "{rows:?}"
    );
    let (text, code) = shown(&running, &["query", "QUERY_NAMESPACES", "QUERY_PROC_TABLE"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with(&format!("pmix.qry.ns: {NAME}\n")),
        "{text}"
    );
    // A published control sequence is shown escaped.
    let (text, code) = shown(&running, &["publish", &format!("screen={CLEAR}")]);
    assert_eq!((text.as_str(), code), ("", Some(0)));
    let (text, code) = shown(&running, &["lookup", "screen"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with("screen: ") && text.contains("[2J"),
        "{text}"
    );
    let (text, code) = shown(&running, &["kill", "--signal", "CONT", NAME]);
    assert_eq!((text.as_str(), code), ("", Some(0)));
    // The report is complete with or without a fault of the machine.
    let (text, code) = shown(&running, &["doctor"]);
    assert!(text.contains("faults: ") && text.contains(NAME), "{text}");
    let is_well = text.contains("faults: 0,");
    assert_eq!(code, Some(i32::from(!is_well)), "{text}");
    for args in [
        &["--json", "ps"][..],
        &["--json", "query", "JOB_SIZE"],
        &["--json", "publish", "key=text"],
        &["--json", "lookup", "screen"],
        &["--json", "kill", "--signal", "CONT", NAME],
        &["--json", "events", "--count", "1", NAME],
        &["--json", "top", "--once", NAME],
    ] {
        let (text, code) = shown(&running, args);
        assert_eq!(code, Some(0), "{args:?}: {text}");
        let json = text.lines().map(serde_json::from_str::<serde_json::Value>);
        assert!(json.map(Result::unwrap).count() > 0, "{args:?}");
    }
    for args in [
        &["ps", "nosuch"][..],
        &["query", "--nspace", "nosuch", "JOB_SIZE"],
        &["query", "no.such.key"],
        &["kill", "nosuch"],
        &["attach", "nosuch"],
        &["release", "nosuch"],
        &["top", "--once", "nosuch"],
        &["lookup", "nosuch"],
        &["ps", "--pid", "2147483640"],
    ] {
        let (text, code) = shown(&running, args);
        assert_eq!(code, Some(1), "{args:?}: {text}");
        // The line is colored, and the color is reset in the same line.
        let first = text.lines().next().unwrap_or_default();
        assert!(first.contains("error"), "{args:?}: {text:?}");
        assert_eq!(
            first.contains("\x1b["),
            first.contains("\x1b[0m"),
            "{text:?}"
        );
    }
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn output_and_events_are_followed_on_a_terminal_until_the_job_ends() {
    let running = job();
    let mut attached = Shown::start(&running, &["attach", "--tag-output", NAME]);
    let mut events = Shown::start(&running, &["events", NAME]);
    // Earlier output is shown, which proves that the tools are attached.
    attached.wait_for("<stdout>: up");
    events.wait_for(&format!("PMIX_EVENT_JOB_START {NAME}"));
    let (text, code) = shown(&running, &["kill", "--signal", "USR1", NAME]);
    assert_eq!((text.as_str(), code), ("", Some(0)));
    let (text, code) = attached.end();
    assert_eq!(code, Some(3), "{text}");
    for rank in 0..2 {
        let line = format!("[{NAME},{rank}]<stdout>: up\n");
        assert!(text.contains(&line), "{text}");
    }
    let (text, code) = events.end();
    assert_eq!(code, Some(0), "{text}");
    for said in ["PMIX_ERR_EXIT_NONZERO_TERM", "PMIX_EVENT_JOB_END"] {
        assert!(text.contains(&format!("{said} {NAME}")), "{text}");
    }
    assert_eq!(running.end().0, Some(3));
}
