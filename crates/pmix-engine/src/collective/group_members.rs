// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ordered members of a group during its construct.

use std::collections::{BTreeSet, HashSet};

use pmix_types::{Proc, Rank};

use super::group_call::{CallerInfos, agreed, wanted_order};
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::Tracker;
use crate::cx::Cx;
use crate::host::in_final_order;
use crate::procs::Procs;

/// Returns the members in the order that all callers sent, without absent local members.
pub(crate) fn members_now(
    cx: &Cx,
    participants: &Participants,
    caller_infos: &CallerInfos,
    absent: &[Proc<'static>],
) -> Vec<Proc<'static>> {
    let list = agreed(caller_infos).map(<[_]>::to_vec);
    let list = list.unwrap_or_else(|| participants.to_procs());
    present(cx, list, absent)
}

/// Returns a list of members in the final order, if the members set one.
pub(crate) fn in_wanted_order(
    cx: &Cx,
    list: Vec<Proc<'static>>,
    caller_infos: &CallerInfos,
) -> Vec<Proc<'static>> {
    match wanted_order(caller_infos) {
        Ok(Some(order)) => in_final_order(each(cx, &list), order),
        _ => list,
    }
}

/// Returns the local participants that have not called, registered or not.
pub(super) fn absent(cx: &Cx, tracker: &Tracker) -> Vec<Proc<'static>> {
    let participants = &tracker.key.1;
    let callers: BTreeSet<_> = tracker
        .caller_infos
        .iter()
        .map(|(client, _)| *client)
        .collect();
    let local = Collectives::local(cx, participants).into_iter();
    let local = local.filter(|id| !callers.contains(id));
    let local = local.filter_map(|id| cx.registry.client(id));
    let mut absent: Vec<_> = local.map(|client| client.proc.clone()).collect();
    for (nspace, ranks, job) in participants.local_jobs(&cx.registry) {
        let deregistered = job.deregistered.iter().filter(|rank| ranks.has(**rank));
        absent.extend(deregistered.map(|rank| Proc::new(nspace.clone(), *rank)));
    }
    // A participant that was deregistered after its call has no client to find it by.
    let lost = tracker.lost.iter();
    let called: HashSet<_> = lost
        .filter(|(client, _)| callers.contains(client))
        .map(|(_, proc)| proc)
        .collect();
    absent.retain(|proc| !called.contains(proc));
    absent
}

/// Returns a list of members without absent ones.
pub(crate) fn present(
    cx: &Cx,
    list: Vec<Proc<'static>>,
    absent: &[Proc<'static>],
) -> Vec<Proc<'static>> {
    if absent.is_empty() {
        return list;
    }
    let mut absent_procs = Procs::default();
    absent_procs.extend(absent);
    let mut each = each(cx, &list);
    each.retain(|proc| !absent_procs.has(proc));
    each
}

/// Returns the individual processes of a list. A wildcard is expanded by the size of its job, or to the local processes
/// if the size is not known.
pub(crate) fn each(cx: &Cx, list: &[Proc<'_>]) -> Vec<Proc<'static>> {
    let mut each = Vec::with_capacity(list.len());
    for proc in list {
        let nspace = &proc.nspace;
        // One copy of the name serves all ranks of a large job.
        let shared = nspace.to_shared();
        let of = |rank| Proc::new(shared.clone(), rank);
        match (proc.rank, cx.job_size(nspace)) {
            (Rank::WILDCARD, Some(size)) => each.extend((0..size).map(|rank| of(Rank::new(rank)))),
            (Rank::WILDCARD, None) => {
                let ranks = cx.registry.job(nspace).map(|job| job.clients.keys());
                let before = each.len();
                each.extend(ranks.into_iter().flatten().map(|rank| of(*rank)));
                // The size of this job is not known, and it has no local processes.
                if each.len() == before {
                    each.push(of(Rank::WILDCARD));
                }
            }
            (rank, _) => each.push(of(rank)),
        }
    }
    each
}
