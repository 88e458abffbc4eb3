// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events for many peers that do not read, beside two processes that fence.

use std::io::Write as _;

use bfrops::{Layout, Module};
use pmix_proto::{Request, Tag, request};
use pmix_types::{DataRange, Info, Status};

use super::{JOB, MOST_MEMORY, beside_one, enter};
use crate::good::Fencing;
use crate::raw::Peer;
use crate::wait::shown;
use crate::{Field, Verdict};

/// The job of the peers that register for events and do not read them.
const DEAF: &str = "deaf";

/// The code of the events.
const CODE: Status = Status::from_raw(-300_000);

/// The size of an event, and the number of events: more than a server queues for one peer.
const LARGE: usize = 1 << 20;
const EVENTS: usize = 80;

/// Sends large events from one process to many registered peers that do not read.
pub(crate) fn run(field: &Field) -> Result<Verdict, String> {
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
