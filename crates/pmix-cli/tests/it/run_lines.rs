// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of output. By default, lines of several processes are not mixed, and prompts are printed.
//! Options select unmodified bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{
    self, Outcome, Running, Watchdog, assert_nothing_left, finish, launcher, run, sorted,
};

/// A shell function that waits until all four processes have called it. Each creates a file in
/// `$DIR`.
const MEET: &str = "meet() { : > $DIR/$1.$PMIX_RANK; \
                    while [ $(ls $DIR/$1.* | wc -l) -lt 4 ]; do sleep 0.01; done; }; ";

/// A script that writes each line in three pieces, between which the other processes write theirs.
const PIECES: &str = "i=0; while [ $i -lt 200 ]; do printf one; printf .two; printf '.three\\n'; \
                      i=$((i+1)); done; printf end";

/// Runs four processes with `$DIR` set, with standard output in a file.
fn run_four(options: &[&str], script: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let export = format!("DIR={}", dir.path().display());
    let script = [MEET, script].concat();
    let job = ["-x", &export, "-n", "4", "sh", "-c", &script];
    into_file(&[options, &job].concat())
}

/// Runs a job with standard output in a file.
fn into_file(args: &[&str]) -> Outcome {
    let (mut command, tmp) = launcher(args);
    let path = tmp.path().join("output");
    let file = File::create(&path).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let _watchdog = Watchdog::of(&child);
    let ended = child.wait_with_output().unwrap();
    Outcome {
        code: ended.status.code().unwrap(),
        stdout: std::fs::read(&path).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

#[test]
fn lines_that_processes_write_in_pieces_are_whole() {
    for options in [
        &[][..],
        &["--whole-lines"],
        &["--copy-output", "--output-dir"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options.to_vec();
        if options.contains(&"--output-dir") {
            options.push(dir.path().to_str().unwrap());
        }
        let outcome = run_four(&options, &["meet start; ", PIECES].concat());
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (0, ""),
            "{options:?}"
        );
        let (output, line) = (outcome.text(), "one.two.three\n");
        let ends = output.matches("end").count();
        assert_eq!(
            (output.matches(line).count(), ends),
            (800, 4),
            "{options:?}"
        );
        assert_eq!(
            output.len(),
            800 * line.len() + 4 * "end".len(),
            "{options:?}"
        );
    }
}

#[test]
fn bytes_go_out_as_they_come_where_that_is_asked_for() {
    let outcome = run_four(&["--no-whole-lines"], "printf a; meet middle; printf b");
    assert_eq!(outcome.text(), "aaaabbbb", "{}", outcome.stderr);
    let together = run(&["--no-whole-lines", "--whole-lines", "true"]);
    assert_eq!(together.code, 2, "{}", together.stderr);
}

#[test]
fn a_prompt_goes_out_although_its_line_has_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let export = format!("GO={}", go.display());
    let script = "[ $PMIX_RANK = 0 ] && printf 'go on? '; \
                  while [ ! -e $GO ]; do sleep 0.01; done; echo yes";
    let mut running = Running::start(&["-n", "2", "-x", &export, "sh", "-c", script]);
    let mut prompt = [0; 7];
    running.output().read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"go on? ");
    std::fs::write(&go, "").unwrap();
    assert_eq!(
        running.end(),
        (Some(0), "yes\nyes\n".to_owned(), String::new())
    );
}

#[test]
fn a_line_without_end_is_not_kept_until_its_process_has_ended() {
    for options in [&["--whole-lines"][..], &["-n", "2"]] {
        let zeros = [options, &["head", "-c", "300000", "/dev/zero"]].concat();
        let (code, output, _) = Running::start(&zeros).end();
        let num_procs = options.len();
        assert_eq!((code, output.len()), (Some(0), num_procs * 300_000));
    }
}

/// Returns the kind of each process's standard output, if that of the launcher is a file.
fn streams(args: &[&str]) -> Vec<String> {
    let script = "readlink /proc/$$/fd/1 | sed 's/:.*//; s/.*output/file/' >&2";
    let outcome = into_file(&[args, &["sh", "-c", script]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stderr.lines().map(str::to_owned).collect()
}

#[test]
fn processes_share_the_output_of_the_launcher_unless_it_does_something_with_it() {
    assert_eq!(streams(&[]), ["file"]);
    assert_eq!(streams(&["--whole-lines"]), ["pipe"]);
    assert_eq!(streams(&["-n", "2"]), ["pipe", "pipe"]);
    assert_eq!(streams(&["-n", "2", "--no-whole-lines"]), ["file", "file"]);
    // Discarded output needs no pipe.
    let script = "stream=$(readlink /proc/$$/fd/1); echo $stream >&2";
    let (mut command, _tmp) = launcher(&["-n", "2", "sh", "-c", script]);
    let output = { command.stdout(Stdio::null()).stderr(Stdio::piped()) }.output();
    assert_eq!(output.unwrap().stderr, b"/dev/null\n/dev/null\n");
}

#[test]
fn a_job_for_whose_pipes_there_are_too_few_descriptors_runs_without_them() {
    let (pmix, tmp) = (env!("CARGO_BIN_EXE_pmix"), tempfile::tempdir().unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$@\"", "sh", pmix, "run", "-v"]);
    command
        .args(["-n", "20", "echo", "here"])
        .env("TMPDIR", tmp.path());
    let outcome = command::finish(command, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(sorted(&outcome), ["here"; 20]);
    let said = "lines of different ranks may be mixed";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}

#[test]
fn output_and_errors_in_one_file_stay_in_the_order_in_which_they_were_written() {
    let script =
        "for i in 1 2 3 4 5 6 7 8 9; do echo $PMIX_RANK out $i; echo $PMIX_RANK err $i >&2; done";
    let (mut command, tmp) = launcher(&["-n", "2", "sh", "-c", script]);
    let path = tmp.path().join("both");
    let file = File::create(&path).unwrap();
    command.stderr(file.try_clone().unwrap()).stdout(file);
    assert!(command.status().unwrap().success());
    for rank in 0..2 {
        assert_eq!(of_rank(&path, rank).len(), 18);
        let expected = (1..10).flat_map(|i| [format!("{rank} out {i}"), format!("{rank} err {i}")]);
        assert_eq!(of_rank(&path, rank), expected.collect::<Vec<_>>());
    }
}

/// Returns the lines of one rank.
fn of_rank(path: &Path, rank: u32) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let start = format!("{rank} ");
    let lines = text.lines().filter(|line| line.starts_with(&start));
    lines.map(str::to_owned).collect()
}

/// Returns the gdb output for a field of a row of the table, in C syntax.
fn field(row: u32, kind: &str, offset: u32) -> String {
    let at = row * 24 + offset;
    format!("*({kind}*)(*(char**)&MPIR_proctable + {at})")
}

#[test]
#[ignore = "needs gdb"]
fn a_debugger_that_knows_mpir_finds_the_processes_before_they_begin() {
    let tmp = tempfile::tempdir().unwrap();
    let pmix = env!("CARGO_BIN_EXE_pmix");
    let mut script = vec![
        "set language c".to_owned(),
        "break main".to_owned(),
        "run".to_owned(),
        "set var *(int*)&MPIR_being_debugged = 1".to_owned(),
        "break MPIR_Breakpoint".to_owned(),
        "continue".to_owned(),
        "printf \"state %d size %d\\n\", *(int*)&MPIR_debug_state, *(int*)&MPIR_proctable_size"
            .to_owned(),
    ];
    for row in 0..2 {
        let (host, program) = (field(row, "char*", 0), field(row, "char*", 8));
        let pid = field(row, "int", 16);
        script.push(format!(
            "printf \"row {row} on %s: %s\\n\", {host}, {program}"
        ));
        script.push(format!("eval \"shell grep State: /proc/%d/status\", {pid}"));
    }
    script.push("continue".to_owned());
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "--batch"]);
    for line in &script {
        gdb.args(["-ex", line]);
    }
    gdb.args([
        "--args",
        pmix,
        "run",
        "-n",
        "2",
        "--node-name",
        "n1",
        pmix,
        "hello",
    ]);
    gdb.env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", tmp.path());
    let outcome = finish(gdb, b"");
    let text = outcome.text();
    let said = format!("{text}\n{}", outcome.stderr);
    assert!(text.contains("state 1 size 2\n"), "{said}");
    for row in 0..2 {
        assert!(
            text.contains(&format!("row {row} on n1: {pmix}\n")),
            "{said}"
        );
    }
    assert_eq!(text.matches("T (stopped)").count(), 2, "{said}");
    // The processes continue when the launcher continues.
    assert_eq!(text.matches(" of 2").count(), 2, "{said}");
    assert!(text.contains("exited normally"), "{said}");
    assert_nothing_left(&tmp);
}
