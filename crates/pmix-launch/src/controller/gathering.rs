// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives of processes on several nodes. The server of each node calls once its own participants have called, and
//! gets the reply once those of all nodes have.

use std::time::Instant;

use pmix_host::collectives::{
    CollectiveKind, Collectives, Contribution, EndedCollective, OpenCollective,
};
use pmix_server::upcall::{HostReply, Upcall};
use pmix_server::{Collective, UntypedCompletion};
use pmix_types::{Nspace, Proc};

use super::{Controller, Cx};
use crate::agent::number_of;
use crate::host::AtNode;
use crate::pending::{GatheredWait, ProcRuns};

/// The largest number of collectives in a list for users.
const MOST_LISTED: usize = 256;

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

impl Gathering {
    /// Returns the collectives with participants of a job, or of any job, that await nodes.
    pub(crate) fn waits(&self, job: Option<&Nspace<'_>>, now: Instant) -> Vec<GatheredWait> {
        let open = self.collectives.open();
        let concerned = open
            .filter(|one| job.is_none_or(|job| one.procs.iter().any(|proc| proc.nspace == *job)));
        let wait = |one: OpenCollective<'_>| {
            // The words of the servers, so that the descriptions can be merged.
            let (kind, group) = match one.kind {
                CollectiveKind::Fence => (Collective::Fence, None),
                CollectiveKind::Connect => (Collective::Connect, None),
                CollectiveKind::Disconnect => (Collective::Disconnect, None),
                CollectiveKind::GroupDestruct(group) => {
                    (Collective::GroupDestruct, Some(group.clone()))
                }
                _ => return None,
            };
            Some(GatheredWait {
                operation: kind.to_string(),
                group,
                participants: ProcRuns::of_procs(one.procs),
                age: now.saturating_duration_since(one.began),
                called: one.called.into_iter().collect(),
                awaited: one.awaited.into_iter().collect(),
            })
        };
        concerned.filter_map(wait).take(MOST_LISTED).collect()
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
