// SPDX-License-Identifier: MIT OR Apache-2.0
//! The presence of processes on this node, for groups and invitations.

use pmix_types::{Proc, Rank};

use crate::cx::Cx;
use crate::registry::ClientState;

/// Returns `true` if a process of this node leads an invitation or is invited.
pub(super) fn concerns_us(cx: &Cx, leader: &Proc<'_>, list: &[Proc<'_>]) -> bool {
    let is_here = |proc: &Proc<'_>| match proc.rank {
        Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
        rank => cx.registry.find(&proc.nspace, rank).is_some(),
    };
    is_here(leader) || list.iter().any(is_here)
}

/// Returns `true` if a process, or any process of a whole job, is or was of this node.
pub(super) fn was_here(cx: &Cx, proc: &Proc<'_>) -> bool {
    match proc.rank {
        Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
        _ => cx.registry.was_here(proc),
    }
}

/// Returns the processes of this node with a name that were connected and have disconnected.
pub(super) fn absent(cx: &Cx, proc: &Proc<'static>) -> Vec<Proc<'static>> {
    let Some(job) = cx.registry.job(&proc.nspace) else {
        return Vec::new();
    };
    let has_left = |rank: &Rank| {
        let client = job.clients.get(rank);
        match client.and_then(|id| cx.registry.client(*id)) {
            Some(client) => !matches!(client.state, ClientState::Expected | ClientState::Connected),
            None => job.deregistered.contains(rank),
        }
    };
    let of = |rank: &Rank| Proc::new(proc.nspace.clone(), *rank);
    match proc.rank {
        Rank::WILDCARD => {
            let ranks = job.clients.keys().chain(&job.deregistered);
            ranks.filter(|rank| has_left(rank)).map(of).collect()
        }
        rank => has_left(&rank).then(|| of(&rank)).into_iter().collect(),
    }
}
