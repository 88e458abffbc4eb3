// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarded output and input.

use pmix_engine::{Config, HostReply, OutputLimits, Upcall};
use pmix_proto::{Hello, Request, reply, request};
use pmix_types::{App, Bytes, Info, InfoFlags, IofChannel, Nspace, Proc, Rank, Status, keys};

use crate::ledger::{Ledger, output, tool, tool_hello};
use crate::world::{Reaction, UID, Who, World};

const OUT: IofChannel = IofChannel::STDOUT_CHANNEL;
const ERR: IofChannel = IofChannel::STDERR_CHANNEL;

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

fn pull(local_id: u64, channels: IofChannel) -> Request<'static> {
    Request::IofPull(request::IofPull {
        procs: vec![Proc::new("job", Rank::WILDCARD)],
        infos: vec![],
        channels,
        local_id,
    })
}

fn push(data: Option<&'static [u8]>, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::IofPush(request::IofPush {
        procs: vec![proc(0)],
        infos,
        data: data.map(Bytes::Borrowed),
    })
}

fn end(remote_id: u64) -> Request<'static> {
    Request::IofDeregister(request::IofDeregister {
        infos: vec![],
        remote_id,
    })
}

fn deliver(world: &mut World, rank: u32, channel: IofChannel, data: &[u8]) {
    let engine = &mut world.nodes[0].engine;
    let data = data.to_vec();
    engine.iof_deliver(&proc(rank), channel, data, &[]).unwrap();
    world.run();
}

/// Pulls output with the consent of the host, and returns the status and the number.
fn pulled(world: &mut World, who: Who, request: &Request<'_>) -> (Status, Option<u64>) {
    let tag = world.ask(who, request);
    world.run();
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let form = client.session.form();
    let pulled = reply::Pulled::decode(form, None, &response.payload).unwrap();
    (pulled.status, pulled.remote_id)
}

/// Creates a node with a job and a tool, and a host that forwards.
fn forwarding() -> (World, Who, Ledger) {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let who = tool(&mut world, 0);
    let ledger = Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    (world, who, ledger)
}

#[test]
fn a_tool_gets_the_output_it_pulls_under_its_own_number() {
    let (mut world, who, ledger) = forwarding();
    let (status, number) = pulled(&mut world, who, &pull(70, OUT));
    assert_eq!(status, Status::SUCCESS);
    assert!(number.is_some());
    let Upcall::IofPull(call) = ledger.one("IofPull") else {
        panic!();
    };
    assert_eq!(call.procs, [Proc::new("job", Rank::WILDCARD)]);
    assert_eq!(call.channels, OUT);
    assert!(call.directives.contains(&Info::new(keys::USERID, UID)));
    deliver(&mut world, 0, OUT, b"hello\n");
    deliver(&mut world, 1, ERR, b"oops\n");
    deliver(&mut world, 1, OUT, b"");
    let expected = [(70, 0, b"hello\n".to_vec()), (70, 1, vec![])];
    assert_eq!(
        output(&mut world, who),
        expected,
        "the end of a stream follows"
    );
}

#[test]
fn directives_of_the_server_need_no_support_of_the_host() {
    let (mut world, who, ledger) = forwarding();
    let infos = vec![
        Info::new(keys::IOF_CACHE_SIZE, 4096_u32).required(),
        Info::new(keys::IOF_DROP_OLDEST, true).required(),
        Info::new(keys::IOF_REDIRECT, true).required(),
    ];
    let mut request = pull(7, OUT);
    if let Request::IofPull(pull) = &mut request {
        pull.infos = infos;
    }
    assert_eq!(pulled(&mut world, who, &request).0, Status::SUCCESS);
    let Upcall::IofPull(call) = ledger.one("IofPull") else {
        panic!();
    };
    let required = call
        .directives
        .iter()
        .filter(|info| info.flags.contains(InfoFlags::REQD));
    let required: Vec<_> = required.map(|info| info.key.to_string()).collect();
    assert_eq!(required, [keys::IOF_REDIRECT]);
}

#[test]
fn earlier_output_follows_the_reply_to_the_pull() {
    let (mut world, who, _) = forwarding();
    deliver(&mut world, 0, OUT, b"early");
    assert_eq!(output(&mut world, who), []);
    world.rule(|_, _| Reaction::Later);
    let tag = world.ask(who, &pull(7, OUT));
    world.run();
    deliver(&mut world, 0, OUT, b"late");
    assert_eq!(output(&mut world, who), []);
    world.answer("IofPull", HostReply::Done(Status::SUCCESS));
    assert_eq!(world.clients[who].status(tag), Some(Status::SUCCESS));
    let expected = [(7, 0, b"early".to_vec()), (7, 0, b"late".to_vec())];
    assert_eq!(output(&mut world, who), expected);
}

#[test]
fn a_host_without_forwarding_refuses_a_pull() {
    let (mut world, who, _) = forwarding();
    Ledger::answering(&mut world, HostReply::NotSupported);
    let refused = pulled(&mut world, who, &pull(7, OUT));
    assert_eq!(refused, (Status::ERR_NOT_SUPPORTED, None));
    deliver(&mut world, 0, OUT, b"x");
    assert_eq!(output(&mut world, who), []);
}

#[test]
fn the_end_of_a_pull_is_acknowledged_and_forwarded_to_the_host() {
    let (mut world, who, ledger) = forwarding();
    let (_, number) = pulled(&mut world, who, &pull(7, OUT));
    let number = number.unwrap();
    ledger.take("IofPull");
    assert_eq!(world.status_of(who, &end(number)), Some(Status::SUCCESS));
    let Upcall::IofPull(call) = ledger.one("IofPull") else {
        panic!();
    };
    assert_eq!(call.directives, [Info::new(keys::IOF_STOP, true)]);
    deliver(&mut world, 0, OUT, b"x");
    assert_eq!(output(&mut world, who), []);
    let again = world.status_of(who, &end(number));
    assert_eq!(again, Some(Status::ERR_NOT_FOUND));
    let other = tool(&mut world, 0);
    let (_, number) = pulled(&mut world, who, &pull(7, OUT));
    let foreign = world.status_of(other, &end(number.unwrap()));
    assert_eq!(
        foreign,
        Some(Status::ERR_NOT_FOUND),
        "the pull belongs to another peer"
    );
}

#[test]
fn the_host_stops_forwarding_for_a_disconnected_tool() {
    let (mut world, who, ledger) = forwarding();
    pulled(&mut world, who, &pull(7, OUT));
    pulled(&mut world, who, &pull(8, ERR));
    ledger.take("IofPull");
    world.kill(who);
    assert_eq!(ledger.take("IofPull").len(), 2);
    deliver(&mut world, 0, OUT, b"x");
}

#[test]
fn a_stalled_tool_loses_output_but_stays_connected() {
    let mut config = Config::default();
    config.queued_bytes_per_peer = 1 << 20;
    config.output = {
        let mut limits = OutputLimits::default();
        limits.window = 64 << 10;
        limits.held = 64 << 10;
        limits
    };
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = tool(&mut world, 0);
    Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    pulled(&mut world, who, &pull(7, OUT));
    let peer = world.clients[who].peer.unwrap();
    let line = vec![b'x'; 1000];
    let engine = &mut world.nodes[0].engine;
    for _ in 0..10_000 {
        engine
            .iof_deliver(&proc(0), OUT, line.clone(), &[])
            .unwrap();
    }
    let mut queued = 0;
    while let Some(transmit) = engine.poll_transmit() {
        assert_eq!(transmit.peer, peer);
        queued += transmit.bytes.len();
    }
    assert!((64 << 10..80 << 10).contains(&queued), "{queued}");
    engine.handle_written(peer, queued);
    let mut rest = 0;
    while let Some(transmit) = engine.poll_transmit() {
        rest += transmit.bytes.len();
        engine.handle_written(peer, transmit.bytes.len());
    }
    assert!((50 << 10..80 << 10).contains(&rest), "{rest}");
    assert!(world.clients[who].is_in());
    assert_eq!(world.nodes[0].refusals(), []);
}

#[test]
fn held_output_of_a_stalled_peer_is_bounded() {
    let mut config = Config::default();
    config.output = {
        let mut limits = OutputLimits::default();
        limits.window = 4 << 10;
        limits.held = 150 << 10;
        limits.held_per_peer = 200 << 10;
        limits
    };
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let who = tool(&mut world, 0);
    Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    let numbers = [7, 8].map(|number| pulled(&mut world, who, &pull(number, OUT)).1);
    assert!(numbers.iter().all(Option::is_some));
    let engine = &mut world.nodes[0].engine;
    for _ in 0..1000 {
        let line = vec![b'x'; 1000];
        engine.iof_deliver(&proc(0), OUT, line, &[]).unwrap();
    }
    // The second pull gets 64 KiB, because the first one used most of the limit.
    let held = engine.stats().output_bytes;
    assert!((200 << 10..=214 << 10).contains(&held), "{held}");
    assert!(world.clients[who].is_in());
}

#[test]
fn input_and_its_end_are_forwarded_to_the_host() {
    let (mut world, who, ledger) = forwarding();
    for data in [&b"ls\n"[..], b""] {
        let pushed = world.status_of(who, &push(Some(data), vec![]));
        assert_eq!(pushed, Some(Status::SUCCESS));
        let Upcall::PushStdin(call) = ledger.one("PushStdin") else {
            panic!();
        };
        assert_eq!((&*call.data, call.targets), (data, vec![proc(0)]));
    }
    let begins = || vec![Info::new(keys::IOF_PUSH_STDIN, true)];
    let pushed = world.status_of(who, &push(None, begins()));
    assert_eq!(pushed, Some(Status::SUCCESS));
    assert_eq!(ledger.take("PushStdin"), [], "it has no input yet");
    let ends = [begins(), vec![Info::new(keys::IOF_COMPLETE, true)]].concat();
    world.status_of(who, &push(None, ends));
    ledger.one("PushStdin");
}

#[test]
fn output_and_input_of_other_users_are_refused() {
    let (mut world, _, ledger) = forwarding();
    world.job_of("foreign", &[1], 7);
    let config = Config::default();
    assert_eq!(
        config.user, None,
        "the test needs a server without a configured user"
    );
    let who = tool(&mut world, 0);
    ledger.take("ToolConnected");
    let foreign = || vec![Proc::new("foreign", Rank::new(0))];
    let requests = [
        Request::IofPull(request::IofPull {
            procs: foreign(),
            infos: vec![],
            channels: OUT,
            local_id: 0,
        }),
        Request::IofPush(request::IofPush {
            procs: foreign(),
            infos: vec![],
            data: None,
        }),
    ];
    for request in requests {
        let status = world.status_of(who, &request);
        assert_eq!(status, Some(Status::ERR_NO_PERMISSIONS));
    }
    assert_eq!(ledger.take("IofPull"), []);
    assert_eq!(ledger.take("PushStdin"), []);
}

#[test]
fn a_tool_gets_output_of_its_spawned_jobs_without_a_pull() {
    let (mut world, who, _) = forwarding();
    let spawned = HostReply::Spawned(Status::SUCCESS, Nspace::new("job"));
    Ledger::answering(&mut world, spawned);
    let spawn = Request::Spawn(request::Spawn {
        infos: vec![
            Info::new(keys::FWD_STDOUT, true),
            Info::new(keys::FWD_STDERR, false),
        ],
        apps: vec![App::default()],
    });
    deliver(&mut world, 0, OUT, b"early");
    assert_eq!(world.status_of(who, &spawn), Some(Status::SUCCESS));
    deliver(&mut world, 0, ERR, b"no");
    deliver(&mut world, 1, OUT, b"late");
    let expected = [(0, 0, b"early".to_vec()), (0, 1, b"late".to_vec())];
    assert_eq!(output(&mut world, who), expected);
}

#[test]
fn a_pull_of_input_is_refused() {
    let (mut world, who, _) = forwarding();
    let input = IofChannel::STDIN_CHANNEL;
    let engine = &mut world.nodes[0].engine;
    let refused = engine.iof_deliver(&proc(0), input, vec![], &[]);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
    let (status, _) = pulled(&mut world, who, &pull(0, input));
    assert_eq!(status, Status::ERR_NOT_SUPPORTED);
}

#[test]
fn a_described_tool_reads_output_too() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.connect(
        0,
        &Hello {
            module: "v61".into(),
            version: "7.0.0a1".into(),
            buffer: bfrops::BufferKind::Described,
            ..tool_hello()
        },
    );
    world.run();
    Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    pulled(&mut world, who, &pull(3, OUT));
    deliver(&mut world, 0, OUT, b"x");
    assert_eq!(output(&mut world, who), [(3, 0, b"x".to_vec())]);
}

/// Returns the input that the host received, in order.
fn input(ledger: &Ledger) -> Vec<Vec<u8>> {
    let taken = ledger.take("PushStdin").into_iter();
    let data = taken.map(|call| match call {
        Upcall::PushStdin(call) => call.data,
        other => panic!("{other:?}"),
    });
    data.collect()
}

#[test]
fn suspended_input_waits_and_keeps_its_order() {
    let (mut world, who, ledger) = forwarding();
    let other = tool(&mut world, 0);
    let channel = IofChannel::STDIN_CHANNEL;
    world.status_of(who, &push(Some(b"0"), vec![]));
    let Upcall::PushStdin(call) = ledger.one("PushStdin") else {
        panic!();
    };
    let source = call.source;
    ledger.take("PushStdin");
    let engine = &mut world.nodes[0].engine;
    engine
        .iof_flow_control(Some(&source), channel, true)
        .unwrap();
    let tags = [&b"1"[..], b"2", b"3"].map(|data| world.ask(who, &push(Some(data), vec![])));
    let free = world.status_of(other, &push(Some(b"other"), vec![]));
    assert_eq!(free, Some(Status::SUCCESS));
    assert_eq!(input(&ledger), [b"other"], "of who is not suspended");
    let answers = |world: &World| tags.map(|tag| world.clients[who].status(tag));
    assert_eq!(answers(&world), [None; 3]);
    assert!(world.nodes[0].engine.recount().is_empty());
    let engine = &mut world.nodes[0].engine;
    engine.iof_flow_control(None, channel, false).unwrap();
    world.run();
    assert_eq!(input(&ledger), [b"1", b"2", b"3"]);
    assert_eq!(answers(&world), [Some(Status::SUCCESS); 3]);
    let again = world.status_of(who, &push(Some(b"4"), vec![]));
    assert_eq!(again, Some(Status::SUCCESS));
    assert_eq!(input(&ledger), [b"4"]);
}

#[test]
fn the_host_can_accept_input_and_suspend_its_source() {
    let (mut world, who, _) = forwarding();
    let ledger = Ledger::answering(&mut world, HostReply::Done(Status::ERR_IOF_XOFF));
    let all = Proc::new("", Rank::WILDCARD);
    let first = world.status_of(who, &push(Some(b"1"), vec![]));
    assert_eq!(first, Some(Status::SUCCESS), "the request succeeds");
    let tags = [&b"2"[..], b"3"].map(|data| world.ask(who, &push(Some(data), vec![])));
    world.run();
    assert_eq!(input(&ledger), [b"1"]);
    for (place, tag) in tags.into_iter().enumerate() {
        assert_eq!(world.clients[who].status(tag), None);
        let engine = &mut world.nodes[0].engine;
        engine
            .iof_flow_control(Some(&all), IofChannel::STDIN_CHANNEL, false)
            .unwrap();
        world.run();
        // The host suspends the input again with each piece.
        assert_eq!(input(&ledger), [[b'2' + u8::try_from(place).unwrap()]]);
        assert_eq!(world.clients[who].status(tag), Some(Status::SUCCESS));
    }
}

#[test]
fn waiting_input_is_removed_with_its_source_and_output_is_never_suspended() {
    let (mut world, who, ledger) = forwarding();
    let engine = &mut world.nodes[0].engine;
    let refused = engine.iof_flow_control(None, OUT | ERR, true).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    engine
        .iof_flow_control(None, IofChannel::ALL_CHANNELS, true)
        .unwrap();
    world.ask(who, &push(Some(b"1"), vec![]));
    world.run();
    world.kill(who);
    assert!(world.nodes[0].engine.recount().is_empty());
    let engine = &mut world.nodes[0].engine;
    engine
        .iof_flow_control(None, IofChannel::ALL_CHANNELS, false)
        .unwrap();
    world.run();
    assert_eq!(input(&ledger), Vec::<Vec<u8>>::new());
}
