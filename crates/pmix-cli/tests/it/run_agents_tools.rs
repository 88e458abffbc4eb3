// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools and jobs on several nodes, at the node of the launcher and at that of an agent. The agents of the nodes run on
//! this machine.

use std::process::Command;

use pmix_types::{Proc, Rank};

use crate::command::{Outcome, Running, finish};
use crate::run_agents::{FOUR, Nodes};

/// Starts four processes on three nodes. Each prints its rank when it is ready and when it gets SIGUSR1.
fn started(nodes: &Nodes) -> Running {
    let script = "trap 'echo signal $PMIX_RANK' USR1; echo ready; while :; do sleep 0.1; done";
    let words = [&FOUR[..], &["--nspace", "job@1", "-l", "sh", "-c", script]].concat();
    let mut command = nodes.command(&words);
    let tmp = tempfile::tempdir().unwrap();
    command.env("TMPDIR", tmp.path());
    let mut running = Running::of(command, tmp);
    for _ in 0..4 {
        assert!(running.line().ends_with(": ready"));
    }
    running
}

/// Returns a tool on a node of the job.
fn tool_at(running: &Running, node: &str, args: &[&str]) -> Command {
    let mut command = running.tool_command(args);
    command.env("PMIX_HOSTNAME", node);
    command
}

fn at(running: &Running, node: &str, args: &[&str]) -> Outcome {
    finish(tool_at(running, node, args), b"")
}

#[test]
fn tools_on_each_node_see_and_signal_the_processes_of_all_nodes() {
    let nodes = Nodes::new("");
    let mut running = started(&nodes);
    for node in ["n1", "n2"] {
        let json = at(&running, node, &["--json", "ps"]).json();
        let procs = json["procs"].as_array().unwrap();
        let hosts: Vec<_> = procs
            .iter()
            .map(|row| row["node"].as_str().unwrap())
            .collect();
        assert_eq!(hosts, ["n1", "n2", "n2", "n3"], "{json}");
        let json = at(&running, node, &["--json", "top", "job@1"]).json();
        let rows = json["procs"].as_array().unwrap();
        assert_eq!(rows.len(), 4, "{json}");
        let hosts: Vec<_> = rows
            .iter()
            .map(|row| row["node"].as_str().unwrap())
            .collect();
        assert_eq!(hosts, ["n1", "n2", "n2", "n3"], "{json}");
        for row in rows {
            assert!(row["rss_mb"].as_f64().unwrap() > 0.0, "{json}");
        }
        // Ranks 2 and 3 are on other nodes than the launcher, and on different ones.
        for rank in ["2", "3"] {
            let words = ["kill", "--signal", "USR1", "--ranks", rank, "job@1"];
            let outcome = at(&running, node, &words);
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
            loop {
                let line = running.line();
                // The shell reports the end of its `sleep` on standard error.
                if line.ends_with(&format!(": signal {rank}")) {
                    break;
                }
                assert!(!line.is_empty());
            }
        }
        let outcome = at(&running, node, &["kill", "--ranks", "4", "job@1"]);
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("has no rank 4"),
            "{}",
            outcome.stderr
        );
    }
    let outcome = at(&running, "n2", &["kill", "job@1"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(128 + 15), "{errors}");
}

#[test]
fn tools_on_each_node_get_the_events_of_all_processes() {
    let nodes = Nodes::new("");
    let running = started(&nodes);
    let follow = |node: &'static str| {
        let mut command = tool_at(&running, node, &["events"]);
        command.stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // The first event repeats the start of the job.
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert!(line.contains("PMIX_EVENT_JOB_START job@1"), "{line}");
        (child, output)
    };
    let tools = ["n1", "n2"].map(follow);
    assert_eq!(at(&running, "n3", &["kill", "job@1"]).code, 0);
    for (mut child, mut output) in tools {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).unwrap();
        assert!(child.wait().unwrap().success());
        for rank in 0..4 {
            let said = format!("PMIX_ERR_PROC_KILLED_BY_CMD job@1,{rank}: signal SIGTERM");
            assert!(text.contains(&said), "{text}");
        }
        assert!(text.contains("PMIX_EVENT_JOB_END"), "{text}");
    }
    running.end();
}

#[test]
fn the_report_has_the_figures_of_processes_of_all_nodes() {
    let nodes = Nodes::new("");
    let script = "i=0; while test $i -lt 20000; do i=$((i+1)); done; exec \"$0\" hello -q";
    let program = ["sh", "-c", script, env!("CARGO_BIN_EXE_pmix")];
    let words = [&FOUR[..], &["--report", "--json"], &program].concat();
    let outcome = nodes.run(&words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let json = outcome.json();
    for rank in 0..4 {
        let row = &json["ranks"][rank];
        let figure = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {json}"));
        assert!(figure("cpu_seconds") > 0.0, "{json}");
        assert!(figure("max_rss_bytes") > 1e5, "{json}");
        assert!(figure("init_seconds") > 0.0, "{json}");
    }
    let host = |rank: usize| json["ranks"][rank]["host"].as_str().map(str::to_owned);
    assert_eq!(
        (host(0), host(3)),
        (Some("n1".into()), Some("n3".into())),
        "{json}"
    );
}

// Planted: the output of processes of other nodes was not forwarded.
#[test]
fn tools_at_the_node_of_the_launcher_pull_and_push_for_all_nodes() {
    let nodes = Nodes::new("");
    let script = "echo ready; test $PMIX_RANK = 1 && cat; while :; do sleep 0.1; done";
    let options = ["--forward-io", "--nspace", "job@1", "--stdin", "1"];
    let words = [&FOUR[..], &options, &["sh", "-c", script]].concat();
    let mut command = nodes.command(&words);
    let tmp = tempfile::tempdir().unwrap();
    command.env("TMPDIR", tmp.path());
    let mut running = Running::of(command, tmp);
    for _ in 0..4 {
        assert_eq!(running.line(), "ready");
    }
    let mut attached = running.tool_command(&["attach", "--tag-output", "job@1"]);
    attached.stdout(std::process::Stdio::piped());
    let mut attached = attached.spawn().unwrap();
    let mut output = std::io::BufReader::new(attached.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(&mut output);
    let mut ready: Vec<_> = lines.by_ref().take(4).map(Result::unwrap).collect();
    ready.sort_unstable();
    let expected: Vec<_> = (0..4)
        .map(|rank| format!("[job@1,{rank}]<stdout>: ready"))
        .collect();
    assert_eq!(ready, expected);
    // Rank 1 on n2 reads the input.
    let (tool, _events) = running.attach();
    let reader = vec![Proc::new("job@1", Rank::new(1))];
    let push = |data: &[u8]| {
        tool.iof_push(reader.clone(), Vec::new(), Some(data.to_vec()))
            .wait()
    };
    push(b"pushed\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "[job@1,1]<stdout>: pushed");
    assert_eq!(running.line(), "pushed");
    // The launcher forwards, so tools at the nodes of agents are referred to its node.
    let outcome = at(&running, "n2", &["attach", "job@1"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("attach on the node of the launcher"),
        "{}",
        outcome.stderr
    );
    tool.finalize().unwrap();
    assert_eq!(at(&running, "n1", &["kill", "job@1"]).code, 0);
    assert!(attached.wait().is_ok());
    running.end();
}
