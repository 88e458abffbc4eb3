// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests with as many names as a list may have, requests with more, and state that a process leaves when it ends.

use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, IofChannel, Proc, Query, Rank, Status, Text, keys};

/// The name of a kind and its requests.
type Requests = (&'static str, Vec<Request<'static>>);

/// The maximum number of processes that a request may name (SECURITY.md).
const MOST: usize = 32 << 10;

/// The number of processes named by a request that is refused.
const TOO_MANY: usize = 500_000;

/// Returns `count` processes: those of an unknown job, and last the first attacker.
fn named(count: usize) -> Vec<Proc<'static>> {
    let ranks = 1..u32::try_from(count).unwrap_or(u32::MAX);
    let mut procs: Vec<_> = ranks
        .map(|rank| Proc::new("far", Rank::new(rank)))
        .collect();
    procs.push(own());
    procs
}

fn own() -> Proc<'static> {
    Proc::new(super::JOB, Rank::new(0))
}

fn construct(
    number: usize,
    procs: Vec<Proc<'static>>,
    infos: Vec<Info<'static>>,
) -> Request<'static> {
    Request::GroupConstruct(request::GroupConstruct {
        group: Some(Text::from(format!("g{number}"))),
        procs,
        infos,
    })
}

/// Returns an invitation that the server runs.
fn invite_by_server(number: usize, procs: Vec<Proc<'static>>) -> Request<'static> {
    Request::GroupInvite(request::GroupInvite {
        group: Some(Text::from(format!("s{number}"))),
        procs,
        ..request::GroupInvite::default()
    })
}

fn invite(number: usize, procs: Vec<Proc<'static>>) -> Request<'static> {
    Request::Notify(request::Notify {
        status: Status::GROUP_INVITED,
        range: DataRange::CUSTOM,
        infos: vec![
            Info::new(keys::EVENT_CUSTOM_RANGE, procs),
            Info::new(keys::GROUP_ID, Text::from(format!("i{number}")).to_string()),
        ],
    })
}

/// Returns the kinds, scaled down by `share`.
pub(super) fn all(share: usize) -> Vec<Requests> {
    let infos = Vec::new;
    let times = 32 / share;
    let groups = 20_000 / share;
    let each =
        |make: &dyn Fn(usize) -> Request<'static>, count: usize| (0..count).map(make).collect();
    let local = || vec![Info::new(keys::GROUP_LOCAL_ONLY, true)];
    vec![
        (
            "constructs of too many names",
            each(
                &|number| construct(number, named(TOO_MANY / share), infos()),
                8 / share,
            ),
        ),
        (
            "constructs of as many names as they may",
            each(&|number| construct(number, named(MOST), infos()), times),
        ),
        (
            "invitations of as many names as they may",
            // A test build takes 5 us for each name, so the short form has fewer.
            each(&|number| invite(number, named(MOST / share)), times),
        ),
        (
            "invitations by the server of as many names as they may",
            each(
                &|number| invite_by_server(number, named(MOST / share)),
                times,
            ),
        ),
        (
            "fences of as many names as they may",
            vec![
                Request::Fence(request::Fence {
                    procs: named(MOST),
                    infos: infos()
                });
                times
            ],
        ),
        (
            "connects of as many names as they may",
            vec![
                Request::Connect(request::Connect {
                    procs: named(MOST),
                    infos: infos(),
                    shared: Vec::new()
                });
                times
            ],
        ),
        (
            "controls of as many names as they may",
            vec![
                Request::JobControl(request::JobControl {
                    targets: named(MOST),
                    infos: infos()
                });
                times
            ],
        ),
        (
            "aborts of as many names as they may",
            vec![
                Request::Abort(request::Abort {
                    status: Status::ERROR,
                    message: None,
                    procs: named(MOST),
                });
                times
            ],
        ),
        (
            "pulls of as many names as they may",
            vec![
                Request::IofPull(request::IofPull {
                    procs: named(MOST),
                    infos: infos(),
                    channels: IofChannel::STDOUT_CHANNEL,
                    local_id: 1,
                });
                times
            ],
        ),
        (
            "registrations of as many names as they may",
            vec![
                Request::RegisterEvents(request::RegisterEvents {
                    codes: vec![Status::ERR_PROC_ABORTED],
                    infos: vec![Info::new(keys::EVENT_AFFECTED_PROCS, named(MOST))],
                });
                times
            ],
        ),
        (
            "groups that end with their process",
            each(&|number| construct(number, vec![own()], local()), groups),
        ),
        (
            "invitations that end with their leader",
            each(
                &|number| invite(number, vec![Proc::new(super::JOB, Rank::new(1))]),
                groups,
            ),
        ),
        (
            "invitations by the server that end with their leader",
            each(&|number| invite_by_server(number, vec![own()]), groups),
        ),
    ]
}

/// Returns `count` requests of each kind.
pub(super) fn all_distinct(count: usize) -> Vec<Requests> {
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
