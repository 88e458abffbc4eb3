// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest step of an engine for each kind of request, in processor time of the thread. It bounds how long other
//! peers wait. The engine runs in this process, so that other processes are not counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bfrops::{Layout, Module};
use gds_hash::{LocalNode, Store};
use pmix_engine::{
    Claim, Config, Credentials, Engine, Error, HostObject, HostReply, Origin, PeerId, Psec, Upcall,
    Verification, Verified,
};
use pmix_proto::{PeerForm, Request, Role, Tag, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, Text, keys};
use preg_core::Params;
use rustix::time::{ClockId, clock_gettime};

use super::kinds::{self, Kind};
use super::{ATTACKERS, JOB};
use crate::raw::{Peer, credential, hello};
use crate::server::me;
use crate::wait::shown;
use crate::{Field, Verdict};

/// The limit of a step. For an idle machine, 5 ms are promised. The factor of four allows for
/// caches that other programs fill. The factor of ten allows for a build without optimization.
const LONGEST: Duration = Duration::from_millis(20);
const LONGEST_UNOPTIMIZED: Duration = Duration::from_millis(200);

/// The number of steps in a report.
const NAMED: usize = 5;

/// An engine whose host grants everything. Its peers read everything unless a scenario says otherwise.
pub(super) struct Inside {
    engine: Engine,
    now: Instant,
    longest: Duration,
    /// `true` if peers do not read.
    is_deaf: bool,
}

/// A security module that accepts any user and group ID.
struct Native;

impl Psec for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn verify(&self, _: &[u8], _: &Claim<'_>) -> Result<Verification, Error> {
        let (uid, gid) = me();
        Ok(Verification::Done(Verified {
            uid: Some(uid),
            gid: Some(gid),
        }))
    }
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

impl Inside {
    /// Starts an engine with the job of the attackers.
    ///
    /// # Errors
    /// Returns a message if the engine refuses the job.
    pub(super) fn new() -> Result<Self, String> {
        let preg = pmix_builtin::open_preg(&Params::default()).map_err(|e| e.to_string())?;
        let store = Store::new(Arc::new(preg), LocalNode::new("n00".to_owned()));
        let config = Config::default();
        let mut engine = Engine::new(config, Arc::new(store), vec![Box::new(Native)]);
        let ranks: Vec<_> = (0..ATTACKERS).map(|rank| rank.to_string()).collect();
        let infos = [
            Info::new(keys::NODE_MAP, "n00"),
            Info::new(keys::PROC_MAP, ranks.join(",")),
        ];
        let registered = engine.register_nspace(&JOB.into(), ATTACKERS, &infos);
        registered.map_err(|e| e.to_string())?;
        let (uid, gid) = me();
        for rank in 0..ATTACKERS {
            let proc = Proc::new(JOB, Rank::new(rank));
            let object = HostObject(rank.into());
            let registered = engine.register_client(&proc, Credentials::new(uid, gid), object);
            registered.map_err(|e| e.to_string())?;
        }
        Ok(Self {
            engine,
            now: Instant::now(),
            longest: Duration::ZERO,
            is_deaf: false,
        })
    }

    /// Connects a process of the job.
    ///
    /// # Errors
    /// Returns a message if the hello cannot be packed.
    pub(super) fn enter(&mut self, rank: u32) -> Result<PeerId, String> {
        let proc = Proc::new(JOB, Rank::new(rank));
        let credential = credential(me());
        let hello = hello(
            Role::CLIENT,
            Some(proc),
            &credential,
            Layout::new(Module::V41),
        );
        let bytes = hello.encode().map_err(|e| e.to_string())?;
        let peer = self.engine.open(
            Origin {
                loopback: true,
                ..Origin::default()
            },
            self.now,
        );
        self.say(peer, &bytes);
        Ok(peer)
    }

    /// Passes bytes of a peer to the engine, and measures each step that follows.
    pub(super) fn say(&mut self, peer: PeerId, bytes: &[u8]) {
        for part in bytes.chunks(64 << 10) {
            self.engine.queue_input(peer, part);
            if !self.engine.wants_input(peer) {
                self.settle();
            }
        }
        self.settle();
    }

    /// Closes the connection of a peer, and measures each step that follows.
    pub(super) fn close(&mut self, peer: PeerId) {
        let now = self.now;
        self.step(|engine| engine.handle_closed(peer, now));
        self.settle();
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Engine) -> T) -> T {
        let begun = processor_time();
        let result = step(&mut self.engine);
        let took = processor_time().saturating_sub(begun);
        self.longest = self.longest.max(took);
        result
    }

    /// Runs the engine until it has no work left.
    fn settle(&mut self) {
        let now = self.now;
        loop {
            let handled = self.step(|engine| engine.handle_queued(now));
            let mut moved = handled.is_some();
            while let Some(transmit) = self.engine.poll_transmit() {
                if !self.is_deaf {
                    let num_bytes = transmit.bytes.len();
                    self.step(|engine| engine.handle_written(transmit.peer, num_bytes));
                    moved = true;
                }
            }
            while let Some(call) = self.engine.poll_host_call() {
                let answer = answer(&call.upcall);
                self.step(|engine| engine.handle_host(call.id, answer, now));
                moved = true;
            }
            while self.engine.poll_shared().is_some() {}
            while self.engine.poll_event().is_some() {}
            if !moved {
                return;
            }
        }
    }
}

/// Returns the answer of a host that grants everything.
fn answer(call: &Upcall) -> HostReply {
    match call {
        Upcall::Fence(fence) => HostReply::Data(Ok(fence.data.clone())),
        Upcall::DirectModex(_) => HostReply::Data(Err(Status::ERR_NOT_FOUND)),
        Upcall::ToolConnected(_) => HostReply::Tool(Ok(Proc::new("tool", Rank::new(0)))),
        Upcall::Spawn(_) | Upcall::Lookup(_) => HostReply::NotSupported,
        _ => HostReply::Done(Status::SUCCESS),
    }
}

/// Packs a request as a frame.
fn frame(form: &PeerForm, request: &Request<'_>) -> Result<Vec<u8>, String> {
    let payload = request.encode(form, None).map_err(|e| e.to_string())?;
    Ok(Peer::frame(Tag(200), &payload))
}

/// Returns the form in which the attackers pack.
fn form() -> Result<PeerForm, String> {
    let credential = credential(me());
    let proc = Proc::new(JOB, Rank::new(0));
    let hello = hello(
        Role::CLIENT,
        Some(proc),
        &credential,
        Layout::new(Module::V41),
    );
    hello.form().map_err(|e| e.to_string())
}

/// Returns the longest step caused by the requests of a kind.
fn of_kind(kind: &Kind) -> Result<Duration, String> {
    let mut inside = Inside::new()?;
    let peer = inside.enter(0)?;
    inside.longest = Duration::ZERO;
    inside.say(peer, &kind.bytes);
    Ok(inside.longest)
}

/// Returns the longest step at the end of a process that constructed `count` groups alone, or invited itself to them.
fn end_of_groups(count: u32, are_invitations: bool) -> Result<Duration, String> {
    let (mut inside, form) = (Inside::new()?, form()?);
    let peer = inside.enter(0)?;
    for number in 0..count {
        let name = Text::from(format!("g{number}"));
        let own = Proc::new(JOB, Rank::new(0));
        let request = match are_invitations {
            false => Request::GroupConstruct(request::GroupConstruct {
                group: Some(name),
                procs: vec![own],
                infos: vec![Info::new(keys::GROUP_LOCAL_ONLY, true)],
            }),
            true => Request::Notify(request::Notify {
                status: Status::GROUP_INVITED,
                range: DataRange::CUSTOM,
                infos: vec![
                    Info::new(keys::EVENT_CUSTOM_RANGE, Proc::new(JOB, Rank::new(1))),
                    Info::new(keys::GROUP_ID, name),
                ],
            }),
        };
        inside.say(peer, &frame(&form, &request)?);
    }
    inside.longest = Duration::ZERO;
    inside.close(peer);
    Ok(inside.longest)
}

/// Sends every kind of request at its largest, and ends a process that has as many groups as it may have.
pub(crate) fn run(field: &Field) -> Result<Verdict, String> {
    let share = field.count(1, 4);
    let mut steps = Vec::new();
    for kind in &kinds::all(&form()?, share)? {
        steps.push((of_kind(kind)?, kind.name));
    }
    let count = u32::try_from(field.count(106_000, 5_000)).unwrap_or(u32::MAX);
    steps.push((
        end_of_groups(count, false)?,
        "the end of a process with groups",
    ));
    steps.push((
        end_of_groups(count, true)?,
        "the end of a process with invitations",
    ));
    steps.sort_unstable_by(|a, b| b.cmp(a));
    let limit = if field.short {
        LONGEST_UNOPTIMIZED
    } else {
        LONGEST
    };
    let named = steps.iter().take(NAMED);
    let named: Vec<_> = named
        .map(|(took, name)| format!("{} ({name})", shown(*took)))
        .collect();
    let figures = format!("{} kinds: longest steps {}", steps.len(), named.join(", "));
    match steps.first().is_none_or(|(took, _)| *took < limit) {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}
