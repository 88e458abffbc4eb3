// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives of processes on several nodes. The server of each node calls once its own participants have called, and
//! gets the reply once those of all nodes have.

use std::time::Instant;

use pmix_host::collectives::{CollectiveKind, Collectives, Contribution, EndedCollective};
use pmix_server::UntypedCompletion;
use pmix_server::upcall::{HostReply, Upcall};
use pmix_types::Proc;

use super::{Controller, Cx};
use crate::agent::number_of;
use crate::host::AtNode;

/// The collectives that wait for nodes.
#[derive(Default)]
pub(crate) struct Gathering {
    collectives: Collectives<UntypedCompletion>,
}

impl Gathering {
    /// Returns the time of the next [`Controller::tick_collectives`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.collectives.deadline()
    }
}

impl Controller {
    /// Handles the call of a node for a collective of existing jobs.
    pub(crate) fn gather(
        &mut self,
        cx: &Cx<'_>,
        node: AtNode,
        call: Upcall,
        done: UntypedCompletion,
    ) {
        let Ok(contribution) = Contribution::from_upcall(call) else {
            return done.complete(HostReply::NotSupported);
        };
        let (number, now) = (number_of(node), Instant::now());
        let collectives = &mut self.gathering.collectives;
        match collectives.take(done, number, contribution, &cx.agent.places(), now) {
            Ok(ended) => self.end_collectives(ended),
            Err(refused) => {
                tracing::warn!("a collective is refused: {}", refused.error);
                let status = refused.error.status();
                refused.token.complete(HostReply::Done(status));
            }
        }
    }

    /// Lets collectives not wait for a process that has ended.
    pub(crate) fn gather_without(&mut self, cx: &Cx<'_>, proc: &Proc<'_>) {
        let ended = self
            .gathering
            .collectives
            .proc_ended(proc, &cx.agent.places());
        self.end_collectives(ended);
    }

    /// Lets collectives not wait for a node that was lost.
    pub(crate) fn gather_without_node(&mut self, place: usize) {
        let ended = self.gathering.collectives.node_lost(number_of(Some(place)));
        self.end_collectives(ended);
    }

    /// Ends the collectives whose time has passed.
    pub(crate) fn tick_collectives(&mut self, now: Instant) {
        let ended = self.gathering.collectives.tick(now);
        self.end_collectives(ended);
    }

    fn end_collectives(&mut self, ended: Vec<EndedCollective<UntypedCompletion>>) {
        for one in ended {
            match (&one.kind, &one.outcome) {
                (CollectiveKind::Connect, Ok(_)) => self.connected.connect(&one.procs),
                (CollectiveKind::Disconnect, _) => self.connected.disconnect(&one.procs),
                _ => {}
            }
            let reply = one.reply();
            for done in one.tokens {
                done.complete(reply.clone());
            }
        }
    }
}
