// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input that waits while the host takes no more of it.
//!
//! A push of a peer that is suspended is not answered, so whoever waits for the answer before the next piece, as
//! clients of every release do, reads no further input meanwhile. Nothing is lost: what was pushed all the
//! same waits in its order, and counts as a request of its peer until it is answered, whose number and bytes are
//! bounded.
//!
//! Source: OpenPMIx, `PMIx_server_IOF_flow_control`, which tells the peer instead.

use std::collections::{BTreeMap, VecDeque};

use pmix_types::{Proc, Rank, Status};

use super::Forwarding;
use crate::cx::Cx;
use crate::host::PushStdin;
use crate::peers::{PeerId, Ticket};
use crate::pending::Pending;
use crate::recount::Recount;

/// The peers whose input waits, or was waiting and is not all handed on.
#[derive(Debug, Default)]
pub(super) struct Suspended(BTreeMap<PeerId, Waiting>);

/// What waits of a peer.
#[derive(Debug, Default)]
struct Waiting {
    /// Whether the host takes no input of it.
    is_suspended: bool,
    /// Whether the host has a piece that had waited, and has not answered. The next one follows then.
    is_under_way: bool,
    pushes: VecDeque<(Ticket, PushStdin)>,
}

impl Suspended {
    /// Adds the requests that wait to what is found.
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
    /// The host suspends or resumes the input of peers: of the process that is named, of all that a wildcard
    /// stands for, or of all that there are.
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

    /// Hands a piece of input to the host, or keeps it if that of its peer waits.
    pub(super) fn push(&mut self, cx: &mut Cx, ticket: Ticket, call: PushStdin) {
        match self.suspended.0.get_mut(&ticket.peer()) {
            Some(waiting) => waiting.pushes.push_back((ticket, call)),
            None => cx.call_host(call, Pending::PushStdin(ticket)),
        }
    }

    /// The host answered a push. `PMIX_ERR_IOF_XOFF` says that it has taken the input and takes no more.
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

    /// Hands the host the next piece that waited, one at a time.
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
            None => _ = self.suspended.0.remove(&peer),
        }
    }

    /// A peer is gone, and what it pushed with it.
    pub(super) fn forget_input(&mut self, cx: &mut Cx, peer: PeerId) {
        let waiting = self.suspended.0.remove(&peer);
        for (ticket, _) in waiting.into_iter().flat_map(|waiting| waiting.pushes) {
            cx.peers.settle(ticket);
        }
    }
}
