// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with a client of a newer release, which appends fields to its requests and sends unknown commands.
#![allow(
    clippy::disallowed_methods,
    reason = "the engine needs some instant to begin with"
)]

use std::sync::Arc;
use std::time::Instant;

use bfrops::BufferKind;
use gds_hash::{LocalNode, Store};
use pmix_engine::{
    Claim, Config, Credentials, Engine, EngineEvent, HostObject, HostReply, Origin, PeerId, Psec,
    Verification, Verified,
};
use pmix_proto::{Command, Header, Hello, PeerForm, Request, Role, Tag};
use pmix_types::{Info, Proc, Rank, keys};

use super::{preg, shared_preg};

const JOB: &str = "job";

/// The modules of clients since 4.1, which have the same form of requests.
const MODULES: [&str; 3] = ["v41", "v51", "v61"];

/// A security module that accepts every credential.
struct Believed;

impl Psec for Believed {
    fn name(&self) -> &str {
        "native"
    }

    fn verify(&self, _: &[u8], _: &Claim<'_>) -> Result<Verification, pmix_engine::Error> {
        Ok(Verification::Done(Verified {
            uid: Some(1),
            gid: Some(1),
        }))
    }
}

/// Sends a request of a client of a newer release: the first bytes select the module, the numbers of the version and an
/// amount to add to the command; the rest is the payload with any bytes after it.
///
/// The server replies at most once to each request, does not close the connection, and serves the next request.
pub(crate) fn newer(data: &[u8]) {
    let [module, major, minor, more, payload @ ..] = data else {
        return;
    };
    let mut payload = payload.to_vec();
    if let Some(command) = payload.get_mut(1) {
        *command = command.wrapping_add(*more);
    }
    let version = format!("{}.{}.0", 8 + u32::from(*major), minor);
    let module = MODULES[usize::from(*module) % MODULES.len()];
    let (mut engine, peer, form) = connected(&version, module);
    let replies = ask(&mut engine, peer, Tag(200), &payload);
    let command = Request::command_of(&form, &payload);
    let is_answered = command.is_none_or(Command::is_answered);
    assert!(replies <= usize::from(is_answered), "{command:?}");
    // Only a request that is read may wait for others; an unknown or damaged one is answered at once.
    if is_answered
        && !matches!(Request::decode(&form, Some(preg()), &payload), Ok(request) if request.command().0 < 40)
    {
        assert_eq!(replies, 1, "{command:?}");
    }
    let finalize = Request::Finalize.encode(&form, None);
    let finalize = finalize.expect("a request without fields");
    assert_eq!(ask(&mut engine, peer, Tag(201), &finalize), 1);
}

/// Returns a server with a job of one process, which has connected.
fn connected(version: &str, module: &str) -> (Engine, PeerId, PeerForm) {
    let now = Instant::now();
    let store = Store::new(
        Arc::clone(shared_preg()) as _,
        LocalNode::new("n00".to_owned()),
    );
    let mut engine = Engine::new(Config::default(), Arc::new(store), vec![Box::new(Believed)]);
    let infos = [
        Info::new(keys::NODE_MAP, "n00"),
        Info::new(keys::PROC_MAP, "0"),
    ];
    let proc = Proc::new(JOB, Rank::new(0));
    let registered = engine.register_nspace(&JOB.into(), 1, &infos);
    registered.expect("a job of one process");
    let registered = engine.register_client(&proc, Credentials::new(1, 1), HostObject(0));
    registered.expect("a process of the job");
    let hello = Hello {
        psec: "native".into(),
        credential: &[],
        role: Role::CLIENT,
        ids: None,
        proc: Some(proc),
        version: version.into(),
        module: module.into(),
        buffer: BufferKind::NonDescribed,
        gds: "hash".into(),
        infos: vec![],
    };
    let peer = engine.open(Origin::default(), now);
    engine.queue_input(peer, &hello.encode().expect("a valid hello"));
    drain(&mut engine, peer, now, Tag(0));
    (engine, peer, hello.form().expect("a known module"))
}

/// Sends a request, and returns the number of replies.
fn ask(engine: &mut Engine, peer: PeerId, tag: Tag, payload: &[u8]) -> usize {
    let len = u32::try_from(payload.len()).expect("a short payload");
    engine.queue_input(peer, &Header::new(0, tag, len).encode());
    engine.queue_input(peer, payload);
    drain(engine, peer, Instant::now(), tag)
}

/// Runs the engine until it is idle, with a host that supports nothing. Returns the number of messages with a tag.
fn drain(engine: &mut Engine, peer: PeerId, now: Instant, tag: Tag) -> usize {
    let mut num_replies = 0;
    loop {
        let mut moved = engine.handle_queued(now).is_some();
        while let Some(transmit) = engine.poll_transmit() {
            let head = transmit.bytes.head().try_into();
            if let Ok(head) = head
                && Header::decode(head).tag == tag
            {
                assert!(!transmit.bytes.payload().is_empty(), "an empty reply");
                num_replies += 1;
            }
            engine.handle_written(transmit.peer, transmit.bytes.len());
            moved = true;
        }
        while let Some(call) = engine.poll_host_call() {
            engine.handle_host(call.id, HostReply::NotSupported, now);
            moved = true;
        }
        while let Some(event) = engine.poll_event() {
            let is_drop = matches!(&event, EngineEvent::Close(of) if *of == peer)
                || matches!(&event, EngineEvent::Refused { peer: of, .. } if *of == peer);
            assert!(!is_drop, "{event:?}");
            moved = true;
        }
        if !moved {
            return num_replies;
        }
    }
}
