// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission and refusal of clients and tools.

use std::time::Duration;

use pmix_engine::{Config, Error, HostReply, Origin, Stats, Upcall, Verified};
use pmix_proto::{Hello, Request, Role, Welcome, reply};
use pmix_types::{Info, Proc, Rank, Status, keys};

use crate::world::{Reaction, UID, World, hello};

fn credential(uid: u32, gid: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&uid.to_ne_bytes());
    bytes[4..].copy_from_slice(&gid.to_ne_bytes());
    bytes
}

fn tool() -> Hello<'static> {
    Hello {
        role: Role::TOOL,
        ids: Some((UID, UID)),
        proc: None,
        ..hello("", 0)
    }
}

fn from(uid: u32) -> Origin {
    Origin {
        uid: Some(uid),
        gid: None,
        loopback: true,
    }
}

#[test]
fn a_registered_process_is_accepted() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    for version in ["4.2.2rc2", "5.0.11rc1", "7.0.0a1"] {
        for module in ["v41", "v4", "v51", "v61"] {
            let hello = Hello {
                version: version.into(),
                module: module.into(),
                infos: vec![Info::new(keys::USERID, UID), Info::new(keys::GRPID, UID)],
                ..hello("job", 1)
            };
            let who = world.connect_from(0, &hello, from(UID));
            world.run();
            assert!(world.clients[who].is_in(), "{version} {module}");
            assert_eq!(
                world.status_of(who, &Request::JobInfo),
                Some(Status::SUCCESS)
            );
            world.kill(who);
        }
    }
}

#[test]
fn a_forged_hello_is_closed_without_a_reply() {
    let wrong = credential(UID, 7);
    let other = credential(7, UID);
    let forged = |info| Hello {
        infos: vec![info],
        ..hello("job", 0)
    };
    let good = || hello("job", 0);
    let denied = Status::ERR_NO_PERMISSIONS;
    let cases = [
        (hello("nobody", 0), from(UID), Status::ERR_NOT_FOUND),
        (hello("job", 9), from(UID), Status::ERR_NOT_FOUND),
        (
            hello("job", Rank::WILDCARD.as_raw()),
            from(UID),
            Status::ERR_NOT_FOUND,
        ),
        (
            Hello {
                credential: &wrong,
                ..good()
            },
            from(UID),
            denied,
        ),
        (
            Hello {
                credential: &other,
                ..good()
            },
            Origin::default(),
            denied,
        ),
        (
            Hello {
                credential: &[1, 2],
                ..good()
            },
            from(UID),
            Status::ERR_INVALID_CRED,
        ),
        // The operating system's information about the socket takes precedence.
        (good(), from(7), denied),
        (forged(Info::new(keys::USERID, 0_u32)), from(UID), denied),
        (forged(Info::new(keys::GRPID, 0_u32)), from(UID), denied),
        (forged(Info::new(keys::USERID, "root")), from(UID), denied),
        (
            Hello {
                psec: "munge".into(),
                ..good()
            },
            from(UID),
            Status::ERR_NOT_SUPPORTED,
        ),
        (
            Hello {
                psec: "none".into(),
                ..good()
            },
            from(UID),
            Status::ERR_NOT_SUPPORTED,
        ),
    ];
    for (hello, origin, expected) in cases {
        let mut world = World::new(1);
        world.job("job", &[2]);
        let who = world.connect_from(0, &hello, origin);
        world.run();
        let client = &world.clients[who];
        assert_eq!(world.nodes[0].refusals(), [expected]);
        assert!(client.peer.is_none() && client.session.welcome().is_none());
        assert!(
            client.fault.is_none(),
            "a client of 4.2 hangs if it receives an error status"
        );
        assert_eq!(world.nodes[0].engine.poll_timeout(), None);
        // The impersonated process can still connect.
        let who = world.connect_from(0, &good(), from(UID));
        world.run();
        assert!(world.clients[who].is_in());
    }
}

#[test]
fn an_unknown_bfrops_module_is_refused() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let mut bytes = hello("job", 0).encode().unwrap();
    let place = bytes.windows(3).position(|part| part == b"v41").unwrap();
    bytes[place..place + 3].copy_from_slice(b"v99");
    let peer = world.nodes[0].engine.open(Origin::default(), world.now);
    world.nodes[0].engine.handle_input(peer, &bytes, world.now);
    world.run();
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_NOT_SUPPORTED]);
}

#[test]
fn a_second_connection_of_a_process_is_refused_while_the_first_lives() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let first = world.join(0, "job", 0);
    let second = world.connect(0, &hello("job", 0));
    world.run();
    assert!(!world.clients[second].is_in());
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_DUPLICATE_KEY]);
    assert_eq!(
        world.status_of(first, &Request::JobInfo),
        Some(Status::SUCCESS)
    );
    world.kill(first);
    world.join(0, "job", 0);
}

#[test]
fn a_lost_tool_is_distinguished_from_a_client() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let client = world.join(0, "job", 0);
    let tool = world.connect(0, &tool());
    world.run();
    let lost = |world: &World| -> Vec<bool> {
        let events = world.nodes[0].events.iter();
        let lost = events.filter_map(|event| match event {
            pmix_engine::EngineEvent::ProcessLost { is_tool, .. } => Some(*is_tool),
            _ => None,
        });
        lost.collect()
    };
    world.kill(tool);
    world.kill(client);
    assert_eq!(lost(&world), [true, false]);
}

#[test]
fn a_silent_connection_is_closed_in_time() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let silent = world.nodes[0].engine.open(from(UID), world.now);
    let slow = world.nodes[0].engine.open(from(UID), world.now);
    let bytes = hello("job", 0).encode().unwrap();
    for byte in &bytes[..4] {
        world.advance(Duration::from_secs(1));
        let engine = &mut world.nodes[0].engine;
        engine.handle_input(slow, std::slice::from_ref(byte), world.now);
    }
    assert_eq!(world.nodes[0].engine.stats().num_peers, 2);
    world.advance(Duration::from_secs(1));
    assert_eq!(world.nodes[0].engine.stats().num_peers, 0);
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_TIMEOUT; 2]);
    let engine = &mut world.nodes[0].engine;
    engine.handle_input(silent, &bytes, world.now);
    assert_eq!(engine.stats().num_peers, 0);
}

#[test]
fn silent_connections_are_dropped_for_new_ones() {
    let mut config = Config::default();
    config.handshakes_per_user = 8;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    for _ in 0..100 {
        world.nodes[0].engine.open(from(UID), world.now);
    }
    world.run();
    assert_eq!(world.nodes[0].engine.stats().num_peers, 8);
    assert_eq!(world.nodes[0].refusals(), [Status::ERR_OUT_OF_RESOURCE; 92]);
    let who = world.connect_from(0, &hello("job", 0), from(UID));
    world.run();
    assert!(world.clients[who].is_in());
}

#[test]
fn a_tool_is_given_an_unused_name() {
    let mut world = World::new(1);
    let name = |world: &World, who: usize| match world.clients[who].session.welcome() {
        Some(Welcome::Assigned { proc, server }) => {
            assert_eq!(*server, Proc::new("server0", Rank::new(0)));
            proc.clone()
        }
        other => panic!("{other:?}"),
    };
    let tools = [(); 2].map(|()| world.connect(0, &tool()));
    world.run();
    let names = tools.map(|who| name(&world, who));
    assert_ne!(names[0], names[1]);
    // A tool gets its own name instead of job info.
    let tag = world.ask(tools[1], &Request::JobInfo);
    world.run();
    let client = &world.clients[tools[1]];
    let payload = &client.reply(tag).unwrap().payload;
    let info = reply::JobInfo::decode(client.session.form(), None, payload).unwrap();
    assert_eq!(
        (info.nspace, info.kvals),
        (names[1].nspace.clone(), &[][..])
    );
}

#[test]
fn tools_get_distinct_names() {
    let mut world = World::new(1);
    // An earlier server of this name assigned it.
    let given = Proc::new("server0.tool.1", Rank::new(0));
    let brings = || Hello {
        role: Role::TOOL_WITH_ID,
        proc: Some(given.clone()),
        ..tool()
    };
    let both = [(); 2].map(|()| world.connect(0, &brings()));
    let third = world.connect(0, &tool());
    world.run();
    let is_in = |who: usize| {
        let welcome = world.clients[who].session.welcome();
        matches!(welcome, Some(Welcome::Server { .. }))
    };
    assert_eq!(both.map(is_in).iter().filter(|is_in| **is_in).count(), 1);
    match world.clients[third].session.welcome() {
        Some(Welcome::Assigned { proc, .. }) => assert_ne!(*proc, given),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_host_can_name_and_refuse_tools() {
    let mut world = World::new(1);
    world.rule(|_, call| match call {
        Upcall::ToolConnected(call) => {
            let uid = call
                .infos
                .iter()
                .find(|info| info.key.is(keys::USERID))
                .unwrap();
            assert_eq!(uid.value.to_number(), Ok(UID));
            let brings = call.infos.iter().any(|info| info.key.is(keys::NSPACE));
            Reaction::HostReply(match brings {
                true => HostReply::Tool(Err(Status::ERR_NO_PERMISSIONS)),
                false => HostReply::Tool(Ok(Proc::new("tools", Rank::new(4)))),
            })
        }
        _ => Reaction::Usual,
    });
    let named = world.connect(0, &tool());
    let brings = Hello {
        role: Role::TOOL_WITH_ID,
        proc: Some(Proc::new("mine", Rank::new(0))),
        ..tool()
    };
    let refused = world.connect(0, &brings);
    world.run();
    let welcome = world.clients[named].session.welcome();
    assert!(
        matches!(welcome, Some(Welcome::Assigned { proc, .. }) if *proc == Proc::new("tools", Rank::new(4)))
    );
    // A tool reads the reason of its refusal.
    let fault = world.clients[refused].fault.as_ref();
    assert_eq!(
        fault.map(pmix_proto::Error::status),
        Some(Status::ERR_NO_PERMISSIONS)
    );
    assert!(world.clients[refused].peer.is_none());
}

#[test]
fn a_tool_without_a_reply_of_the_host_is_refused_in_time() {
    let mut world = World::new(1);
    world.rule(|_, _| Reaction::Silence);
    let waits = world.connect(0, &tool());
    let goes = world.connect(0, &tool());
    world.run();
    world.kill(goes);
    world.advance(Duration::from_secs(29));
    assert!(world.clients[waits].peer.is_some() && !world.clients[waits].is_in());
    world.advance(Duration::from_secs(1));
    let fault = world.clients[waits].fault.as_ref();
    let expected = Some(Status::ERR_TIMEOUT);
    assert_eq!(fault.map(pmix_proto::Error::status), expected);
    assert_eq!(world.nodes[0].engine.stats(), Stats::default());
}

#[test]
fn every_kind_of_tool_gets_a_readable_welcome() {
    let kinds = [
        Role::LEGACY_TOOL,
        Role::LEGACY_LAUNCHER,
        Role::TOOL,
        Role::TOOL_WITH_ID,
        Role::STARTED_TOOL,
        Role::LAUNCHER,
        Role::LAUNCHER_WITH_ID,
        Role::STARTED_LAUNCHER,
        Role::SINGLETON,
        Role::SCHEDULER,
    ];
    for role in kinds {
        for version in ["4.2.2", "5.0.11", "7.0.0"] {
            let mut world = World::new(1);
            let proc = role.says_proc().then(|| Proc::new("mine", Rank::new(0)));
            let hello = Hello {
                role,
                proc,
                version: version.into(),
                ..tool()
            };
            let who = world.connect(0, &hello);
            world.run();
            assert!(world.clients[who].is_in(), "{role} of {version}");
            assert_eq!(
                world.status_of(who, &Request::JobInfo),
                Some(Status::SUCCESS)
            );
            assert_eq!(
                world.status_of(who, &Request::Finalize),
                Some(Status::SUCCESS)
            );
            // The name is taken while the tool is connected.
            world.kill(who);
            let again = world.connect(0, &hello);
            world.run();
            assert!(world.clients[again].is_in());
        }
    }
}

#[test]
fn tools_of_other_users_need_permission() {
    let own = Some((UID, UID));
    let foreign = credential(7, 7);
    let root = credential(0, 0);
    for (foreign_tools, bytes, uid, expected) in [
        (false, &foreign, 7, false),
        (true, &foreign, 7, true),
        (false, &root, 0, true),
    ] {
        let mut config = Config::default();
        config.user = own;
        config.foreign_tools = foreign_tools;
        let mut world = World::with(1, &config);
        let hello = Hello {
            credential: bytes,
            ids: Some((uid, uid)),
            ..tool()
        };
        let who = world.connect_from(0, &hello, from(uid));
        world.run();
        assert_eq!(world.clients[who].is_in(), expected);
        let lie = Hello {
            ids: Some((UID, UID)),
            ..hello
        };
        let who = world.connect_from(0, &lie, from(uid));
        world.run();
        assert!(!world.clients[who].is_in());
    }
}

#[test]
fn a_tool_does_not_take_the_name_of_a_job_or_of_the_server() {
    let mut world = World::new(1);
    world.job("job", &[1]);
    for (nspace, rank) in [("job", 7), ("server0", 0), ("", 0)] {
        let hello = Hello {
            role: Role::TOOL_WITH_ID,
            proc: Some(Proc::new(nspace, Rank::new(rank))),
            ..tool()
        };
        let who = world.connect(0, &hello);
        world.run();
        assert!(!world.clients[who].is_in(), "{nspace} {rank}");
    }
}

#[test]
fn a_client_does_not_wait_for_the_host() {
    let mut world = World::new(1);
    world.job("job", &[3]);
    let reactions = [
        None,
        Some(HostReply::DROPPED),
        Some(HostReply::Done(Status::ERR_NO_PERMISSIONS)),
    ];
    world.rule(move |_, call| match call {
        Upcall::ClientConnected(call) => {
            let rank = usize::try_from(call.proc.rank.as_raw()).unwrap();
            assert_eq!(call.object.0, u64::from(call.proc.rank.as_raw()));
            match reactions[rank].clone() {
                None => Reaction::Silence,
                Some(answer) => Reaction::HostReply(answer),
            }
        }
        _ => Reaction::Usual,
    });
    let all: Vec<_> = (0..3)
        .map(|rank| world.connect(0, &hello("job", rank)))
        .collect();
    world.run();
    let is_in: Vec<_> = all.iter().map(|who| world.clients[*who].is_in()).collect();
    assert_eq!(is_in, [true, true, false]);
}

#[test]
fn a_credential_verified_later_blocks_no_peer_and_is_judged_alike() {
    let mut world = World::new(1);
    world.job("job", &[6]);
    let other = world.join(0, "job", 5);
    let later = |rank| Hello {
        psec: "later".into(),
        ..hello("job", rank)
    };
    let who: Vec<_> = (0..5).map(|rank| world.connect(0, &later(rank))).collect();
    world.run();
    let engine = &world.nodes[0].engine;
    assert_eq!(engine.stats().num_handshaking, 5);
    assert_eq!(engine.recount(), []);
    assert_eq!(
        world.status_of(other, &Request::JobInfo),
        Some(Status::SUCCESS)
    );
    let peers: Vec<_> = who
        .iter()
        .map(|who| world.clients[*who].peer.unwrap())
        .collect();
    let proves = |uid| {
        Ok(Verified {
            uid: Some(uid),
            gid: Some(UID),
        })
    };
    let denied = || {
        Err(Error::new(
            Status::ERR_INVALID_CRED,
            "the credential has expired",
        ))
    };
    let answer = |world: &mut World, peer, answer| {
        let now = world.now;
        world.nodes[0].engine.handle_verified(peer, answer, now);
        world.run();
        assert_eq!(world.nodes[0].engine.recount(), []);
    };
    // The registered user, another user, an invalid credential, a peer that has disconnected, and no reply before the
    // handshake times out.
    answer(&mut world, peers[0], proves(UID));
    answer(&mut world, peers[1], proves(UID + 1));
    answer(&mut world, peers[2], denied());
    world.kill(who[3]);
    answer(&mut world, peers[3], proves(UID));
    // A second result is ignored.
    answer(&mut world, peers[0], denied());
    let is_in = |world: &World| {
        who.iter()
            .map(|who| world.clients[*who].is_in())
            .collect::<Vec<_>>()
    };
    assert_eq!(is_in(&world), [true, false, false, false, false]);
    assert_eq!(
        world.status_of(who[0], &Request::JobInfo),
        Some(Status::SUCCESS)
    );
    world.advance(Config::default().handshake_time);
    answer(&mut world, peers[4], proves(UID));
    assert_eq!(is_in(&world), [true, false, false, false, false]);
    assert_eq!(
        world.nodes[0].refusals(),
        [
            Status::ERR_NO_PERMISSIONS,
            Status::ERR_INVALID_CRED,
            Status::ERR_INVALID_CRED
        ]
    );
    assert_eq!(world.nodes[0].engine.stats().num_handshaking, 0);
}

#[test]
fn a_peer_with_an_unverified_credential_must_wait_and_uses_little_memory() {
    let mut world = World::new(1);
    world.job("job", &[2]);
    let mut later = Hello {
        psec: "later".into(),
        ..hello("job", 0)
    };
    let hasty = world.connect(0, &later);
    world.run();
    // Any message before the welcome is an error, including a second hello.
    let (peer, bytes) = (world.clients[hasty].peer.unwrap(), later.encode().unwrap());
    world.nodes[0].engine.handle_input(peer, &bytes, world.now);
    world.run();
    let text = "x".repeat(64 << 10);
    later.proc = Some(Proc::new("job", Rank::new(1)));
    later.infos = vec![Info::new(keys::CMD_LINE, text)];
    world.connect(0, &later);
    world.run();
    assert_eq!(
        world.nodes[0].refusals(),
        [Status::ERR_BAD_PARAM, Status::ERR_OUT_OF_RESOURCE]
    );
}
