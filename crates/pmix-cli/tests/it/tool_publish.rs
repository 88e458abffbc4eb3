// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix publish` and `pmix lookup` with a job of `pmix run`.

use std::thread;

use crate::command::finish;
use crate::command::launcher::Running;

fn job() -> Running {
    let mut running = Running::start(&[
        "-n",
        "1",
        "--node-name",
        "n1",
        "sh",
        "-c",
        "echo up; sleep 60",
    ]);
    assert_eq!(running.line(), "up");
    running
}

fn end(running: Running) {
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn published_data_is_found_by_other_tools() {
    let running = job();
    let outcome = running.tool(&["publish", "ocean=tcp://n01:5555", "ice=a=b"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let found = running.tool(&["lookup", "ice", "ocean"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    assert_eq!(found.text(), "ice: a=b\nocean: tcp://n01:5555");
    let json = running.tool(&["--json", "lookup", "ocean"]).json();
    assert_eq!(json["value"]["data"], "tcp://n01:5555");
    assert_eq!(json["value"]["type"], "PMIX_STRING");
    assert!(
        json["publisher"]["nspace"]
            .as_str()
            .unwrap()
            .contains(".tool.")
    );
    // Published and missing keys.
    let outcome = running.tool(&["lookup", "land", "ice"]);
    assert_eq!((outcome.code, outcome.text().as_str()), (1, "ice: a=b"));
    assert!(outcome.stderr.contains("\"land\""), "{}", outcome.stderr);
    let outcome = running.tool(&["--json", "lookup", "land"]);
    assert_eq!(
        (outcome.code, &outcome.json()["status"]),
        (1, &(-46).into())
    );
    let once = running.tool(&["publish", "--keep", "first-read", "once=1"]);
    assert_eq!(once.code, 0);
    assert_eq!(running.tool(&["lookup", "once"]).text(), "once: 1");
    assert_eq!(running.tool(&["lookup", "once"]).code, 1);
    for word in ["ocean", "=x"] {
        let outcome = running.tool(&["publish", word]);
        assert_eq!(outcome.code, 2);
        assert!(outcome.stderr.contains("KEY=TEXT"), "{}", outcome.stderr);
    }
    let long = |len: usize| "k".repeat(len);
    let longest = format!("{}=", long(511));
    assert_eq!(running.tool(&["publish", &longest]).code, 0);
    let found = running.tool(&["lookup", &long(511)]);
    assert_eq!((found.code, found.text()), (0, format!("{}: ", long(511))));
    for (args, why) in [
        (
            ["publish", &format!("{}=x", long(512))],
            "at most 511 bytes",
        ),
        (["lookup", &long(512)], "at most 511 bytes"),
        (["lookup", ""], "at least one byte"),
        // The directive is for publish only.
        (
            ["publish", "pmix.timeout=1"],
            "reserved for keys of the PMIx Standard",
        ),
    ] {
        let outcome = running.tool(&args);
        assert_eq!(outcome.code, 2, "{args:?}");
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    end(running);
}

#[test]
fn a_lookup_waits_for_data_until_its_timeout() {
    let running = job();
    let waits = running.tool_command(&["lookup", "--wait", "60", "late"]);
    let waiting = thread::spawn(move || finish(waits, b""));
    // The lookup must find the key in either order.
    assert_eq!(running.tool(&["publish", "late=here"]).code, 0);
    let found = waiting.join().unwrap();
    assert_eq!((found.code, found.text().as_str()), (0, "late: here"));
    let never = running.tool(&["--json", "lookup", "--wait", "0.1", "never"]);
    assert_eq!((never.code, &never.json()["status"]), (1, &(-24).into()));
    end(running);
}
