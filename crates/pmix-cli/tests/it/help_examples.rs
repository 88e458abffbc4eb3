// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each example of the help, which is also in the manual pages, is run in a shell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Outcome, Running, finish, pmix};

/// Returns the examples in the help of every command.
fn examples() -> Vec<String> {
    let names = |help: &str| {
        let commands = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
        let commands = commands.lines().take_while(|line| !line.is_empty());
        let words = commands.filter_map(|line| line.split_whitespace().next());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for name in names(&pmix(&["--help"]).text()) {
        let help = pmix(&[&name, "--help"]).text();
        let lines = help.split_once("Examples:\n").map_or("", |(_, rest)| rest);
        let lines = lines.lines().take_while(|line| line.starts_with("  "));
        found.extend(lines.map(|line| line.trim().to_owned()));
    }
    found
}

/// Makes the files that an example names.
fn put_files(dir: &Path, example: &str) {
    let program = |name: &str| {
        fs::write(dir.join(name), "#!/bin/sh\ntrue\n").unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("solver");
    program("monitor");
    // The ranks on two nodes in one example, on more in the others.
    let (hosts, procs) = match example.contains("'0-3;4-7'") {
        true => ("n1\nn2\n", ""),
        false => ("n1\nn2\nn3\nn4\n", "0-63;64-127;128-191;192-255\n"),
    };
    fs::write(dir.join("hosts.txt"), hosts).unwrap();
    fs::write(dir.join("procs.txt"), procs).unwrap();
    fs::write(dir.join("value.bin"), "pmix[n[3:1-128]]\0").unwrap();
    let job = concat!(
        r#"{"nspace":"job.1","info":[{"key":"PMIX_NODE_MAP","type":"str","value":"n01,n02,n03"},"#,
        r#"{"key":"PMIX_PROC_MAP","type":"str","value":"0;1;2"}]}"#,
        "\n"
    );
    fs::write(dir.join("registered.json"), job).unwrap();
    let request = match example {
        _ if example.contains("map batch") => r#"{"op":"encode","nodes":["n1"]}"#,
        _ if example.contains("wire") => r#"{"id":2,"type":"PMIX_UINT32","bytes_hex":"0401ac02"}"#,
        _ => {
            r#"{"job":{"nspace":"j","info":[{"key":"PMIX_NODE_MAP","type":"str","value":"n1"},{"key":"PMIX_PROC_MAP","type":"str","value":"0"}]},"get":{"key":"pmix.job.size","proc":{"nspace":"j","rank":0}}}"#
        }
    };
    fs::write(dir.join("requests.jsonl"), format!("{request}\n")).unwrap();
    fs::write(dir.join("job-info.hex"), "020861626300 02046b000e07\n").unwrap();
}

/// Runs a command line in a directory that is also its TMPDIR.
fn prepared(dir: &Path, tmp: &Path, line: &str) -> Command {
    let ours = Path::new(env!("CARGO_BIN_EXE_pmix")).parent().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", line]).env_clear().current_dir(dir);
    command
        .env("PATH", format!("{}:/usr/bin:/bin", ours.display()))
        .env("HOME", "/nonexistent")
        .env("PMIX_HOSTNAME", "n1")
        .env("TMPDIR", tmp);
    command
}

/// Starts the job that an example names. Its processes write a line from time to time.
fn job(example: &str) -> Running {
    let name = ["run-n01-4711@1", "job.1"];
    let name = name.into_iter().find(|name| example.contains(name));
    let script = "trap : USR1; echo up >&2; echo up; while :; do sleep 0.05; echo more >&2; done";
    let mut options = vec![
        "-n",
        "5",
        "--node-name",
        "n1",
        "--forward-io",
        "--system-server",
    ];
    options.extend(["--nspace", name.unwrap_or("run-n01-4711@1")]);
    if example.contains("release") {
        options.push("--stop-on-exec");
    }
    Running::start(&[&options[..], &["sh", "-c", script]].concat())
}

/// Runs an example beside a job, which ends after the first line of an example that follows it.
fn beside_job(dir: &Path, example: &str) -> Outcome {
    let job = job(example);
    let pid = job.child.id().to_string();
    let kill = |_: &str| {
        let killed = job.tool(&["kill", "--kill", "--pid", &pid, nspace(&job, &pid).as_str()]);
        assert_eq!(killed.code, 0, "{example}: {}", killed.stderr);
    };
    // The server has a job before its processes have started.
    let names = || job.tool(&["ps", "--pid", &pid]).text();
    let begun = Instant::now();
    while names().matches(" n1 ").count() < 5 {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{example}: {}",
            names()
        );
    }
    let line = example.replace("4711 ", &format!("{pid} "));
    let line = match line.strip_suffix("4711") {
        Some(line) => format!("{line}{pid}"),
        None => line,
    };
    let mut command = prepared(dir, job.tmp.path(), &line);
    if example.contains("lookup") {
        let publish = "pmix publish ocean=tcp://n01:5555";
        assert_eq!(finish(prepared(dir, job.tmp.path(), publish), b"").code, 0);
    }
    let follows = ["pmix events", "json events", "pmix attach"];
    let outcome = match follows.iter().any(|words| example.contains(words)) {
        false => finish(command, b""),
        true => {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut tool = Running::of(command, tempfile::tempdir().unwrap());
            let first = tool_line(&mut tool, example);
            kill(example);
            let (code, rest, stderr) = tool.end();
            Outcome {
                code: code.unwrap_or(-1),
                stdout: (first + &rest).into_bytes(),
                stderr,
            }
        }
    };
    let is_over = follows.iter().any(|words| example.contains(words))
        || example == "pmix kill run-n01-4711@1";
    if !is_over {
        kill(example);
    }
    job.end_unread();
    outcome
}

/// Waits for the first line of a command that follows a job.
fn tool_line(tool: &mut Running, example: &str) -> String {
    match example.contains("stderr") {
        // Its lines go to standard error.
        true => String::new(),
        false => tool.line(),
    }
}

/// Returns the name of the only job of a server.
fn nspace(job: &Running, pid: &str) -> String {
    let procs = job.tool(&["--json", "ps", "--pid", pid]).json();
    procs["nspace"].as_str().unwrap().to_owned()
}

#[test]
fn every_example_of_the_help_does_what_it_says() {
    let examples = examples();
    assert!(examples.len() >= 44, "{examples:#?}");
    for example in examples {
        println!("{example}");
        let dir = tempfile::tempdir().unwrap();
        put_files(dir.path(), &example);
        let words: Vec<_> = example
            .split(' ')
            .filter(|word| *word != "--json")
            .collect();
        let outcome = match words[1] {
            // The launcher of Open MPI may not be installed, and its end of a job is tested in tests/interop.
            _ if words[0] != "pmix" => continue,
            // The event may be before the registration; `tool_events` has its test.
            "events" if example.contains("EVENT_JOB_END") => continue,
            "map" | "get" | "wire" | "run" | "hello" => {
                finish(prepared(dir.path(), dir.path(), &example), b"")
            }
            _ => beside_job(dir.path(), &example),
        };
        let expected = match words[1] {
            "attach" => 128 + 9,
            _ => 0,
        };
        assert_eq!(
            outcome.code,
            expected,
            "{example}: {} {}",
            outcome.text(),
            outcome.stderr
        );
        let is_silent = ["kill", "release", "publish"].contains(&words[1])
            || example.contains("solver")
            || example.contains("--stream stderr")
            || example.contains("--quiet");
        assert!(
            is_silent || !outcome.stdout.is_empty(),
            "{example} prints nothing"
        );
    }
}
