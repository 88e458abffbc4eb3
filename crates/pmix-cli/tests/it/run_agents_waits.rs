// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs on several nodes that make no progress: what tools and the launcher report about them. The agents of the nodes
//! run on this machine.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use crate::command::{Outcome, Running};
use crate::run_agents::{FOUR, Nodes, agents, kill};
use crate::run_waits::{heeding_sigquit, stack_tool};

const PMIX: &str = env!("CARGO_BIN_EXE_pmix");

/// Starts four processes on three nodes, of which rank 2 on n2 never calls the fence of the others. `path` precedes the
/// directories of programs.
fn hung(nodes: &Nodes, options: &[&str], path: Option<&str>) -> Running {
    let script = "test $PMIX_RANK = 2 && exec sleep 1000; exec \"$0\" hello";
    let program = ["sh", "-c", script, PMIX];
    let words = [&FOUR[..], &["--nspace", "job@1"], options, &program].concat();
    let mut command = nodes.command(&words);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let tmp = tempfile::tempdir().unwrap();
    command.env("TMPDIR", tmp.path());
    Running::of(heeding_sigquit(command), tmp)
}

/// Repeats a command until its output contains a text.
fn until(running: &Running, args: &[&str], text: &str) -> Outcome {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let outcome = running.tool(args);
        if outcome.text().contains(text) {
            return outcome;
        }
        assert!(Instant::now() < end, "{}{}", outcome.text(), outcome.stderr);
        std::thread::sleep(Duration::from_millis(50));
    }
}

const FENCE: &str = " s: waits for rank 2; called by ranks 0-1, 3";

/// Checks that the report names the missing rank with its node.
fn expect_missing(text: &str) {
    let line = text.lines().find(|line| line.contains("rank 2: "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("rank 2: running, pid "), "{text}");
    let (_, figures) = line.split_once(" on n2, ").unwrap();
    assert!(figures.contains(" % of a processor"), "{text}");
}

#[test]
fn ps_top_and_doctor_name_the_missing_rank_of_another_node() {
    let nodes = Nodes::new("");
    let running = hung(&nodes, &[], None);
    let text = until(&running, &["ps"], FENCE).text();
    expect_missing(&text);
    for (rank, node) in [(0, "n1"), (1, "n2"), (2, "n2"), (3, "n3")] {
        let mut rows = text.lines().map(|line| line.split_whitespace());
        let row = rows.find(|row| row.clone().next() == Some(&rank.to_string()));
        assert!(
            row.is_some_and(|mut row| row.any(|word| word == node)),
            "{text}"
        );
    }
    let json = running.tool(&["--json", "ps"]).json();
    let operation = &json["pending"]["operations"][0];
    assert_eq!(operation["missing"]["num_procs"], 1, "{json}");
    assert_eq!(operation["callers"]["num_procs"], 3, "{json}");
    assert_eq!(
        json["pending"]["silent_nodes"],
        serde_json::json!([]),
        "{json}"
    );
    let text = running.tool(&["top", "--once", "job@1"]).text();
    let line = text
        .lines()
        .find(|line| line.starts_with("  job@1: fence, "));
    assert!(line.is_some_and(|line| line.ends_with(FENCE)), "{text}");
    let json = running.tool(&["--json", "top", "job@1"]).json();
    let procs = json["procs"].as_array().unwrap();
    assert_eq!(procs.len(), 4, "{json}");
    let text = until(&running, &["doctor", "job@1"], "warning  waits").text();
    assert!(text.contains("job@1: 4 processes"), "{text}");
    assert!(text.contains("help: rank 2: running, pid "), "{text}");
    running.signal("TERM");
    running.end();
}

#[test]
fn the_time_limit_names_the_missing_rank_of_another_node() {
    let nodes = Nodes::new("");
    let running = hung(&nodes, &["--timeout", "12"], None);
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(124), "{errors}");
    let line = errors
        .lines()
        .find(|line| line.starts_with("pmix run: job@1: fence, "));
    assert!(line.is_some_and(|line| line.ends_with(FENCE)), "{errors}");
    let rank = errors
        .lines()
        .find(|line| line.starts_with("pmix run: rank 2 (sh, pid "));
    let rank = rank.unwrap_or_else(|| panic!("{errors}"));
    let state = " on n2): has not called PMIx_Init, sleeps, ";
    assert!(rank.contains(state), "{errors}");
}

#[test]
fn stacks_of_processes_on_other_nodes_are_shown_on_request() {
    let dir = stack_tool("echo '#0  0x1 pause'\necho \"#1  0x2 main of $2\"");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let nodes = Nodes::new("");
    let mut running = hung(&nodes, &["--stacks"], Some(&path));
    until(&running, &["ps"], FENCE);
    let expect = |text: &str| {
        let frame = text.lines().find(|line| line.contains("#1  0x2 main of "));
        assert!(frame.is_some() && text.contains(" by eu-stack:"), "{text}");
    };
    // Only the agent there can find the program.
    let text = running.tool(&["ps", "--stacks", "job@1"]).text();
    expect(&text);
    expect_missing(&text);
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    for _ in 0..2 {
        running.signal("QUIT");
        let mut lines = String::new();
        for _ in 0..5 {
            errors.read_line(&mut lines).unwrap();
        }
        expect(&lines);
        assert!(lines.contains(FENCE), "{lines}");
        assert!(lines.contains("pmix run: rank 2 (sh, pid "), "{lines}");
    }
    running.signal("TERM");
    assert_eq!(running.child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn a_node_that_does_not_answer_is_named_and_delays_nothing() {
    let nodes = Nodes::new("");
    let mut running = hung(&nodes, &[], None);
    until(&running, &["ps"], FENCE);
    let stopped = agents(running.child.id())[1];
    kill("STOP", stopped);
    let silent = "node n3 has not answered in time";
    let text = running.tool(&["ps"]).text();
    // The agent of n3 has called before.
    assert!(text.contains(FENCE) && text.contains(silent), "{text}");
    // It is not asked again, so the answer comes at once.
    let began = Instant::now();
    let text = running.tool(&["ps"]).text();
    assert!(text.contains(FENCE) && text.contains(silent), "{text}");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    running.signal("QUIT");
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    let mut lines = String::new();
    for _ in 0..3 {
        errors.read_line(&mut lines).unwrap();
    }
    assert!(lines.contains(FENCE) && lines.contains(silent), "{lines}");
    kill("CONT", stopped);
    let end = Instant::now() + Duration::from_secs(60);
    while running.tool(&["ps"]).text().contains(silent) {
        assert!(Instant::now() < end);
    }
    running.signal("TERM");
    running.child.wait().unwrap();
}
