// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix top` with a job of `pmix run`.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::Stdio;

use crate::command::{Running, Watchdog};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value as Json;

const NAME: &str = "measured@1";

/// Starts a job of three processes. Rank 1 is always busy.
fn job() -> Running {
    let script = "echo up; if [ $PMIX_RANK = 1 ]; then while :; do :; done; fi
        while :; do sleep 0.05; done";
    let mut running = Running::start(&[
        "-n",
        "3",
        "--node-name",
        "n1",
        "--nspace",
        NAME,
        "sh",
        "-c",
        script,
    ]);
    for _ in 0..3 {
        assert_eq!(running.line(), "up");
    }
    running
}

fn end(running: Running) {
    assert_eq!(running.tool(&["kill", "--kill", NAME]).code, 0);
    assert_eq!(running.end().0, Some(128 + 9));
}

fn ranks(snapshot: &Json) -> Vec<u64> {
    let procs = snapshot["procs"].as_array().unwrap();
    procs
        .iter()
        .map(|proc| proc["rank"].as_u64().unwrap())
        .collect()
}

#[test]
fn the_largest_users_are_first() {
    let running = job();
    let outcome = running.tool(&["--json", "top", "--count", "3", "--interval", "0.3", NAME]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = outcome.text();
    let snapshots: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(snapshots.len(), 3);
    let last = &snapshots[2];
    assert_eq!(ranks(last)[0], 1, "{last}");
    let ps = running.tool(&["--json", "ps", NAME]).json();
    for proc in last["procs"].as_array().unwrap() {
        let listed = ps["procs"].as_array().unwrap().iter();
        let listed = listed.filter(|listed| listed["rank"] == proc["rank"]);
        let pids: Vec<_> = listed.map(|listed| &listed["pid"]).collect();
        assert_eq!(pids, [&proc["pid"]]);
        assert_eq!(
            (&proc["nspace"], &proc["node"]),
            (&NAME.into(), &"n1".into())
        );
        assert!(proc["rss_mb"].as_f64().unwrap() > 0.0, "{proc}");
        assert!(
            proc["vsize_mb"].as_f64() >= proc["rss_mb"].as_f64(),
            "{proc}"
        );
        assert!(
            proc["command"]
                .as_str()
                .unwrap()
                .starts_with("sh -c echo up;"),
            "{proc}"
        );
    }
    let times: Vec<_> = snapshots
        .iter()
        .map(|snapshot| snapshot["procs"][0]["cpu_seconds"].as_f64().unwrap())
        .collect();
    assert!(times[2] > times[0], "{times:?}");
    let by_rank = running.tool(&["--json", "top", "--sort", "rank"]).json();
    assert_eq!(ranks(&by_rank), [0, 1, 2]);
    end(running);
}

#[test]
fn one_snapshot_is_a_table_where_no_terminal_reads_it() {
    let running = job();
    let outcome = running.tool(&["top", "--sort", "rank", NAME]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let text = outcome.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(
        lines[0].starts_with("server measured@1.server, process "),
        "{text}"
    );
    assert!(lines[1].starts_with("  3 processes, "), "{text}");
    let row: Vec<_> = lines[4].split_whitespace().collect();
    assert_eq!(row[..2], [NAME, "1"]);
    assert!(!text.contains('\u{1b}'));
    end(running);
}

#[test]
fn a_job_or_a_server_that_there_is_not_is_said() {
    let running = job();
    let pid = running.child.id().to_string();
    let outcome = running.tool(&["top", "--pid", &pid, "no-such-job"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("no job \"no-such-job\""),
        "{}",
        outcome.stderr
    );
    let json = running.tool(&["--json", "top", "--pid", &pid, "no-such-job"]);
    assert_eq!(
        (json.code, &json.json_error()["status"]),
        (1, &(-46).into())
    );
    for args in [
        &["top", "--interval", "0"][..],
        &["top", "--count", "0"],
        &["top", "--sort", "name"],
    ] {
        assert_eq!(running.tool(args).code, 2, "{args:?}");
    }
    end(running);
}

#[test]
fn at_a_terminal_snapshots_follow_each_other_until_the_job_ends() {
    let running = job();
    let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&side).unwrap();
    unlockpt(&side).unwrap();
    let name = ptsname(&side, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    // The height for three header lines, one process and the count of the others.
    let size = Winsize {
        ws_row: 6,
        ws_col: 60,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let mut command = running.tool_command(&["top", "--interval", "0.1", NAME]);
    let mut top = { command.stdin(Stdio::null()).stdout(Stdio::from(terminal)) }
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The other side sees the end only after all descriptors are closed.
    drop(command);
    let _watchdog = Watchdog::of(&top);
    let mut screen = File::from(side);
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while seen.matches("\x1b[H").count() < 3 {
        let len = screen.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    let whole = seen.split("\x1b[H").nth(1).unwrap();
    let lines: Vec<_> = whole
        .lines()
        .map(|line| line.replace("\x1b[K", ""))
        .collect();
    assert!(lines[0].starts_with("server measured@1.server"), "{whole}");
    // At 60 columns the command is still shown, instead of some figures.
    assert!(lines[2].trim_end().ends_with(" command"), "{whole}");
    assert!(!lines[2].contains("MB virt"), "{whole}");
    assert!(lines[3].contains(" sh -c echo"), "{whole}");
    assert!(lines[4].contains("2 more"), "{whole}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 60),
        "{whole}"
    );
    end(running);
    // The command ends by itself.
    while screen.read(&mut buffer).is_ok_and(|len| len > 0) {}
    assert_eq!(top.wait().unwrap().code(), Some(0));
}
