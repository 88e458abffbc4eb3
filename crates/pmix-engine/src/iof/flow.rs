// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input that waits while the host does not accept more.
//!
//! A push of a suspended peer gets no reply. Clients of every release wait for the reply before they send the next
//! piece, so they stop reading input. No input is lost: further pushes are queued in order. Each counts as an open
//! request of its peer, whose number and bytes are limited, until its reply.
//!
//! Source: OpenPMIx, `PMIx_server_IOF_flow_control`, which notifies the peer instead.

use std::collections::{BTreeMap, VecDeque};

use pmix_types::{Proc, Rank, Status};

use super::Forwarding;
use crate::cx::Cx;
use crate::host::PushStdin;
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::recount::Recount;

/// The suspended peers, and the resumed peers with queued input.
#[derive(Debug, Default)]
pub(super) struct Suspended(BTreeMap<PeerId, QueuedInput>);

/// The state of one peer.
#[derive(Debug, Default)]
struct QueuedInput {
    /// `true` if the host does not accept input of the peer.
    is_suspended: bool,
    /// `true` while a queued piece waits for the host's reply. The next one follows after it.
    is_under_way: bool,
    pushes: VecDeque<(Ticket, PushStdin)>,
}

impl Suspended {
    /// Adds the waiting requests to a recount.
    pub(super) fn recount(&self, recount: &mut Recount) {
        let waiting = self.0.values().flat_map(|waiting| &waiting.pushes);
        for (ticket, _) in waiting {
            recount.request(ticket);
        }
    }

    fn suspend(&mut self, peer: PeerId) {
        self.0.entry(peer).or_default().is_suspended = true;
    }
}

impl Forwarding {
    /// Suspends or resumes the input of peers, as the host requests: of one process, of those that a wildcard selects,
    /// or of all.
    pub(crate) fn control_input(&mut self, cx: &mut Cx, source: Option<&Proc<'_>>, suspends: bool) {
        let is_meant = |proc: &Proc<'_>| {
            source.is_none_or(|source| {
                let nspace = source.nspace.is_empty() || source.nspace == proc.nspace;
                nspace && (source.rank == Rank::WILDCARD || source.rank == proc.rank)
            })
        };
        let members = cx
            .peers
            .members()
            .filter(|(_, member)| is_meant(&member.proc));
        let peers: Vec<_> = members.map(|(peer, _)| peer).collect();
        for peer in peers {
            if suspends {
                self.suspended.suspend(peer);
            } else if let Some(waiting) = self.suspended.0.get_mut(&peer) {
                waiting.is_suspended = false;
                self.hand_on(cx, peer);
            }
        }
    }

    /// Passes a piece of input to the host, or queues it if the input of its peer waits.
    pub(super) fn push(&mut self, cx: &mut Cx, ticket: Ticket, call: PushStdin) {
        match self.suspended.0.get_mut(&ticket.peer()) {
            Some(waiting) => waiting.pushes.push_back((ticket, call)),
            None => cx.call_host(call, Pending::PushStdin(ticket)),
        }
    }

    /// Handles the host's reply to a push. `PMIX_ERR_IOF_XOFF` means that the host accepted this piece and no further
    /// ones.
    pub(crate) fn pushed(&mut self, cx: &mut Cx, ticket: Ticket, status: Status) {
        let peer = ticket.peer();
        if let Some(waiting) = self.suspended.0.get_mut(&peer) {
            waiting.is_under_way = false;
        }
        if status == Status::ERR_IOF_XOFF {
            self.suspended.suspend(peer);
            cx.reply_status(ticket, Status::SUCCESS);
        } else {
            cx.reply_status(ticket, status);
        }
        self.hand_on(cx, peer);
    }

    /// Passes the next queued piece to the host, one at a time to keep their order.
    fn hand_on(&mut self, cx: &mut Cx, peer: PeerId) {
        let Some(waiting) = self.suspended.0.get_mut(&peer) else {
            return;
        };
        if waiting.is_suspended || waiting.is_under_way {
            return;
        }
        match waiting.pushes.pop_front() {
            Some((ticket, call)) => {
                waiting.is_under_way = true;
                cx.call_host(call, Pending::PushStdin(ticket));
            }
            // Without an entry, later input goes to the host directly.
            None => _ = self.suspended.0.remove(&peer),
        }
    }

    /// Drops the queued input of a disconnected peer.
    pub(super) fn forget_input(&mut self, cx: &mut Cx, peer: PeerId) {
        let waiting = self.suspended.0.remove(&peer);
        for (ticket, _) in waiting.into_iter().flat_map(|waiting| waiting.pushes) {
            cx.peers.settle(ticket);
        }
    }
}
