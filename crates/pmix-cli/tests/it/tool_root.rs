// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of root's tools among the servers of other users, which can take any name and report anything.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::command::{Outcome, Running, finish};
use crate::run_waits::stack_tool;
use crate::tool_node::{Node, USERS};

/// The exit code after `pmix kill`.
const TERMINATED: Option<i32> = Some(128 + 15);

#[test]
#[ignore = "needs root"]
fn a_query_of_root_uses_a_server_of_another_user_only_if_that_is_named() {
    let node = Node::new();
    let other = node.start(USERS[0], "other@1");
    let pid = other.child.id().to_string();
    let query = ["query", "QUERY_NAMESPACES"];
    let refused = node.tool(0, &query);
    assert_eq!((refused.code, &*refused.text()), (1, ""));
    for said in [
        "no server of this user has a rendezvous file; 1 server of other users:",
        &format!("other@1.server, process {pid}, user {}", USERS[0]),
        "select one with --server NAME or --pid N; `pmix ps` lists their jobs",
    ] {
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    for selection in [["--server", "other@1.server"], ["--pid", &pid]] {
        let named = node.tool(0, &[&query[..], &selection].concat());
        assert_eq!(named.text(), "pmix.qry.ns: other@1", "{}", named.stderr);
    }
    // The name of a job selects its server, too.
    let of_job = node.tool(0, &["query", "--nspace", "other@1", "JOB_SIZE"]);
    assert_eq!(of_job.code, 0, "{}", of_job.stderr);
    // A user without a server does not learn of those of others.
    let nothing = node.tool(USERS[1], &query);
    assert!(!nothing.stderr.contains("other@1"), "{}", nothing.stderr);
    assert_eq!(node.tool(0, &["kill", "other@1"]).code, 0);
    assert_eq!(other.end().0, TERMINATED);
}

#[test]
#[ignore = "needs root"]
fn a_job_of_root_precedes_one_that_another_user_gives_the_same_name() {
    let node = Node::new();
    let claimed = node.start(USERS[0], "own@1");
    let own = node.start(0, "own@1");
    let pid = own.child.id().to_string();
    // Each of these commands would name several servers, or the wrong one, if the claim counted.
    let about = node.tool(
        0,
        &["--json", "query", "--nspace", "own@1", "QUERY_PROC_TABLE"],
    );
    let table = about.text();
    let pid_of = |text: &str| {
        let rank = node
            .tool(0, &["--json", "ps", "--pid", text, "own@1"])
            .json();
        rank["procs"][0]["pid"].to_string()
    };
    let (rank, other) = (pid_of(&pid), pid_of(&claimed.child.id().to_string()));
    assert!(table.contains(&rank) && !table.contains(&other), "{table}");
    for args in [&["doctor", "own@1"][..], &["top", "--once", "own@1"]] {
        let outcome = node.tool(0, args);
        assert!(
            !outcome.stderr.contains("several"),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(
            !outcome.stderr.contains("servers have a job"),
            "{args:?}: {}",
            outcome.stderr
        );
    }
    let top = node.tool(0, &["top", "--once", "own@1"]).text();
    assert!(top.contains(&rank) && !top.contains(&other), "{top}");
    let looked_up = node.tool(0, &["publish", "key=text"]);
    assert_eq!(looked_up.code, 0, "{}", looked_up.stderr);
    let not_there = node.tool(USERS[0], &["lookup", "key"]);
    assert_eq!(
        not_there.code, 1,
        "data of root went to the server of another user"
    );
    assert_eq!(node.tool(0, &["kill", "own@1"]).code, 0);
    assert_eq!(own.end().0, TERMINATED);
    // The other job goes on.
    let text = node.tool(USERS[0], &["ps"]).text();
    assert!(text.contains("job own@1"), "{text}");
    assert_eq!(node.tool(USERS[0], &["kill", "own@1"]).code, 0);
    assert_eq!(claimed.end().0, TERMINATED);
}

// A server of another user may name any process, which a debugger of root would read.
#[test]
#[ignore = "needs root"]
fn root_reads_no_stack_of_a_process_that_a_server_of_another_user_names() {
    let node = Node::new();
    let tools = stack_tool("echo '#0  0x1 pause'\necho \"#1  0x2 main of $2\"");
    fs::set_permissions(tools.path(), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    let script = "test $PMIX_RANK = 1 && exec sleep 1000; exec \"$0\" hello";
    let program = node.program();
    let program = program.to_str().unwrap();
    let start = |user, name: &str| {
        let options = ["run", "-n", "2", "--node-name", "n1", "--nspace", name];
        let args = [&options[..], &["sh", "-c", script, program]].concat();
        Running::of(node.command(user, &args), TempDir::new().unwrap())
    };
    let (own, other) = (start(0, "own@1"), start(USERS[0], "other@1"));
    let shown = |args: &[&str]| -> Outcome {
        let mut tool = node.command(0, args);
        tool.env("PATH", &path);
        finish(tool, b"")
    };
    let begun = Instant::now();
    let both = loop {
        let text = shown(&["ps", "--stacks"]).text();
        if text.matches("called by rank 0").count() == 2 {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
    };
    assert_eq!(both.matches("main of ").count(), 1, "{both}");
    let of_own = both.find("job own@1").unwrap();
    let of_other = both.find("job other@1").unwrap();
    let stack = both.find("main of ").unwrap();
    assert_eq!(
        of_own < stack,
        (of_own > of_other) || stack < of_other,
        "{both}"
    );
    for (name, has_stack) in [("own@1", true), ("other@1", false)] {
        for args in [&["ps", "--stacks", name][..], &["doctor", "--stacks", name]] {
            let text = shown(args).text();
            assert!(text.contains("rank 1"), "{args:?}: {text}");
            assert_eq!(text.contains("main of "), has_stack, "{args:?}: {text}");
        }
    }
    let killed = node.tool(0, &["kill", "--kill", "own@1", "other@1"]);
    assert_eq!(killed.code, 0, "{}", killed.stderr);
    assert_eq!(own.end().0, Some(128 + 9));
    assert_eq!(other.end().0, Some(128 + 9));
}

// A message of another user's server is shorter if root follows all servers, so that many of them cannot exhaust memory.
#[test]
#[ignore = "needs root"]
fn top_of_root_refuses_long_replies_of_other_users_and_shows_the_rest() {
    let node = Node::new();
    let own = node.start(0, "own@1");
    // Each process has its command line in the reply, and `top` shows at most half a megabyte.
    let name = "n".repeat(200);
    let num_procs = "900";
    let mut crowd = Running::of(
        node.command(
            USERS[0],
            &[
                "run",
                "-n",
                num_procs,
                "--node-name",
                "n1",
                "--nspace",
                &name,
                "sh",
                "-c",
                "test $PMIX_RANK != 899 || echo up; exec sleep \"$0\" $1",
                "1000",
                &" 1000".repeat(200),
            ],
        ),
        TempDir::new().unwrap(),
    );
    assert_eq!(crowd.line(), "up");
    let top = node.tool(0, &["top", "--once"]);
    assert_eq!(top.code, 0, "{}", top.stderr);
    assert!(top.text().contains("  own@1 "), "{}", top.text());
    let text = top.text().replace(&name, "crowd");
    assert!(!text.contains("1000"), "{} lines", text.lines().count());
    let server = format!("crowd.server, process {}", crowd.child.id());
    assert!(text.contains(&server), "its server is named: {text}");
    // The server alone has more room.
    let pid = crowd.child.id().to_string();
    let alone = node.tool(0, &["top", "--once", "--pid", &pid]);
    assert!(alone.text().lines().count() > 900, "{}", alone.stderr);
    assert_eq!(node.tool(0, &["kill", "--kill", "own@1", &name]).code, 0);
    assert_eq!(crowd.end().0, Some(128 + 9));
    assert_eq!(own.end().0, Some(128 + 9));
}
