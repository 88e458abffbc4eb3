// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of tools that show and control the jobs of all servers of a node: those of one user, and for root those of
//! every user.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::command::{Outcome, Running, Watchdog, finish};

const SCRIPT: &str = "echo up; while :; do sleep 0.05; done";

/// Returns the command line of a job with one process that runs until it is terminated.
fn words(name: &str) -> [&str; 9] {
    [
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        name,
        "sh",
        "-c",
        SCRIPT,
    ]
}

/// Starts two jobs of two servers.
pub(crate) fn jobs(first: &str, second: &str) -> (Running, Running) {
    let mut first = Running::start(&words(first));
    assert_eq!(first.line(), "up");
    let mut second = first.start_beside(&words(second));
    assert_eq!(second.line(), "up");
    (first, second)
}

fn lines_of_json(outcome: &Outcome) -> Vec<Json> {
    let text = outcome.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn top_shows_the_processes_of_all_servers_in_one_table() {
    let (first, second) = jobs("first@1", "second@1");
    let outcome = first.tool(&["top", "--once", "--sort", "rank"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = outcome.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "2 servers");
    assert!(lines[1].starts_with("  2 processes, "), "{text}");
    for (line, job, running) in [
        (lines[3], "first@1", &first),
        (lines[4], "second@1", &second),
    ] {
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            cells[..3],
            [job, &running.child.id().to_string(), "0"],
            "{text}"
        );
    }
    let servers = lines_of_json(&first.tool(&["--json", "top"]));
    let mut names: Vec<_> = servers
        .iter()
        .map(|line| line["procs"][0]["nspace"].clone())
        .collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["first@1", "second@1"]);
    let both = first.tool(&["kill", "first@1", "second@1"]);
    assert_eq!((both.code, both.stderr.as_str()), (0, ""));
    assert_eq!(second.end().0, Some(128 + 15));
    assert_eq!(first.end().0, Some(128 + 15));
}

#[test]
fn top_names_a_server_that_does_not_reply_and_shows_the_others() {
    let (first, second) = jobs("first@1", "second@1");
    second.signal("STOP");
    let outcome = first.tool(&["top", "--once", "--timeout", "3600"]);
    let json = first.tool(&["--json", "top", "--timeout", "3600"]);
    second.signal("CONT");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = outcome.text();
    let silent = format!(
        "  server second@1.server, process {}: no reply yet",
        second.child.id()
    );
    assert!(text.lines().any(|line| line == silent), "{text}");
    assert!(text.contains(" first@1 "), "{text}");
    let silent = lines_of_json(&json)
        .into_iter()
        .find(|line| line["error"] == "no reply yet");
    assert_eq!(silent.unwrap()["server"], "second@1.server");
    assert_eq!(first.tool(&["kill", "second@1", "first@1"]).code, 0);
    assert_eq!(second.end().0, Some(128 + 15));
    assert_eq!(first.end().0, Some(128 + 15));
}

#[test]
fn a_job_that_cannot_be_killed_does_not_keep_the_others_alive() {
    let (first, second) = jobs("first@1", "second@1");
    let outcome = first.tool(&["kill", "nosuch@1", "first@1", "second@1"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("1 of 3 jobs: "),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("\"nosuch@1\""),
        "{}",
        outcome.stderr
    );
    assert_eq!(second.end().0, Some(128 + 15));
    assert_eq!(first.end().0, Some(128 + 15));

    let (first, second) = jobs("first@1", "second@1");
    let outcome = first.tool(&["--json", "kill", "first@1", "nosuch@1", "second@1"]);
    assert_eq!(outcome.code, 1);
    let lines = lines_of_json(&outcome);
    let names: Vec<_> = lines
        .iter()
        .map(|line| line["nspace"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["first@1", "nosuch@1", "second@1"]);
    assert_eq!(
        (&lines[0]["status"], &lines[2]["status"]),
        (&0.into(), &0.into())
    );
    // Once the first job has ended, the only server left refuses the name.
    let is_refused = lines[1]["error"].is_string() || lines[1]["status"] != 0;
    assert!(is_refused, "{lines:?}");
    assert_eq!(second.end().0, Some(128 + 15));
    assert_eq!(first.end().0, Some(128 + 15));
}

#[test]
fn events_of_servers_that_start_later_are_shown_until_the_last_server_ends() {
    let mut first = Running::start(&words("first@1"));
    assert_eq!(first.line(), "up");
    let mut events = first.tool_command(&["events"]);
    let mut events = events
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::of(&events);
    let mut lines = BufReader::new(events.stdout.take().unwrap()).lines();
    let mut line = || lines.next().map(Result::unwrap).unwrap_or_default();
    assert!(line().ends_with(" PMIX_EVENT_JOB_START first@1"));
    let mut second = first.start_beside(&words("second@1"));
    assert_eq!(second.line(), "up");
    let pid = second.child.id();
    let of_second = format!(" (server second@1.server, process {pid})");
    let start = line();
    assert!(
        start.ends_with(&format!(" PMIX_EVENT_JOB_START second@1{of_second}")),
        "{start}"
    );
    assert_eq!(first.tool(&["kill", "second@1"]).code, 0);
    assert_eq!(second.end().0, Some(128 + 15));
    assert!(line().contains("PMIX_ERR_PROC_KILLED_BY_CMD second@1,0"));
    assert!(line().contains("PMIX_EVENT_JOB_END second@1,0"));
    // One server is left.
    assert_eq!(first.tool(&["kill", "first@1"]).code, 0);
    assert!(line().contains("PMIX_ERR_PROC_KILLED_BY_CMD first@1,0"));
    assert!(line().contains("PMIX_EVENT_JOB_END first@1,0"));
    assert_eq!(line(), "");
    assert_eq!(events.wait().unwrap().code(), Some(0));
    assert_eq!(first.end().0, Some(128 + 15));
}

#[test]
fn ps_shows_the_state_right_after_a_pause_and_a_resume() {
    let script = "echo up; exec sleep 1000";
    let args = [
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        "paused@1",
        "sh",
        "-c",
        script,
    ];
    let mut running = Running::start(&args);
    assert_eq!(running.line(), "up");
    let stopped = || {
        let procs = running.tool(&["--json", "ps", "paused@1"]).json();
        procs["procs"][0]["stopped"].clone()
    };
    for (option, expected) in [("--pause", true), ("--resume", false)] {
        // The measurement before the signal would still be shown for a quarter of a second.
        assert_eq!(stopped(), !expected);
        let began = Instant::now();
        assert_eq!(running.tool(&["kill", option, "paused@1"]).code, 0);
        // A busy processor may deliver the signal late.
        while stopped() != expected {
            assert!(began.elapsed() < Duration::from_secs(60), "{option}");
        }
    }
    assert_eq!(running.tool(&["kill", "--kill", "paused@1"]).code, 0);
    assert_eq!(running.end().0, Some(128 + 9));
}

/// Users that are neither root nor the user of the tests.
pub(crate) const USERS: [u32; 2] = [54_321, 54_322];

/// A node on which other users run jobs. The command is where they can execute it.
pub(crate) struct Node {
    root: TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        let node = Self { root };
        fs::create_dir(node.tmp()).unwrap();
        fs::set_permissions(node.tmp(), Permissions::from_mode(0o1777)).unwrap();
        // Another process writes the copy: a file that this process writes cannot be executed while a child of another
        // thread inherits its descriptor.
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_pmix")).arg(node.program());
        assert!(copy.status().unwrap().success());
        node
    }

    fn tmp(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.root.path().join("pmix")
    }

    /// Returns a command of a user.
    pub(crate) fn command(&self, user: u32, args: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.args(args).env_clear().env("HOME", "/nonexistent");
        command
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", self.tmp());
        command.env("PMIX_HOSTNAME", "n1").current_dir("/");
        if user != 0 {
            command.uid(user).gid(user);
        }
        command
    }

    pub(crate) fn start(&self, user: u32, name: &str) -> Running {
        // The launcher has its session directory in the shared directory, which the guard does not empty.
        let args = [&["run"][..], &words(name)].concat();
        let mut running = Running::of(self.command(user, &args), TempDir::new().unwrap());
        assert_eq!(running.line(), "up");
        running
    }

    pub(crate) fn tool(&self, user: u32, args: &[&str]) -> Outcome {
        finish(self.command(user, args), b"")
    }
}

#[test]
#[ignore = "needs root"]
fn root_finds_and_controls_the_jobs_of_all_users_and_users_only_their_own() {
    let node = Node::new();
    let first = node.start(USERS[0], "first@1");
    let second = node.start(USERS[1], "second@1");
    // A third user claims the server of the first one.
    let names = fs::read_dir(node.tmp())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let of_first = names.filter(|path| path.to_string_lossy().contains(&USERS[0].to_string()));
    let file = format!("pmix.n1.tool.{}", first.child.id());
    let file = { of_first }
        .map(|path| path.join(&file))
        .find(|path| path.exists())
        .unwrap();
    // Another name, so that the file is not that of a server which was found already.
    let text = fs::read_to_string(file).unwrap();
    let planted = node.tmp().join("pmix.n1.tool.7");
    fs::write(
        &planted,
        text.replacen("first@1.server", "planted@1.server", 1),
    )
    .unwrap();
    chown(&planted, Some(54_323), Some(54_323)).unwrap();

    let text = node.tool(0, &["ps"]).text();
    assert!(!text.contains("planted@1"), "{text}");
    for (user, running, name) in [
        (USERS[0], &first, "first@1"),
        (USERS[1], &second, "second@1"),
    ] {
        let pid = running.child.id();
        let server = format!("server {name}.server, process {pid}, user {user}\n  job {name}\n");
        assert_eq!(text.matches(&server).count(), 1, "{text}");
        let own = node.tool(user, &["ps"]).text();
        let server = format!("server {name}.server, process {pid}\n  job {name}\n");
        assert!(
            own.starts_with(&server) && own.matches("server ").count() == 1,
            "{own}"
        );
    }
    let users = lines_of_json(&node.tool(0, &["--json", "ps"]));
    let mut users: Vec<_> = users
        .iter()
        .map(|line| line["user"].as_u64().unwrap())
        .collect();
    users.sort_unstable();
    assert_eq!(users, USERS.map(u64::from));
    let top = node.tool(0, &["top", "--once"]).text();
    assert!(
        top.contains("  first@1 ") && top.contains("  second@1 "),
        "{top}"
    );
    let start = ["events", "--count", "1", "--code", "EVENT_JOB_START"];
    assert!(
        node.tool(0, &start)
            .text()
            .contains("PMIX_EVENT_JOB_START ")
    );
    let size = node
        .tool(0, &["--json", "query", "--nspace", "second@1", "JOB_SIZE"])
        .json();
    assert_eq!(size["answers"][0]["value"]["data"], 1);
    let about = node.tool(0, &["doctor", "first@1"]);
    assert!(
        about.text().contains("first@1"),
        "{} {}",
        about.text(),
        about.stderr
    );
    let pid = second.child.id().to_string();
    assert_eq!(
        node.tool(0, &["kill", "--pid", &pid, "--pause", "second@1"])
            .code,
        0
    );
    assert_eq!(node.tool(0, &["kill", "--resume", "second@1"]).code, 0);

    let refused = node.tool(USERS[0], &["kill", "second@1"]);
    assert_eq!(refused.code, 1);
    assert_eq!(node.tool(0, &["kill", "first@1", "second@1"]).code, 0);
    assert_eq!(second.end().0, Some(128 + 15));
    assert_eq!(first.end().0, Some(128 + 15));
}

#[test]
#[ignore = "needs root"]
fn jobs_of_other_users_do_not_replace_the_default_server_of_root() {
    let node = Node::new();
    let other = node.start(USERS[0], "other@1");
    // Data of root do not go to the server of another user.
    let published = node.tool(0, &["publish", "key=text"]);
    assert_eq!(published.code, 1, "{}", published.text());
    let own = node.start(0, "own@1");
    let published = node.tool(0, &["publish", "key=text"]);
    assert_eq!((published.code, published.stderr.as_str()), (0, ""));
    let names = node.tool(0, &["query", "QUERY_NAMESPACES"]).text();
    assert_eq!(names, "pmix.qry.ns: own@1");
    assert_eq!(node.tool(0, &["kill", "other@1", "own@1"]).code, 0);
    assert_eq!(own.end().0, Some(128 + 15));
    assert_eq!(other.end().0, Some(128 + 15));
}

#[test]
#[ignore = "needs root"]
fn a_process_of_another_user_is_refused_with_both_users_named() {
    let node = Node::new();
    let program = node.program();
    let user = USERS[0].to_string();
    let args = [
        "run",
        "--nspace",
        "job@1",
        "-n",
        "1",
        "setpriv",
        "--reuid",
        &user,
        "--clear-groups",
    ];
    let outcome = node.tool(
        0,
        &[&args[..], &[program.to_str().unwrap(), "hello"]].concat(),
    );
    assert_eq!(outcome.code, 1);
    let launcher = format!(
        "pmix run: warning: a connection was rejected: rank 0 of job@1 is a process of user 0, but a process of user \
         {user} connected as it\n"
    );
    assert!(outcome.stderr.contains(&launcher), "{}", outcome.stderr);
    let client = format!("this process, which user {user} runs: it expects user 0, ");
    assert!(outcome.stderr.contains(&client), "{}", outcome.stderr);
}

#[test]
#[ignore = "needs root"]
fn a_job_runs_in_an_image_without_the_null_device() {
    let node = Node::new();
    let image = node.root.path();
    let linked = Command::new("ldd").arg(node.program()).output().unwrap();
    let linked = String::from_utf8(linked.stdout).unwrap();
    let libraries = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in libraries.chain(["/bin/true"]) {
        let copy = image.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        assert!(
            Command::new("cp")
                .arg(library)
                .arg(copy)
                .status()
                .unwrap()
                .success()
        );
    }
    fs::create_dir(image.join("proc")).unwrap();
    let mut chroot = Command::new("chroot");
    chroot.arg(image).args([
        "/pmix",
        "run",
        "-n",
        "2",
        "--node-name",
        "n1",
        "/pmix",
        "hello",
    ]);
    chroot
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .env("TMPDIR", "/tmp");
    let outcome = finish(chroot, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut lines: Vec<_> = outcome.text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "rank 0 of 2 on n1: 2 peers replied",
            "rank 1 of 2 on n1: 2 peers replied"
        ]
    );
}
