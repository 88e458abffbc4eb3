// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with slow readers: all output of processes and launcher arrives, and a reader that never
//! reads blocks only output.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::command::{self, Running, Watchdog, assert_nothing_left, launcher, run, sorted};

/// Waits until all processes of a job have created their files, which is their last action. Then
/// waits longer than any time limit of the launcher, except the time limits of its readers.
fn pause(ended: &Path, num_procs: usize) {
    let begun = Instant::now();
    while std::fs::read_dir(ended).unwrap().count() < num_procs {
        assert!(begun.elapsed() < Duration::from_secs(120), "no end");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(600));
}

const SHORT: [&str; 2] = ["--grace", "0.05"];

// Planted: output left in pipes at the end of the grace time is dropped.
#[test]
fn a_reader_that_pauses_gets_all_that_processes_wrote_before_they_ended() {
    for through in ["--tag-output", "--forward-io"] {
        let dir = tempfile::tempdir().unwrap();
        // The output fits into the pipes, so that all processes can exit. It does not fit into the
        // launcher's buffers, so that most of it waits in the launcher.
        let script = format!("seq 10000; : > {}/$PMIX_RANK", dir.path().display());
        let job = [through, "-n", "16", "sh", "-c", &script];
        let running = Running::start(&[&SHORT[..], &job].concat());
        pause(dir.path(), 16);
        let (code, rest, errors) = running.end();
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{through}");
        assert_eq!(rest.lines().count(), 160_000, "{through}");
    }
}

#[test]
fn streams_held_outside_the_job_are_not_waited_for_and_reported() {
    let script = "echo $$; while [ ! -e $GO ]; do sleep 0.01; done; echo last";
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let export = format!("GO={}", go.display());
    let job = ["--tag-output", "-x", &export, "sh", "-c", script];
    let mut running = Running::start(&[&SHORT[..], &job].concat());
    let line = running.line();
    let pid = line.rsplit(' ').next().unwrap();
    // The test itself keeps an end of the pipe open to which the process writes.
    let held = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/fd/1"));
    let held = held.unwrap();
    std::fs::write(&go, "").unwrap();
    let (code, rest, errors) = running.end();
    drop(held);
    assert_eq!(code, Some(0));
    assert!(rest.ends_with("<stdout>: last\n"), "{rest}");
    assert!(errors.contains("still have its output open"), "{errors}");
    assert!(errors.contains("stdout of rank 0 ("), "{errors}");
}

#[test]
fn unread_output_does_not_stop_time_limits_or_signals() {
    for through in ["--tag-output", "--forward-io"] {
        let job = [through, "--timeout", "0.3", "-n", "2", "yes"];
        let (mut command, tmp) = launcher(&[&SHORT[..], &job].concat());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _watchdog = Watchdog::of(&child);
        assert_eq!(child.wait().unwrap().code(), Some(124), "{through}");
        assert_nothing_left(&tmp);
    }
    let job = [
        "--tag-output",
        "-n",
        "2",
        "sh",
        "-c",
        "echo ready; exec yes",
    ];
    let mut running = Running::start(&[&SHORT[..], &job].concat());
    running.line();
    // Fill the pipe, so that the launcher has to drop output.
    let output = running.output().get_ref();
    let (mut before, mut begun) = (u64::MAX, Instant::now());
    let start = begun;
    while begun.elapsed() < Duration::from_millis(300) || before == 0 {
        let now = rustix::io::ioctl_fionread(output).unwrap();
        if now != before {
            (before, begun) = (now, Instant::now());
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{now} bytes");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.signal("TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(143));
    let mut errors = String::new();
    let mut stderr = running.child.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert!(errors.contains("bytes of output were lost"), "{errors}");
}

#[test]
fn unread_standard_error_blocks_neither_the_launcher_nor_its_clients() {
    // Each missing variable causes a warning.
    let exports = (0..4000).flat_map(|number| ["-x".to_owned(), format!("VARIABLE_{number}")]);
    let exports: Vec<_> = exports.collect();
    let mut words: Vec<_> = exports.iter().map(String::as_str).collect();
    words.extend(["-n", "2", "pmix", "hello", "-q"]);
    let (mut command, tmp) = launcher(&words);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::of(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut errors = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    // More was written than fits into the pipe.
    let warnings = errors.lines().filter(|line| line.contains("VARIABLE_"));
    assert!((1..4000).contains(&warnings.count()), "{errors}");
    assert_nothing_left(&tmp);
}

const SAYS_BOTH: [&str; 3] = ["sh", "-c", "echo out; echo err >&2"];

/// Runs two processes that write to both of their streams, which go to files of a directory.
fn into_files(dir: &Path, options: &[&str]) -> command::Outcome {
    let files = ["-n", "2", "--output-dir", dir.to_str().unwrap()];
    run(&[&files[..], options, &SAYS_BOTH].concat())
}

#[test]
fn output_that_goes_to_files_is_copied_with_tags_that_the_files_have_not() {
    for (options, lines) in [
        (
            &["--tag-output", "--nspace", "job"][..],
            ["[job,0]<stdout>: out", "[job,1]<stdout>: out"],
        ),
        (&["--copy-output"], ["out", "out"]),
        (&["--whole-lines", "--forward-io"], ["out", "out"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let outcome = into_files(dir.path(), options);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_eq!(sorted(&outcome), lines, "{options:?}");
        assert_eq!(outcome.stderr.matches("err\n").count(), 2, "{options:?}");
        for (name, text) in [("rank.0.stdout", "out\n"), ("rank.1.stderr", "err\n")] {
            let written = std::fs::read_to_string(dir.path().join(name)).unwrap();
            assert_eq!(written, text, "{options:?}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let outcome = into_files(dir.path(), &["--forward-io"]);
    assert_eq!((outcome.text().as_str(), outcome.stderr.as_str()), ("", ""));
    let written = std::fs::read_to_string(dir.path().join("rank.1.stdout"));
    assert_eq!(written.unwrap(), "out\n");
}

#[test]
fn names_of_files_follow_a_pattern_and_one_that_means_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--nspace", "job", "--node-name", "n1"];
    let name = ["--output-name", "%h/%n-%r"];
    let outcome = into_files(dir.path(), &[&options[..], &name].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let written = std::fs::read_to_string(dir.path().join("n1/job-1.stderr"));
    assert_eq!(written.unwrap(), "err\n");
    for pattern in ["all", "%t", "../%r"] {
        let outcome = into_files(dir.path(), &["--output-name", pattern]);
        assert_eq!(outcome.code, 2, "{pattern}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(pattern), "{}", outcome.stderr);
    }
}

#[test]
fn errors_go_where_output_goes_if_they_are_to() {
    for (options, lines) in [
        (&["--nspace", "job"][..], ["err", "out"]),
        (
            &["--nspace", "job", "--tag-output"],
            ["[job,0]<stdout>: err", "[job,0]<stdout>: out"],
        ),
    ] {
        let outcome = run(&[&["--merge-output"], options, &SAYS_BOTH].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        assert_eq!(sorted(&outcome), lines);
    }
    for options in [
        &["--merge-output"][..],
        &["--merge-output", "--copy-output"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let outcome = into_files(dir.path(), options);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        let written = std::fs::read_to_string(dir.path().join("rank.1.stdout"));
        assert_eq!(written.unwrap(), "out\nerr\n", "{options:?}");
        assert!(!dir.path().join("rank.1.stderr").exists());
    }
}

#[test]
fn a_file_that_takes_no_more_is_named_and_the_copy_goes_on() {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("sh");
    let pmix = env!("CARGO_BIN_EXE_pmix");
    command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh", pmix, "run"]);
    let dir = tmp.path().join("out");
    command.args(["--copy-output", "--output-dir", dir.to_str().unwrap()]);
    command.args(["seq", "10000"]).env("TMPDIR", tmp.path());
    let outcome = command::finish(command, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.text().lines().count(), 10_000);
    let expected = "is no longer written to";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("rank.0.stdout"));
}

#[test]
fn verbose_messages_describe_the_processes() {
    let outcome = run(&["-v", "--nspace", "job", "-n", "2", "pmix", "hello"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for part in [
        "info: the server listens on job.server.0;tcp4://127.0.0.1:",
        "info: the files of the session are in ",
        "/pmix as process ",
        "info: rank 1 of job has initialized",
        "info: rank 0 of job has finalized",
        "info: rank 0 of job ended: exit code 0",
    ] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    for part in ["debug:", "peer="] {
        assert!(!outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    let outcome = run(&[
        "-v",
        "--grace",
        "5",
        "-n",
        "2",
        "sh",
        "-c",
        "[ $PMIX_RANK = 0 ] && exit 3; exec sleep 100",
    ]);
    let expected = "terminating the processes of";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

/// Prints whether its two streams are terminals, and some bytes that a terminal could change.
const ASKS: &str = "echo ${PAGER-none}; for fd in 1 2; do test -t $fd && echo tty || echo no; done; printf 'a\\r\\nb\\t\\303\\251\\n'";

#[test]
fn processes_have_a_pseudo_terminal_as_standard_output_if_asked() {
    for (option, through, first) in [
        ("--pty", "--no-whole-lines", "tty"),
        ("-u", "--whole-lines", "tty"),
        ("--unbuffered", "--grace=1", "tty"),
        ("--no-pty", "--whole-lines", "no"),
        ("--pty", "--no-pty", "no"),
    ] {
        let out = run(&[option, through, "-n", "2", "sh", "-c", ASKS]);
        assert_eq!(out.code, 0, "{option}: {}", out.stderr);
        // The bytes are those of the program: no line end is converted.
        // A pager would wait for the keyboard.
        let pager = if first == "tty" { "cat" } else { "none" };
        let of_one = format!("{pager}\n{first}\nno\na\r\nb\t\u{e9}\n");
        let text = of_one.repeat(2);
        let mut expected: Vec<_> = text.lines().map(str::to_owned).collect();
        expected.sort();
        assert_eq!(sorted(&out), expected, "{option}");
    }
}

#[test]
fn large_output_through_pseudo_terminals_is_complete_in_streams_and_files() {
    let script = "seq 200000; printf 'rest without an end'";
    let out = run(&["--pty", "--merge-output", "-n", "2", "sh", "-c", script]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    let text = out.text();
    let count = |line: &str| text.lines().filter(|other| *other == line).count();
    assert_eq!((count("1"), count("100000"), count("200000")), (2, 2, 2));
    assert_eq!(text.matches("rest without an end").count(), 2);
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    let out = run(&["--pty", "--output-dir", name, "-n", "2", "sh", "-c", script]);
    assert_eq!((out.code, &*out.text()), (0, ""), "{}", out.stderr);
    for rank in 0..2 {
        let path = dir.path().join(format!("rank.{rank}.stdout"));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 200_001);
        assert!(text.ends_with("\n200000\nrest without an end"));
    }
}

// Planted: processes get pipes.
#[test]
fn what_a_program_printed_without_a_flush_is_seen_at_once_and_kept_at_a_time_limit() {
    // The utility keeps its output for a pipe until it has some KiB, and writes each line to a terminal.
    let program = ["awk", "BEGIN { print \"printed\"; while (1) { x++ } }"];
    let job = ["--pty", "--timeout", "10", "-n", "2"];
    let mut running = Running::start(&[&SHORT[..], &job, &program].concat());
    let begun = Instant::now();
    assert_eq!(running.line(), "printed");
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "the line came at the time limit"
    );
    let (_, rest, errors) = running.end();
    assert_eq!(rest, "printed\n", "{errors}");
    assert!(!errors.contains("not flushed"), "{errors}");
    let out = run(&["--timeout", "0.3", "-n", "1", program[0], program[1]]);
    let hint = "output that its processes have not flushed is lost; with --pty they print each line at once";
    assert!(out.stderr.contains(hint), "{}", out.stderr);
    assert_eq!(out.text(), "");
}
