// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes in the requests of peers: decodes them, and limits how many of a peer wait for answers.

use bfrops::RegexFramer;
use pmix_proto::{ListLimits, Request, Tag};
use pmix_types::{Status, memory};

use crate::cx::Cx;
use crate::peers::{PeerId, Ticket};
use crate::{EngineEvent, Error};

/// A request that was taken in.
#[derive(Debug)]
pub(crate) enum Incoming<'p> {
    /// One that is answered.
    Answered(Ticket, Request<'p>),
    /// One that has no answer.
    Unanswered(Request<'p>),
}

/// Takes in a request of a peer that was admitted. One that cannot be decoded, or for which the
/// peer has no room, is answered here.
pub(crate) fn take_in<'p>(
    cx: &mut Cx,
    peer: PeerId,
    tag: Tag,
    payload: &'p [u8],
    framer: &'p dyn RegexFramer,
) -> Option<Incoming<'p>> {
    let form = cx.form(peer)?;
    // A group or a connect of all processes of large jobs may name each of them.
    let num_procs = usize::try_from(cx.registry.num_procs()).unwrap_or(usize::MAX);
    let limits = ListLimits {
        procs: cx.config.procs_per_request.max(num_procs),
        infos: cx.config.infos_per_request,
    };
    let decoded = Request::decode_measured(&form, Some(framer), payload, limits);
    let (request, taken) = match decoded {
        Ok((request, taken)) => (
            check_memory(&request, payload.len() + taken).map(|()| request),
            taken,
        ),
        Err(error) => (Err(error.into()), 0),
    };
    let command = match &request {
        Ok(request) => Some(request.command()),
        Err(_) => Request::command_of(&form, payload),
    };
    if command.is_some_and(|command| !command.is_answered()) {
        return request.ok().map(Incoming::Unanswered);
    }
    let room = check_room(cx, peer);
    let num_bytes = payload.len().saturating_add(taken);
    let ticket = cx.peers.ticket(peer, tag, num_bytes);
    let refusal = match (request, room) {
        // Whoever leaves is let go, however much of it waits.
        (Ok(Request::Finalize), _) => return Some(Incoming::Answered(ticket, Request::Finalize)),
        (Ok(request), Ok(())) => return Some(Incoming::Answered(ticket, request)),
        (Ok(_), Err(error)) => error,
        (Err(error), _) => error,
    };
    cx.reply_error(ticket, &refusal);
    if refusal.status() == Status::ERR_OUT_OF_RESOURCE {
        // The peer gets the status alone, so the text goes to the log.
        let reason = refusal;
        cx.driver_events
            .push_back(EngineEvent::Denied { peer, reason });
    }
    None
}

/// Checks that the process has memory for what is made of a request: a copy that waits for its answer, and what is
/// handed to the host or to other peers.
///
/// # Errors
///
/// `PMIX_ERR_NOMEM` if it has not; other peers are served all the same.
fn check_memory(request: &Request<'_>, num_bytes: usize) -> Result<(), Error> {
    match request {
        // Its values are copied one by one, each if there is memory.
        Request::Commit(_) => Ok(()),
        _ => Ok(memory::check(num_bytes.saturating_mul(2))?),
    }
}

/// Whether one more request of a peer may wait for its answer.
///
/// # Errors
///
/// `PMIX_ERR_OUT_OF_RESOURCE` if too many of it wait, or too many bytes.
fn check_room(cx: &Cx, peer: PeerId) -> Result<(), Error> {
    let (num_open, num_bytes) = cx.peers.open(peer);
    let (all_bytes, num_peers) = (cx.peers.open_bytes(), cx.peers.len());
    let config = &cx.config;
    // Where all of them have too much, who has less than its share is not refused.
    let share = config.request_bytes.checked_div(num_peers).unwrap_or(0);
    let is_full = num_open >= config.requests_per_peer
        || num_bytes > config.request_bytes_per_peer
        || (all_bytes > config.request_bytes && num_bytes > share);
    match is_full {
        false => Ok(()),
        true => Err(Error::new(
            Status::ERR_OUT_OF_RESOURCE,
            format!(
                "the limit of pending requests is reached: {num_open} requests of {num_bytes} bytes are pending"
            ),
        )),
    }
}
