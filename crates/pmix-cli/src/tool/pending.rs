// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations in which processes of a job wait, as `pmix ps` shows them.

use std::io::Write as _;
use std::time::Duration;

use pmix_launch::{PendingOperation, PendingOperations, ProcRuns, QUERY_PENDING};
use pmix_tool::Tool;
use pmix_types::{Info, ProcInfo, keys};
use serde_json::{Value as Json, json};

use super::ps::{self, Job};
use crate::args::{Attach, Ps};
use crate::failure::Failure;
use crate::output::Out;
use crate::style::printable;

/// The largest number of missing processes that are described one by one.
const MAX_SHOWN: usize = 16;

/// The operations of a job, and the ranks for which they wait, for `pmix doctor`.
pub(crate) struct JobDiagnosis {
    pub(crate) num_procs: usize,
    /// The operations with their ages.
    pub(crate) operations: Vec<(Duration, String)>,
    /// The state of each missing rank.
    pub(crate) missing: Vec<String>,
    /// The stack of each missing rank, if it is wanted.
    pub(crate) stacks: Vec<String>,
}

/// Returns the operations of a job, or `None` if no server of this node has the job and reports them.
pub(crate) fn diagnose(name: &str, timeout: Duration, has_stacks: bool) -> Option<JobDiagnosis> {
    let args = Ps {
        nspace: Some(name.to_owned()),
        stacks: has_stacks,
        attach: Attach::by_job(timeout),
    };
    let server = super::find_job(&args.attach, Some(name)).ok()?;
    let job = ps::jobs(&server, &args).ok()?.into_iter().next()?;
    let pending = job.pending.clone()?;
    let procs = job.procs.as_deref().unwrap_or_default();
    let missing = missing(&pending, procs);
    let wants_stacks = has_stacks && server.pid.is_some();
    let stacks = { missing.iter() }.filter(|_| wants_stacks).map(|proc| {
        let stack = pmix_launch::stack_of_process(proc.pid).join(" | ");
        format!("rank {}: {}", proc.proc.rank, printable(stack.as_bytes()))
    });
    let stacks = stacks.collect();
    let operations = pending.listed.iter().map(|operation| {
        let line = operation.to_line(name.as_bytes());
        (operation.age, printable(line.as_bytes()))
    });
    Some(JobDiagnosis {
        num_procs: procs.len(),
        operations: operations.collect(),
        missing: missing.iter().map(|proc| describe(proc, &job)).collect(),
        stacks,
    })
}

/// Returns the operations of a job, or `None` if the server does not report them. Only servers of this project do.
pub(super) fn ask(tool: &Tool, nspace: &str) -> Result<Option<PendingOperations>, Failure> {
    let of_job = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    let value = ps::ask(tool, QUERY_PENDING, of_job)?;
    let value = value.ok().flatten();
    Ok(value.map(|value| PendingOperations::of_value(&value)))
}

/// Prints the operations of a job, and the processes for which they wait.
pub(super) fn write(
    out: &mut Out,
    procs: &[ProcInfo<'_>],
    job: &Job,
    has_stacks: bool,
) -> Result<(), Failure> {
    let Some(pending) = &job.pending else {
        return Ok(());
    };
    for line in lines(pending, &job.nspace) {
        writeln!(out, "  {line}")?;
    }
    for proc in missing(pending, procs) {
        writeln!(out, "    {}", describe(proc, job))?;
        if has_stacks {
            for line in pmix_launch::stack_of_process(proc.pid) {
                writeln!(out, "    {}", printable(line.as_bytes()))?;
            }
        }
    }
    Ok(())
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
    lines
}

/// Returns the processes of a job for which operations wait.
fn missing<'p, 'i>(
    pending: &PendingOperations,
    procs: &'p [ProcInfo<'i>],
) -> Vec<&'p ProcInfo<'i>> {
    let missing = pending.missing(MAX_SHOWN);
    // The processes of another job are in the table of that job.
    let find = |missing: &pmix_types::Proc<'_>| procs.iter().find(|proc| proc.proc == *missing);
    missing.iter().filter_map(find).collect()
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
