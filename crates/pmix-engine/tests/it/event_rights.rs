// SPDX-License-Identifier: MIT OR Apache-2.0
//! The users whose processes receive events, on the node of the source and on others.

use pmix_engine::{Config, HostReply, Upcall};
use pmix_proto::{Hello, Request, Role, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, keys};

use crate::ledger::{Ledger, codes, events};
use crate::world::{UID, Who, World, hello};

const CODE: Status = Status::from_raw(-7);
const FOREIGN: u32 = 7;

/// The key by which servers inform each other, through their hosts, about the permitted user of an event.
const ONLY_USER: &str = "pmixrs.event.user";

/// Creates nodes whose servers belong to one user and admit tools of all users.
fn world(num_nodes: usize) -> World {
    let mut config = Config::default();
    config.user = Some((UID, UID));
    config.foreign_tools = true;
    World::with(num_nodes, &config)
}

fn credential(uid: u32) -> Vec<u8> {
    [uid.to_ne_bytes(), uid.to_ne_bytes()].concat()
}

/// Connects a peer of a user and registers it for all events.
pub(crate) fn listens(world: &mut World, node: usize, uid: u32, hello: &Hello<'_>) -> Who {
    let credential = credential(uid);
    let who = world.connect(
        node,
        &Hello {
            credential: &credential,
            ..hello.clone()
        },
    );
    world.run();
    let register = Request::RegisterEvents(request::RegisterEvents {
        codes: vec![],
        infos: vec![],
    });
    assert_eq!(world.status_of(who, &register), Some(Status::SUCCESS));
    who
}

pub(crate) fn tool(world: &mut World, node: usize, uid: u32) -> Who {
    let tool = Hello {
        role: Role::TOOL,
        ids: Some((uid, uid)),
        proc: None,
        ..hello("", 0)
    };
    listens(world, node, uid, &tool)
}

fn notify(infos: Vec<Info<'static>>) -> Request<'static> {
    Request::Notify(request::Notify {
        status: CODE,
        range: DataRange::GLOBAL,
        infos,
    })
}

#[test]
fn an_event_keeps_its_user_across_nodes() {
    let mut world = world(2);
    world.job("own", &[1, 1]);
    world.job_of("foreign", &[0, 1], FOREIGN);
    let source = listens(&mut world, 0, UID, &hello("own", 0));
    let own = listens(&mut world, 1, UID, &hello("own", 1));
    let foreign = listens(&mut world, 1, FOREIGN, &hello("foreign", 0));
    let foreign_tool = tool(&mut world, 1, FOREIGN);
    let tools = [tool(&mut world, 1, 0), tool(&mut world, 1, UID)];
    let ledger = Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    // A process cannot set the permitted user itself.
    let lie = Info::new(ONLY_USER, FOREIGN);
    world.ask(source, &notify(vec![lie, Info::new("why", "because")]));
    world.run();
    let Upcall::NotifyEvent(call) = ledger.one("NotifyEvent") else {
        panic!();
    };
    let said = call.infos.iter().filter(|info| info.key.is(ONLY_USER));
    let said: Vec<_> = said.cloned().collect();
    assert_eq!(said, [Info::new(ONLY_USER, UID)]);
    let now = world.now;
    let told =
        world.nodes[1]
            .engine
            .notify(call.status, &call.source, call.range, &call.infos, now);
    told.unwrap();
    world.run();
    for who in [own, tools[0], tools[1]] {
        let told = events(&mut world, who);
        assert_eq!(told.len(), 1);
        assert!(told[0].infos.contains(&Info::new("why", "because")));
        assert!(!told[0].infos.iter().any(|info| info.key.is(ONLY_USER)));
    }
    for who in [foreign, foreign_tool] {
        assert_eq!(codes(&mut world, who), []);
    }
}

#[test]
fn tools_of_root_get_events_of_every_user() {
    let mut world = world(1);
    world.job_of("foreign", &[2], FOREIGN);
    let source = listens(&mut world, 0, FOREIGN, &hello("foreign", 0));
    let other = listens(&mut world, 0, FOREIGN, &hello("foreign", 1));
    let all = [0, UID, FOREIGN, 8].map(|uid| tool(&mut world, 0, uid));
    world.ask(source, &notify(vec![]));
    world.run();
    assert_eq!(codes(&mut world, other), [-7]);
    let heard = all.map(|who| codes(&mut world, who).len());
    assert_eq!(heard, [1, 1, 1, 0]);
}

#[test]
fn tools_get_host_events_of_readable_jobs() {
    let mut world = world(1);
    world.job("own", &[1]);
    world.job_of("foreign", &[1], FOREIGN);
    let own = tool(&mut world, 0, UID);
    let foreign = tool(&mut world, 0, FOREIGN);
    let now = world.now;
    for (nspace, heard) in [("own", [1, 0]), ("foreign", [1, 1]), ("nobody's", [1, 1])] {
        let affected = Info::new(keys::EVENT_AFFECTED_PROC, Proc::new(nspace, Rank::new(0)));
        let server = Proc::new("rm", Rank::new(0));
        let told = world.nodes[0].engine.notify(
            Status::EVENT_JOB_END,
            &server,
            DataRange::GLOBAL,
            &[affected],
            now,
        );
        told.unwrap();
        world.run();
        let told = [own, foreign].map(|who| codes(&mut world, who).len());
        assert_eq!(told, heard, "{nspace}");
    }
}

#[test]
fn a_process_set_is_reported_to_the_users_of_its_members() {
    let mut world = world(1);
    world.job("own", &[1]);
    world.job_of("foreign", &[1], FOREIGN);
    let listener = |world: &mut World, uid| {
        let who = tool(world, 0, uid);
        let codes = vec![Status::PROCESS_SET_DEFINE, Status::PROCESS_SET_DELETE];
        let register = Request::RegisterEvents(request::RegisterEvents {
            codes,
            infos: vec![],
        });
        assert_eq!(world.status_of(who, &register), Some(Status::SUCCESS));
        who
    };
    let tools = [UID, FOREIGN, 8, 0].map(|uid| listener(&mut world, uid));
    let member = |nspace: &'static str| Proc::new(nspace, Rank::new(0));
    for (members, heard) in [
        (vec![member("own")], [2, 0, 0, 2]),
        (vec![member("foreign")], [2, 2, 0, 2]),
        (vec![member("foreign"), member("own")], [2, 2, 0, 2]),
        (vec![member("nobody's")], [2, 2, 2, 2]),
    ] {
        let engine = &mut world.nodes[0].engine;
        engine.define_process_set(&"set".into(), &members).unwrap();
        engine.delete_process_set(&"set".into()).unwrap();
        world.run();
        let told = tools.map(|who| codes(&mut world, who).len());
        assert_eq!(told, heard, "{members:?}");
    }
}
