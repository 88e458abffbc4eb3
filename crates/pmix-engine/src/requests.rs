// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding of requests, and the limits of a peer's open requests.

use bfrops::RegexFramer;
use pmix_proto::{ListLimits, RELEASE, Request, Tag};
use pmix_types::{Status, memory};

use crate::cx::Cx;
use crate::peers::{Peer, PeerId, Ticket};
use crate::{EngineEvent, Error};

/// A decoded request.
#[derive(Debug)]
pub(crate) enum Incoming<'p> {
    /// A request that requires a reply.
    Answered(Ticket, Request<'p>),
    /// A request without a reply.
    Unanswered(Request<'p>),
}

/// Decodes a request of an admitted peer. Replies at once to a request that is invalid or exceeds a limit, and returns
/// `None`.
pub(crate) fn take_in<'p>(
    cx: &mut Cx,
    peer: PeerId,
    tag: Tag,
    payload: &'p [u8],
    framer: &'p dyn RegexFramer,
) -> Option<Incoming<'p>> {
    let form = cx.form(peer)?;
    // A group construct or a connect may list every process of large jobs.
    let num_procs = usize::try_from(cx.registry.num_procs()).unwrap_or(usize::MAX);
    let limits = ListLimits {
        procs: cx.config.procs_per_request.max(num_procs),
        infos: cx.config.infos_per_request,
    };
    let decoded = Request::decode_measured(&form, Some(framer), payload, limits);
    let (request, taken) = match decoded {
        Ok(decoded) => {
            let (request, taken) = (decoded.request, decoded.memory);
            report_ignored(cx, peer, &request, decoded.num_ignored);
            let checked = check_memory(&request, payload.len() + taken);
            (checked.map(|()| request), taken)
        }
        Err(error) => (Err(error.into()), 0),
    };
    let command = match &request {
        Ok(request) => Some(request.command()),
        Err(_) => Request::command_of(&form, payload),
    };
    // Such a request gets no reply, not even for an error, so it needs no ticket.
    if command.is_some_and(|command| !command.is_answered()) {
        return request.ok().map(Incoming::Unanswered);
    }
    // The room is checked before the ticket counts this request itself.
    let room = check_room(cx, peer);
    let num_bytes = payload.len().saturating_add(taken);
    let ticket = cx.peers.ticket(peer, tag, num_bytes);
    let refusal = match (request, room) {
        // Finalize is accepted beyond the limits, so that a process can always leave.
        (Ok(Request::Finalize), _) => return Some(Incoming::Answered(ticket, Request::Finalize)),
        (Ok(request), Ok(())) => return Some(Incoming::Answered(ticket, request)),
        (Ok(_), Err(error)) => error,
        (Err(error), _) => error,
    };
    cx.reply_error(ticket, &refusal);
    if refusal.status() == Status::ERR_OUT_OF_RESOURCE {
        // The peer receives only the status; the event makes the text available in the log.
        let reason = refusal;
        cx.driver_events
            .push_back(EngineEvent::Denied { peer, reason });
    }
    None
}

/// Reports that the end of a request, or a whole request, is from a release newer than this server: once for each peer.
/// The driver limits the log, because a process may connect again and again.
fn report_ignored(cx: &mut Cx, peer: PeerId, request: &Request<'_>, num_ignored: usize) {
    let is_unknown = matches!(request, Request::Unknown(_));
    let Some(member) = cx.peers.get_mut(peer).and_then(Peer::member_mut) else {
        return;
    };
    if (num_ignored == 0 && !is_unknown) || member.has_ignored_fields || !member.form.is_newer() {
        return;
    }
    member.has_ignored_fields = true;
    let (rank, nspace, command) = (member.proc.rank, &member.proc.nspace, request.command());
    let version = member.form.version();
    let message = format!(
        "rank {rank} of {nspace} has release {version}, newer than {RELEASE}: unknown parts of its requests are ignored, \
         here of {command}"
    );
    let reason = Error::new(Status::ERR_NOT_SUPPORTED, message);
    cx.driver_events
        .push_back(EngineEvent::Ignored { peer, reason });
}

/// Checks that there is memory for the copies of a request: one kept until the reply, and one for the host or for other
/// peers.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOMEM` if there is not; other peers are served nevertheless.
fn check_memory(request: &Request<'_>, num_bytes: usize) -> Result<(), Error> {
    match request {
        // A commit copies its values one by one and checks the memory for each.
        Request::Commit(_) => Ok(()),
        _ => Ok(memory::check(num_bytes.saturating_mul(2))?),
    }
}

/// Checks that a peer may have one more open request.
///
/// # Errors
///
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the number or the bytes of its open requests reach a limit.
fn check_room(cx: &Cx, peer: PeerId) -> Result<(), Error> {
    let (num_open, num_bytes) = cx.peers.open(peer);
    let (all_bytes, num_peers) = (cx.peers.open_bytes(), cx.peers.len());
    let config = &cx.config;
    // When all peers together exceed the limit, only those with more than an equal share are refused.
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
