// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round trips of every request, reply and unsolicited message, in every layout that has their
//! types.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bfrops::{BufferKind, Layout, Module};
use pmix_proto::reply::{self, Object, Reply};
use pmix_proto::{Command, Deleted, Event, Flow, Output, PeerForm, Request, request};
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, DeviceDistance, Info, IofChannel, Pdata, Proc, Query,
    Rank, ResourceBlockDirective, ResourceUnit, Scope, Status, Topology, Value,
};

fn infos() -> Vec<Info<'static>> {
    vec![
        Info::new("pmix.timeout", Value::Int(3)),
        Info::new("some", "text"),
    ]
}

fn procs() -> Vec<Proc<'static>> {
    vec![
        Proc::new("job", Rank::new(0)),
        Proc::new("other", Rank::WILDCARD),
    ]
}

fn bytes() -> Cow<'static, [u8]> {
    Cow::Borrowed(&[1, 0, 255])
}

fn data() -> Vec<Request<'static>> {
    let (uid, keys) = (1000, vec!["a".into(), "b".into()]);
    vec![
        Request::JobInfo,
        Request::Finalize,
        Request::SystemInfo,
        Request::Commit(request::Commit { blocks: b"blocks" }),
        Request::Fence(request::Fence {
            procs: procs(),
            infos: infos(),
        }),
        Request::Get(request::Get {
            nspace: "job".into(),
            rank: Rank::new(7),
            infos: infos(),
            key: Some("pmix.hname".into()),
        }),
        Request::Publish(request::Publish {
            uid,
            infos: infos(),
        }),
        Request::Lookup(request::Lookup {
            uid,
            keys: keys.clone(),
            infos: infos(),
        }),
        Request::Unpublish(request::Unpublish {
            uid,
            keys,
            infos: vec![],
        }),
        Request::RefreshCache(request::RefreshCache {
            nspace: "job".into(),
            rank: Rank::new(1),
        }),
        Request::GetCredential(request::GetCredential { infos: infos() }),
        Request::ValidateCredential(request::ValidateCredential {
            credential: bytes(),
            infos: infos(),
        }),
    ]
}

fn jobs() -> Vec<Request<'static>> {
    let app = App {
        cmd: Some("prog".into()),
        argv: vec!["prog".into(), "-v".into()],
        env: vec!["A=1".into()],
        cwd: Some("/".into()),
        maxprocs: 4,
        info: infos(),
    };
    vec![
        Request::Abort(request::Abort {
            status: Status::from_raw(3),
            message: Some("why".into()),
            procs: procs(),
        }),
        Request::Spawn(request::Spawn {
            infos: infos(),
            apps: vec![app],
        }),
        Request::Connect(request::Connect {
            procs: procs(),
            infos: infos(),
            shared: Vec::new(),
        }),
        Request::Disconnect(request::Disconnect {
            procs: procs(),
            infos: vec![],
        }),
        Request::JobControl(request::JobControl {
            targets: procs(),
            infos: infos(),
        }),
        Request::GdsFallback(request::GdsFallback {
            module: Some("hash".into()),
        }),
        Request::GroupConstruct(request::GroupConstruct {
            group: Some("g".into()),
            procs: procs(),
            infos: infos(),
        }),
        Request::GroupLeave(request::GroupLeave {
            group: Some("g".into()),
            infos: vec![],
        }),
        Request::GroupDestruct(request::GroupDestruct {
            group: Some("g".into()),
            procs: procs(),
            infos: vec![],
        }),
        Request::IofPull(request::IofPull {
            procs: procs(),
            infos: vec![],
            channels: IofChannel::from_raw(6),
            local_id: 300,
        }),
        Request::IofPush(request::IofPush {
            procs: procs(),
            infos: vec![],
            data: Some(bytes()),
        }),
        Request::IofPush(request::IofPush::default()),
        Request::IofDeregister(request::IofDeregister {
            infos: infos(),
            remote_id: 9,
        }),
    ]
}

fn others() -> Vec<Request<'static>> {
    let codes = vec![Status::from_raw(-61), Status::from_raw(i32::MAX)];
    vec![
        Request::Notify(request::Notify {
            status: Status::from_raw(-147),
            range: DataRange::from_raw(3),
            infos: infos(),
        }),
        Request::GroupInvite(request::GroupInvite {
            group: Some("g".into()),
            procs: procs(),
            timeout: 5,
            is_optional: true,
            assigns_context_id: false,
        }),
        Request::GroupJoin(request::GroupJoin {
            group: Some("g".into()),
            answer: Status::GROUP_INVITE_ACCEPTED,
            leader: procs().pop(),
        }),
        Request::RegisterEvents(request::RegisterEvents {
            codes: codes.clone(),
            infos: infos(),
        }),
        Request::DeregisterEvents(request::DeregisterEvents { codes }),
        Request::Query(request::Query {
            queries: vec![Query {
                keys: vec!["pmix.qry.ns".into()],
                qualifiers: infos(),
            }],
        }),
        Request::Log(request::Log {
            time: 1_700_000_000,
            data: infos(),
            directives: vec![],
        }),
        Request::Allocate(request::Allocate {
            directive: AllocDirective::from_raw(1),
            infos: infos(),
        }),
        Request::Monitor(request::Monitor {
            monitor: Info::new("pmix.monitor.beat", Value::Undef),
            error: Status::from_raw(-12),
            infos: infos(),
        }),
        Request::FabricRegister(request::FabricRegister { infos: infos() }),
        Request::FabricUpdate(request::FabricUpdate { index: 1 }),
        Request::DeviceDistances(request::DeviceDistances {
            topology: Topology::default(),
            cpuset: Cpuset {
                source: Some("hwloc".into()),
                bitmap: Some("0-3".into()),
            },
            infos: infos(),
        }),
        Request::ResourceBlock(request::ResourceBlock {
            directive: ResourceBlockDirective::from_raw(1),
            block: Some("b".into()),
            units: vec![ResourceUnit::default()],
            infos: infos(),
        }),
        Request::SessionControl(request::SessionControl {
            session: 5,
            infos: infos(),
        }),
        Request::ResolvePeers(request::ResolvePeers {
            node: Some("n01".into()),
            nspace: "job".into(),
        }),
        Request::ResolveNodes(request::ResolveNodes {
            nspace: "job".into(),
        }),
    ]
}

/// Returns every current layout, with the release that introduced it.
fn forms() -> Vec<PeerForm> {
    let mut forms = Vec::new();
    for (module, version) in [(Module::V41, "4.2.2"), (Module::V41, "5.0.11")]
        .into_iter()
        .chain([(Module::V51, "6.0.0"), (Module::V61, "7.0.0a1")])
    {
        for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
            let layout = Layout::new(module).with_buffer(buffer);
            forms.push(PeerForm::new(layout, version.as_bytes()));
        }
    }
    forms
}

#[test]
fn every_request_survives() {
    let requests: Vec<_> = data().into_iter().chain(jobs()).chain(others()).collect();
    let known: BTreeSet<_> = requests.iter().map(Request::command).collect();
    assert!(Command::ALL.iter().all(|command| known.contains(command)));
    for form in forms() {
        for request in &requests {
            let Ok(bytes) = request.encode(&form, None) else {
                // Resource blocks exist since v51.
                assert_eq!(request.command(), Command::RESBLK, "{form:?}");
                assert_eq!(form.layout.module, Module::V41);
                continue;
            };
            let seen = Request::decode(&form, None, &bytes).unwrap();
            match (&seen, form.major) {
                (Request::GroupDestruct(group), 4) => assert!(group.procs.is_empty()),
                _ => assert_eq!(seen, *request, "{form:?}"),
            }
            assert_eq!(seen.encode(&form, None).unwrap(), bytes);
        }
    }
}

fn replies() -> Vec<(Command, Reply<'static>)> {
    let status = Status::SUCCESS;
    let pdata = Pdata {
        proc: Proc::new("job", Rank::new(1)),
        key: "a".into(),
        value: Value::from("b"),
    };
    let job = reply::JobInfo {
        nspace: "job".into(),
        kvals: b"kvals",
    };
    let objects = reply::Objects {
        status,
        objects: b"objects",
    };
    let kvals = reply::Kvals {
        status,
        kvals: b"kvals",
    };
    let credential = reply::Credential {
        status,
        credential: Some(bytes()),
        infos: Some(infos()),
    };
    let distances = reply::Distances {
        status,
        distances: Some(vec![DeviceDistance::default()]),
    };
    vec![
        (Command::REQ, Reply::JobInfo(job)),
        (Command::GETNB, Reply::Objects(objects)),
        (Command::REFRESH_CACHE, Reply::Kvals(kvals)),
        (
            Command::LOOKUP,
            Reply::Found(reply::Found {
                status,
                data: Some(vec![pdata]),
            }),
        ),
        (
            Command::SPAWN,
            Reply::Spawned(reply::Spawned {
                status,
                nspace: Some("new".into()),
            }),
        ),
        (
            Command::QUERY,
            Reply::Infos(reply::Infos {
                status: Status::ERR_PARTIAL_SUCCESS,
                infos: Some(infos()),
            }),
        ),
        (Command::GET_CREDENTIAL, Reply::Credential(credential)),
        (
            Command::IOF_PULL,
            Reply::Pulled(reply::Pulled {
                status,
                remote_id: Some(4),
            }),
        ),
        (Command::DEVICE_DISTANCES, Reply::Distances(distances)),
        (
            Command::RESOLVE_PEERS,
            Reply::Peers(reply::Peers {
                status,
                procs: Some(procs()),
            }),
        ),
        (
            Command::RESOLVE_NODE,
            Reply::Nodes(reply::Nodes {
                status,
                nodes: Some(Some("n0,n1".into())),
            }),
        ),
        (Command::FINALIZE, Reply::Done(reply::Done { status })),
    ]
}

#[test]
fn every_reply_survives() {
    for form in forms() {
        for (command, reply) in replies() {
            let bytes = reply.encode(&form, None).unwrap();
            let seen = Reply::decode(command, &form, None, &bytes);
            assert_eq!(seen.as_ref(), Ok(&reply), "{form:?}");
        }
    }
}

#[test]
fn every_command_accepts_a_status_alone_as_error() {
    for form in forms() {
        let refusal = reply::status(&form, Status::ERR_NOT_SUPPORTED).unwrap();
        for command in Command::ALL {
            if matches!(*command, Command::REQ | Command::GDS_FALLBACK) {
                continue;
            }
            let reply = Reply::decode(*command, &form, None, &refusal).unwrap();
            assert_eq!(reply.status(), Status::ERR_NOT_SUPPORTED, "{command}");
        }
    }
}

#[test]
fn every_unsolicited_message_survives() {
    for form in forms() {
        let mut event = Event {
            status: Status::from_raw(-61),
            source: Proc::new("job", Rank::new(2)),
            infos: infos(),
            range: None,
        };
        for range in [None, Some(DataRange::from_raw(4))] {
            event.range = range;
            let bytes = event.encode(&form, None).unwrap();
            assert_eq!(Event::decode(&form, None, &bytes).as_ref(), Ok(&event));
        }
        let output = Output {
            source: Proc::new("job", Rank::new(2)),
            channel: IofChannel::from_raw(2),
            local_id: 0,
            infos: vec![],
            data: bytes(),
        };
        let bytes = output.encode(&form, None).unwrap();
        assert_eq!(Output::decode(&form, None, &bytes), Ok(output));
        let flow = Flow {
            stop: true,
            ..Flow::default()
        };
        let bytes = flow.encode(&form, None).unwrap();
        assert_eq!(Flow::decode(&form, None, &bytes), Ok(flow));
        let deleted = Deleted {
            scope: Scope::GLOBAL,
            key: "k".into(),
            ..Deleted::default()
        };
        let bytes = deleted.encode(&form, None).unwrap();
        assert_eq!(Deleted::decode(&form, None, &bytes), Ok(deleted));
    }
}

#[test]
fn objects_are_parsed_up_to_the_first_error() {
    let form = forms()[0];
    let object = b"\x02\x13\x02\x08job\0\x01\x02\x04a\0\x0e\x05\x02\x04b\0\x0e\x06";
    let written = object.to_vec();
    let payload = [&[2, 0][..], object, object, &[2, 0xff]].concat();
    let objects = reply::Objects::decode(&form, None, &payload).unwrap();
    let mut procs = objects.procs(&form, None);
    for _ in 0..2 {
        let object = procs.next().unwrap().unwrap();
        assert_eq!(object.of, Proc::new("job", Rank::new(1)));
        assert_eq!(object.encode(&form).unwrap(), written);
        let kvals = object.kvals(&form, None).unwrap();
        let values: Vec<_> = kvals.iter().map(|kval| &kval.value).collect();
        assert_eq!(values, [&Value::Uint32(5), &Value::Uint32(6)]);
        let packed = reply::pack_kvals(&form, None, &kvals).unwrap();
        assert_eq!(packed, object.kvals);
    }
    let error = procs.next().unwrap().unwrap_err();
    assert!(error.offset().unwrap() >= 2 * object.len(), "{error}");
    assert!(procs.next().is_none());
}

#[test]
fn the_object_of_a_process_equals_that_of_a_real_server() {
    let form = forms()[0];
    let unhex = |digits: &str| data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap();
    let kvals =
        "02106d792e676c6f62000f88ef99abc5e88c9111020e6d792e6c6f6300031868656c6c6f2d6c6f63616c00";
    let object = Object {
        of: Proc::new("JOB1", Rank::new(1)),
        kvals: &unhex(kvals),
    };
    let expected = unhex(&["0233020a4a4f42310001", kvals].concat());
    assert_eq!(object.encode(&form).unwrap(), expected);
}
