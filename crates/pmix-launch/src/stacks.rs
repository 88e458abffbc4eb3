// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack of a process, as an installed program prints it.
//!
//! | program | processes |
//! | --- | --- |
//! | `py-spy dump --pid PID` | Python |
//! | `eu-stack -p PID` | all |
//! | `gdb -p PID -batch -ex 'thread apply all bt'` | all |
//!
//! The first program that is in `PATH` and succeeds is used; `py-spy` only for a process whose program is Python.

mod programs;

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

pub(crate) use self::programs::StackPrograms;

/// The key of the query for the stacks of processes of other nodes. The value is an array of strings, one for each line.
pub const QUERY_STACKS: &str = "pmixrs.query.stacks";

/// The time limit for one program. A process in an uninterruptible system call blocks a debugger.
const LIMIT: Duration = Duration::from_secs(10);

/// The largest number of lines, and of bytes, that are kept of a stack.
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 64 << 10;

/// Returns the stack of a process as lines, or a line with the reason why there is none.
#[must_use]
pub fn stack_of_process(pid: i32) -> Vec<String> {
    stack_within(pid, &StackPrograms::default(), LIMIT * 3, || false)
}

/// Returns the stack of a process like [`stack_of_process`]. No program starts after the time limit, or once
/// `is_over` returns `true`.
pub(crate) fn stack_within(
    pid: i32,
    running: &StackPrograms,
    limit: Duration,
    is_over: impl Fn() -> bool,
) -> Vec<String> {
    let began = Instant::now();
    let number = pid.to_string();
    let is_python = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| is_python(&exe));
    let programs: [(&str, &[&str]); 3] = [
        ("py-spy", &["dump", "--nonblocking", "--pid", &number]),
        ("eu-stack", &["-p", &number]),
        (
            "gdb",
            &["-p", &number, "-batch", "-nx", "-ex", "thread apply all bt"],
        ),
    ];
    let mut failure = None;
    for (name, args) in programs {
        if name == "py-spy" && !is_python {
            continue;
        }
        let limit = limit.saturating_sub(began.elapsed()).min(LIMIT);
        if limit.is_zero() || is_over() {
            break;
        }
        match run(running, (name, args), limit) {
            Ok(text) if has_frame(&text) => {
                let lines = text.lines().filter(|line| is_of_stack(name, line));
                let lines = lines.take(MAX_LINES);
                let head = format!("  stack of process {pid} by {name}:");
                return [head]
                    .into_iter()
                    .chain(lines.map(|line| format!("    {line}")))
                    .collect();
            }
            Ok(text) => failure = Some(no_stack(name, &text)),
            Err(Failure::NotInstalled) => {}
            Err(Failure::TimedOut) => {
                failure = Some(format!("{name} did not end within {limit:.1?}"));
            }
        }
    }
    if failure.is_none() && is_over() {
        return Vec::new();
    }
    let reason = failure.unwrap_or_else(|| "install gdb, elfutils (eu-stack) or py-spy".to_owned());
    vec![format!("  no stack of process {pid}: {reason}")]
}

enum Failure {
    NotInstalled,
    TimedOut,
}

fn is_python(exe: &Path) -> bool {
    let name = exe.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with("python"))
}

/// Returns `true` if a line belongs to a stack. `gdb` also prints the libraries that it reads.
fn is_of_stack(name: &str, line: &str) -> bool {
    match name {
        "gdb" => line.starts_with('#') || line.starts_with("Thread "),
        _ => !line.trim().is_empty(),
    }
}

/// Returns `true` if a text has a frame of a stack: `#0 ...`, or a line of `py-spy`.
fn has_frame(text: &str) -> bool {
    let is_frame = |line: &str| line.starts_with("#0") || line.starts_with("    ");
    text.lines().any(is_frame)
}

/// Returns the reason why a program printed no stack: its last line.
fn no_stack(name: &str, text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    let last: String = last.unwrap_or("no output").chars().take(200).collect();
    format!("{name}: {last}")
}

/// Runs a program and returns its output. Its exit code does not matter.
fn run(
    running: &StackPrograms,
    (name, args): (&str, &[&str]),
    limit: Duration,
) -> Result<String, Failure> {
    let (reader, writer) = std::io::pipe().map_err(|_| Failure::NotInstalled)?;
    let errors = writer.try_clone().map_err(|_| Failure::NotInstalled)?;
    let mut command = Command::new(name);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(errors)
        // A signal of the terminal is for the launcher.
        .process_group(0);
    let program = running.start(&mut command).ok_or(Failure::NotInstalled)?;
    // The command holds ends of the pipe.
    drop(command);
    let text = read_within(reader, limit);
    if text.is_none() {
        program.kill();
    }
    drop(program);
    text.ok_or(Failure::TimedOut)
}

/// Reads until the end of a pipe. Returns `None` if the end does not come in time.
fn read_within(mut reader: std::io::PipeReader, limit: Duration) -> Option<String> {
    fcntl_setfl(&reader, OFlags::NONBLOCK).ok()?;
    let until = Instant::now() + limit;
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let left = Timespec::try_from(left).ok()?;
        let mut polled = [PollFd::new(&reader, PollFlags::IN)];
        if poll(&mut polled, Some(&left)).is_err() {
            continue;
        }
        match reader.read(&mut piece) {
            Ok(0) => break,
            // The rest is read and dropped, so that the program can end.
            Ok(num) => {
                let room = MAX_BYTES.saturating_sub(kept.len()).min(num);
                kept.extend(piece.get(..room).unwrap_or_default());
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Some(String::from_utf8_lossy(&kept).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_run_within_its_time_limit() {
        let running = StackPrograms::default();
        let run = |name, args: &[&str], limit| run(&running, (name, args), limit);
        let done = run("sh", &["-c", "echo '#0  main'; echo b >&2"], LIMIT);
        assert!(done.is_ok_and(|text| has_frame(&text) && text.contains('b')));
        let begun = Instant::now();
        let late = run("sleep", &["100"], Duration::from_millis(50));
        assert!(matches!(late, Err(Failure::TimedOut)));
        // A descendant of the program does not delay its end.
        let script = ["-c", "sleep 100 & exec sleep 100"];
        let late = run("sh", &script, Duration::from_millis(50));
        assert!(matches!(late, Err(Failure::TimedOut)));
        assert!(begun.elapsed() < Duration::from_secs(60));
        let missing = run("no-such-program", &[], LIMIT);
        assert!(matches!(missing, Err(Failure::NotInstalled)));
    }

    #[test]
    fn output_without_a_frame_is_a_reason() {
        let text = "warning: x\nptrace: Operation not permitted.\n\n";
        assert!(!has_frame(text));
        let expected = "gdb: ptrace: Operation not permitted.";
        assert_eq!(no_stack("gdb", text), expected);
        assert!(is_python(Path::new("/usr/bin/python3.11")));
    }
}
