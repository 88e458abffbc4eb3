// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a collective that waits for long.

use std::time::Duration;

use pmix_client::Client;

use crate::stage::play_plan;

/// Calls two fences, each a second late if the rank is 1.
pub(crate) fn late(client: Client) {
    for _ in 0..2 {
        if client.proc().rank.as_raw() == 1 {
            std::thread::sleep(Duration::from_secs(1));
        }
        client.fence([], &[]).wait().unwrap();
    }
    client.finalize().unwrap();
}

#[test]
fn a_collective_that_waits_for_long_is_reported_once() {
    let after = |notice_after: Option<Duration>| {
        let played = play_plan("late", 3, &[], |plan| {
            plan.diagnosis.notice_after = notice_after;
        });
        assert_eq!(played.outcome.cause, None, "{}", played.errors);
        let lines = played.errors.lines();
        let notices = lines.filter(|line| line.starts_with("pmix run: fence, "));
        let notices: Vec<_> = notices.map(str::to_owned).collect();
        let named = |line: &String| line.contains(" s: waits for rank 1; called by ranks 0, 2 (");
        assert!(notices.iter().all(named), "{}", played.errors);
        notices.len()
    };
    assert_eq!(after(Some(Duration::from_millis(300))), 2);
    assert_eq!(after(None), 0);
}
