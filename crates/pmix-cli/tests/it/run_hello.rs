// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` serves its processes, for example `pmix hello`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::command::{Outcome, Watchdog, command, finish, pmix};

const PMIX: &str = env!("CARGO_BIN_EXE_pmix");

fn run(args: &[&str]) -> Outcome {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = command(&[&["run"], args].concat());
    command
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", tmp.path());
    let outcome = finish(command, b"");
    let left: Vec<_> = std::fs::read_dir(&tmp).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    outcome
}

fn sorted(outcome: &Outcome) -> Vec<String> {
    let text = outcome.text();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_process_hears_from_every_other() {
    // No directory on the path contains the command: `pmix` means the running one.
    let outcome = run(&["-n", "4", "--node-name", "n1", "pmix", "hello"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let expected = (0..4).map(|rank| format!("rank {rank} of 4 on n1: 4 peers replied"));
    assert_eq!(sorted(&outcome), expected.collect::<Vec<_>>());
}

#[test]
fn many_processes_and_much_data_get_through() {
    let outcome = run(&[
        "-n", "24", PMIX, "hello", "--quiet", "--fences", "20", "--bytes", "10000",
    ]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

// Planted: the numbers that a process in a user namespace states are compared with those of the kernel.
#[test]
fn processes_in_a_user_namespace_are_accepted_as_the_user_outside() {
    let has_namespaces = Command::new("unshare").args(["--user", "true"]).output();
    if !has_namespaces.is_ok_and(|probe| probe.status.success()) {
        eprintln!("this system has no user namespaces for this user");
        return;
    }
    for words in [
        &["unshare", "--user"][..],
        &["unshare", "--user", "--map-root-user"],
        // Only the user is mapped, or another group.
        &["unshare", "--user", "--map-user=1000"],
        &["unshare", "--user", "--map-user=1000", "--map-group=2000"],
    ] {
        let args = [&["-n", "2", "--node-name", "n1"], words, &[PMIX, "hello"]].concat();
        let outcome = run(&args);
        assert_eq!(
            (outcome.code, outcome.stderr.as_str()),
            (0, ""),
            "{words:?}"
        );
        assert_eq!(sorted(&outcome).len(), 2);
    }
}

// Planted: a second connection of a rank is refused while the first lives.
#[test]
fn several_programs_of_a_rank_are_served_at_the_same_time() {
    let script = format!(
        "for number in 1 2 3; do {PMIX} hello --quiet --fences 50 & pids=\"$pids $!\"; done; \
        for pid in $pids; do wait $pid || exit 1; done; {PMIX} hello"
    );
    let outcome = run(&["-n", "2", "--node-name", "n1", "sh", "-c", &script]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let expected = (0..2).map(|rank| format!("rank {rank} of 2 on n1: 2 peers replied"));
    assert_eq!(sorted(&outcome), expected.collect::<Vec<_>>());
}

#[test]
fn data_that_were_not_exchanged_are_fetched_when_they_are_wanted() {
    let outcome = run(&["-n", "4", PMIX, "hello", "--quiet", "--no-collect"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

#[test]
fn a_trace_has_every_message_of_every_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let trace = ["-n", "2", "--trace", path.to_str().unwrap()];
    // Shared data are read without a request, so sharing is disabled.
    let unshared = ["--mca", "gds_hash_shared_bytes", "0"];
    let outcome = run(&[&trace[..], &unshared[..], &[PMIX, "hello", "--quiet"]].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let text = std::fs::read_to_string(path).unwrap();
    // The first message of a client: "native", the length of the credential, and no credential.
    let hidden = format!(
        "\"payload_hex\":\"{}00000008{}",
        "6e617469766500",
        "2a".repeat(8)
    );
    assert_eq!(text.matches(&hidden).count(), 2, "{text}");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    assert!(
        lines.iter().all(|line| line.get("fault").is_none()),
        "{text}"
    );
    for rank in [0, 1] {
        let own = lines.iter().filter(|line| line["rank"] == rank);
        let what: Vec<_> = own.map(|line| line["what"].as_str().unwrap()).collect();
        assert_eq!(
            what[..4],
            ["introduction", "welcome", "request REQ", "reply to REQ"]
        );
        let commands = ["COMMIT", "FENCENB", "GETNB", "FINALIZE"];
        for command in commands {
            let sent = what.contains(&format!("request {command}").as_str());
            assert!(
                sent && what.contains(&format!("reply to {command}").as_str()),
                "{text}"
            );
        }
        assert_eq!(what.last(), Some(&"closed"));
    }
}

#[test]
fn shared_data_is_not_requested() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let trace = ["-n", "4", "--trace", path.to_str().unwrap()];
    let outcome = run(&[&trace[..], &[PMIX, "hello", "--quiet"]].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = std::fs::read_to_string(path).unwrap();
    let count = |what: &str| text.matches(&format!("\"{what}\"")).count();
    assert_eq!(count("request FENCENB") % 4, 0);
    assert_eq!(count("request FINALIZE"), 4);
    assert_eq!((count("request REQ"), count("request GETNB")), (0, 0));
}

#[test]
fn two_applications_are_one_job() {
    let outcome = run(&[
        "-n",
        "2",
        "--node-name",
        "n1",
        PMIX,
        "hello",
        ":",
        PMIX,
        "hello",
    ]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let expected = (0..3).map(|rank| format!("rank {rank} of 3 on n1: 3 peers replied"));
    assert_eq!(sorted(&outcome), expected.collect::<Vec<_>>());
}

#[test]
fn of_a_larger_job_the_processes_that_are_here_find_each_other_and_no_others() {
    let maps = ["--nodes", "n[1-1000]", "--procs", "*", "--node-name", "n7"];
    let procs: Vec<String> = (0..1000)
        .map(|n| format!("{}-{}", n * 4, n * 4 + 3))
        .collect();
    let procs = procs.join(";");
    let maps = [&maps[..3], &[procs.as_str()], &maps[4..]].concat();
    let hello = [PMIX, "hello", "--peers"];
    // The next two ranks after the last local one are on other nodes.
    let outcome = run(&[&maps[..], &hello[..], &["0"]].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(
        outcome
            .text()
            .contains("rank 24 of 4000 on n7: 0 peers replied")
    );
    let outcome = run(&[&maps[..], &hello[..], &["1"]].concat());
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("PMIX_ERR_NOT_FOUND"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn collectives_with_an_ended_process_fail_and_the_user_is_informed() {
    let script = "test $PMIX_RANK = 1 || exec \"$0\" hello --quiet";
    let options = ["-n", "2", "--node-name", "n1", "--nspace", "j"];
    let outcome = run(&[&options[..], &["sh", "-c", script, PMIX]].concat());
    let expected = "a fence completed with PMIX_ERR_LOST_CONNECTION (-61): rank 1 of j on n1 did not participate, or was lost";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    assert_ne!(outcome.code, 0);
}

// `pmix hello` without a server, or with one that rejects it. The tests of launchers and servers cover successful
// runs.

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
    let mut command = command(&["hello", "--timeout", "0.5"]);
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

/// A program that holds a lease on a file, so that an execution of the file waits. The program prints a line when it has
/// the lease, and another one when an execution waits.
const LEASE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void wanted(int signal) {
    (void)signal;
    if (write(1, "wanted\n", 7) < 0) {
        _exit(2);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    signal(SIGIO, wanted);
    int file = open(argv[1], O_RDWR);
    if (file < 0 || fcntl(file, F_SETLEASE, F_WRLCK) < 0) {
        perror(argv[1]);
        return 1;
    }
    puts("held");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
"#;

#[test]
fn a_start_that_hangs_in_the_execution_of_its_program_ends_with_the_job() {
    let place = tempfile::tempdir().expect("a directory");
    let (source, holder) = (place.path().join("lease.c"), place.path().join("lease"));
    std::fs::write(&source, LEASE).expect("the source");
    let mut compile = Command::new("cc");
    compile.arg(&source).arg("-o").arg(&holder);
    assert!(compile.status().expect("a compiler").success());
    // The launcher looks at the interpreter of a script, but not at the interpreter of that one. A file that this process
    // writes could still be open in the child of another test, and then there is no lease.
    let write = "cp /bin/sh leased && echo \"#!$PWD/leased\" > inner && echo \"#!$PWD/inner\" > program && chmod 755 inner program";
    let mut shell = Command::new("sh");
    shell.args(["-c", write]).current_dir(place.path());
    assert!(shell.status().expect("a shell").success());
    let mut hold = Command::new(&holder);
    hold.arg(place.path().join("leased")).stdout(Stdio::piped());
    let mut holding = hold.spawn().expect("the holder starts");
    let _holder = Watchdog::of(&holding);
    let mut said = BufReader::new(holding.stdout.take().expect("a pipe")).lines();
    let mut expect = |line: &str| assert_eq!(said.next().expect("a line").expect("text"), line);
    expect("held");
    let mut run = command(&["run", "-n", "2", "--grace", "0.2"]);
    run.arg(place.path().join("program"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null());
    let mut launcher = run.spawn().expect("the launcher starts");
    let _launcher = Watchdog::of(&launcher);
    expect("wanted");
    let pid = rustix::process::Pid::from_child(&launcher);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    let mut text = String::new();
    let mut errors = launcher.stderr.take().expect("a pipe");
    errors.read_to_string(&mut text).expect("text");
    let ended = launcher.wait().expect("an end");
    // Until its end the holder keeps the processes from the execution.
    holding
        .kill()
        .and_then(|()| holding.wait())
        .expect("an end");
    let not_executed = "2 processes whose program the system has not executed yet";
    assert!(text.contains(not_executed), "{text}");
    assert!(text.contains("was killed"), "{text}");
    assert_eq!(ended.code(), Some(143), "{text}");
}
