// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations in which processes of a job wait, as commands show them.

use std::time::Duration;

use pmix_launch::{PendingOperation, PendingOperations, ProcRuns, QUERY_PENDING};
use pmix_tool::Tool;
use pmix_types::{Info, ProcInfo, keys};
use serde_json::{Value as Json, json};

use super::ask;
use crate::failure::Failure;
use crate::style::printable;

/// The largest number of missing processes that are described one by one.
const MAX_SHOWN: usize = 16;

/// The age from which an operation is shown to users. A job that makes progress has younger ones all the time.
const SHOWN_AGE: Duration = Duration::from_secs(1);

/// Returns the operations of a job, or `None` if the server does not report them. Only servers of this project do.
pub(super) fn ask(tool: &Tool, nspace: &str) -> Result<Option<PendingOperations>, Failure> {
    let of_job = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    let value = ask::ask(tool, QUERY_PENDING, of_job)?;
    let value = value.ok().flatten();
    Ok(value.map(|value| PendingOperations::of_value(&value)))
}

/// Returns the approximate bytes of memory of the operations.
pub(super) fn num_bytes(pending: &PendingOperations) -> usize {
    let of_one = |one: &PendingOperation| {
        let text = |text: &Option<pmix_types::Text<'_>>| text.as_ref().map_or(0, |text| text.len());
        let runs = one.callers.runs.len() + one.missing.runs.len();
        // A name of a job has at most 255 bytes.
        size_of::<PendingOperation>() + text(&one.group) + text(&one.key) + runs * 512
    };
    pending.listed.iter().map(of_one).sum()
}

/// Returns the operations that users want to see.
pub(super) fn shown(pending: &PendingOperations) -> PendingOperations {
    let mut shown = pending.clone();
    shown.listed.retain(|operation| operation.age >= SHOWN_AGE);
    shown
}

/// Returns the operations of a job as lines.
pub(super) fn lines(pending: &PendingOperations, nspace: &str) -> Vec<String> {
    let lines = pending.listed.iter();
    let mut lines: Vec<_> = lines
        .map(|operation| printable(operation.to_line(nspace.as_bytes()).as_bytes()))
        .collect();
    if pending.num_more > 0 {
        lines.push(format!("{} more operations are pending", pending.num_more));
    }
    let silent = pending.silent_line();
    lines.extend(silent.map(|line| printable(line.as_bytes())));
    lines
}

/// Returns the processes of a job for which operations wait. `procs` is the table of the job.
pub(super) fn missing<'p, 'i>(
    pending: &PendingOperations,
    procs: &'p [ProcInfo<'i>],
) -> Vec<&'p ProcInfo<'i>> {
    let Some(first) = procs.first() else {
        return Vec::new();
    };
    let missing = pending.missing_of(Some(first.proc.nspace.as_bytes()), MAX_SHOWN);
    let find = |missing: &pmix_types::Proc<'_>| procs.iter().find(|proc| proc.proc == *missing);
    missing.iter().filter_map(find).collect()
}

/// Returns the operations as JSON.
pub(super) fn to_json(pending: &PendingOperations) -> Json {
    json!({
        "operations": pending.listed.iter().map(of_operation).collect::<Vec<_>>(),
        "num_more": pending.num_more,
        "silent_nodes": pending.silent,
    })
}

fn of_operation(operation: &PendingOperation) -> Json {
    let proc = operation.proc.as_ref();
    json!({
        "operation": operation.operation,
        "group": operation.group.as_ref().map(|group| group.to_str_lossy()),
        "nspace": proc.map(|proc| proc.nspace.as_text().to_str_lossy().into_owned()),
        "rank": proc.map(|proc| proc.rank.as_raw()),
        "key": operation.key.as_ref().map(|key| key.to_str_lossy()),
        "seconds": operation.age.as_secs_f64(),
        "callers": of_runs(&operation.callers),
        "missing": of_runs(&operation.missing),
    })
}

fn of_runs(procs: &ProcRuns) -> Json {
    let run = |(first, last): &(pmix_types::Proc<'static>, pmix_types::Rank)| {
        json!({
            "nspace": first.nspace.as_text().to_str_lossy(),
            "first": first.rank.as_raw(),
            "last": last.as_raw(),
        })
    };
    json!({
        "num_procs": procs.num_procs,
        "runs": procs.runs.iter().map(run).collect::<Vec<_>>(),
    })
}
