// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that end, and everything that ends with them.

use crate::peers::{Member, PeerId, Phase};
use crate::timer::Timer;
use crate::{Engine, EngineEvent};

impl Engine {
    /// Closes the connections that were refused.
    pub(crate) fn close_refused(&mut self) {
        while let Some((peer, reason)) = self.cx.poll_refused() {
            if self.cx.peers.get(peer).is_none() {
                continue;
            }
            tracing::debug!(%peer, %reason, "peer refused");
            let refused = EngineEvent::Refused { peer, reason };
            self.cx.driver_events.push_back(refused);
            self.close(peer);
        }
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, peer: PeerId) {
        if self.cx.peers.get(peer).is_some() {
            self.forget(peer);
            self.cx.driver_events.push_back(EngineEvent::Close(peer));
        }
    }

    /// Forgets a connection that is closed, and releases everything that was there for its sake.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let Some(closed) = self.cx.peers.remove(peer) else {
            return;
        };
        self.cx.host.forget(peer);
        match closed.phase {
            Phase::Handshake(until) => {
                self.handshaking.remove(closed.origin.uid, peer);
                self.cx.timers.cancel(until, Timer::Handshake(peer));
            }
            Phase::PendingTool(until) => self.cx.timers.cancel(until, Timer::Handshake(peer)),
            Phase::Member(member) => self.member_left(peer, &member),
        }
    }

    fn member_left(&mut self, peer: PeerId, member: &Member) {
        let (rank, nspace) = (member.proc.rank, &member.proc.nspace);
        tracing::info!(%peer, %nspace, %rank, finalized = member.is_finalized, "disconnected");
        let client = member.client.and_then(|id| self.cx.registry.client_mut(id));
        let is_lost = match client {
            Some(client) => client.disconnect(peer),
            None => !member.is_finalized,
        };
        if let Some(pending) = self.finalizing.remove(&peer) {
            self.cx.timers.cancel(pending.until, Timer::Finalize(peer));
        }
        self.drop_gets(peer);
        self.events_left(peer);
        self.iof_left(peer);
        self.control_left(peer);
        self.cleanup_member(member, is_lost);
        if is_lost {
            self.process_lost(member);
            if let Some(client) = member.client {
                self.lost_to_collectives(client, &member.proc);
            }
        }
        if member.client.is_some() {
            // Who waits for what it would have put learns that it does not come.
            self.data_came(&member.proc);
        }
    }

    /// A process went away without saying so.
    fn process_lost(&mut self, member: &Member) {
        self.cx.driver_events.push_back(EngineEvent::ProcessLost {
            proc: member.proc.clone(),
            incarnation: member.incarnation,
        });
        self.events_lost(member);
    }
}
