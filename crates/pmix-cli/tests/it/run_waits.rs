// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that make no progress: what `pmix ps` and the launcher report about them.

use std::time::{Duration, Instant};

use crate::command::{Outcome, Running};

/// Starts four processes of which rank 1 never calls the fence of the others.
fn hung(options: &[&str]) -> Running {
    let script = "test $PMIX_RANK = 1 && exec sleep 1000; exec \"$0\" hello";
    let common = ["-n", "4", "--node-name", "n1", "--nspace", "job@1"];
    let program = ["sh", "-c", script, env!("CARGO_BIN_EXE_pmix")];
    Running::start(&[&common, options, &program].concat())
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

#[test]
fn ps_names_the_fence_and_the_rank_that_has_not_called() {
    let running = hung(&[]);
    let outcome = until(&running, &["ps"], "called by ranks 0, 2-3");
    let text = outcome.text();
    let fence = text.lines().find(|line| line.contains("fence, ")).unwrap();
    assert!(fence.contains(" s: waits for rank 1; "), "{text}");
    let rank = text.lines().find(|line| line.contains("rank 1: ")).unwrap();
    assert!(rank.contains("rank 1: running, pid "), "{text}");
    assert!(rank.contains(" on n1, 0.0 % of a processor"), "{text}");
    let outcome = running.tool(&["--json", "ps"]);
    let pending = &outcome.json()["pending"];
    let operation = &pending["operations"][0];
    assert_eq!(operation["operation"], "fence", "{pending}");
    let missing = serde_json::json!({
        "num_procs": 1,
        "runs": [{"nspace": "job@1", "first": 1, "last": 1}],
    });
    assert_eq!(operation["missing"], missing, "{pending}");
    assert_eq!(operation["callers"]["num_procs"], 3, "{pending}");
    assert!(operation["seconds"].as_f64().unwrap() < 60.0, "{pending}");
    running.signal("TERM");
    running.end();
}
