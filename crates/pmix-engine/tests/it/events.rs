// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events between processes and the host.

use bfrops::BufferKind;
use pmix_engine::{Config, HostReply, Upcall};
use pmix_proto::{Hello, Request, request};
use pmix_types::{
    DataArray, DataRange, Info, Nspace, Proc, Rank, Regex2, Status, Text, Value, keys,
};

use crate::ledger::{Ledger, Told, codes, events};
use crate::world::{Reaction, Who, World, hello};

const CODE: Status = Status::from_raw(-7);

fn register(codes: &[Status]) -> Request<'static> {
    Request::RegisterEvents(request::RegisterEvents {
        codes: codes.to_vec(),
        infos: vec![],
    })
}

fn deregister(codes: &[Status]) -> Request<'static> {
    Request::DeregisterEvents(request::DeregisterEvents {
        codes: codes.to_vec(),
    })
}

fn notify(status: Status, range: DataRange, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::Notify(request::Notify {
        status,
        range,
        infos,
    })
}

/// Connects a job on one node, with all processes registered for codes.
fn listening(num_procs: u32, codes: &[Status]) -> (World, Vec<Who>) {
    let mut world = World::new(1);
    world.job("job", &[num_procs]);
    let all = world.join_all("job", &[num_procs]);
    for who in &all {
        let status = world.status_of(*who, &register(codes));
        assert_eq!(status, Some(Status::SUCCESS));
    }
    (world, all)
}

#[test]
fn an_event_of_a_process_reaches_others_with_all_infos() {
    let (mut world, all) = listening(3, &[CODE]);
    let ledger = Ledger::open(&mut world, |_| Reaction::Silence);
    let said = vec![Info::new("why", "because")];
    let request = notify(CODE, DataRange::NAMESPACE, said.clone());
    let status = world.status_of(all[0], &request);
    assert_eq!(status, Some(Status::SUCCESS), "the host may be silent");
    assert_eq!(
        codes(&mut world, all[0]),
        [],
        "the source does not get its own event"
    );
    for who in &all[1..] {
        let told = events(&mut world, *who);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].status, CODE);
        assert_eq!(told[0].source, Proc::new("job", Rank::new(0)));
        assert_eq!(told[0].infos[..1], said);
    }
    let Upcall::NotifyEvent(call) = ledger.one("NotifyEvent") else {
        panic!();
    };
    assert_eq!((call.status, call.range), (CODE, DataRange::NAMESPACE));
    assert_eq!(call.source, Proc::new("job", Rank::new(0)));
    assert_eq!(call.infos[..1], said);
}

#[test]
fn a_local_event_is_not_forwarded_to_the_host() {
    let (mut world, all) = listening(2, &[CODE]);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    for (range, told) in [(DataRange::LOCAL, 1), (DataRange::PROC_LOCAL, 0)] {
        let status = world.status_of(all[0], &notify(CODE, range, vec![]));
        assert_eq!(status, Some(Status::SUCCESS), "{range}");
        assert_eq!(codes(&mut world, all[1]).len(), told, "{range}");
    }
    assert_eq!(ledger.take("NotifyEvent"), []);
}

#[test]
fn an_event_for_the_host_reaches_no_process() {
    let (mut world, all) = listening(2, &[]);
    let ledger = Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    let request = notify(CODE, DataRange::RM, vec![]);
    assert_eq!(world.status_of(all[0], &request), Some(Status::SUCCESS));
    assert_eq!(codes(&mut world, all[1]), []);
    assert_eq!(ledger.take("NotifyEvent").len(), 1);
}

#[test]
fn an_invalid_event_is_refused() {
    let (mut world, all) = listening(2, &[]);
    let bad = [
        notify(CODE, DataRange::CUSTOM, vec![]),
        notify(CODE, DataRange::from_raw(77), vec![]),
    ];
    for request in bad {
        let status = world.status_of(all[0], &request);
        assert_eq!(status, Some(Status::ERR_BAD_PARAM));
    }
    assert_eq!(codes(&mut world, all[1]), []);
}

#[test]
fn an_event_with_too_many_processes_is_refused() {
    let (mut world, all) = listening(2, &[CODE]);
    let most = Config::default().procs_per_request;
    let named = |count: usize| {
        let ranks = (0..u32::try_from(count).unwrap()).map(Rank::new);
        let procs: Vec<_> = ranks.map(|rank| Proc::new("job", rank)).collect();
        procs
    };
    let range = |procs: Vec<Proc<'static>>| Info::new(keys::EVENT_CUSTOM_RANGE, procs);
    let about = |procs: Vec<Proc<'static>>| Info::new(keys::EVENT_AFFECTED_PROCS, procs);
    for infos in [
        vec![range(named(most + 1))],
        vec![range(named(most)), about(named(1))],
    ] {
        let request = notify(CODE, DataRange::CUSTOM, infos);
        let status = world.status_of(all[0], &request);
        assert_eq!(status, Some(Status::ERR_OUT_OF_RESOURCE));
    }
    assert_eq!(codes(&mut world, all[1]), []);
    let request = notify(CODE, DataRange::CUSTOM, vec![range(named(most))]);
    assert_eq!(world.status_of(all[0], &request), Some(Status::SUCCESS));
    assert_eq!(codes(&mut world, all[1]), [CODE.as_raw()]);
}

#[test]
fn events_of_one_source_arrive_in_order() {
    let (mut world, all) = listening(3, &[]);
    for number in 1..=200 {
        let code = Status::from_raw(number);
        world.ask(all[0], &notify(code, DataRange::GLOBAL, vec![]));
    }
    world.run();
    let expected: Vec<_> = (1..=200).collect();
    assert_eq!(codes(&mut world, all[1]), expected);
    assert_eq!(codes(&mut world, all[2]), expected);
}

#[test]
fn stored_events_follow_the_reply_to_a_late_registration() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    for number in [1, 2, 1] {
        let code = Status::from_raw(number);
        world.ask(all[0], &notify(code, DataRange::GLOBAL, vec![]));
    }
    world.run();
    let peer = world.clients[all[1]].peer.unwrap();
    world.ask(all[1], &register(&[Status::from_raw(1)]));
    let bytes = world.clients[all[1]].session.poll_transmit().unwrap();
    let engine = &mut world.nodes[0].engine;
    engine.handle_input(peer, &bytes, world.now);
    let mut tags = Vec::new();
    while let Some(transmit) = engine.poll_transmit() {
        let head = transmit.bytes.head().try_into().unwrap();
        tags.push(pmix_proto::Header::decode(head).tag.0 == 0);
    }
    assert_eq!(tags, [false, true, true], "the reply precedes two events");
}

#[test]
fn a_deregistered_code_is_not_delivered_and_has_no_reply() {
    let (mut world, all) = listening(2, &[CODE]);
    let tag = world.ask(all[1], &deregister(&[CODE]));
    world.run();
    assert!(world.clients[all[1]].reply(tag).is_none());
    world.ask(all[0], &notify(CODE, DataRange::GLOBAL, vec![]));
    world.run();
    assert_eq!(codes(&mut world, all[1]), []);
    assert!(world.clients[all[1]].is_in());
}

#[test]
fn default_handlers_are_deregistered_by_their_code() {
    let (mut world, all) = listening(2, &[]);
    world.ask(all[1], &deregister(&[request::DeregisterEvents::DEFAULT]));
    world.run();
    world.ask(all[0], &notify(CODE, DataRange::GLOBAL, vec![]));
    world.run();
    assert_eq!(codes(&mut world, all[1]), []);
}

#[test]
fn environment_events_come_from_the_host() {
    let down = Status::EVENT_NODE_DOWN;
    let mut world = World::new(1);
    world.job("job", &[3]);
    let all = world.join_all("job", &[3]);
    let refused = Ledger::answering(&mut world, HostReply::NotSupported);
    let status = world.status_of(all[0], &register(&[CODE, down]));
    assert_eq!(status, Some(Status::ERR_NOT_SUPPORTED));
    refused.one("RegisterEvents");

    let asked = Ledger::open(&mut world, |call| match call {
        Upcall::RegisterEvents(_) => Reaction::Later,
        _ => Reaction::HostReply(HostReply::NotSupported),
    });
    let tag = world.ask(all[0], &register(&[CODE, down]));
    world.run();
    assert_eq!(world.clients[all[0]].status(tag), None, "the host is asked");
    let Upcall::RegisterEvents(call) = asked.one("RegisterEvents") else {
        panic!();
    };
    assert_eq!(
        call.codes,
        [down],
        "other codes need no registration with the host"
    );
    assert!(call.infos.iter().any(|info| info.key.is(keys::USERID)));
    world.answer("RegisterEvents", HostReply::Done(Status::SUCCESS));
    assert_eq!(world.clients[all[0]].status(tag), Some(Status::SUCCESS));
    let status = world.status_of(all[1], &register(&[down]));
    assert_eq!(status, Some(Status::SUCCESS));
    assert_eq!(asked.take("RegisterEvents"), [], "once for a code");

    tell(&mut world, down, &Proc::new("rm", Rank::UNDEF), vec![]);
    let heard: Vec<_> = all
        .iter()
        .map(|who| codes(&mut world, *who).len())
        .collect();
    assert_eq!(heard, [1, 1, 0]);
    world.ask(all[1], &deregister(&[down]));
    world.run();
    assert_eq!(asked.take("DeregisterEvents"), []);
    world.kill(all[0]);
    let Upcall::DeregisterEvents(call) = asked.one("DeregisterEvents") else {
        panic!();
    };
    assert_eq!(call.codes, [down], "the last registration is removed");
}

/// Raises an event of the host.
fn tell(world: &mut World, status: Status, source: &Proc<'_>, infos: Vec<Info<'static>>) {
    let now = world.now;
    let engine = &mut world.nodes[0].engine;
    engine
        .notify(status, source, DataRange::GLOBAL, &infos, now)
        .unwrap();
    world.run();
}

#[test]
fn a_silent_host_does_not_block_user_codes() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let all = world.join_all("job", &[2]);
    let asked = Ledger::open(&mut world, |_| Reaction::Silence);
    let own = [Status::from_raw(17), Status::EXTERNAL_ERR_BASE];
    for who in &all {
        let status = world.status_of(*who, &register(&own));
        assert_eq!(status, Some(Status::SUCCESS));
    }
    let Upcall::RegisterEvents(call) = asked.one("RegisterEvents") else {
        panic!();
    };
    assert_eq!(call.codes, own);
    world.ask(all[0], &notify(own[0], DataRange::GLOBAL, vec![]));
    world.run();
    assert_eq!(codes(&mut world, all[1]), [17]);
}

#[test]
fn a_process_that_leaves_during_the_upcall_leaves_no_state() {
    let down = Status::EVENT_NODE_DOWN;
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.join(0, "job", 0);
    let asked = Ledger::open(&mut world, |call| match call {
        Upcall::RegisterEvents(_) => Reaction::Later,
        _ => Reaction::HostReply(HostReply::NotSupported),
    });
    world.ask(who, &register(&[down]));
    world.run();
    world.kill(who);
    asked.one("DeregisterEvents");
    world.answer("RegisterEvents", HostReply::Done(Status::SUCCESS));
    let back = world.join(0, "job", 0);
    world.ask(back, &register(&[down]));
    world.run();
    asked
        .take("RegisterEvents")
        .pop()
        .expect("it is asked again");
}

#[test]
fn an_event_of_the_host_is_not_returned_to_it() {
    let (mut world, all) = listening(2, &[]);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let source = Proc::new("rm", Rank::UNDEF);
    tell(&mut world, CODE, &source, vec![Info::new("n", 7_u32)]);
    let expected = Told {
        status: CODE,
        source,
        infos: vec![Info::new("n", 7_u32)],
    };
    for who in &all {
        assert_eq!(events(&mut world, *who), std::slice::from_ref(&expected));
    }
    assert_eq!(ledger.take("NotifyEvent"), []);
}

#[test]
fn a_relayed_event_is_not_relayed_again() {
    let (mut world, all) = listening(3, &[]);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    world.ask(all[0], &notify(CODE, DataRange::GLOBAL, vec![]));
    world.run();
    let heard = events(&mut world, all[1]).remove(0);
    let echo = notify(CODE, DataRange::GLOBAL, heard.infos);
    assert_eq!(world.status_of(all[1], &echo), Some(Status::SUCCESS));
    assert_eq!(
        codes(&mut world, all[2]),
        [-7],
        "only the first event is delivered"
    );
    assert_eq!(ledger.take("NotifyEvent").len(), 1);
}

#[test]
fn the_loss_of_a_process_reaches_registered_peers() {
    let lost = Status::ERR_LOST_CONNECTION;
    let (mut world, all) = listening(3, &[lost]);
    let default = all[2];
    world.ask(default, &deregister(&[lost]));
    world.ask(default, &register(&[]));
    world.run();
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    world.kill(all[0]);
    let told = events(&mut world, all[1]);
    assert_eq!(told.len(), 1);
    let gone = Proc::new("job", Rank::new(0));
    assert_eq!((told[0].status, &told[0].source), (lost, &gone));
    let affected = Info::new(keys::EVENT_AFFECTED_PROC, gone);
    assert!(told[0].infos.contains(&affected));
    assert_eq!(
        codes(&mut world, default),
        [],
        "the peer would take the event for its own"
    );
    ledger.one("NotifyEvent");
}

#[test]
fn a_finalized_process_is_not_lost() {
    let lost = Status::ERR_LOST_CONNECTION;
    let (mut world, all) = listening(2, &[lost]);
    let status = world.status_of(all[0], &Request::Finalize);
    assert_eq!(status, Some(Status::SUCCESS));
    world.kill(all[0]);
    assert_eq!(codes(&mut world, all[1]), []);
}

#[test]
fn an_event_of_a_user_does_not_reach_another() {
    let mut world = World::new(1);
    world.job("own", &[2]);
    let own = world.join_all("own", &[2]);
    world.job_of("foreign", &[1], 7);
    let credential = [7_u32.to_ne_bytes(), 7_u32.to_ne_bytes()].concat();
    let foreign = world.connect(
        0,
        &Hello {
            credential: &credential,
            ..hello("foreign", 0)
        },
    );
    world.run();
    for who in [own[1], foreign] {
        let status = world.status_of(who, &register(&[]));
        assert_eq!(status, Some(Status::SUCCESS));
    }
    world.ask(own[0], &notify(CODE, DataRange::GLOBAL, vec![]));
    world.run();
    assert_eq!(codes(&mut world, own[1]), [-7]);
    assert_eq!(codes(&mut world, foreign), []);
    tell(&mut world, CODE, &Proc::new("rm", Rank::UNDEF), vec![]);
    assert_eq!(codes(&mut world, foreign), [-7]);
}

#[test]
fn events_have_the_form_of_each_peer() {
    let forms = [
        ("2.0.3", "v20"),
        ("3.2.5", "v3"),
        ("4.2.2", "v41"),
        ("7.0.0a1", "v61"),
    ];
    let mut world = World::new(1);
    world.job("job", &[8]);
    let kinds = [BufferKind::NonDescribed, BufferKind::Described];
    let forms = forms.iter().flat_map(|form| kinds.map(|kind| (form, kind)));
    let mut all = Vec::new();
    for (rank, ((version, module), buffer)) in (0..).zip(forms) {
        let hello = Hello {
            version: (*version).into(),
            module: (*module).into(),
            buffer,
            ..hello("job", rank)
        };
        let who = world.connect(0, &hello);
        world.run();
        let status = world.status_of(who, &register(&[CODE]));
        assert_eq!(status, Some(Status::SUCCESS), "{version} {buffer:?}");
        all.push(who);
    }
    let texts = DataArray::String(vec![Some("a".into()), None]);
    let said = vec![Info::new("n", -5), Info::new("list", texts)];
    tell(
        &mut world,
        CODE,
        &Proc::new("rm", Rank::UNDEF),
        said.clone(),
    );
    for who in all {
        let told = events(&mut world, who);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].infos, said);
    }
}

#[test]
fn unreadable_infos_are_dropped_from_an_event() {
    let (mut world, all) = listening(1, &[]);
    let regex = Regex2::new("native", &b"n[1:0-9]"[..]);
    let said = vec![Info::new("new", Value::from(regex)), Info::new("n", 7_u32)];
    tell(&mut world, CODE, &Proc::new("rm", Rank::UNDEF), said);
    let told = events(&mut world, all[0]);
    assert_eq!(told[0].infos, [Info::new("n", 7_u32)]);
}

#[test]
fn local_processes_are_notified_of_process_sets() {
    let defined = Status::PROCESS_SET_DEFINE;
    let deleted = Status::PROCESS_SET_DELETE;
    let (mut world, all) = listening(2, &[defined, deleted]);
    let name = Text::from("even");
    let members = [Proc::new("job", Rank::new(0))];
    let engine = &mut world.nodes[0].engine;
    engine.define_process_set(&name, &members).unwrap();
    engine.delete_process_set(&name).unwrap();
    world.run();
    for who in all {
        let told = events(&mut world, who);
        let statuses: Vec<_> = told.iter().map(|event| event.status).collect();
        assert_eq!(statuses, [defined, deleted]);
        let name = Info::new(keys::PSET_NAME, "even");
        assert!(told.iter().all(|event| event.infos.contains(&name)));
        let members = Info::new(keys::PSET_MEMBERS, members.to_vec());
        assert!(told[0].infos.contains(&members));
    }
}

#[test]
fn stored_events_are_removed_with_their_job() {
    let (mut world, all) = listening(1, &[]);
    world.ask(all[0], &notify(CODE, DataRange::GLOBAL, vec![]));
    world.run();
    world.job("late", &[1]);
    let engine = &mut world.nodes[0].engine;
    engine.deregister_nspace(&Nspace::new("job")).unwrap();
    world.run();
    let late = world.join(0, "late", 0);
    world.status_of(late, &register(&[]));
    assert_eq!(codes(&mut world, late), []);
}
