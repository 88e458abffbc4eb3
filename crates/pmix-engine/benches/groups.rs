// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructs groups of the processes of a job, and loses them as the processes end: `groups COUNT`. `cargo xtask bench
//! server` counts the instructions of both inside of `counted_part`.
#![allow(clippy::disallowed_methods, reason = "a run begins at some instant")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bfrops::BufferKind;
use gds_hash::{LocalNode, Store};
use pmix_engine::{
    Claim, Config, Credentials, Engine, HostObject, HostReply, Origin, PeerId, Psec, Verification,
    Verified,
};
use pmix_proto::{Header, Hello, Request, Role, Tag, request};
use pmix_types::{Info, Proc, Rank, Status, Text, keys};
use preg_core::Params;

/// The processes that construct equal shares of the groups; one process may be in 4,096.
const PROCS: u32 = 32;

const JOB: &str = "job";

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

fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args().nth(1).unwrap_or_default().parse()?;
    let preg = pmix_builtin::open_preg(&Params::default())?;
    let store = Store::new(Arc::new(preg), LocalNode::new("n00".to_owned()));
    let mut engine = Engine::new(Config::default(), Arc::new(store), vec![Box::new(Believed)]);
    let ranks: Vec<_> = (0..PROCS).map(|rank| rank.to_string()).collect();
    let infos = [
        Info::new(keys::NODE_MAP, "n00"),
        Info::new(keys::PROC_MAP, ranks.join(",")),
    ];
    engine.register_nspace(&JOB.into(), PROCS, &infos)?;
    let now = Instant::now();
    let mut peers = Vec::new();
    for rank in 0..PROCS {
        let proc = Proc::new(JOB, Rank::new(rank));
        engine.register_client(&proc, Credentials::new(1, 1), HostObject(0))?;
        let hello = Hello {
            psec: "native".into(),
            credential: &[],
            role: Role::CLIENT,
            ids: None,
            proc: Some(proc),
            version: "5.0.11".into(),
            module: "v41".into(),
            buffer: BufferKind::NonDescribed,
            gds: "hash".into(),
            infos: vec![],
        };
        let peer = engine.open(Origin::default(), now);
        say(&mut engine, peer, &hello.encode()?, now);
        let (form, groups) = (
            hello.form()?,
            (rank..count).step_by(usize::try_from(PROCS)?),
        );
        let requests = groups.map(|number| {
            let request = Request::GroupConstruct(request::GroupConstruct {
                group: Some(Text::from(format!("g{number}"))),
                procs: vec![Proc::new(JOB, Rank::new(rank))],
                infos: vec![Info::new(keys::GROUP_LOCAL_ONLY, true)],
            });
            let payload = request.encode(&form, None)?;
            let len = u32::try_from(payload.len())?;
            Ok([&Header::new(0, Tag(200), len).encode()[..], &payload].concat())
        });
        peers.push((peer, requests.collect::<Result<Vec<_>, Box<dyn Error>>>()?));
    }
    let num_groups = counted_part(|| {
        for (peer, requests) in &peers {
            for request in requests {
                say(&mut engine, *peer, request, now);
            }
        }
        let num_groups = engine.stats().num_groups;
        for (peer, _) in &peers {
            engine.handle_closed(*peer, now);
            drain(&mut engine, now);
        }
        num_groups
    });
    let left = engine.stats().num_groups;
    if (num_groups, left) != (usize::try_from(count)?, 0) {
        return Err(
            format!("{num_groups} of {count} groups were made, and {left} are left").into(),
        );
    }
    Ok(())
}

/// Runs the part whose instructions are counted.
#[inline(never)]
fn counted_part<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Adds bytes of a peer and runs the engine.
fn say(engine: &mut Engine, peer: PeerId, bytes: &[u8], now: Instant) {
    engine.queue_input(peer, bytes);
    drain(engine, now);
}

/// Runs the engine until it is idle; its host grants all requests.
fn drain(engine: &mut Engine, now: Instant) {
    loop {
        let mut moved = engine.handle_queued(now).is_some();
        while let Some(transmit) = engine.poll_transmit() {
            engine.handle_written(transmit.peer, transmit.bytes.len());
            moved = true;
        }
        while let Some(call) = engine.poll_host_call() {
            engine.handle_host(call.id, HostReply::Done(Status::SUCCESS), now);
            moved = true;
        }
        while engine.poll_shared().is_some() {}
        while engine.poll_event().is_some() {}
        if !moved {
            return;
        }
    }
}
