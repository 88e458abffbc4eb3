// SPDX-License-Identifier: MIT OR Apache-2.0
//! All lists of processes in requests have one limit, and a longer request is refused before it is decoded.

use pmix_engine::{Config, EngineEvent};
use pmix_proto::{Request, request};
use pmix_types::{
    DataArray, DataRange, Info, IofChannel, Proc, ProcInfo, Query, Rank, Status, Value, keys,
};

use crate::world::{Reaction, Who, World};

/// Returns `count` processes: those of an unknown job, and the caller.
fn named(count: usize) -> Vec<Proc<'static>> {
    let ranks = (0..u32::try_from(count - 1).unwrap()).map(Rank::new);
    let mut procs: Vec<_> = ranks.map(|rank| Proc::new("far", rank)).collect();
    procs.push(Proc::new("job", Rank::new(0)));
    procs
}

/// Returns the requests with a list of processes as a field.
fn with_field(procs: &[Proc<'static>]) -> Vec<(&'static str, Request<'static>)> {
    let procs = || procs.to_vec();
    let infos = Vec::new;
    vec![
        (
            "fence",
            Request::Fence(request::Fence {
                procs: procs(),
                infos: infos(),
            }),
        ),
        (
            "connect",
            Request::Connect(request::Connect {
                procs: procs(),
                infos: infos(),
                shared: Vec::new(),
            }),
        ),
        (
            "disconnect",
            Request::Disconnect(request::Disconnect {
                procs: procs(),
                infos: infos(),
            }),
        ),
        (
            "abort",
            Request::Abort(request::Abort {
                status: Status::ERROR,
                message: None,
                procs: procs(),
            }),
        ),
        (
            "job control",
            Request::JobControl(request::JobControl {
                targets: procs(),
                infos: infos(),
            }),
        ),
        (
            "construct",
            Request::GroupConstruct(request::GroupConstruct {
                group: Some("g".into()),
                procs: procs(),
                infos: infos(),
            }),
        ),
        (
            "pull",
            Request::IofPull(request::IofPull {
                procs: procs(),
                infos: infos(),
                channels: IofChannel::STDOUT_CHANNEL,
                local_id: 1,
            }),
        ),
        (
            "push",
            Request::IofPush(request::IofPush {
                procs: procs(),
                infos: infos(),
                data: None,
            }),
        ),
    ]
}

/// Returns the requests with infos.
fn with_infos(infos: &[Info<'static>]) -> Vec<(&'static str, Request<'static>)> {
    let own = || vec![Proc::new("job", Rank::new(0))];
    let infos = || infos.to_vec();
    vec![
        (
            "infos of a fence",
            Request::Fence(request::Fence {
                procs: own(),
                infos: infos(),
            }),
        ),
        (
            "infos of a construct",
            Request::GroupConstruct(request::GroupConstruct {
                group: Some("g".into()),
                procs: own(),
                infos: infos(),
            }),
        ),
        (
            "infos of an event",
            Request::Notify(request::Notify {
                status: Status::ERR_PROC_ABORTED,
                range: DataRange::CUSTOM,
                infos: infos(),
            }),
        ),
        (
            "infos of a registration",
            Request::RegisterEvents(request::RegisterEvents {
                codes: vec![Status::ERR_PROC_ABORTED],
                infos: infos(),
            }),
        ),
        (
            "qualifiers of a query",
            Request::Query(request::Query {
                queries: vec![Query {
                    keys: vec!["key".into()],
                    qualifiers: infos(),
                }],
            }),
        ),
        (
            "data of a log",
            Request::Log(request::Log {
                time: 0,
                data: infos(),
                directives: Vec::new(),
            }),
        ),
        (
            "infos of a monitor",
            Request::Monitor(request::Monitor {
                monitor: Info::new(keys::MONITOR_FILE, "f"),
                error: Status::MONITOR_FILE_ALERT,
                infos: infos(),
            }),
        ),
        (
            "infos of a spawn",
            Request::Spawn(request::Spawn {
                infos: infos(),
                apps: Vec::new(),
            }),
        ),
        (
            "infos of a get",
            Request::Get(request::Get {
                nspace: "job".into(),
                rank: Rank::new(0),
                infos: infos(),
                key: Some("key".into()),
            }),
        ),
        (
            "a publication",
            Request::Publish(request::Publish {
                uid: 0,
                infos: infos(),
            }),
        ),
    ]
}

/// Connects a process of a job of two, with a host that panics on any upcall.
fn world() -> (World, Who) {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    world.rule(|_, call| panic!("the host is called: {call:?}"));
    (world, all[0])
}

#[test]
fn a_request_with_too_many_processes_is_refused_before_processing() {
    let most = Config::default().procs_per_request;
    let procs = named(most + 1);
    let list = || Info::new(keys::EVENT_CUSTOM_RANGE, procs.clone());
    let half = |count: usize| Info::new(keys::EVENT_AFFECTED_PROCS, procs[..count].to_vec());
    let nested = Info::new(keys::GROUP_INFO, vec![list()]);
    let described = procs.iter().map(|proc| ProcInfo {
        proc: proc.clone(),
        ..ProcInfo::default()
    });
    let described = Value::DataArray(DataArray::ProcInfo(described.collect()));
    let described = Info::new(keys::QUERY_PROC_TABLE, described);
    let mut requests = with_field(&procs);
    for infos in [
        vec![list()],
        vec![half(most), half(1)],
        vec![nested],
        vec![described],
    ] {
        requests.extend(with_infos(&infos));
    }
    let (mut world, who) = world();
    for (what, request) in requests {
        let status = world.status_of(who, &request);
        assert_eq!(status, Some(Status::ERR_OUT_OF_RESOURCE), "{what}");
        let denied = world.nodes[0].events.iter().find_map(|event| match event {
            EngineEvent::Denied { reason, .. } => Some(reason.to_string()),
            _ => None,
        });
        let said = denied.unwrap_or_else(|| panic!("{what}: the refusal has no message"));
        assert!(said.contains("PMIX_RANK_WILDCARD"), "{what}: {said}");
        world.nodes[0].events.clear();
    }
    let stats = world.nodes[0].engine.stats();
    assert_eq!((stats.num_requests, stats.group_bytes), (0, 0));
}

#[test]
fn a_request_with_too_many_infos_is_refused_before_processing() {
    let most = Config::default().infos_per_request;
    let infos = |count: usize| vec![Info::new("key", true); count];
    let nested = Info::new(keys::GROUP_INFO, infos(most));
    let (mut world, who) = world();
    for infos in [infos(most + 1), vec![nested]] {
        for (what, request) in with_infos(&infos) {
            let status = world.status_of(who, &request);
            assert_eq!(status, Some(Status::ERR_OUT_OF_RESOURCE), "{what}");
        }
    }
    world.rule(|_, _| Reaction::Usual);
    for (what, request) in with_infos(&infos(most / 2)) {
        let status = world.status_of(who, &request);
        assert_ne!(status, Some(Status::ERR_OUT_OF_RESOURCE), "{what}");
    }
}

#[test]
fn a_request_with_the_most_processes_is_processed() {
    let procs = named(Config::default().procs_per_request);
    let (mut world, who) = world();
    world.rule(|_, _| Reaction::Usual);
    for (what, request) in with_field(&procs) {
        let status = world.status_of(who, &request);
        // A pull has its own limit, because its list is stored.
        let is_refused = status == Some(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(is_refused, what == "pull", "{what}: {status:?}");
    }
}

#[test]
fn a_request_may_list_each_process_of_the_jobs_that_the_server_knows() {
    let most = Config::default().procs_per_request;
    let size = u32::try_from(most + 10).unwrap();
    let mut world = World::new(2);
    world.job("job", &[1, size - 1]);
    let who = world.join(0, "job", 0);
    let connect = |count: u32| {
        let procs = (0..count).map(|rank| Proc::new("job", Rank::new(rank)));
        Request::Connect(request::Connect {
            procs: procs.collect(),
            infos: Vec::new(),
            shared: Vec::new(),
        })
    };
    // There is one more than exist, so the whole list is examined before the refusal.
    let refused = world.status_of(who, &connect(size + 1));
    assert_eq!(refused, Some(Status::ERR_OUT_OF_RESOURCE));
    // The call waits for the other processes.
    assert_eq!(world.status_of(who, &connect(size)), None);
}
