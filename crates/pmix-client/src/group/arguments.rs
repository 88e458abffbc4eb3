// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks and conversions of the arguments of group calls.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

use std::time::Duration;

use pmix_types::{Info, Proc, Rank, Status, Value, keys, memory};

use super::events::{bad, value};
use crate::Error;

/// The largest number of processes in one call after the expansion of whole jobs.
const MAX_PROCS: usize = 1 << 20;

/// Returns `true` if a rejected registration can be ignored. A host without events rejects it, but the server still
/// delivers the events of processes.
pub(crate) fn is_without_host_events(error: &Error) -> bool {
    error.status() == Status::ERR_NOT_SUPPORTED
}

/// Returns the time limit of a call, if it has one.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if `PMIX_TIMEOUT` is not a number of seconds.
pub(crate) fn limit(infos: &[Info<'_>]) -> Result<Option<Duration>, Error> {
    let Some(seconds) = value(infos, keys::TIMEOUT) else {
        return Ok(None);
    };
    let seconds = seconds.to_number::<u32>();
    let seconds = seconds.map_err(|_| bad("PMIX_TIMEOUT is not a number of seconds"))?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

/// Replaces whole jobs by their processes. `size` returns the number of processes of a job.
///
/// # Errors
///
/// Returns the error of `size`, `PMIX_ERR_BAD_PARAM` for a rank that is no process, and `PMIX_ERR_OUT_OF_RESOURCE` for
/// more than 1,048,576 processes, and `PMIX_ERR_NOMEM` if the process has no memory for them.
pub(crate) fn each(
    procs: &[Proc<'_>],
    mut size: impl FnMut(&Proc<'_>) -> Result<Value<'static>, Error>,
) -> Result<Vec<Proc<'static>>, Error> {
    let mut each = memory::list(procs.len())?;
    for proc in procs {
        let (first, count) = match proc.rank {
            Rank::WILDCARD => {
                let size = size(proc)?.to_number::<u32>();
                (
                    0,
                    size.map_err(|_| bad("the size of a job is not a number"))?,
                )
            }
            rank if rank.is_valid() => (rank.as_raw(), 1),
            rank => return Err(bad(format!("rank {rank} cannot be invited"))),
        };
        let len = usize::try_from(count).unwrap_or(usize::MAX);
        if len > MAX_PROCS.saturating_sub(each.len()) {
            let message = format!("more than {MAX_PROCS} processes are invited");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        memory::reserve(&mut each, len)?;
        let nspace = proc.nspace.to_shared();
        let ranks = first..first.saturating_add(count);
        each.extend(ranks.map(|rank| Proc::new(nspace.clone(), Rank::new(rank))));
    }
    Ok(each)
}
