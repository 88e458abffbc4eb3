// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples run as a user would run them: the host starts the client as the processes of a job.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use pmix::prelude::Client;
use pmix::types::Value;

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
    for name in ["minimal_host", "two_nodes"] {
        let (status, said) = run(name, folder.path(), &args);
        assert_eq!(status.code(), Some(9), "{name}: {said}");
    }
}

/// Runs processes that exchange data, publish, look up and leave a file behind, and checks what they
/// read and that nothing is left.
fn work(host: &str) {
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
    let args = ["4", client, scratch.to_str().expect("a path of text")];
    let (status, said) = run(host, folder.path(), &args);
    assert!(status.success(), "{status}: {said}");
    let mut lines: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("rank"))
        .collect();
    lines.sort_unstable();
    let expected: Vec<_> = (0..4_u32)
        .map(|rank| {
            let next = (rank + 1) % 4;
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
    work("minimal_host");
}

#[test]
fn a_host_of_two_nodes_carries_fences_and_data_from_one_to_the_other() {
    work("two_nodes");
    let folder = tempfile::tempdir().expect("a folder");
    let client = example("minimal_client");
    let client = client.to_str().expect("a path of text");
    let (status, said) = run("two_nodes", folder.path(), &["3", client]);
    assert!(status.success(), "{status}: {said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.contains("is process"))
            .count(),
        3,
        "{said}"
    );
}
