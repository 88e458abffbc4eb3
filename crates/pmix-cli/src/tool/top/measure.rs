// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurement of one server: the resource usage of its processes, and the operations in which they wait.

use std::time::Instant;

use pmix_launch::PendingOperations;
use pmix_tool::Tool;
use pmix_types::{Info, Query, Status, Text, keys};

use super::rows::Row;
use crate::failure::{Exit, Failure};
use crate::tool::{is_answer, pending as operations, ps};

/// The requested figures. Others would take the server more time: it would add up every page of
/// memory.
const FIGURES: [&str; 7] = [
    keys::CMD_LINE,
    keys::PROC_OS_STATE,
    keys::PROC_TIME,
    keys::PROC_PERCENT_CPU,
    keys::PROC_NUM_THREADS,
    keys::PROC_VSIZE,
    keys::PROC_RSS,
];

/// The maximum number of jobs whose operations are shown; each needs a request.
const MOST_JOBS: usize = 16;

/// The figures of a server.
pub(super) struct Measured {
    pub(super) rows: Vec<Row>,
    /// The pending operations with the names of their jobs.
    pub(super) pending: Vec<(String, PendingOperations)>,
    pub(super) at: Instant,
}

/// The size of a measurement, which is kept until the next one.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    max_rows: usize,
    max_pending_bytes: usize,
}

impl Bounds {
    pub(super) const NONE: Self = Self {
        max_rows: usize::MAX,
        max_pending_bytes: usize::MAX,
    };
    /// Those of a server of another user, of which root may measure many.
    pub(super) const OF_OTHERS: Self = Self {
        max_rows: 2048,
        max_pending_bytes: 1 << 20,
    };
}

/// Measures the processes of all jobs of a server, or of one job.
pub(super) fn measure(
    tool: &Tool,
    nspace: Option<&str>,
    bounds: Bounds,
) -> Result<Measured, Failure> {
    let mut rows = usage(tool, nspace)?;
    if rows.len() > bounds.max_rows {
        return Err(Failure::new(
            Exit::Negative,
            Status::ERR_OUT_OF_RESOURCE,
            format!(
                "the server reports {} processes; of each server of other users, at most {} are shown together with others: \
                select it with --pid",
                rows.len(),
                bounds.max_rows
            ),
        ));
    }
    rows.shrink_to_fit();
    let at = Instant::now();
    let pending = pending(tool, nspace, bounds.max_pending_bytes)?;
    Ok(Measured { rows, pending, at })
}

/// Returns the pending operations of all jobs, or of one job, with the names of the jobs.
fn pending(
    tool: &Tool,
    nspace: Option<&str>,
    max_bytes: usize,
) -> Result<Vec<(String, PendingOperations)>, Failure> {
    let names = match nspace {
        Some(name) => vec![name.to_owned()],
        None => ps::names(tool)?,
    };
    let names = names.into_iter().take(MOST_JOBS);
    let mut found = Vec::new();
    let mut bytes = 0;
    for name in names {
        if let Some(pending) = operations::ask(tool, &name)? {
            bytes += operations::num_bytes(&pending);
            found.push((name, pending));
        }
        if bytes > max_bytes {
            break;
        }
    }
    Ok(found)
}

/// Queries the server for the resource usage of the processes of all jobs, or of one job.
fn usage(tool: &Tool, nspace: Option<&str>) -> Result<Vec<Row>, Failure> {
    let names = match nspace {
        Some(name) => vec![name.to_owned()],
        None => ps::names(tool)?,
    };
    if names.is_empty() {
        return Ok(Vec::new());
    }
    ps::check_names(&names)?;
    let figures = FIGURES.map(|key| Info::new(key, true));
    let query = |name: &String| Query {
        keys: vec![Text::from(keys::QUERY_PROC_RESOURCE_USAGE)],
        qualifiers: [&[Info::new(keys::NSPACE, name.clone())][..], &figures].concat(),
    };
    let queries: Vec<_> = names.iter().map(query).collect();
    let answer = tool.query(queries).wait();
    let (status, infos) = match answer {
        Ok(answer) => answer,
        Err(error) if is_answer(error.status()) => (error.status(), Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if infos.is_empty() && !status.is_success() {
        let message = match (status, nspace) {
            (Status::ERR_NOT_FOUND, Some(nspace)) => {
                format!(
                    "the server has no job {nspace:?}, or does not report its resource usage ({status})"
                )
            }
            _ => format!("the server does not report the resource usage of processes ({status})"),
        };
        return Err(Failure::new(Exit::Negative, status, message));
    }
    let of_jobs = infos.iter().filter_map(|info| info.value.as_infos().ok());
    Ok(of_jobs.flatten().filter_map(Row::of).collect())
}
