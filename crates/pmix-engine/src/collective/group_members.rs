// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ordered members of a group during its construct.

use std::collections::{BTreeSet, HashSet};

use pmix_types::{Nspace, Proc, Rank, Status, memory};

use super::group_call::{CallerInfos, agreed, wanted_order};
use super::participants::Participants;
use super::table::Collectives;
use super::tracker::Tracker;
use crate::Error;
use crate::cx::Cx;
use crate::host::in_final_order;
use crate::procs::Procs;

/// The largest number of processes that the members of a group expand to, 160 MiB. The size of a job is any number that
/// its host states, and a list may repeat a job. The largest machines run jobs of a quarter of it.
const MAX_MEMBERS: u64 = 1 << 22;

/// Returns the members in the order that all callers sent, without absent local members.
///
/// # Errors
///
/// Returns the errors of [`each`].
pub(crate) fn members_now(
    cx: &Cx,
    participants: &Participants,
    caller_infos: &CallerInfos,
    absent: &[Proc<'static>],
) -> Result<Vec<Proc<'static>>, Error> {
    let list = agreed(caller_infos).map(<[_]>::to_vec);
    let list = list.unwrap_or_else(|| participants.to_procs());
    present(cx, list, absent)
}

/// Returns a list of members in the final order, if the members set one.
///
/// # Errors
///
/// Returns the errors of [`each`].
pub(crate) fn in_wanted_order(
    cx: &Cx,
    list: Vec<Proc<'static>>,
    caller_infos: &CallerInfos,
) -> Result<Vec<Proc<'static>>, Error> {
    match wanted_order(caller_infos) {
        Ok(Some(order)) => {
            let each = each(cx, &list)?;
            // The sort has the place of each member beside it.
            memory::check(each.len().saturating_mul(2 * size_of::<Proc<'_>>()))?;
            Ok(in_final_order(each, order))
        }
        _ => Ok(list),
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
    let lost = tracker.construct.lost.iter();
    let called: HashSet<_> = lost
        .filter(|(client, _)| callers.contains(client))
        .map(|(_, proc)| proc)
        .collect();
    absent.retain(|proc| !called.contains(proc));
    absent
}

/// Returns a list of members without absent ones.
///
/// # Errors
///
/// Returns the errors of [`each`].
pub(crate) fn present(
    cx: &Cx,
    list: Vec<Proc<'static>>,
    absent: &[Proc<'static>],
) -> Result<Vec<Proc<'static>>, Error> {
    if absent.is_empty() {
        return Ok(list);
    }
    let mut absent_procs = Procs::default();
    absent_procs.extend(absent);
    let mut each = each(cx, &list)?;
    each.retain(|proc| !absent_procs.has(proc));
    Ok(each)
}

/// Returns the number of individual processes in a list, as [`each`] expands it.
pub(crate) fn count(cx: &Cx, list: &[Proc<'_>]) -> u64 {
    let of_job = |nspace: &Nspace<'_>| match cx.job_size(nspace) {
        Some(size) => size.into(),
        None => {
            let job = cx.registry.job(nspace);
            job.map_or(1, |job| job.clients.len().max(1) as u64)
        }
    };
    let of = |proc: &Proc<'_>| match proc.rank {
        Rank::WILDCARD => of_job(&proc.nspace),
        _ => 1,
    };
    list.iter().map(of).sum()
}

/// Returns the individual processes of a list. A wildcard is expanded by the size of its job, or to the local processes
/// if the size is not known.
///
/// # Errors
///
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` for more than 4,194,304 processes, and `PMIX_ERR_NOMEM` if the process has no
/// memory for them.
pub(crate) fn each(cx: &Cx, list: &[Proc<'_>]) -> Result<Vec<Proc<'static>>, Error> {
    let num = count(cx, list);
    if num > MAX_MEMBERS {
        return Err(Error::new(
            Status::ERR_OUT_OF_RESOURCE,
            format!(
                "{num} processes are listed as members of a group, which has at most {MAX_MEMBERS}"
            ),
        ));
    }
    let mut each = memory::list(usize::try_from(num).unwrap_or(usize::MAX))?;
    for run in list.chunk_by(|a, b| a.nspace == b.nspace) {
        let Some(first) = run.first() else { continue };
        // One copy of the name serves all ranks of a large job.
        let nspace = first.nspace.to_shared();
        let of = |rank| Proc::new(nspace.clone(), rank);
        for proc in run {
            match proc.rank {
                Rank::WILDCARD => each_of_job(cx, &nspace, &mut each),
                rank => each.push(of(rank)),
            }
        }
    }
    Ok(each)
}

/// Adds the processes of a job to a list.
fn each_of_job(cx: &Cx, nspace: &Nspace<'static>, each: &mut Vec<Proc<'static>>) {
    let of = |rank| Proc::new(nspace.clone(), rank);
    if let Some(size) = cx.job_size(nspace) {
        each.extend((0..size).map(|rank| of(Rank::new(rank))));
        return;
    }
    let ranks = cx.registry.job(nspace).map(|job| job.clients.keys());
    let before = each.len();
    each.extend(ranks.into_iter().flatten().map(|rank| of(*rank)));
    // The size of this job is not known, and it has no local processes.
    if each.len() == before {
        each.push(of(Rank::WILDCARD));
    }
}
