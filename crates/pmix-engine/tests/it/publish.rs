// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published data, with a host that stores them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use pmix_engine::{HostReply, Upcall};
use pmix_host::publish::{Caller, PubSub};
use pmix_proto::{Hello, Request, reply, request};
use pmix_types::{Info, IntoOwned, Key, Pdata, Proc, Rank, Status, Value, keys};

use crate::ledger::Ledger;
use crate::world::{Reaction, UID, Who, World, hello};

fn publish(infos: Vec<Info<'static>>) -> Request<'static> {
    Request::Publish(request::Publish { uid: 0, infos })
}

fn lookup(names: &[&'static str], infos: Vec<Info<'static>>) -> Request<'static> {
    let keys = names.iter().map(|name| Key::new(*name)).collect();
    Request::Lookup(request::Lookup {
        uid: 0,
        keys,
        infos,
    })
}

fn unpublish(names: &[&'static str]) -> Request<'static> {
    let keys = names.iter().map(|name| Key::new(*name)).collect();
    Request::Unpublish(request::Unpublish {
        uid: 0,
        keys,
        infos: vec![],
    })
}

/// Connects a job whose host stores published data.
fn with_pubsub(num_procs: u32) -> (World, Vec<Who>) {
    let mut world = World::new(1);
    world.job("job", &[num_procs]);
    let all = world.join_all("job", &[num_procs]);
    let pubsub = Rc::new(RefCell::new(PubSub::<u32>::default()));
    let now = Instant::now();
    world.rule(move |_, call| serve(&mut pubsub.borrow_mut(), call, now));
    (world, all)
}

fn serve(pubsub: &mut PubSub<u32>, call: &Upcall, now: Instant) -> Reaction {
    let done = |result: Result<(), pmix_host::Error>| match result {
        Ok(()) => HostReply::Done(Status::SUCCESS),
        Err(error) => HostReply::Done(error.status()),
    };
    Reaction::HostReply(match call {
        Upcall::Publish(call) => {
            let caller = Caller::of_upcall(&call.proc, &call.infos);
            done(pubsub.publish(&caller, &call.infos).map(|_| ()))
        }
        Upcall::Unpublish(call) => {
            let caller = Caller::of_upcall(&call.proc, &call.infos);
            done(pubsub.unpublish(&caller, &call.keys, &call.infos))
        }
        Upcall::Lookup(call) => {
            let caller = Caller::of_upcall(&call.proc, &call.infos);
            match pubsub.lookup(0, &caller, &call.keys, &call.infos, now) {
                Ok(Some(looked)) => HostReply::Found(looked.status, looked.data),
                Ok(None) => return Reaction::Silence,
                Err(error) => HostReply::Done(error.status()),
            }
        }
        _ => return Reaction::Usual,
    })
}

fn look_up(
    world: &mut World,
    who: Who,
    names: &[&'static str],
) -> (Status, Option<Vec<Pdata<'static>>>) {
    let tag = world.ask(who, &lookup(names, vec![]));
    world.run();
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let form = client.session.form();
    let found = reply::Found::decode(form, None, &response.payload).unwrap();
    (found.status, found.data.map(IntoOwned::into_owned))
}

#[test]
fn published_data_is_found_until_unpublished() {
    let (mut world, all) = with_pubsub(2);
    let data = vec![Info::new("FOOBAR", 1_u8), Info::new("PANDA", 123_456_u64)];
    assert_eq!(
        world.status_of(all[0], &publish(data)),
        Some(Status::SUCCESS)
    );
    let (status, found) = look_up(&mut world, all[1], &["PANDA"]);
    let expected = Pdata {
        proc: Proc::new("job", Rank::new(0)),
        key: Key::new("PANDA"),
        value: Value::Uint64(123_456),
    };
    assert_eq!((status, found), (Status::SUCCESS, Some(vec![expected])));
    let (status, found) = look_up(&mut world, all[1], &["PANDA", "BEAR"]);
    assert_eq!(status, Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(found.unwrap().len(), 1);
    let taken = world.status_of(all[0], &unpublish(&["FOOBAR", "PANDA"]));
    assert_eq!(taken, Some(Status::SUCCESS));
    let nothing = look_up(&mut world, all[1], &["PANDA"]);
    assert_eq!(nothing, (Status::ERR_NOT_FOUND, None));
}

#[test]
fn a_key_is_published_once() {
    let (mut world, all) = with_pubsub(2);
    let data = || publish(vec![Info::new("k", 1_u8)]);
    assert_eq!(world.status_of(all[0], &data()), Some(Status::SUCCESS));
    let again = world.status_of(all[1], &data());
    assert_eq!(again, Some(Status::ERR_DUPLICATE_KEY));
}

#[test]
fn the_host_gets_the_requester_from_the_engine() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let claimed = || {
        vec![
            Info::new(keys::USERID, 0_u32),
            Info::new(keys::GRPID, 0_u32),
        ]
    };
    let requests = [
        publish(claimed()),
        lookup(&["k"], claimed()),
        unpublish(&["k"]),
    ];
    for request in requests {
        let status = world.status_of(who, &request);
        assert_eq!(status, Some(Status::ERR_NOT_SUPPORTED));
    }
    let own = [Info::new(keys::USERID, UID), Info::new(keys::GRPID, UID)];
    for call in ["Publish", "Lookup", "Unpublish"] {
        let (proc, infos) = match ledger.one(call) {
            Upcall::Publish(call) => (call.proc, call.infos),
            Upcall::Lookup(call) => (call.proc, call.infos),
            Upcall::Unpublish(call) => (call.proc, call.infos),
            other => panic!("{other:?}"),
        };
        assert_eq!(proc, Proc::new("job", Rank::new(0)));
        assert_eq!(infos, own, "{call}");
    }
}

#[test]
fn a_lookup_is_answered_when_the_host_answers() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    world.rule(|_, _| Reaction::Later);
    let tag = world.ask(who, &lookup(&["k"], vec![Info::new(keys::WAIT, 0)]));
    world.run();
    assert_eq!(world.clients[who].status(tag), None);
    world.answer("Lookup", HostReply::DROPPED);
    let status = world.clients[who].status(tag);
    assert_eq!(
        status,
        Some(HostReply::DROPPED.status()),
        "the lookup completes"
    );
}

#[test]
fn an_empty_success_of_a_lookup_is_not_found() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    let found = look_up(&mut world, who, &["k"]);
    assert_eq!(found, (Status::ERR_NOT_FOUND, None));
}

#[test]
fn data_of_another_user_cannot_be_read() {
    let (mut world, all) = with_pubsub(1);
    world.job_of("foreign", &[1], 7);
    let credential = [7_u32.to_ne_bytes(), 7_u32.to_ne_bytes()].concat();
    let foreign = world.connect(
        0,
        &Hello {
            credential: &credential,
            ..hello("foreign", 0)
        },
    );
    let data = publish(vec![Info::new("k", 1_u8)]);
    assert_eq!(world.status_of(all[0], &data), Some(Status::SUCCESS));
    let denied = look_up(&mut world, foreign, &["k"]);
    assert_eq!(denied, (Status::ERR_NO_PERMISSIONS, None));
}
