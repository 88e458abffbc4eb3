// SPDX-License-Identifier: MIT OR Apache-2.0
//! The acts of other tests on two nodes: `there`, which has an agent, and `here`, that of the launcher. The agent is a
//! process of this program on this machine.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use pmix_client::Client;
use pmix_launch::{
    Agents, Cause, Division, Ending, Layout, MemberSettings, NodeSlots, Part, Plan, serve_as_member,
};
use pmix_map::{Limits, NodeList, ProcMap};
use pmix_mca::Params;
use pmix_types::{Rank, Scope, Value};

use crate::actors::{peer, rank};
use crate::stage::{Played, play_plan};

/// Serves the launcher of a test as the agent of a node.
#[test]
#[ignore = "a process of the launchers that the other tests start"]
fn member() {
    use std::os::fd::AsFd as _;
    let settings = MemberSettings {
        open: |_| {
            let params = Params::default();
            let preg = pmix_builtin::open_preg(&params);
            Ok((params, preg.map_err(|error| error.to_string())?))
        },
        watcher: None,
        wrapper: None,
    };
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let link = (
        input.as_fd().try_clone_to_owned().unwrap(),
        output.as_fd().try_clone_to_owned().unwrap(),
    );
    if let Err(error) = serve_as_member(&settings, link) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn slots((name, slots): (&str, u32)) -> NodeSlots {
    let name = name.to_owned();
    NodeSlots { name, slots }
}

/// Plays an act whose first ranks are on the node with the agent. `prelude` is a shell command that precedes the agent.
pub(crate) fn play_there(
    act: &str,
    ranks: (&str, u32),
    prelude: &str,
    vars: &[(&str, &Path)],
    change: impl FnOnce(&mut Plan),
) -> Played {
    let (ranks, num_procs) = ranks;
    play_plan(act, num_procs, vars, |plan| {
        let limits = Limits::default();
        // A node without processes is not part of a job.
        let (names, ranks) = match ranks.strip_prefix(';') {
            Some(ranks) => ("here", ranks),
            None => ("there,here", ranks),
        };
        let nodes = NodeList::parse_text(names.as_bytes(), &limits).unwrap();
        let procs = ProcMap::parse_text(ranks.as_bytes(), &limits).unwrap();
        plan.layout = Layout::of_nodes(b"here", nodes, procs).unwrap();
        // The name of the node is the first argument of the script.
        let script = format!("node=$1; shift; {prelude}\nexec \"$@\"");
        let exe = std::env::current_exe().unwrap();
        let member = ["--exact", "several::member", "--ignored", "--nocapture"];
        let member = member.into_iter().map(OsString::from);
        plan.part = Part::Controller(Agents {
            reach: ["sh", "-c", &script, "sh"].map(OsString::from).to_vec(),
            command: std::iter::once(exe.into()).chain(member).collect(),
            start_timeout: Duration::from_secs(60),
            nodes: [("there", 2), ("here", 2)].map(slots).to_vec(),
            division: Division::default(),
        });
        change(plan);
    })
}

fn ends_well(act: &str, ranks: (&str, u32), vars: &[(&str, &Path)]) -> Played {
    let played = play_there(act, ranks, ":", vars, |_| {});
    assert_eq!(played.outcome.cause, None, "{act}: {}", played.errors);
    played
}

#[test]
fn requests_of_processes_on_other_nodes_are_served() {
    for (act, ranks) in [
        ("publish", ("0;1", 2)),
        ("publish", ("1;0", 2)),
        ("credentials", ("0;1", 2)),
        ("directories", ("0-1;2", 3)),
        ("leave", ("0-1;2", 3)),
    ] {
        ends_well(act, ranks, &[]);
    }
    // The launcher shows the standard error of a process once, as its own.
    let played = ends_well("sets", ("0;1-2", 3), &[]);
    assert_eq!(played.errors, "");
}

#[test]
fn the_table_has_the_processes_of_all_nodes() {
    let played = ends_well("table", ("0;1", 2), &[]);
    let ranks = played.outcome.ranks.iter();
    let expected: Vec<_> = ranks.map(|r| format!("{} {}", r.rank, r.pid)).collect();
    assert_eq!(played.output.lines().collect::<Vec<_>>(), expected);
    let hosts: Vec<_> = played
        .outcome
        .ranks
        .iter()
        .map(|r| r.host.clone())
        .collect();
    assert_eq!(hosts, [b"there".to_vec(), b"here".to_vec()]);
}

#[test]
fn monitors_belong_to_the_node_of_their_process_and_their_events_reach_all() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("steps");
    std::fs::write(&file, "1").unwrap();
    let played = ends_well("watch", ("0;1", 2), &[("PLACE", &file)]);
    let path = file.display();
    assert_eq!(
        played.output,
        format!("told to 0: m1 of 0 at {path}\ntold to 1: m1 of 0 at {path}\n")
    );
}

#[test]
fn logs_of_other_nodes_appear_in_the_output_of_the_launcher() {
    let played = ends_well("log", ("0;1", 2), &[]);
    assert_eq!(played.output, "to output of 0\nto output of 1\n");
    assert_eq!(played.errors, "to errors of 0\nto errors of 1\n");
}

#[test]
fn aborts_and_failures_of_other_nodes_end_the_job() {
    for (act, ranks, message) in [
        ("abort", ("0-1;2", 3), "no more fuel"),
        ("pmi_abort", ("1;0", 2), "no more fuel"),
    ] {
        let played = play_there(act, ranks, ":", &[], |_| {});
        let expected = Cause::Aborted {
            rank: Rank::new(1),
            status: 7,
            message: message.to_owned(),
        };
        assert_eq!(
            played.outcome.cause,
            Some(expected),
            "{act}: {}",
            played.errors
        );
    }
    let played = play_there("vanish", ("0-1;2", 3), ":", &[], |_| {});
    let rank = Rank::new(1);
    let cause = played.outcome.cause.clone();
    assert_eq!(
        cause,
        Some(Cause::NotFinalized { rank }),
        "{}",
        played.errors
    );
    // A barrier fails when a process of another node is lost, and the job continues.
    let played = play_there("pmi_lost", ("1;0", 2), ":", &[], |_| {});
    let killed = Ending::Signalled {
        signal: 9,
        core: false,
    };
    assert_eq!(played.outcome.ranks[1].ending, killed, "{}", played.errors);
}

#[test]
fn a_process_can_terminate_one_of_another_node() {
    let played = play_there("control", ("1;0", 2), ":", &[], |_| {});
    let killed = Ending::Signalled {
        signal: 15,
        core: false,
    };
    assert_eq!(played.outcome.ranks[1].ending, killed, "{}", played.errors);
    assert!(
        played.output.contains("asked and done"),
        "{}",
        played.errors
    );
}

// Planted: data of a node that has not answered was not waited for.
#[test]
fn a_get_waits_for_a_node_that_starts_late() {
    let played = play_there("fetch", ("1;0", 2), "sleep 1", &[], |_| {});
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

/// Plays an act of the tests of several nodes.
pub(crate) fn act(name: &str, client: Client) {
    match name {
        "spread" => crate::spread::spread(client),
        _ => fetch(client),
    }
}

/// Each rank gets the data of the other without a fence.
fn fetch(client: Client) {
    let own = rank(&client);
    client.put(Scope::GLOBAL, "card", own).unwrap();
    client.commit().unwrap();
    let other = 1 - own;
    let found = client
        .get(&peer(&client, other), "card", &[])
        .wait()
        .unwrap();
    assert_eq!(found, Value::from(other));
    // The other one may still ask for the data of this one.
    client.fence([], []).wait().unwrap();
    client.finalize().unwrap();
}

#[test]
fn errors_of_processes_are_shown_once_and_warnings_of_agents_with_their_node() {
    let played = play_there("no_such_act", ("0;1", 2), ":", &[], |plan| {
        plan.keep_going = true
    });
    let said = played
        .errors
        .matches("no act is called no_such_act")
        .count();
    assert_eq!(said, 2, "{}", played.errors);
    assert!(!played.errors.contains("node there"), "{}", played.errors);
}

#[test]
fn a_collective_of_several_nodes_that_waits_for_long_is_reported_once() {
    let place = tempfile::tempdir().unwrap();
    let vars = [("PLACE", place.path()), ("DELAY", Path::new("3000"))];
    let played = play_there("late", ("1;0,2", 3), ":", &vars, |plan| {
        plan.diagnosis.notice_after = Some(Duration::from_secs(1));
    });
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let lines = played.errors.lines();
    let notices: Vec<_> = lines
        .filter(|line| line.starts_with("pmix run: fence, "))
        .collect();
    let named =
        |line: &&str| line.contains(" s: waits for rank 1; called by ranks 0, 2 (`pmix ps`");
    assert_eq!(notices.len(), 2, "{}", played.errors);
    assert!(notices.iter().all(named), "{}", played.errors);
}

#[test]
fn warnings_of_an_agent_are_shown_with_its_node() {
    let prelude = "(sleep 0.3; echo 'pmix node: a warning' >&2) &";
    let played = play_there("fetch", ("1;0", 2), prelude, &[], |plan| {
        plan.apps[0].program = "sleep".into();
        plan.apps[0].args = vec!["2".into()];
    });
    assert_eq!(played.errors, "pmix run: node there: a warning\n");
}

#[test]
fn what_needs_one_node_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused = std::panic::catch_unwind(|| {
        play_there("leave", ("0;1", 2), ":", &[("PLACE", dir.path())], |plan| {
            plan.max_restarts = 1
        })
    });
    let why = *refused.err().unwrap().downcast::<String>().unwrap();
    assert!(
        why.contains("restarting processes (--max-restarts) is not available"),
        "{why}"
    );
}
