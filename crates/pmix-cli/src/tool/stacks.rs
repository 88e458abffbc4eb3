// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks of processes on other nodes than that of the server, which only the agents there can read.

use std::collections::BTreeSet;
use std::time::Duration;

use pmix_launch::QUERY_STACKS;
use pmix_tool::{FoundServer, Tool};
use pmix_types::{DataArray, Info, IntoOwned as _, ProcInfo, Rank, Value, keys};

use super::ask::ask;
use super::{attach_within, leave};
use crate::failure::Failure;
use crate::style::printable;

/// The time limit for the stacks of processes on other nodes, whose agents run debuggers.
const STACKS: Duration = Duration::from_secs(30);

/// Returns the processes of a job that are not on the node of the server. A server that does not report its own has no
/// others.
pub(super) fn elsewhere(
    tool: &Tool,
    nspace: &str,
    procs: &[ProcInfo<'_>],
) -> Result<BTreeSet<Rank>, Failure> {
    let of_job = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    let here = ask(tool, keys::QUERY_LOCAL_PROC_TABLE, of_job)?;
    let Ok(Some(Value::DataArray(DataArray::ProcInfo(here)))) = here else {
        return Ok(BTreeSet::new());
    };
    let here: BTreeSet<_> = here.iter().map(|row| row.proc.rank).collect();
    let ranks = procs.iter().map(|row| row.proc.rank);
    Ok(ranks.filter(|rank| !here.contains(rank)).collect())
}

/// Returns the stacks of processes on other nodes, as the launcher reports them, or a line with the reason why there
/// are none.
pub(super) fn of_elsewhere(server: &FoundServer, procs: &[&ProcInfo<'_>]) -> Vec<String> {
    if procs.is_empty() {
        return Vec::new();
    }
    let named = procs
        .iter()
        .map(|row| Info::new(keys::PROCID, row.proc.clone().into_owned()));
    let asked = attach_within(server, STACKS, |_| {}).and_then(|tool| {
        let value = ask(&tool, QUERY_STACKS, named.collect());
        leave(tool);
        value
    });
    match asked {
        Ok(Ok(Some(Value::DataArray(DataArray::String(lines))))) => {
            let lines = lines.iter().flatten();
            lines.map(|line| printable(line.as_bytes())).collect()
        }
        Ok(Ok(_)) => Vec::new(),
        Ok(Err(status)) => vec![format!("no stacks of processes on other nodes ({status})")],
        Err(failure) => vec![format!(
            "no stacks of processes on other nodes: {}",
            failure.message()
        )],
    }
}
