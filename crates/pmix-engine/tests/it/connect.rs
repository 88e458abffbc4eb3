// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that the participants of a connect exchange.

use std::cell::RefCell;
use std::rc::Rc;

use pmix_engine::{Config, HostReply, Upcall};
use pmix_proto::{Request, reply, request};
use pmix_types::{Info, Proc, Rank, Status, Value, keys};

use crate::collective::{DONE, ask_all, statuses};
use crate::world::{Reaction, World, hello};

#[test]
fn connected_jobs_get_the_info_of_each_other() {
    let mut world = World::new(2);
    world.job("job", &[1, 1]);
    world.job("other", &[1]);
    let mut all = world.join_all("job", &[1, 1]);
    all.push(world.join(0, "other", 0));
    let both = vec![
        Proc::new("job", Rank::WILDCARD),
        Proc::new("other", Rank::WILDCARD),
    ];
    // The second node does not know the other job.
    let infos = vec![];
    let connect = request::Connect {
        procs: both.clone(),
        infos: vec![],
        shared: Vec::new(),
    };
    let tags = ask_all(&mut world, &all, &Request::Connect(connect));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
    let told = |who: usize| {
        let client = &world.clients[all[who]];
        let form = client.session.form();
        let payload = &client.reply(tags[who]).unwrap().payload;
        let objects = reply::Objects::decode(form, None, payload).unwrap();
        let jobs = objects
            .jobs(form, None)
            .map(|job| job.unwrap().of.to_string());
        jobs.collect::<Vec<_>>()
    };
    assert_eq!(
        (told(0), told(1), told(2)),
        (vec!["other".to_owned()], vec![], vec!["job".to_owned()])
    );
    let disconnect = request::Disconnect { procs: both, infos };
    let tags = ask_all(&mut world, &all, &Request::Disconnect(disconnect));
    assert_eq!(statuses(&world, &all, &tags), [DONE; 3]);
}

#[test]
fn processes_of_one_node_connect_where_the_host_cannot() {
    let required = |key| {
        let mut info = Info::new(key, true);
        info.set_required();
        vec![info]
    };
    let refused = Status::ERR_NOT_SUPPORTED;
    for (sizes, infos, expected) in [
        (&[2, 0][..], vec![], Status::SUCCESS),
        (&[2, 0], required("site.fast"), refused),
        (&[1, 1], vec![], refused),
    ] {
        let mut world = World::new(2);
        world.job("job", sizes);
        let all = world.join_all("job", sizes);
        world.rule(move |_, call| match call {
            Upcall::Connect(_) | Upcall::Disconnect(_) => {
                Reaction::HostReply(HostReply::Done(refused))
            }
            _ => Reaction::Usual,
        });
        let procs = vec![Proc::new("job", Rank::WILDCARD)];
        let connect = Request::Connect(request::Connect {
            procs: procs.clone(),
            infos: infos.clone(),
            shared: Vec::new(),
        });
        let disconnect = Request::Disconnect(request::Disconnect { procs, infos });
        for call in [connect, disconnect] {
            let tags = ask_all(&mut world, &all, &call);
            let found = statuses(&world, &all, &tags);
            assert_eq!(found, [Some(expected); 2], "{sizes:?}");
        }
    }
}

#[test]
fn the_host_gets_what_the_participants_of_a_connect_share() {
    let mut world = World::new(2);
    world.job("job", &[2, 1]);
    let mut all = Vec::new();
    for rank in [0, 1] {
        let mut greeting = hello("job", rank);
        greeting.version = "7.0.0".into();
        all.push(world.connect(0, &greeting));
    }
    world.run();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let calls = Rc::clone(&seen);
    world.rule(move |_, call| match call {
        Upcall::Connect(call) => {
            calls.borrow_mut().extend(call.infos.clone());
            Reaction::HostReply(HostReply::Done(Status::SUCCESS))
        }
        _ => Reaction::Usual,
    });
    let array = |key, rank: u32| {
        let rank = Info::new(keys::RANK, Value::Rank(Rank::new(rank)));
        Info::new(key, vec![rank])
    };
    let of = |rank| match rank {
        0 => vec![
            array(keys::PROC_INFO_ARRAY, 0),
            array(keys::JOB_INFO_ARRAY, 0),
        ],
        _ => vec![array(keys::PROC_INFO_ARRAY, rank)],
    };
    let tags = [0, 1].map(|rank| {
        let connect = request::Connect {
            procs: vec![Proc::new("job", Rank::WILDCARD)],
            infos: vec![Info::new("directive", rank)],
            shared: of(rank),
        };
        let who = all[usize::try_from(rank).unwrap()];
        world.ask(who, &Request::Connect(connect))
    });
    world.run();
    assert_eq!(statuses(&world, &all, &tags), [DONE; 2]);
    let expected = [vec![Info::new("directive", 0_u32)], of(0), of(1)].concat();
    assert_eq!(*seen.borrow(), expected);
}

#[test]
fn what_the_participants_of_a_connect_share_is_bounded_together() {
    let mut config = Config::default();
    config.request_bytes = 30_000;
    let mut world = World::with(1, &config);
    world.job("job", &[2]);
    let mut all = Vec::new();
    for rank in [0, 1] {
        let mut greeting = hello("job", rank);
        greeting.version = "7.0.0".into();
        all.push(world.connect(0, &greeting));
    }
    world.run();
    for (len, expected) in [(10_000, DONE), (20_000, Some(Status::ERR_OUT_OF_RESOURCE))] {
        let shared = Info::new(keys::PROC_INFO_ARRAY, vec![Info::new("k", "x".repeat(len))]);
        let connect = request::Connect {
            procs: vec![Proc::new("job", Rank::WILDCARD)],
            infos: Vec::new(),
            shared: vec![shared],
        };
        let tags = ask_all(&mut world, &all, &Request::Connect(connect));
        assert_eq!(statuses(&world, &all, &tags), [expected; 2], "{len}");
    }
}
