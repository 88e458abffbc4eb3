// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that request as much as they may, beside two processes that fence. The scenarios measure the longest fence,
//! the longest wait of the host and the memory of the server.

pub(crate) mod kinds;
mod lists;
pub(crate) mod steps;

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use bfrops::{Layout, Module};
use pmix_client::Uri;
use pmix_proto::{Request, Tag, request};
use pmix_types::{DataRange, Info, Status};

use crate::good::Fencing;
use crate::raw::Peer;
use crate::wait::{Times, shown, until};
use crate::{Field, Verdict};
use kinds::Kind;

/// The job of the attackers.
const JOB: &str = "greedy";

/// The number of attackers that send at the same time.
const ATTACKERS: u32 = 16;

/// The limits of a fence beside one attacker and beside all. On a busy machine a fence counts the processor time that
/// the server used meanwhile.
const BESIDE_ONE: Duration = Duration::from_millis(50);

const BESIDE_ALL: Duration = Duration::from_millis(250);

/// The factor for the unoptimized server of a test build.
const UNOPTIMIZED: u32 = 15;

/// The limit of the host's waits: ten times the bound promised for an idle machine.
const HOST_WAITS: Duration = Duration::from_millis(5000);

/// The limit of wall time for a message of 200 KiB beside partial messages that make no progress.
const MODERATE_WAITS: Duration = Duration::from_millis(2500);

/// Returns the limit of a fence beside one attacker.
fn beside_one(field: &Field) -> Duration {
    BESIDE_ONE * if field.short { UNOPTIMIZED } else { 1 }
}

/// Returns the limit of a fence beside all attackers.
fn beside_all(field: &Field) -> Duration {
    BESIDE_ALL * if field.short { UNOPTIMIZED } else { 1 }
}

/// The limit of the server's memory in KiB.
const MOST_MEMORY: u64 = 512 << 10;

/// The longest payload that a server accepts.
const LONGEST: usize = 64 << 20;

/// The size of a message that is complete but not short.
const MODERATE: usize = 200 << 10;

/// The time in which a disconnected peer tries to connect again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends every kind of request at its largest, from one process and then from many.
pub(crate) fn run(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("greedy", &[])?;
    server.job("good", 2)?;
    server.job(JOB, ATTACKERS)?;
    let form = enter(&server.uri, JOB, 0)?.form;
    let kinds = kinds::all(&form, field.count(1, 4))?;
    let mut alone = (Duration::ZERO, "");
    for kind in &kinds {
        let good = Fencing::start_beside(&server, "good", 2);
        let asked = ask(&server.uri, 0, kind);
        let worst = good.stop()?.worst();
        asked?;
        if worst > alone.0 {
            alone = (worst, kind.name);
        }
    }
    let good = Fencing::start_beside(&server, "good", 2);
    let rounds = field.count(kinds.len(), 4);
    let mut host = Times::default();
    let attacked = thread::scope(|scope| {
        let (kinds, uri) = (&kinds, server.uri.clone());
        let attackers = (0..ATTACKERS).map(|rank| {
            let uri = uri.clone();
            scope.spawn(move || {
                let first = usize::try_from(rank).unwrap_or(0) * 3;
                let order = kinds.iter().cycle().skip(first).take(rounds);
                order.into_iter().try_for_each(|kind| ask(&uri, rank, kind))
            })
        });
        let attackers: Vec<_> = attackers.collect();
        // The host registers jobs meanwhile, so that its waits are measured.
        let mut number = 0;
        while !attackers.iter().all(|attacker| attacker.is_finished()) {
            number += 1;
            let begun = Instant::now();
            let told = server.job(&format!("host{number}"), 1);
            host.push(begun.elapsed());
            told?;
            thread::sleep(Duration::from_millis(20));
        }
        attackers.into_iter().try_for_each(|attacker| {
            let asked = attacker.join();
            asked.unwrap_or_else(|_| Err("an attacker panicked".to_owned()))
        })
    });
    let fences = good.stop()?;
    attacked?;
    let begun = begin_messages(&server.uri)?;
    let memory = server.figures()?.peak;
    let (all_at_once, waited) = (fences.worst(), host.worst());
    server.end()?;
    let figures = format!(
        "{} kinds: longest fence {} ({}); {ATTACKERS} at once: longest of {} fences {}, host \
         waits {}; {begun} MiB of messages begun; {} MiB",
        kinds.len(),
        shown(alone.0),
        alone.1,
        fences.len() / 2,
        shown(all_at_once),
        shown(waited),
        memory >> 10,
    );
    let is_quick = alone.0 < beside_one(field) && all_at_once < beside_all(field);
    let holds = is_quick && waited < HOST_WAITS;
    match holds && memory < MOST_MEMORY {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Sends a message of the maximum length without its last byte from every attacker, as far as the
/// server reads it. Returns how many MiB the server read of them, after a moderate message of
/// another peer was served.
fn begin_messages(uri: &Uri) -> Result<u64, String> {
    let peers: Result<Vec<_>, _> = (0..ATTACKERS).map(|rank| enter(uri, JOB, rank)).collect();
    let payload = vec![7; LONGEST];
    let frame = Peer::frame(Tag(200), &payload);
    // Without its last byte the message never completes.
    let most = frame.get(..frame.len() - 1).unwrap_or_default();
    let sent = thread::scope(|scope| {
        let send = |mut peer: Peer| {
            scope.spawn(move || {
                // The server stops reading at its memory limit. The write must then end at a time
                // limit.
                let limit = Some(Duration::from_secs(2));
                let limited = peer.stream.set_write_timeout(limit);
                limited.map_err(|e| e.to_string())?;
                let mut sent = 0;
                while let Some(rest) = most.get(sent..).filter(|rest| !rest.is_empty()) {
                    match peer.stream.write(rest.get(..64 << 10).unwrap_or(rest)) {
                        Ok(0) | Err(_) => break,
                        Ok(len) => sent += len,
                    }
                }
                Ok::<_, String>((sent, peer))
            })
        };
        let threads: Vec<_> = peers?.into_iter().map(send).collect();
        let ended = threads.into_iter().map(|thread| {
            let sent = thread.join();
            sent.unwrap_or_else(|_| Err("a sender panicked".to_owned()))
        });
        ended.collect::<Result<Vec<_>, String>>()
    })?;
    let mut good = enter(uri, "good", 0)?;
    let blob = Info::new("blob", vec![7_u8; MODERATE]);
    let publish = Request::Publish(request::Publish {
        uid: 0,
        infos: vec![blob],
    });
    let publish = good.request(Tag(201), &publish)?;
    let begun = Instant::now();
    let is_sent = good.stream.write_all(&publish).is_ok();
    if !is_sent || good.reply(Tag(201))?.is_none() {
        return Err(format!(
            "{MODERATE} bytes beside announced messages: no reply"
        ));
    }
    if begun.elapsed() > MODERATE_WAITS {
        let took = shown(begun.elapsed());
        return Err(format!(
            "{MODERATE} bytes beside announced messages: {took}"
        ));
    }
    let total: usize = sent.iter().map(|(sent, _)| sent).sum();
    u64::try_from(total >> 20).map_err(|e| e.to_string())
}

/// Connects, and retries while the server still handles the end of this process's last connection.
fn enter(uri: &Uri, job: &str, rank: u32) -> Result<Peer, String> {
    let layout = Layout::new(Module::V41);
    let entered = until(PATIENCE, || {
        Peer::client(uri.address, job, rank, layout).ok()
    });
    entered.ok_or_else(|| format!("rank {rank} is not let in"))
}

/// Sends all requests of a kind, and waits until the server has handled them or disconnects.
fn ask(uri: &Uri, rank: u32, kind: &Kind) -> Result<(), String> {
    let mut peer = enter(uri, JOB, rank)?;
    // The write may fail: the server may disconnect before it has read everything.
    let _ = peer.stream.write_all(&kind.bytes);
    let answered = peer.ping();
    answered
        .map(drop)
        .map_err(|e| format!("{}: {e}", kind.name))
}

/// The job of the peers that register for events and do not read them.
const DEAF: &str = "deaf";

/// The code of the events.
const CODE: Status = Status::from_raw(-300_000);

/// The size of an event, and the number of events: more than a server queues for one peer.
const LARGE: usize = 1 << 20;

const EVENTS: usize = 80;

/// Sends large events from one process to many registered peers that do not read.
pub(crate) fn run_unread(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("unread", &[])?;
    let num_deaf = u32::try_from(field.count(900, 100)).unwrap_or(u32::MAX);
    server.job("good", 2)?;
    server.job(JOB, 1)?;
    server.job(DEAF, num_deaf)?;
    let register = Request::RegisterEvents(request::RegisterEvents {
        codes: vec![CODE],
        infos: vec![],
    });
    let deaf = (0..num_deaf).map(|rank| {
        let mut peer = Peer::client(server.uri.address, DEAF, rank, Layout::new(Module::V41))?;
        let bytes = peer.request(Tag(200), &register)?;
        peer.stream.write_all(&bytes).map_err(|e| e.to_string())?;
        match peer.reply(Tag(200))? {
            Some(_) => Ok(peer),
            None => Err(format!("rank {rank} of {DEAF} is not registered")),
        }
    });
    let deaf: Vec<_> = deaf.collect::<Result<_, String>>()?;
    let good = Fencing::start_beside(&server, "good", 2);
    let mut attacker = enter(&server.uri, JOB, 0)?;
    let notify = Request::Notify(request::Notify {
        status: CODE,
        range: DataRange::GLOBAL,
        infos: vec![Info::new("blob", vec![7_u8; LARGE])],
    });
    let notify = attacker.request(Tag(201), &notify)?;
    // Each event must be accepted, although most peers do not read it.
    for number in 0..EVENTS {
        let is_sent = attacker.stream.write_all(&notify).is_ok();
        if !is_sent || attacker.reply(Tag(201))?.is_none() {
            return Err(format!("event {number} is not taken"));
        }
    }
    let worst = good.stop()?.worst();
    let memory = server.figures()?.peak;
    drop(deaf);
    server.end()?;
    let figures = format!(
        "{EVENTS} events of {} KiB for {num_deaf} peers: longest fence {}; {} MiB",
        LARGE >> 10,
        shown(worst),
        memory >> 10,
    );
    match worst < beside_one(field) && memory < MOST_MEMORY {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}
