// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs that a member may query.

use gds_hash::Request;
use pmix_types::{Nspace, Proc, Rank, Text, Value};

use crate::cx::Cx;
use crate::peers::Member;

/// Returns `true` if a member may query a job.
pub(super) fn may_see(cx: &Cx, member: &Member, nspace: &Nspace<'_>) -> bool {
    cx.store.job(nspace).is_some() && cx.check_reads(member, nspace).is_ok()
}

/// Returns the jobs that a member may query, sorted by name.
pub(crate) fn visible(cx: &Cx, member: &Member) -> Vec<Nspace<'static>> {
    let mut nspaces = cx.store.nspaces();
    nspaces.retain(|nspace| may_see(cx, member, nspace));
    nspaces.sort_unstable();
    nspaces
}

/// Returns the jobs that a query covers: the named one, or else the member's own. A tool has no job of its own, so its
/// query covers all jobs that it may read.
pub(super) fn meant(
    cx: &Cx,
    member: &Member,
    named: Option<&Nspace<'static>>,
) -> Vec<Nspace<'static>> {
    let own = &member.proc.nspace;
    match named {
        Some(nspace) => vec![nspace.clone()],
        None if cx.store.job(own).is_some() => vec![own.clone()],
        None => visible(cx, member),
    }
}

/// Returns a value of a job as a whole.
pub(super) fn of_job(cx: &Cx, nspace: &Nspace<'_>, key: &str) -> Option<Value<'static>> {
    let request = Request::new(Rank::WILDCARD, key);
    cx.store.get(nspace, &request).ok()
}

/// Returns the processes of a job in a list of ranks such as `0,1,2`.
pub(super) fn procs_of(nspace: &Nspace<'static>, ranks: &Text<'_>) -> Vec<Proc<'static>> {
    let ranks = ranks.as_str().unwrap_or_default().split(',');
    let ranks = ranks.filter_map(|rank| rank.parse().ok());
    ranks
        .map(|rank| Proc::new(nspace.as_text().clone(), Rank::new(rank)))
        .collect()
}
