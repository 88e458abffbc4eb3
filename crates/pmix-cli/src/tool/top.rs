// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix top`: memory and processor time of the processes of running jobs, as their server measures them.

use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use pmix_launch::PendingOperations;
use pmix_tool::{ClientEvent, FoundServer, Tool};
use pmix_types::{Info, Query, Status, Text, keys};

use super::{attach_with, find_job, is_answer, leave, pending, ps};
use crate::args::{Global, Top};
use crate::failure::{Exit, Failure};
use crate::output::Out;

pub(super) mod rows;

use rows::{Row, Rows};

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

/// The maximum number of pending events. There is one for each job that terminates.
const WAITING: usize = 1024;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Top) -> Result<Exit, Failure> {
    let server = find_job(&args.attach, args.nspace.as_deref())?;
    let (sender, events) = mpsc::sync_channel(WAITING);
    let tool = attach_with(&server, &args.attach, move |event| {
        // A dropped event does no harm: the receiver is dropped only when the command exits, and with a full
        // queue the next update is already due.
        let _ = sender.try_send(event);
    })?;
    // The registration also reports the end of the server. A server that does not report the end of jobs is
    // polled.
    let registered = tool
        .register_events(vec![Status::EVENT_JOB_END], Vec::new())
        .wait();
    if let Err(error) = registered {
        tracing::debug!(%error, "cannot register for the end of jobs; polling instead");
    }
    let shown = show(global, args, &server, &tool, &events);
    leave(tool);
    shown
}

/// Prints one snapshot after the other.
fn show(
    global: &Global,
    args: &Top,
    server: &FoundServer,
    tool: &Tool,
    events: &Receiver<ClientEvent>,
) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let is_live = out.is_terminal() && !global.json && !args.once;
    let mut left = match args.count {
        Some(count) => Some(count),
        None if is_live => None,
        None => Some(1),
    };
    let mut rows = Rows::default();
    let mut is_first = true;
    while left != Some(0) {
        if !is_first && !wait(args, events) {
            break;
        }
        let measured = match measure(tool, args.nspace.as_deref()) {
            Ok(measured) => measured,
            // It was there, and has ended meanwhile.
            Err(failure) if is_first => return Err(failure),
            Err(_) => break,
        };
        if measured.is_empty() && args.nspace.is_some() && !is_first {
            break;
        }
        rows.next(measured, Instant::now());
        match pending(tool, args.nspace.as_deref()) {
            Ok(pending) => rows.set_pending(pending),
            Err(failure) if is_first => return Err(failure),
            // The server has ended since the measurement.
            Err(_) => break,
        }
        rows.sort(args.sort);
        match global.json {
            true => out.json(&rows.to_json(server))?,
            false => rows.write(&mut out, server, is_live)?,
        }
        out.flush()?;
        is_first = false;
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Ok)
}

/// Returns the pending operations of all jobs, or of one job, with the names of the jobs.
fn pending(tool: &Tool, nspace: Option<&str>) -> Result<Vec<(String, PendingOperations)>, Failure> {
    let names = match nspace {
        Some(name) => vec![name.to_owned()],
        None => ps::names(tool)?,
    };
    let names = names.into_iter().take(MOST_JOBS);
    let ask = |name: String| match pending::ask(tool, &name) {
        Ok(pending) => Some(Ok((name, pending?))),
        Err(failure) => Some(Err(failure)),
    };
    names.filter_map(ask).collect()
}

/// Waits until the next snapshot is due. Returns `false` if the server has ended.
fn wait(args: &Top, events: &Receiver<ClientEvent>) -> bool {
    let until = Instant::now() + args.interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // The time is checked for each event, so that a server with endless events cannot delay the
        // next snapshot.
        if left.is_zero() {
            return true;
        }
        match events.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(ClientEvent::Lost) | Err(RecvTimeoutError::Disconnected) => return false,
            // A job has terminated. The next snapshot shows the remaining jobs.
            Ok(_) => {}
        }
    }
}

/// Queries the server for the resource usage of the processes of all jobs, or of one job.
fn measure(tool: &Tool, nspace: Option<&str>) -> Result<Vec<Row>, Failure> {
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
