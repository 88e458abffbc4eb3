// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that the host serves: each reaches the host, and the peer receives the reply of the host.

use pmix_engine::{HostReply, Upcall};
use pmix_proto::{Request, reply, request};
use pmix_types::{
    AllocDirective, App, Bytes, Cpuset, DeviceDistance, FabricOperation, Info, Nspace,
    ResourceBlockDirective, Status, Topology, Value, keys,
};

use crate::control::{infos, newest, proc};
use crate::ledger::Ledger;
use crate::world::UID;

/// Returns requests that the host serves, and the names of their upcalls.
fn handed_on() -> Vec<(Request<'static>, &'static str)> {
    let infos = || vec![Info::new("k", 1_u32)];
    vec![
        (
            Request::Spawn(request::Spawn {
                infos: infos(),
                apps: vec![App::default()],
            }),
            "Spawn",
        ),
        (
            Request::Log(request::Log {
                time: 1_700_000_000,
                data: infos(),
                directives: infos(),
            }),
            "Log",
        ),
        (
            Request::Allocate(request::Allocate {
                directive: AllocDirective::NEW,
                infos: infos(),
            }),
            "Alloc",
        ),
        (
            Request::GetCredential(request::GetCredential { infos: infos() }),
            "GetCredential",
        ),
        (
            Request::ValidateCredential(request::ValidateCredential {
                credential: Bytes::Borrowed(b"CRED"),
                infos: infos(),
            }),
            "ValidateCredential",
        ),
        (
            Request::FabricRegister(request::FabricRegister { infos: infos() }),
            "Fabric",
        ),
        (
            Request::FabricUpdate(request::FabricUpdate { index: 3 }),
            "Fabric",
        ),
        (
            Request::SessionControl(request::SessionControl {
                session: 4,
                infos: infos(),
            }),
            "SessionControl",
        ),
        (
            Request::ResourceBlock(request::ResourceBlock {
                directive: ResourceBlockDirective::DEFINE,
                block: Some("blk".into()),
                units: vec![],
                infos: infos(),
            }),
            "ResourceBlock",
        ),
        (
            Request::DeviceDistances(request::DeviceDistances {
                topology: Topology::default(),
                cpuset: Cpuset {
                    source: Some("hwloc".into()),
                    bitmap: Some("0,2-3".into()),
                },
                infos: infos(),
            }),
            "DeviceDistances",
        ),
    ]
}

#[test]
fn an_unsupported_upcall_has_one_status() {
    for (answer, status) in [
        (HostReply::NotSupported, Status::ERR_NOT_SUPPORTED),
        (HostReply::Done(Status::ERR_TIMEOUT), Status::ERR_TIMEOUT),
        (HostReply::DROPPED, HostReply::DROPPED.status()),
    ] {
        let (mut world, who) = newest();
        let ledger = Ledger::answering(&mut world, answer);
        for (request, name) in handed_on() {
            let told = world.status_of(who, &request);
            assert_eq!(told, Some(status), "{name}");
            ledger.one(name);
        }
    }
}

#[test]
fn the_host_gets_the_requester_and_the_request() {
    let (mut world, who) = newest();
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let user = [Info::new(keys::USERID, UID), Info::new(keys::GRPID, UID)];
    for (request, name) in handed_on() {
        world.status_of(who, &request);
        let (asks, infos) = match ledger.one(name) {
            Upcall::Spawn(call) => (call.proc, call.infos),
            Upcall::Log(call) => {
                assert_eq!(call.data, [Info::new("k", 1_u32)]);
                let source = Info::new(keys::LOG_SOURCE, proc(0));
                assert!(call.directives.contains(&source));
                let time = Info::new(keys::LOG_TIMESTAMP, Value::Time(1_700_000_000));
                assert!(call.directives.contains(&time));
                (call.proc, call.directives)
            }
            Upcall::Alloc(call) => (call.proc, call.infos),
            Upcall::GetCredential(call) => (call.proc, call.directives),
            Upcall::ValidateCredential(call) => {
                assert_eq!(call.credential, b"CRED");
                (call.proc, call.directives)
            }
            Upcall::Fabric(call) => {
                let index = Info::new(keys::FABRIC_INDEX, Value::Size(3));
                let is_update = call.directives.contains(&index);
                let operation = match is_update {
                    true => FabricOperation::UPDATE_INFO,
                    false => FabricOperation::REQUEST_INFO,
                };
                assert_eq!(call.operation, operation);
                (call.proc, call.directives)
            }
            Upcall::SessionControl(call) => {
                assert_eq!(call.session, 4);
                (call.proc, call.directives)
            }
            Upcall::ResourceBlock(call) => {
                assert_eq!(call.block, "blk");
                (call.proc, call.directives)
            }
            Upcall::DeviceDistances(call) => {
                assert_eq!(call.cpus, Some("0,2-3".into()));
                (call.proc, call.infos)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(asks, proc(0), "{name}");
        assert!(user.iter().all(|info| infos.contains(info)), "{name}");
    }
}

#[test]
fn the_reply_of_the_host_is_returned() {
    let (mut world, who) = newest();
    let said = vec![Info::new(keys::ALLOC_ID, "alloc-1")];
    Ledger::answering(&mut world, HostReply::Infos(Status::SUCCESS, said.clone()));
    let with_infos = ["Alloc", "ValidateCredential", "Fabric", "SessionControl"];
    for (request, name) in handed_on() {
        if with_infos.contains(&name) {
            let told = infos(&mut world, who, &request);
            assert_eq!(told, (Status::SUCCESS, said.clone()), "{name}");
        }
    }
    let credential = HostReply::Credential(Ok(b"CRED".to_vec()), said.clone());
    Ledger::answering(&mut world, credential);
    let request = Request::GetCredential(request::GetCredential { infos: vec![] });
    let tag = world.ask(who, &request);
    world.run();
    let client = &world.clients[who];
    let payload = &client.reply(tag).unwrap().payload;
    let reply = reply::Credential::decode(client.session.form(), None, payload).unwrap();
    assert_eq!(reply.credential.as_deref(), Some(&b"CRED"[..]));
    assert_eq!(reply.infos, Some(said));
    let spawned = HostReply::Spawned(Status::OPERATION_SUCCEEDED, Nspace::new("child"));
    Ledger::answering(&mut world, spawned);
    let (spawn, _) = handed_on().remove(0);
    let tag = world.ask(who, &spawn);
    world.run();
    let client = &world.clients[who];
    let payload = &client.reply(tag).unwrap().payload;
    let reply = reply::Spawned::decode(client.session.form(), None, payload).unwrap();
    assert_eq!(reply.status, Status::SUCCESS);
    assert_eq!(reply.nspace, Some(Nspace::new("child")));
    let near = DeviceDistance {
        osname: Some("eth0".into()),
        ..DeviceDistance::default()
    };
    let distances = HostReply::Distances(Ok(vec![near.clone()]));
    Ledger::answering(&mut world, distances);
    let (asked, _) = handed_on().pop().unwrap();
    let tag = world.ask(who, &asked);
    world.run();
    let client = &world.clients[who];
    let payload = &client.reply(tag).unwrap().payload;
    let reply = reply::Distances::decode(client.session.form(), None, payload).unwrap();
    assert_eq!(reply.status, Status::SUCCESS);
    assert_eq!(reply.distances, Some(vec![near]));
}

#[test]
fn a_success_without_the_requested_data_is_a_failure() {
    let (mut world, who) = newest();
    Ledger::answering(&mut world, HostReply::Done(Status::SUCCESS));
    for (request, name) in handed_on() {
        let status = world.status_of(who, &request);
        let expected = match name {
            "Spawn" | "GetCredential" | "DeviceDistances" => Status::ERR_NOT_FOUND,
            _ => Status::SUCCESS,
        };
        assert_eq!(status, Some(expected), "{name}");
    }
}
