// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations in which processes of a job wait, as `pmix ps` shows them.

use std::io::Write as _;

use pmix_launch::{PendingOperation, PendingOperations, ProcRuns, QUERY_PENDING};
use pmix_tool::Tool;
use pmix_types::{Info, ProcInfo, keys};
use serde_json::{Value as Json, json};

use super::ps::{self, Job};
use crate::failure::Failure;
use crate::output::Out;
use crate::style::printable;

/// The largest number of missing processes that are described one by one.
const MAX_SHOWN: usize = 16;

/// Returns the operations of a job, or `None` if the server does not report them. Only servers of this project do.
pub(super) fn ask(tool: &Tool, nspace: &str) -> Result<Option<PendingOperations>, Failure> {
    let of_job = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    let value = ps::ask(tool, QUERY_PENDING, of_job)?;
    let value = value.ok().flatten();
    Ok(value.map(|value| PendingOperations::of_value(&value)))
}

/// Prints the operations of a job, and the processes for which they wait.
pub(super) fn write(out: &mut Out, procs: &[ProcInfo<'_>], job: &Job) -> Result<(), Failure> {
    let Some(pending) = &job.pending else {
        return Ok(());
    };
    for operation in &pending.listed {
        let line = operation.to_line(job.nspace.as_bytes());
        writeln!(out, "  {}", printable(line.as_bytes()))?;
    }
    if pending.num_more > 0 {
        writeln!(out, "  {} more operations are pending", pending.num_more)?;
    }
    let missing = pending.missing(MAX_SHOWN);
    for missing in missing {
        // The processes of another job are in the table of that job.
        let is_missing = |proc: &&ProcInfo<'_>| proc.proc == missing;
        if let Some(proc) = procs.iter().find(is_missing) {
            writeln!(out, "    {}", describe(proc, job))?;
        }
    }
    Ok(())
}

/// Returns the state, process id, node and processor use of a process.
fn describe(proc: &ProcInfo<'_>, job: &Job) -> String {
    let (rank, pid, state) = (proc.proc.rank, proc.pid, job.state_of(proc));
    let mut line = format!("rank {rank}: {state}, pid {pid}");
    if let Some(node) = &proc.hostname {
        line += &format!(" on {}", printable(node.as_bytes()));
    }
    let usage = job.usage.as_ref().and_then(|usage| usage.get(&rank));
    if let Some((percent, seconds)) = usage.map(super::top::rows::Row::processor_use) {
        line += &format!(", {percent:.1} % of a processor, {seconds:.2} s of processor time");
    }
    line
}

/// Returns the operations as JSON.
pub(super) fn to_json(pending: &PendingOperations) -> Json {
    json!({
        "operations": pending.listed.iter().map(of_operation).collect::<Vec<_>>(),
        "num_more": pending.num_more,
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
