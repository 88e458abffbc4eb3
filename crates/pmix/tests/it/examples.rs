// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples run as a user would run them: the host starts the client as the processes of a job.

use std::fs::File;
use std::io::{PipeReader, Read as _, pipe};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pmix::prelude::*;
use pmix::types::DataRange;

/// The hosts of several nodes.
const HOSTS_OF_NODES: [&str; 2] = ["three_nodes", "three_nodes_tokio"];

/// Time after which a job of three processes counts as stuck, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Returns the path of an example, which `cargo test` builds before it runs tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let target = test.ancestors().nth(2).expect("the folder of the profile");
    let path = target.join("examples").join(name);
    assert!(
        path.exists(),
        "`cargo build -p pmix --examples` builds {path:?}"
    );
    path
}

/// Runs the smallest host. Returns its exit status, and the output of the host and its processes.
fn host(folder: &Path, args: &[&str]) -> (ExitStatus, String) {
    run("minimal_host", folder, args)
}

/// Runs a host. Returns its exit status, and the output of the host and its processes.
fn run(host: &str, folder: &Path, args: &[&str]) -> (ExitStatus, String) {
    let path = folder.join("output");
    let output = File::create(&path).expect("a file");
    let errors = output.try_clone().expect("a descriptor");
    let mut command = Command::new(example(host));
    command.args(args).env("TMPDIR", folder);
    command.stdout(output).stderr(errors);
    let mut child = command.spawn().expect("the host starts");
    let end = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the host is waited for") {
            break status;
        }
        if Instant::now() > end {
            child.kill().expect("the host is killed");
            child.wait().expect("the host is waited for");
            let said = std::fs::read_to_string(&path).expect("what was printed");
            panic!("{args:?} takes longer than {DEADLINE:?}: {said}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let said = std::fs::read_to_string(&path).expect("what was printed");
    (status, said)
}

#[test]
fn the_host_serves_a_job_of_clients() {
    for client in ["minimal_client", "loop_client", "tokio_client"] {
        serve(client);
    }
}

/// Runs processes that read each other's process IDs, and checks the values that each has read.
fn serve(client: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let client = example(client);
    let client = client.to_str().expect("a path of text");
    let (status, said) = host(folder.path(), &["3", client]);
    assert!(status.success(), "{status}: {said}");
    let lines = said.lines();
    let mut heads: Vec<_> = lines
        .filter_map(|line| Some(line.split_once(" is process ")?.0))
        .collect();
    heads.sort_unstable();
    let expected = [
        "rank 0 of 3: rank 1",
        "rank 1 of 3: rank 2",
        "rank 2 of 3: rank 0",
    ];
    assert_eq!(heads, expected, "{said}");
}

#[test]
fn the_host_ends_with_the_exit_code_of_its_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (status, said) = host(folder.path(), &["2", "/bin/sh", "-c", "exit 7"]);
    assert_eq!(status.code(), Some(7), "{said}");
    let (status, said) = host(folder.path(), &["1", "/does/not/exist"]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.starts_with("minimal_host: "), "{said}");
}

/// Starts this test as the processes of a host's job, in which rank 1 aborts while rank 0 waits for it.
#[test]
fn a_process_that_aborts_ends_all_of_them_with_its_exit_code() {
    if let Ok(client) = Client::from_env() {
        match client.proc().rank.as_raw() {
            0 => client.fence([], []).wait().expect("the host ends it first"),
            _ => client
                .abort(9, "no more", &[])
                .wait()
                .expect("the host answers"),
        }
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let test = std::env::current_exe().expect("the path of this test");
    let name = "examples::a_process_that_aborts_ends_all_of_them_with_its_exit_code";
    let args = ["2", test.to_str().expect("a path of text"), "--exact", name];
    for name in HOSTS_OF_NODES.into_iter().chain(["minimal_host"]) {
        let (status, said) = run(name, folder.path(), &args);
        assert_eq!(status.code(), Some(9), "{name}: {said}");
    }
}

/// Runs processes that exchange data, publish, look up and leave a file behind, and checks what they
/// read and that nothing is left. `number` is the argument of the host for its number of processes.
fn work(host: &str, number: &str, num_procs: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    // MPI libraries register files in shared memory for removal by the server.
    let memory = Path::new("/dev/shm");
    let beside = if memory.is_dir() {
        memory
    } else {
        folder.path()
    };
    let scratch = tempfile::tempdir_in(beside).expect("a folder");
    let scratch = scratch.path();
    let client = example("busy_client");
    let client = client.to_str().expect("a path of text");
    let args = [number, client, scratch.to_str().expect("a path of text")];
    let (status, said) = run(host, folder.path(), &args);
    assert!(status.success(), "{status}: {said}");
    let mut lines: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("rank"))
        .collect();
    lines.sort_unstable();
    let expected: Vec<_> = (0..num_procs)
        .map(|rank| {
            let next = (rank + 1) % num_procs;
            let (card, port) = (Value::from(format!("ib{next}")), Value::from(1000 + next));
            format!("rank {rank}: rank {next} has {card:?} and {:?}", Some(port))
        })
        .collect();
    assert_eq!(lines, expected, "{said}");
    std::fs::remove_file(folder.path().join("output")).expect("what was printed");
    let left = std::fs::read_dir(scratch).expect("a folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, [""; 0], "files that were to be removed");
    let left = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, [""; 0], "files of the server");
}

#[test]
fn the_small_host_serves_lookups_and_removes_what_processes_leave() {
    work("minimal_host", "4", 4);
}

#[test]
fn a_host_of_three_nodes_passes_fences_and_data_between_them() {
    for host in HOSTS_OF_NODES {
        work(host, "2", 6);
        work(host, "1", 3);
        let folder = tempfile::tempdir().expect("a folder");
        let client = example("minimal_client");
        let client = client.to_str().expect("a path of text");
        let (status, said) = run(host, folder.path(), &["1", client]);
        assert!(status.success(), "{host}: {status}: {said}");
        let lines = said.lines().filter(|line| line.contains("is process"));
        assert_eq!(lines.count(), 3, "{host}: {said}");
    }
}

#[test]
fn a_host_of_three_nodes_ends_with_the_exit_code_of_its_processes() {
    for host in HOSTS_OF_NODES {
        let folder = tempfile::tempdir().expect("a folder");
        let (status, said) = run(host, folder.path(), &["2", "/bin/sh", "-c", "exit 7"]);
        assert_eq!(status.code(), Some(7), "{host}: {said}");
        for args in [&["1", "/does/not/exist"][..], &["0", "true"], &["1"]] {
            let (status, said) = run(host, folder.path(), args);
            assert_eq!(status.code(), Some(1), "{host}: {said}");
            assert!(said.starts_with(&format!("{host}: ")), "{said}");
        }
    }
}

/// Runs this test as the processes of a host of three nodes, one on each. Returns the exit code of the host, and what all
/// processes have printed, sorted. Returns only after each process that the host has started has ended.
fn run_on_three_nodes(host: &str, test: &str) -> (Option<i32>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let own = std::env::current_exe().expect("the path of this test");
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = Command::new(example(host));
    command.args(["1".as_ref(), own.as_os_str(), "--exact".as_ref()]);
    command.args([test, "--nocapture"]);
    command.env("TMPDIR", folder.path());
    command.stderr(writer.try_clone().expect("a descriptor"));
    command.stdout(writer);
    let mut child = command.spawn().expect("the host starts");
    // The pipe ends when no process has its other end.
    drop(command);
    let (sender, ended) = channel();
    let read = move |mut reader: PipeReader| {
        let mut said = Vec::new();
        reader.read_to_end(&mut said).expect("a pipe");
        sender.send(said).expect("the test waits");
    };
    std::thread::spawn(move || read(reader));
    let said = ended.recv_timeout(DEADLINE).unwrap_or_else(|_| {
        child.kill().expect("the host is killed");
        panic!("{host}: processes are left after {DEADLINE:?}");
    });
    let status = child.wait().expect("the host is waited for");
    let said = String::from_utf8(said).expect("text");
    // The test harness of another process writes its lines in pieces, so a line may follow one of them.
    let lines = said
        .lines()
        .filter_map(|line| line.get(line.find("rank ")?..));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort_unstable();
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "files of the servers");
    (status.code(), lines)
}

/// Creates the client of a process that a host has started, registered for events; `None` in the test itself.
fn registered(code: Status) -> Option<Client> {
    let client = Client::from_env().ok()?;
    client
        .register_events([code], &[])
        .wait()
        .expect("registered");
    client.fence([], []).wait().expect("the first fence");
    Some(client)
}

#[test]
fn an_event_of_a_process_reaches_the_processes_of_all_nodes() {
    const EVENT: Status = Status::from_raw(-3001);
    if let Some(client) = registered(EVENT) {
        let rank = client.proc().rank;
        if rank == Rank::new(1) {
            let notified = client.notify(EVENT, DataRange::NAMESPACE, &[]).wait();
            notified.expect("notified");
        } else {
            let event = client.next_event(DEADLINE).expect("a connection");
            let source = event.expect("an event").source;
            println!("rank {rank}: event of rank {}", source.rank);
        }
        client.fence([], []).wait().expect("the last fence");
        return client.finalize().expect("finalized");
    }
    for host in HOSTS_OF_NODES {
        let test = "examples::an_event_of_a_process_reaches_the_processes_of_all_nodes";
        let (code, lines) = run_on_three_nodes(host, test);
        let expected = ["rank 0: event of rank 1", "rank 2: event of rank 1"];
        assert_eq!(
            (code, &lines[..]),
            (Some(0), &expected.map(str::to_owned)[..]),
            "{host}"
        );
    }
}

#[test]
fn a_lost_node_fails_the_fence_of_the_other_nodes_and_everything_ends() {
    if let Some(client) = registered(Status::ERR_LOST_CONNECTION) {
        let rank = client.proc().rank;
        if rank == Rank::new(2) {
            let node = rustix::process::getppid().expect("the process of the node");
            rustix::process::kill_process(node, rustix::process::Signal::KILL).expect("killed");
        }
        let fence = client.fence([], []).wait();
        let status = fence.map_or_else(|error| error.status(), |()| Status::SUCCESS);
        println!("rank {rank}: the fence ended with {status}");
        if rank != Rank::new(2) {
            let event = client.next_event(DEADLINE).expect("a connection");
            println!(
                "rank {rank}: lost rank {}",
                event.expect("an event").source.rank
            );
            client.finalize().expect("finalized");
        }
        return;
    }
    for host in HOSTS_OF_NODES {
        let test = "examples::a_lost_node_fails_the_fence_of_the_other_nodes_and_everything_ends";
        let (code, lines) = run_on_three_nodes(host, test);
        let (lost, unreachable) = (Status::ERR_LOST_CONNECTION, Status::ERR_UNREACH);
        let expected = [
            "rank 0: lost rank 2".to_owned(),
            format!("rank 0: the fence ended with {lost}"),
            "rank 1: lost rank 2".to_owned(),
            format!("rank 1: the fence ended with {lost}"),
            // Its own server is lost.
            format!("rank 2: the fence ended with {unreachable}"),
        ];
        assert_eq!((code, &lines[..]), (Some(1), &expected[..]), "{host}");
    }
}
