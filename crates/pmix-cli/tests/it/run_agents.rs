// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` on several nodes. The nodes of these tests are names: a script in place of ssh executes the agent of
//! each node on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::command::{Outcome, Watchdog, command, finish, sorted};

const PMIX: &str = env!("CARGO_BIN_EXE_pmix");

/// The directory of a test, with the script that reaches nodes.
pub(crate) struct Nodes {
    dir: TempDir,
}

impl Nodes {
    /// Creates a script with these lines before the execution of the agent. `$node` is the name of the node.
    pub(crate) fn new(lines: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("reach");
        fs::write(
            &script,
            format!("#!/bin/sh\nnode=$1; shift\n{lines}\nexec \"$@\"\n"),
        )
        .unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Self { dir }
    }

    fn tmp(&self) -> std::path::PathBuf {
        self.dir.path().join("tmp")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let script = self.dir.path().join("reach");
        let reach = ["run", "--launch-agent", script.to_str().unwrap()];
        let mut command = command(&[&reach, args].concat());
        command
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", self.tmp());
        command
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> Outcome {
        let outcome = finish(self.command(args), input);
        self.assert_clean();
        outcome
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        self.run_with(args, b"")
    }

    /// Checks that no file of a session is left, also not of an agent that ends after its launcher.
    fn assert_clean(&self) {
        let patience = Instant::now() + Duration::from_secs(20);
        while fs::read_dir(self.tmp()).unwrap().next().is_some() {
            assert!(
                Instant::now() < patience,
                "files are left in {:?}",
                self.tmp()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) const FOUR: [&str; 4] = ["--host", "localhost:1,n2:2,n3:1", "--node-name", "n1"];

#[test]
fn processes_of_several_nodes_exchange_data() {
    let nodes = Nodes::new("");
    let outcome = nodes.run(&[&FOUR[..], &["pmix", "hello"]].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let hosts = ["n1", "n2", "n2", "n3"];
    let expected =
        (0..4).map(|rank| format!("rank {rank} of 4 on {}: 4 peers replied", hosts[rank]));
    assert_eq!(sorted(&outcome), expected.collect::<Vec<_>>());
    // The node of the launcher need not have a process, and fences repeat.
    let outcome = nodes.run(&[
        "--host",
        "n2:2,n3:2",
        PMIX,
        "hello",
        "--quiet",
        "--fences",
        "20",
        "--bytes",
        "10000",
    ]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

#[test]
fn processes_fill_nodes_or_take_turns() {
    let nodes = Nodes::new("");
    for (options, expected) in [
        (&["--host", "n2:2,n3:2"][..], "0 n2, 1 n2, 2 n3, 3 n3"),
        (&["--host", "n2:2,n3:2", "-n", "3"], "0 n2, 1 n2, 2 n3"),
        (&["--host", "n2,n3,n2"], "0 n2, 1 n2, 2 n3"),
        (
            &["--host", "n2:2,n3:2", "--map-by", "node"],
            "0 n2, 1 n3, 2 n2, 3 n3",
        ),
        (
            &["--host", "n2:2,n3:1", "--map-by", "node"],
            "0 n2, 1 n3, 2 n2",
        ),
        (
            &["--host", "n2:9,n3:9", "--map-by", "ppr:1:node"],
            "0 n2, 1 n3",
        ),
        (
            &["--host", "n2,n3", "-n", "3", "--oversubscribe"],
            "0 n2, 1 n3, 2 n2",
        ),
    ] {
        let outcome =
            nodes.run(&[options, &["sh", "-c", "echo $PMIX_RANK $PMIX_HOSTNAME"]].concat());
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (0, ""),
            "{options:?}"
        );
        assert_eq!(sorted(&outcome).join(", "), expected, "{options:?}");
    }
    let outcome = nodes.run(&["--host", "n2:2,n3:2", "-n", "5", "true"]);
    assert_eq!(outcome.code, 2);
    for part in [
        "5 processes need more than the 4 slots",
        "--host n1:4,n2:4",
        "--oversubscribe",
    ] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

#[test]
fn output_and_input_pass_between_nodes() {
    let nodes = Nodes::new("");
    let script = "echo out; echo err >&2";
    let outcome = nodes.run(&[&FOUR[..], &["--nspace", "j", "-l", "sh", "-c", script]].concat());
    let labels = |stream: &str, text: &str| -> Vec<_> {
        (0..4)
            .map(|rank| format!("[j,{rank}]<{stream}>: {text}"))
            .collect()
    };
    assert_eq!(sorted(&outcome), labels("stdout", "out"));
    let mut errors: Vec<_> = outcome.stderr.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, labels("stderr", "err"));
    // More than all buffers on the way.
    let lines: Vec<_> = (0..400_000).map(|number: u32| number.to_string()).collect();
    let input = lines.join("\n") + "\n";
    let outcome = nodes.run_with(&["--host", "n2,n3", "cat"], input.as_bytes());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout == input.as_bytes(),
        "{} bytes",
        outcome.stdout.len()
    );
    // A program that does not read.
    let outcome = nodes.run_with(&["--host", "n2,n3", "true"], input.as_bytes());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

#[test]
fn failures_name_the_node() {
    let nodes = Nodes::new("");
    let all = |script: &str| nodes.run(&[&FOUR[..], &["sh", "-c", script]].concat());
    for (script, code, said) in [
        (
            "test $PMIX_RANK = 3 && exit 7; sleep 60",
            7,
            "on n3) ended with exit code 7",
        ),
        (
            "test $PMIX_RANK = 2 && kill -SEGV $$; sleep 60",
            139,
            "on n2) was killed by SIGSEGV",
        ),
        (
            "test $PMIX_RANK = 0 && exit 5; sleep 60",
            5,
            "on n1) ended with exit code 5",
        ),
    ] {
        let outcome = all(script);
        assert_eq!(outcome.code, code, "{script}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(said),
            "{script}: {}",
            outcome.stderr
        );
    }
    let outcome = nodes.run(&["--host", "n2,n3", "./missing"]);
    assert_eq!(outcome.code, 127);
    assert!(
        outcome
            .stderr
            .contains(": cannot run ./missing: No such file"),
        "{}",
        outcome.stderr
    );
    let outcome = nodes.run(&[
        "--host",
        "n2,n3",
        "--keep-going",
        "sh",
        "-c",
        "exit $PMIX_RANK",
    ]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let outcome = nodes.run(&["--host", "n2,n3", "--timeout", "1", "sleep", "60"]);
    assert_eq!(outcome.code, 124, "{}", outcome.stderr);
}

#[test]
fn a_node_that_cannot_be_reached_is_named_with_the_reason() {
    for (lines, options, said) in [
        (
            "test $node = n3 && { echo No route to host >&2; exit 255; }",
            &[][..],
            "node n3: it could not be reached (exit status: 255): No route to host",
        ),
        (
            "test $node = n3 && { echo PMIX-NODE 1 99.0.0; sleep 60; }",
            &[],
            "node n3: its pmix has release 99.0.0, and this one ",
        ),
        (
            "test $node = n3 && exec sleep 60",
            &["--start-timeout", "0.5"],
            "node n3: it has not answered within 0.5 s",
        ),
        (
            "test $node = n3 && exec yes",
            &[],
            "node n3: it printed more than 65536 bytes instead of the greeting",
        ),
    ] {
        let nodes = Nodes::new(lines);
        let words = [&["--host", "n2,n3"][..], options, &["sleep", "60"]].concat();
        let outcome = nodes.run(&words);
        assert_eq!(outcome.code, 1, "{lines}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{lines}: {}", outcome.stderr);
    }
    let outcome = finish(
        command(&[
            "run",
            "--launch-agent",
            "/missing/ssh",
            "--host",
            "n2",
            "true",
        ]),
        b"",
    );
    assert_eq!(outcome.code, 127, "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("cannot execute /missing/ssh to reach node n2"),
        "{}",
        outcome.stderr
    );
    let outcome = finish(
        command(&["run", "--launch-agent", "ssh 'x", "--host", "n2", "true"]),
        b"",
    );
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
}

#[test]
fn a_silent_node_is_named_before_it_is_given_up() {
    let nodes = Nodes::new("test $node = n3 && { echo waiting for a lock >&2; sleep 4; }");
    let outcome = nodes.run(&["--host", "n2,n3", "true"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let said = "node n3 has not answered for 3 s; it is given up after 5";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("--start-timeout): waiting for a lock"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_output_of_start_files_does_not_matter() {
    let nodes = Nodes::new("echo Welcome to $node; printf 'no end of line'; echo noise >&2");
    let outcome = nodes.run(&["--host", "n2,n3", "echo", "x"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.text(), "x\nx");
}

/// Returns `true` while a process whose command line has this text exists.
fn runs(text: &str) -> bool {
    let found = Command::new("pgrep")
        .args(["-f", "--", text])
        .stdout(Stdio::null())
        .status();
    found.unwrap().success()
}

fn wait_until(what: &str, is_over: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_over() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a job whose processes create files with their rank and process id, and waits for all of them.
fn start_sleepers(nodes: &Nodes, ranks: u32) -> (std::process::Child, Watchdog, String) {
    // The argument makes the processes of this test recognizable.
    let mark = format!("{}-sleeper", nodes.dir.path().display());
    let script = "cd \"$1\" && echo $$ > started.$PMIX_RANK && while :; do sleep 0.2; done";
    let place = nodes.dir.path().to_str().unwrap();
    let mut command = nodes.command(&[&FOUR[..], &["sh", "-c", script, &mark, place]].concat());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let watchdog = Watchdog::of(&child);
    wait_until("the processes start", || {
        (0..ranks).all(|rank| Path::new(place).join(format!("started.{rank}")).exists())
    });
    (child, watchdog, mark)
}

/// Returns the process ids of the agents of a launcher.
pub(crate) fn agents(launcher: u32) -> Vec<u32> {
    let found = Command::new("pgrep")
        .args(["-P", &launcher.to_string(), "-f", "node --stdio"])
        .output();
    let text = String::from_utf8(found.unwrap().stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

pub(crate) fn kill(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_lost_node_ends_the_job_everywhere() {
    let nodes = Nodes::new("");
    let (child, _watchdog, mark) = start_sleepers(&nodes, 4);
    let found = agents(child.id());
    assert_eq!(found.len(), 2);
    kill("KILL", found[1]);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("node n3 was lost: the link to it has ended"),
        "{stderr}"
    );
    assert!(stderr.contains("on n3) was lost with its node"), "{stderr}");
    // The watcher of the killed agent ends its processes.
    wait_until("processes are left", || !runs(&mark));
    nodes.assert_clean();
}

// Planted: the last message of an agent that was ended on its node counted as the end of the session, and the job waited.
#[test]
fn an_agent_that_is_ended_on_its_node_is_a_lost_node() {
    let nodes = Nodes::new("");
    let (child, _watchdog, mark) = start_sleepers(&nodes, 4);
    kill("TERM", agents(child.id())[1]);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let said = "node n3 was lost: its agent was ended there";
    assert!(stderr.contains(said), "{stderr}");
    wait_until("processes are left", || !runs(&mark));
    nodes.assert_clean();
}

#[test]
fn a_killed_launcher_leaves_nothing_on_any_node() {
    let nodes = Nodes::new("");
    let (mut child, _watchdog, mark) = start_sleepers(&nodes, 4);
    kill("KILL", child.id());
    child.wait().unwrap();
    wait_until("processes are left", || !runs(&mark));
    nodes.assert_clean();
}

#[test]
fn a_signal_to_the_launcher_reaches_all_nodes() {
    let nodes = Nodes::new("");
    let (child, _watchdog, mark) = start_sleepers(&nodes, 4);
    kill("TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(143),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!runs(&mark));
    nodes.assert_clean();
}

#[test]
fn nothing_is_left_of_an_agent_that_is_killed() {
    let nodes = Nodes::new("");
    // The watcher of the agent becomes a child of the launcher, which must let it remove the files.
    let script = "[ $PMIX_RANK = 1 ] && kill -9 $PPID; exec sleep 1000";
    for _ in 0..6 {
        let outcome = nodes.run(&["--host", "n2:1,n3:1", "sh", "-c", script]);
        assert_ne!(outcome.code, 0);
        assert!(outcome.stderr.contains("n3"), "{}", outcome.stderr);
    }
}
