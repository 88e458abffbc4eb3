// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of clients, each with a list that grows.

use gds_hash::{Codec, ModexStore};
use pmix_engine::HostReply;
use pmix_proto::{Request, request};
use pmix_types::{
    AllocDirective, App, DataRange, Info, IofChannel, Key, Proc, Query, Rank, Scope, Status, Text,
    Value, keys,
};

use super::{count, far, is_linear, requests_are_linear, requests_are_linear_of, with_client};
use crate::world::{Reaction, World};

/// Returns infos without a meaning.
fn infos(size: usize) -> Vec<Info<'static>> {
    let info = |number: usize| Info::new(format!("key{number}"), Value::Uint32(count(number)));
    (0..size).map(info).collect()
}

/// Returns processes of unknown jobs, and the caller.
fn far_jobs(size: usize) -> Vec<Proc<'static>> {
    let job = |number: usize| Proc::new(format!("far{number}"), Rank::new(0));
    let mut procs: Vec<_> = (0..size).map(job).collect();
    procs.push(Proc::new("job", Rank::new(0)));
    procs
}

#[test]
fn events_with_long_lists() {
    let notify = |infos| {
        vec![Request::Notify(request::Notify {
            status: Status::ERR_PROC_ABORTED,
            range: DataRange::LOCAL,
            infos,
        })]
    };
    let register = |codes, infos| {
        vec![Request::RegisterEvents(request::RegisterEvents {
            codes,
            infos,
        })]
    };
    let codes = |size| (0..).map(|n| Status::from_raw(-100_000 - n)).take(size);
    requests_are_linear(
        "infos of an event",
        500,
        |size| notify(infos(size)),
        Status::SUCCESS,
    );
    requests_are_linear(
        "events one by one",
        100,
        |size| (0..size).flat_map(|_| notify(vec![])).collect(),
        Status::SUCCESS,
    );
    requests_are_linear(
        "codes of a registration",
        60,
        |size| register(codes(size).collect(), vec![]),
        Status::SUCCESS,
    );
    requests_are_linear(
        "codes registered one by one",
        60,
        |size| {
            codes(size)
                .flat_map(|code| register(vec![code], vec![]))
                .collect()
        },
        Status::SUCCESS,
    );
    requests_are_linear(
        "processes of a registration",
        250,
        |size| {
            let procs = Info::new(keys::EVENT_AFFECTED_PROCS, far(size));
            register(codes(1).collect(), vec![procs])
        },
        Status::SUCCESS,
    );
    is_linear(
        "codes that are registered no longer",
        500,
        |size| {
            let (mut world, who) = with_client();
            let codes = codes(size).collect();
            world.ask(
                who,
                &Request::DeregisterEvents(request::DeregisterEvents { codes }),
            );
            world
        },
        World::run,
    );
    is_linear(
        "codes deregistered one by one, registered or not",
        100,
        |size| {
            let (mut world, who) = with_client();
            for code in codes(size) {
                let codes = vec![code];
                let back = Request::DeregisterEvents(request::DeregisterEvents { codes });
                world.ask(who, &back);
                for request in register(vec![code], vec![]) {
                    world.ask(who, &request);
                }
                world.ask(who, &back);
            }
            world
        },
        World::run,
    );
}

#[test]
fn connects_and_disconnects_one_by_one() {
    requests_are_linear(
        "connects and disconnects one by one",
        50,
        |size| {
            let both = || {
                let (procs, infos) = (far_jobs(1), vec![]);
                [
                    Request::Connect(request::Connect {
                        procs: procs.clone(),
                        infos: vec![],
                        shared: Vec::new(),
                    }),
                    Request::Disconnect(request::Disconnect { procs, infos }),
                ]
            };
            (0..size).flat_map(|_| both()).collect()
        },
        Status::SUCCESS,
    );
}

#[test]
fn questions_with_long_lists() {
    let query = |keys: usize, qualifiers| Query {
        keys: (0..keys).map(|n| Text::from(format!("key{n}"))).collect(),
        qualifiers: infos(qualifiers),
    };
    let declined = Status::ERR_NOT_SUPPORTED;
    let queries = |queries| vec![Request::Query(request::Query { queries })];
    requests_are_linear(
        "keys of a query",
        250,
        |size| queries(vec![query(size, 0)]),
        declined,
    );
    requests_are_linear(
        "qualifiers of a query",
        500,
        |size| queries(vec![query(1, size)]),
        declined,
    );
    requests_are_linear(
        "queries of a request",
        250,
        |size| queries(vec![query(1, 0); size]),
        declined,
    );
    requests_are_linear(
        "infos of a get",
        500,
        |size| {
            let immediate = Info::new(keys::IMMEDIATE, true);
            vec![Request::Get(request::Get {
                nspace: "job".into(),
                rank: Rank::new(1),
                infos: [infos(size), vec![immediate]].concat(),
                key: Some("card".into()),
            })]
        },
        Status::ERR_NOT_FOUND,
    );
}

#[test]
fn output_and_input_of_long_lists_of_processes() {
    let here = |size| {
        let ranks = (0..count(size)).map(Rank::new);
        ranks.map(|rank| Proc::new("job", rank)).collect()
    };
    requests_are_linear(
        "processes of a pull",
        250,
        |size| {
            vec![Request::IofPull(request::IofPull {
                procs: here(size),
                infos: vec![],
                channels: IofChannel::STDOUT_CHANNEL,
                local_id: 1,
            })]
        },
        Status::ERR_NOT_SUPPORTED,
    );
    requests_are_linear(
        "processes that are pushed to",
        500,
        |size| {
            vec![Request::IofPush(request::IofPush {
                procs: here(size),
                infos: vec![],
                data: Some(vec![7; 10].into()),
            })]
        },
        Status::ERR_NOT_SUPPORTED,
    );
    is_linear(
        "output beside a pull",
        250,
        |size| {
            let (mut world, who) = with_client();
            world.rule(|_, _| Reaction::HostReply(HostReply::Done(Status::SUCCESS)));
            let pull = Request::IofPull(request::IofPull {
                procs: here(2),
                infos: vec![],
                channels: IofChannel::STDOUT_CHANNEL,
                local_id: 1,
            });
            assert_eq!(world.status_of(who, &pull), Some(Status::SUCCESS));
            (world, size)
        },
        |(world, size)| {
            let source = Proc::new("job", Rank::new(1));
            for _ in 0..*size {
                let engine = &mut world.nodes[0].engine;
                let channel = IofChannel::STDOUT_CHANNEL;
                engine
                    .iof_deliver(&source, channel, b"line\n".to_vec(), &[])
                    .unwrap();
                world.run();
            }
        },
    );
}

#[test]
fn upcalls_with_long_lists() {
    let names =
        |size| -> Vec<Key<'static>> { (0..size).map(|n| Key::from(format!("key{n}"))).collect() };
    let declined = Status::ERR_NOT_SUPPORTED;
    type Make = Box<dyn Fn(usize) -> Request<'static>>;
    let table: Vec<(&str, Make, Status)> = vec![
        (
            "keys of a lookup",
            Box::new(move |size| {
                Request::Lookup(request::Lookup {
                    uid: 0,
                    keys: names(size),
                    infos: vec![],
                })
            }),
            declined,
        ),
        (
            "keys taken back",
            Box::new(move |size| {
                Request::Unpublish(request::Unpublish {
                    uid: 0,
                    keys: names(size),
                    infos: vec![],
                })
            }),
            declined,
        ),
        (
            "applications of a spawn",
            Box::new(|size| {
                Request::Spawn(request::Spawn {
                    infos: vec![],
                    apps: vec![App::default(); size],
                })
            }),
            declined,
        ),
        (
            "jobs of a connect",
            Box::new(|size| {
                Request::Connect(request::Connect {
                    procs: far_jobs(size),
                    infos: vec![],
                    shared: Vec::new(),
                })
            }),
            Status::SUCCESS,
        ),
        (
            "infos of a connect",
            Box::new(|size| {
                Request::Connect(request::Connect {
                    procs: far_jobs(0),
                    infos: infos(size),
                    shared: Vec::new(),
                })
            }),
            Status::SUCCESS,
        ),
        (
            "infos of a log",
            Box::new(|size| {
                Request::Log(request::Log {
                    time: 0,
                    data: infos(size),
                    directives: vec![],
                })
            }),
            declined,
        ),
        (
            "infos of an allocation",
            Box::new(|size| {
                Request::Allocate(request::Allocate {
                    directive: AllocDirective::NEW,
                    infos: infos(size),
                })
            }),
            declined,
        ),
        (
            "infos of a monitor",
            Box::new(|size| {
                Request::Monitor(request::Monitor {
                    monitor: Info::new(keys::MONITOR_HEARTBEAT, true),
                    error: Status::MONITOR_HEARTBEAT_ALERT,
                    infos: [
                        infos(size),
                        vec![Info::new(keys::MONITOR_HEARTBEAT_TIME, 10_u32)],
                    ]
                    .concat(),
                })
            }),
            Status::SUCCESS,
        ),
        (
            "infos of a credential",
            Box::new(|size| Request::GetCredential(request::GetCredential { infos: infos(size) })),
            declined,
        ),
    ];
    for (what, make, expected) in table {
        requests_are_linear(what, 500, |size| vec![make(size)], expected);
    }
}

#[test]
fn keys_that_are_committed() {
    let layout = with_client().0.clients[0].session.form().layout;
    requests_are_linear_of(
        "keys of a commit",
        500,
        |size| {
            let mut puts = ModexStore::default();
            for info in infos(size) {
                puts.put(Rank::new(0), Scope::GLOBAL, info).unwrap();
            }
            puts.commit_message(&Codec::new(layout), Rank::new(0))
                .unwrap()
        },
        |blocks| Request::Commit(request::Commit { blocks }),
    );
}
