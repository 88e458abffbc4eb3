// SPDX-License-Identifier: MIT OR Apache-2.0
//! The participants that a call lists, and the nodes that they are at.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{Nspace, Proc, Rank, Status, memory};

use super::Nodes;
use super::contribution::Contribution;
use super::open::Key;
use crate::Error;
use crate::groups::in_one_form;

/// The nodes of the participants.
pub(super) struct Members {
    /// The number of participants that have not ended, by node.
    pub(super) running: BTreeMap<usize, usize>,
    /// The number of steps to find them.
    pub(super) num_steps: usize,
}

/// Returns `true` if participants are those of the calling node alone.
pub(super) fn is_local(procs: &[Proc<'_>]) -> bool {
    !procs.is_empty() && procs.iter().all(|proc| proc.rank == Rank::LOCAL_NODE)
}

/// Returns the identity of the collective of a call, or `None` if only the calling node participates.
///
/// # Errors
///
/// Returns an error for no participants, and for those that do not exist.
pub(super) fn key_of(
    node: usize,
    call: &Contribution,
    nodes: &impl Nodes,
) -> Result<Option<Key>, Error> {
    let kind = &call.kind;
    if call.procs.is_empty() {
        let message = format!("node {node} called for {kind:?} without participants");
        return Err(Error::bad(message));
    }
    // The sorted list is a copy of the names.
    let bytes = call.procs.len().saturating_mul(size_of::<Proc<'_>>());
    memory::check(bytes).map_err(|error| Error::new(error.status(), error.to_string()))?;
    if is_local(&call.procs) {
        let is_here = |nspace: &Nspace<'_>| {
            let shares = nodes.nodes_of_job(nspace);
            shares.iter().any(|share| share.node == node)
        };
        let named = call.procs.iter().map(|proc| &proc.nspace);
        let named: BTreeSet<_> = named.collect();
        return match named.into_iter().find(|nspace| !is_here(nspace)) {
            None => Ok(None),
            Some(nspace) => Err(without_participant(node, &nspace.to_string())),
        };
    }
    for same in call.procs.chunk_by(|a, b| a.nspace == b.nspace) {
        let Some(first) = same.first() else {
            continue;
        };
        let Some(size) = nodes.job_size(&first.nspace) else {
            let message = format!(
                "node {node} called for {kind:?} of the unknown job {}",
                first.nspace
            );
            return Err(Error::new(Status::ERR_NOT_FOUND, message));
        };
        for proc in same {
            check_rank(node, proc, size, nodes)?;
        }
    }
    Ok(Some(Key {
        kind: kind.clone(),
        procs: in_one_form(&call.procs, nodes).into(),
    }))
}

/// Checks that a participant is a process of its job, or all of them.
fn check_rank(node: usize, proc: &Proc<'_>, size: u32, nodes: &impl Nodes) -> Result<(), Error> {
    let (nspace, rank) = (&proc.nspace, proc.rank);
    match rank {
        Rank::WILDCARD => Ok(()),
        rank if !rank.is_valid() => Err(Error::bad(format!(
            "node {node} named {rank:?} of {nspace}, which cannot be one of several participants"
        ))),
        // A job may grow beyond the size that its processes know.
        rank if rank.as_raw() >= size && nodes.server_of(proc).is_none() => {
            let message = format!(
                "node {node} named rank {rank} of {nspace}, but the job has {size} processes"
            );
            Err(Error::new(Status::ERR_NOT_FOUND, message))
        }
        _ => Ok(()),
    }
}

/// Returns the nodes of participants.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if none of them is on the calling node.
pub(super) fn members_of(node: usize, key: &Key, nodes: &impl Nodes) -> Result<Members, Error> {
    let mut running = BTreeMap::new();
    let mut num_steps = 0;
    for proc in key.procs.iter() {
        if proc.rank == Rank::WILDCARD {
            for share in nodes.nodes_of_job(&proc.nspace) {
                *running.entry(share.node).or_insert(0) += share.num_running;
                num_steps += 1;
            }
        } else if let Some(node) = nodes.server_of(proc) {
            *running.entry(node).or_insert(0) += usize::from(!nodes.has_ended(proc));
            num_steps += 1;
        }
    }
    if !running.contains_key(&node) {
        let named = key.procs.first().map(|proc| proc.nspace.to_string());
        return Err(without_participant(node, &named.unwrap_or_default()));
    }
    Ok(Members { running, num_steps })
}

fn without_participant(node: usize, nspace: &str) -> Error {
    let message =
        format!("node {node} called for a collective of {nspace}, of which it has no participant");
    Error::bad(message)
}
