// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations in which processes of a job wait, for `pmix doctor`.

use std::time::Duration;

use super::{find_job, pending, ps, stacks as stacks_of};
use crate::args::{Attach, Ps};
use crate::style::printable;

/// The operations of a job, and the ranks for which they wait, for `pmix doctor`.
pub(crate) struct JobDiagnosis {
    pub(crate) num_procs: usize,
    /// The operations with their ages, and `true` if ranks of the job are missing.
    pub(crate) operations: Vec<(Duration, String, bool)>,
    /// The number of operations that the server does not list.
    pub(crate) num_more: u64,
    /// The state of each missing rank.
    pub(crate) missing: Vec<String>,
    /// The stack of each missing rank, if it is wanted.
    pub(crate) stacks: Vec<String>,
}

/// Returns the operations of a job, or the reason why its server does not report them. Returns `None` if no server of
/// this node has the job.
pub(crate) fn diagnose(
    name: &str,
    timeout: Duration,
    has_stacks: bool,
) -> Option<Result<JobDiagnosis, String>> {
    let args = Ps {
        nspace: Some(name.to_owned()),
        stacks: has_stacks,
        figures: false,
        attach: Attach::by_job(timeout),
    };
    let server = find_job(&args.attach, Some(name)).ok()?;
    let job = match ps::jobs(&server, &args) {
        Ok(jobs) => jobs.into_iter().next()?,
        Err(failure) => return Some(Err(failure.message().to_owned())),
    };
    let Some(pending) = job.pending.clone() else {
        let reason = "its server does not report what ranks wait for; only `pmix run` does";
        return Some(Err(reason.to_owned()));
    };
    let procs = job.procs.as_deref().unwrap_or_default();
    let missing = pending::missing(&pending, procs);
    // Another user's server may name any process, and a debugger of root would read it.
    let wants_stacks = has_stacks && server.pid.is_some() && server.owner.is_none();
    let examined: &[_] = if wants_stacks { &missing } else { &[] };
    let (elsewhere, here): (Vec<_>, Vec<_>) = { examined.iter() }
        .copied()
        .partition(|proc| job.elsewhere.contains(&proc.proc.rank));
    let stacks = here.into_iter().map(|proc| {
        let stack = pmix_launch::stack_of_process(proc.pid).join(" | ");
        format!("rank {}: {}", proc.proc.rank, printable(stack.as_bytes()))
    });
    let mut stacks: Vec<_> = stacks.collect();
    stacks.extend(stacks_of::of_elsewhere(&server, &elsewhere));
    let operations = pending.listed.iter().map(|operation| {
        let line = operation.to_line(name.as_bytes());
        let is_missing = operation.missing.num_procs > 0;
        (operation.age, printable(line.as_bytes()), is_missing)
    });
    Some(Ok(JobDiagnosis {
        num_procs: procs.len(),
        operations: operations.collect(),
        num_more: pending.num_more,
        missing: missing
            .iter()
            .map(|proc| ps::describe(proc, &job))
            .collect(),
        stacks,
    }))
}
