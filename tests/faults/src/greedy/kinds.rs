// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of every kind, as large or as many as the limits allow.

use bfrops::{Encoder, Layout, wire_type};
use pmix_proto::{Command, PeerForm, Request, Tag, request};
use pmix_types::{
    AllocDirective, App, Bytes, DataRange, Info, IofChannel, Key, Kval, Proc, Query, Rank, Scope,
    Status, Text, Value, keys,
};

use super::lists;
use crate::raw::Peer;

/// Requests of one kind, packed.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// The number of names or infos of one request, near the memory limit of a request.
const NAMES: usize = 200_000;

/// The number of small requests of a kind.
const SMALL: usize = 8_000;

/// The size of a large value in bytes.
const LARGE: usize = 32 << 20;

fn procs(job: &'static str, count: usize) -> Vec<Proc<'static>> {
    let ranks = (0..u32::try_from(count).unwrap_or(u32::MAX)).map(Rank::new);
    ranks.map(|rank| Proc::new(job, rank)).collect()
}

/// Adds the first attacker to a list of processes.
fn with_own(mut others: Vec<Proc<'static>>) -> Vec<Proc<'static>> {
    others.push(Proc::new(super::JOB, Rank::new(0)));
    others
}

fn jobs(count: usize) -> Vec<Proc<'static>> {
    let job = |number: usize| Proc::new(format!("job{number}"), Rank::new(0));
    (0..count).map(job).collect()
}

fn infos(count: usize) -> Vec<Info<'static>> {
    let info = |number: usize| Info::new(format!("k{number}"), true);
    (0..count).map(info).collect()
}

fn names(count: usize) -> Vec<Key<'static>> {
    (0..count)
        .map(|number| Key::from(format!("k{number}")))
        .collect()
}

fn blob() -> Vec<Info<'static>> {
    vec![Info::new("blob", vec![7_u8; LARGE])]
}

/// Repeats the list of requests `count` times.
fn in_turn<const N: usize>(requests: [Request<'static>; N], count: usize) -> Vec<Request<'static>> {
    (0..count).flat_map(|_| requests.clone()).collect()
}

/// Returns deregistrations, which have no reply, with a request that has a reply after each
/// thousand. A server that handles one message of each peer in turn needs long for all of them. The
/// replies show that the server makes progress.
fn deregistrations(count: usize) -> Vec<Request<'static>> {
    let codes = codes(1);
    let one = Request::DeregisterEvents(request::DeregisterEvents { codes });
    let mut requests = vec![one; count];
    for place in (0..count).rev().step_by(1000) {
        requests.insert(place, Request::Unknown(Command(99)));
    }
    requests
}

/// Returns lookups that wait, and then publishes the large value for which they wait.
fn waiting_for_a_value(count: usize) -> Vec<Request<'static>> {
    const KEY: &str = "awaited";
    let lookup = Request::Lookup(request::Lookup {
        uid: 0,
        keys: vec![KEY.into()],
        infos: vec![Info::new(keys::WAIT, 1)],
    });
    let publish = Request::Publish(request::Publish {
        uid: 0,
        infos: vec![Info::new(KEY, vec![7_u8; LARGE])],
    });
    let unpublish = Request::Unpublish(request::Unpublish {
        uid: 0,
        keys: vec![KEY.into()],
        infos: Vec::new(),
    });
    let mut requests = vec![lookup; count];
    requests.extend([publish, unpublish]);
    requests
}

fn codes(count: usize) -> Vec<Status> {
    let codes = -100_000..;
    codes.take(count).map(Status::from_raw).collect()
}

fn paths(count: usize) -> Vec<Info<'static>> {
    let paths: Vec<_> = (0..count).map(|number| format!("/t/{number}")).collect();
    vec![Info::new(keys::REGISTER_CLEANUP, paths.join(","))]
}

fn query(keys: usize, qualifiers: usize) -> Query<'static> {
    Query {
        keys: (0..keys)
            .map(|number| Text::from(format!("k{number}")))
            .collect(),
        qualifiers: infos(qualifiers),
    }
}

fn get(key: Option<&'static str>, rank: Rank, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::Get(request::Get {
        nspace: super::JOB.into(),
        rank,
        infos,
        key: key.map(Key::from),
    })
}

/// Packs the values that a process puts for a scope, or the keys that it removes.
fn blocks(scope: Scope, kvals: &[Kval<'_>], layout: Layout) -> Result<Vec<u8>, bfrops::Error> {
    let mut block = Vec::new();
    let mut encoder = Encoder::new(layout, &mut block);
    for kval in kvals {
        encoder.one::<wire_type::Kval>(kval)?;
    }
    let mut out = Vec::new();
    let mut encoder = Encoder::new(layout, &mut out);
    encoder.one::<wire_type::Scope>(&scope)?;
    encoder.one::<wire_type::Buffer>(&Bytes::Owned(block))?;
    Ok(out)
}

fn kvals(count: usize) -> Vec<Kval<'static>> {
    let kval = |number: usize| Kval {
        key: Key::from(format!("k{number}")),
        value: Value::from(true),
    };
    (0..count).map(kval).collect()
}

/// Returns all kinds, scaled down by `share`.
///
/// # Errors
/// Returns a message if a request cannot be packed.
pub(crate) fn all(form: &PeerForm, share: usize) -> Result<Vec<Kind>, String> {
    let (names_each, small) = (NAMES / share, SMALL / share);
    let own = || vec![Proc::new(super::JOB, Rank::new(0))];
    let immediate = || vec![Info::new(keys::IMMEDIATE, true)];
    let fault = |e: bfrops::Error| e.to_string();
    let put = |count| blocks(Scope::GLOBAL, &kvals(count), form.layout).map_err(fault);
    let committed = put(30_000 / share)?;
    let refused = put(1_000_000 / share)?;
    let one_key = put(1)?;
    let removed = kvals(30_000 / share);
    let removed = blocks(Scope::DEL_GLOBAL, &removed, form.layout).map_err(fault)?;
    let many = |request: Request<'static>, count: usize| vec![request; count];
    let fence = |procs, infos| Request::Fence(request::Fence { procs, infos });
    let connect = |procs, infos| {
        Request::Connect(request::Connect {
            procs,
            infos,
            shared: Vec::new(),
        })
    };
    let control = |targets, infos| Request::JobControl(request::JobControl { targets, infos });
    let notify = |range, infos| {
        let status = Status::ERR_PROC_ABORTED;
        Request::Notify(request::Notify {
            status,
            range,
            infos,
        })
    };
    let register = |codes, infos| Request::RegisterEvents(request::RegisterEvents { codes, infos });
    let queries = |queries| Request::Query(request::Query { queries });
    let log = |data| {
        let (time, directives) = (0, Vec::new());
        Request::Log(request::Log {
            time,
            data,
            directives,
        })
    };
    let pull = |procs| {
        Request::IofPull(request::IofPull {
            procs,
            infos: Vec::new(),
            channels: IofChannel::STDOUT_CHANNEL,
            local_id: 1,
        })
    };
    let push = |procs, data| {
        let infos = Vec::new();
        Request::IofPush(request::IofPush { procs, infos, data })
    };
    let publish = |infos| Request::Publish(request::Publish { uid: 0, infos });
    let lookup = |keys| {
        let infos = Vec::new();
        Request::Lookup(request::Lookup {
            uid: 0,
            keys,
            infos,
        })
    };
    let n = names_each;
    let mut kinds: Vec<(&'static str, Vec<Request<'_>>)> = vec![
        (
            "fence of names",
            vec![fence(with_own(procs("far", n)), vec![])],
        ),
        (
            "fence of one name",
            vec![fence(vec![own(); n].concat(), vec![])],
        ),
        ("fence of jobs", vec![fence(with_own(jobs(n / 2)), vec![])]),
        ("fence with infos", vec![fence(own(), infos(n / 2))]),
        ("fences", many(fence(own(), vec![]), small)),
        (
            "connect of names",
            vec![connect(with_own(procs("far", n)), vec![])],
        ),
        (
            "connect of jobs",
            vec![connect(with_own(jobs(n / 2)), vec![])],
        ),
        (
            "disconnect of names",
            vec![Request::Disconnect(request::Disconnect {
                procs: with_own(procs("far", n)),
                infos: vec![],
            })],
        ),
        (
            "connects and disconnects",
            in_turn(
                [
                    connect(own(), vec![]),
                    Request::Disconnect(request::Disconnect {
                        procs: own(),
                        infos: vec![],
                    }),
                ],
                small,
            ),
        ),
        (
            "abort of names",
            vec![Request::Abort(request::Abort {
                status: Status::ERROR,
                message: None,
                procs: procs("far", n),
            })],
        ),
        (
            "spawn",
            vec![Request::Spawn(request::Spawn {
                infos: vec![],
                apps: vec![App::default(); n / 10],
            })],
        ),
        (
            "get with infos",
            vec![get(
                Some("card"),
                Rank::new(1),
                [infos(n / 2), immediate()].concat(),
            )],
        ),
        (
            "gets",
            many(get(Some("none"), Rank::new(1), immediate()), small),
        ),
        (
            "gets of a job",
            many(get(None, Rank::WILDCARD, vec![]), small / 16),
        ),
        (
            "refreshes",
            many(
                Request::RefreshCache(request::RefreshCache {
                    nspace: super::JOB.into(),
                    rank: Rank::new(0),
                }),
                // Each reply holds the committed data, half a megabyte.
                small / 400,
            ),
        ),
        ("publish", vec![publish(infos(n / 2))]),
        ("publish a value", vec![publish(blob())]),
        ("lookup", vec![lookup(names(n / 2))]),
        (
            "lookups that wait for a value",
            waiting_for_a_value(small / 2),
        ),
        (
            "unpublish",
            vec![Request::Unpublish(request::Unpublish {
                uid: 0,
                keys: names(n / 2),
                infos: vec![],
            })],
        ),
        ("notify", vec![notify(DataRange::LOCAL, infos(n / 2))]),
        ("notify a value", vec![notify(DataRange::LOCAL, blob())]),
        ("notifies", many(notify(DataRange::LOCAL, vec![]), small)),
        (
            "notify names",
            vec![notify(
                DataRange::CUSTOM,
                vec![Info::new(keys::EVENT_CUSTOM_RANGE, procs("far", n))],
            )],
        ),
        (
            "notify as many names as it may",
            vec![notify(
                DataRange::CUSTOM,
                vec![Info::new(
                    keys::EVENT_CUSTOM_RANGE,
                    procs("far", n.min(32 << 10)),
                )],
            )],
        ),
        (
            "register codes",
            many(register(codes(1024), vec![]), small / 80),
        ),
        (
            "register names",
            vec![register(
                codes(1),
                vec![Info::new(keys::EVENT_AFFECTED_PROCS, procs("far", n))],
            )],
        ),
        (
            "deregister",
            many(
                Request::DeregisterEvents(request::DeregisterEvents {
                    codes: codes(1 << 16),
                }),
                16 / share + 1,
            ),
        ),
        ("deregistrations", deregistrations(NAMES / 2 / share)),
        (
            "registrations and back",
            in_turn(
                [
                    register(codes(1), vec![]),
                    Request::DeregisterEvents(request::DeregisterEvents { codes: codes(1) }),
                ],
                small,
            ),
        ),
        (
            "query of keys",
            many(queries(vec![query(4096, 0)]), 16 / share + 1),
        ),
        (
            "query with qualifiers",
            vec![queries(vec![query(8, n / 4)])],
        ),
        ("queries", vec![queries(vec![query(1, 0); n / 50])]),
        ("log", vec![log(infos(n / 2))]),
        ("log a value", vec![log(blob())]),
        (
            "allocate",
            vec![Request::Allocate(request::Allocate {
                directive: AllocDirective::NEW,
                infos: infos(n / 2),
            })],
        ),
        (
            "cleanups of one target",
            vec![control(vec![own(); n / 2].concat(), paths(4000))],
        ),
        ("cleanups of paths", vec![control(own(), paths(8000))]),
        ("cleanups", many(control(own(), paths(1)), small)),
        ("control with infos", vec![control(vec![], infos(n / 2))]),
        (
            "monitor",
            vec![Request::Monitor(request::Monitor {
                monitor: Info::new(keys::MONITOR_HEARTBEAT, true),
                error: Status::MONITOR_HEARTBEAT_ALERT,
                infos: infos(n / 2),
            })],
        ),
        (
            "credential",
            vec![Request::GetCredential(request::GetCredential {
                infos: infos(n / 2),
            })],
        ),
        (
            "validate a value",
            vec![Request::ValidateCredential(request::ValidateCredential {
                credential: vec![7; LARGE].into(),
                infos: vec![],
            })],
        ),
        ("pulls", many(pull(procs(super::JOB, 4096)), 256 / share)),
        ("pull of names", vec![pull(procs(super::JOB, n))]),
        ("push to names", vec![push(procs(super::JOB, n), None)]),
        (
            "push a value",
            vec![push(own(), Some(vec![7; LARGE].into()))],
        ),
        (
            "group of names",
            vec![Request::GroupConstruct(request::GroupConstruct {
                group: Some("group".into()),
                procs: procs("far", n),
                infos: vec![],
            })],
        ),
        (
            "fabric",
            vec![Request::FabricRegister(request::FabricRegister {
                infos: infos(n / 2),
            })],
        ),
        (
            "commit of keys",
            vec![Request::Commit(request::Commit { blocks: &committed })],
        ),
        (
            "commit of too many keys",
            vec![Request::Commit(request::Commit { blocks: &refused })],
        ),
        ("commits of keys", many_commits(&committed, 32 / share + 1)),
        ("commits", many_commits(&one_key, small)),
        (
            "commits that put and remove keys",
            (0..8 / share + 1)
                .flat_map(|_| [&committed, &removed])
                .map(|blocks| Request::Commit(request::Commit { blocks }))
                .collect(),
        ),
        (
            "peers of nodes",
            many(
                Request::ResolvePeers(request::ResolvePeers {
                    node: None,
                    nspace: super::JOB.into(),
                }),
                small / 8,
            ),
        ),
        (
            "nodes of jobs",
            many(
                Request::ResolveNodes(request::ResolveNodes {
                    nspace: super::JOB.into(),
                }),
                small / 4,
            ),
        ),
        ("job infos", many(Request::JobInfo, small / 16)),
    ];
    kinds.extend(lists::all_distinct(small));
    kinds.extend(lists::all(share));
    kinds
        .into_iter()
        .map(|(name, requests)| {
            let packed = requests.iter().map(|request| {
                let payload = request.encode(form, None);
                payload.map(|payload| Peer::frame(Tag(200), &payload))
            });
            let packed: Result<Vec<_>, _> = packed.collect();
            let packed = packed.map_err(|e| format!("{name}: {e}"))?;
            Ok(Kind {
                name,
                bytes: packed.concat(),
            })
        })
        .collect()
}

fn many_commits(blocks: &[u8], count: usize) -> Vec<Request<'_>> {
    (0..count)
        .map(|_| Request::Commit(request::Commit { blocks }))
        .collect()
}
