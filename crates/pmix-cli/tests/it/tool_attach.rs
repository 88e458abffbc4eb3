// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix attach` with a job of `pmix run`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::command::{Running, Watchdog};

const NAME: &str = "attached@1";

/// Starts a job of two processes. Each writes a line to each stream, and another line when it
/// receives a signal. Rank 1 exits with 3.
fn job(options: &[&str]) -> Running {
    // The shell itself would report on standard error that a signal ended `sleep`.
    let script = "exec 3>&2 2>/dev/null
        trap 'echo bye; printf open; echo oops >&3; exit $((3 * PMIX_RANK))' USR1
        echo up; echo err >&3; while :; do sleep 0.05; done";
    let job = [
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "--keep-going",
    ];
    let mut running = Running::start(&[&job, options, &["sh", "-c", script]].concat());
    assert_eq!([running.line(), running.line()], ["up", "up"]);
    running
}

/// An attached tool, which has printed its first line.
struct Attached {
    child: Child,
    output: BufReader<ChildStdout>,
    _watchdog: Watchdog,
}

impl Attached {
    fn start(running: &Running, args: &[&str]) -> Self {
        Self::begin(running.tool_command(args))
    }

    /// Starts the command with a memory limit.
    fn start_within(kib: u32, running: &Running, args: &[&str]) -> Self {
        let tool = running.tool_command(args);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {kib}; exec \"$@\""), "sh"]);
        command.arg(tool.get_program()).args(tool.get_args());
        for (name, value) in tool.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self::begin(command)
    }

    fn begin(mut command: Command) -> Self {
        let mut child = { command.stdin(Stdio::null()).stdout(Stdio::piped()) }
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let _watchdog = Watchdog::of(&child);
        Self {
            child,
            output,
            _watchdog,
        }
    }

    /// Returns the lines of the tool's standard output and standard error, and its exit code.
    fn end(mut self, first: String) -> (Vec<String>, Vec<String>, Option<i32>) {
        let mut text = first;
        self.output.read_to_string(&mut text).unwrap();
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        let sorted = |text: String| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let code = self.child.wait().unwrap().code();
        (sorted(text), sorted(errors), code)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Kill the tool of a failed test. Otherwise it has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn output_is_shown_with_its_tags_until_the_job_ends_and_its_exit_code_is_that_of_the_command() {
    let running = job(&["--forward-io"]);
    let mut attached = Attached::start(&running, &["attach", "--tag-output", NAME]);
    // Output without a pull is kept for the first pull, so this line shows that the command is attached.
    let first = attached.line();
    assert_eq!(running.tool(&["kill", "--signal", "USR1", NAME]).code, 0);
    let (output, errors, code) = attached.end(first);
    let line = |rank: u32, stream: &str, text: &str| format!("[{NAME},{rank}]<{stream}>: {text}");
    let expected: Vec<_> = { 0..2 }
        .flat_map(|rank| ["bye", "open", "up"].map(|text| line(rank, "stdout", text)))
        .collect();
    assert_eq!(output, expected);
    let expected: Vec<_> = { 0..2 }
        .flat_map(|rank| ["err", "oops"].map(|text| line(rank, "stderr", text)))
        .collect();
    assert_eq!((errors, code), (expected, Some(3)));
    let (code, ..) = running.end();
    assert_eq!(code, Some(3));
}

#[test]
fn ranks_and_streams_are_chosen_and_json_says_all() {
    let running = job(&["--forward-io"]);
    let args = [
        "--json", "attach", "--ranks", "0", "--stream", "stderr", NAME,
    ];
    let mut attached = Attached::start(&running, &args);
    let first = attached.line();
    assert_eq!(running.tool(&["kill", "--signal", "USR1", NAME]).code, 0);
    let (lines, _, code) = attached.end(first);
    assert_eq!(code, Some(3));
    let piece = |text: &str| serde_json::json!({"rank": 0, "stream": "stderr", "text": text});
    let end = serde_json::json!({
        "nspace": NAME, "exit_code": 3, "text": "rank 1 ended with exit code 3",
    });
    let lines: Vec<serde_json::Value> = { lines.iter() }
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, [end, piece("err\n"), piece("oops\n")]);
    running.end();
}

#[test]
fn short_lines_take_no_more_memory_than_long_ones() {
    let script = "trap 'yes \"\" | head -c 1000000; exit 0' USR1
        echo up; while :; do sleep 0.05; done";
    let job = [
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "--forward-io",
    ];
    let mut running = Running::start(&[&job[..], &["sh", "-c", script]].concat());
    assert_eq!(running.line(), "up");
    let args = ["attach", "--tag-output", "--stream", "stdout", NAME];
    let mut attached = Attached::start_within(1 << 20, &running, &args);
    let first = attached.line();
    assert_eq!(running.tool(&["kill", "--signal", "USR1", NAME]).code, 0);
    // The launcher prints the line, too.
    let launcher = std::thread::spawn(|| running.end());
    let (lines, errors, code) = attached.end(first);
    assert_eq!((lines.len(), errors, code), (1_000_001, vec![], Some(0)));
    launcher.join().unwrap();
}

#[test]
fn lost_output_is_counted_and_the_end_of_the_job_is_reported() {
    let script = "trap 'head -c 100000000 /dev/zero; exit 7' USR1
        echo up; while :; do sleep 0.05; done";
    let job = [
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "--forward-io",
    ];
    let mut running = Running::start(&[&job[..], &["sh", "-c", script]].concat());
    assert_eq!(running.line(), "up");
    let mut attached = Attached::start(&running, &["attach", "--stream", "stdout", NAME]);
    let first = attached.line();
    assert_eq!(running.tool(&["kill", "--signal", "USR1", NAME]).code, 0);
    assert_eq!(running.end().0, Some(7));
    let (_, errors, code) = attached.end(first);
    assert_eq!(code, Some(7), "{errors:?}");
    let said = { errors.iter() }.any(|line| line.contains("pieces of output were lost"));
    assert!(said, "{errors:?}");
}

#[test]
fn jobs_that_cannot_be_attached_to_are_reported() {
    let running = job(&[]);
    let outcome = running.tool(&["attach", NAME]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("--forward-io"),
        "{}",
        outcome.stderr
    );
    drop(running);
    let running = job(&["--forward-io"]);
    let pid = running.child.id().to_string();
    let outcome = running.tool(&["attach", "--pid", &pid, "no-such-job"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("has no job \"no-such-job\""),
        "{}",
        outcome.stderr
    );
    let outcome = running.tool(&["attach", "--ranks", "1,9", NAME]);
    assert_eq!((outcome.code, outcome.text().as_str()), (1, ""));
    let said = "has no rank 9: it has 2 processes";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    drop(running);
}

#[test]
fn a_server_that_is_lost_ends_it() {
    let running = job(&["--forward-io"]);
    let mut attached = Attached::start(&running, &["attach", NAME]);
    let first = attached.line();
    running.signal("KILL");
    let (_, errors, code) = attached.end(first);
    assert_eq!(code, Some(1));
    let said = errors
        .iter()
        .any(|line| line.contains("lost the connection to the server"));
    assert!(said, "{errors:?}");
}
