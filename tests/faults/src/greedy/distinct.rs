// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of requests that all differ, so that a server keeps state for each one.

use pmix_proto::{Request, request};
use pmix_types::{DataRange, Proc, Query, Rank, Status, Text};

/// The name of a kind and its requests.
type Requests = (&'static str, Vec<Request<'static>>);

/// Returns `count` requests of each kind.
pub(super) fn all(count: usize) -> Vec<Requests> {
    let numbers = || 0..u32::try_from(count).unwrap_or(u32::MAX);
    let codes = || numbers().map(|number| status(-200_000, number));
    vec![
        (
            "gets of keys that are never put",
            numbers().map(get).collect(),
        ),
        (
            "fences of other processes each",
            numbers().map(fence).collect(),
        ),
        ("events of other codes each", codes().map(notify).collect()),
        (
            "registrations of other codes each",
            codes().map(register).collect(),
        ),
        (
            "queries of other keys each",
            numbers().step_by(8).map(queries).collect(),
        ),
    ]
}

fn status(first: i32, number: u32) -> Status {
    Status::from_raw(first.saturating_sub_unsigned(number))
}

fn get(number: u32) -> Request<'static> {
    Request::Get(request::Get {
        nspace: super::JOB.into(),
        rank: Rank::new(1),
        infos: Vec::new(),
        key: Some(format!("never.{number}").into()),
    })
}

/// Returns a fence that no other process joins.
fn fence(number: u32) -> Request<'static> {
    let own = Proc::new(super::JOB, Rank::new(0));
    let far = Proc::new("far", Rank::new(number));
    Request::Fence(request::Fence {
        procs: vec![own, far],
        infos: Vec::new(),
    })
}

fn notify(status: Status) -> Request<'static> {
    Request::Notify(request::Notify {
        status,
        range: DataRange::LOCAL,
        infos: Vec::new(),
    })
}

fn register(code: Status) -> Request<'static> {
    Request::RegisterEvents(request::RegisterEvents {
        codes: vec![code],
        infos: Vec::new(),
    })
}

fn queries(number: u32) -> Request<'static> {
    let key = |place: u32| Text::from(format!("k{number}.{place}"));
    let query = Query {
        keys: (0..64).map(key).collect(),
        qualifiers: Vec::new(),
    };
    Request::Query(request::Query {
        queries: vec![query],
    })
}
