// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests with little memory left. A separate test binary, because its allocator limits the
//! memory.
//!
//! A reply, or the result of a get, is complete, or the request fails.

#[expect(dead_code, reason = "nothing is counted here")]
#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;
#[path = "../../bfrops/tests/meter/short.rs"]
mod short;

use bfrops::{Layout, Module};
use gds_hash::{Codec, Error, Job, JobInfoReplies, LocalNode, Remote, Request};
use pmix_types::{Info, Rank, Release, Status, Value, keys};

#[global_allocator]
static SHORT: short::Short = short::Short;

const COUNT: u32 = 1_500;

fn job() -> Job {
    let params = preg_core::Params::default();
    let preg = pmix_builtin::open_preg(&params).unwrap();
    let node = |rank: u32| format!("n{:x}", rank.wrapping_mul(2_654_435_761));
    let nodes: Vec<_> = (0..COUNT).map(node).collect();
    let ranks: Vec<_> = (0..COUNT).map(|rank| rank.to_string()).collect();
    let infos = [
        Info::new(keys::NODE_MAP, nodes.join(",")),
        Info::new(keys::PROC_MAP, ranks.join(";")),
        Info::new("app.text", "x".repeat(300_000)),
    ];
    Job::register(&preg, &LocalNode::new("n0"), "job@1", &infos).unwrap()
}

/// Repeats a call with increasing memory until it succeeds. Returns its result and the number of refusals.
fn with_little<T>(call: impl Fn() -> Result<T, Error>) -> (T, usize) {
    for refused in 0..1000 {
        let bytes = (1 << 20) + (160 << 10) + refused * (31 << 10);
        match short::with(bytes, &call) {
            Ok(made) => return (made, refused),
            Err(error) => assert_eq!(error.status(), Status::ERR_NOMEM, "{error}"),
        }
    }
    panic!("refused with any memory");
}

#[test]
fn a_reply_has_every_value_or_is_refused() {
    let codec = Codec::new(Layout::new(Module::V41));
    let (release, remote) = (Release::V5_0_11, Remote::Whole);
    let whole = job().reply(&codec, release, remote).unwrap();
    let short = job();
    let (reply, refused) = with_little(|| short.reply(&codec, release, remote));
    assert!(reply == whole);
    assert!(refused > 3, "{refused} refused");
    // A failed reply must not be kept for the next client.
    let (short, replies) = (job(), JobInfoReplies::default());
    let get = || replies.get(&short, &codec, release, remote);
    let (reply, refused) = with_little(get);
    assert!(*reply == whole);
    assert!(refused > 3, "{refused} refused");
    assert_eq!(
        job().kvals(&codec, release).unwrap(),
        with_little(|| short.kvals(&codec, release)).0
    );
}

#[test]
fn what_follows_from_maps_is_whole_or_refused() {
    let whole = job();
    for key in [
        keys::NODE_LIST,
        keys::PROC_MAP_RAW,
        keys::ANL_MAP,
        keys::LOCAL_PEERS,
    ] {
        let short = job();
        let hostname = [Info::new(keys::HOSTNAME, "n0")];
        let request = || Request::new(Rank::WILDCARD, key).with(&hostname);
        let expected = whole.get(&request()).map(|answer| answer.into_owned());
        let expected: Value<'static> = expected.unwrap();
        let (answer, _) = with_little(|| Ok(short.get(&request())?.into_owned()));
        assert_eq!(answer, expected, "{key}");
    }
    let short = job();
    let known = |job: &Job| job.known(&Request::all(Rank::new(COUNT - 1)));
    assert_eq!(with_little(|| known(&short)).0, known(&whole).unwrap());
}
