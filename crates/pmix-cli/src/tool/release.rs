// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix release`: lets the processes of a job go on that wait for a debugger.

use std::io::Write as _;

use pmix_tool::Tool;
use pmix_types::{Proc, Rank, Status};
use serde_json::json;

use super::{attach, find_job, is_answer, leave, ps};
use crate::args::{Global, Ranks, Release};
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Release) -> Result<Exit, Failure> {
    let nspace = &args.nspace;
    let tool = attach(&find_job(&args.attach, Some(nspace))?, &args.attach)?;
    // For a server, an event without recipients is not an error, so missing targets are checked here.
    let missing = missing(&tool, args)?;
    let status = match missing {
        None => match tool.release(Ranks::procs(args.ranks.as_ref(), nspace)) {
            Ok(()) => Status::SUCCESS,
            Err(error) if is_answer(error.status()) => error.status(),
            Err(error) => return Err(error.into()),
        },
        Some(_) => Status::ERR_NOT_FOUND,
    };
    leave(tool);
    if global.json {
        let mut out = Out::new();
        out.json(&json!({
            "nspace": nspace,
            "ranks": args.ranks.as_ref().map(|ranks| &ranks.0),
            "status": status.as_raw(),
        }))?;
        out.flush()?;
    }
    if status.is_success() {
        return Ok(Exit::Ok);
    }
    let what =
        missing.unwrap_or_else(|| format!("the server rejected the release of job {nspace:?}"));
    let message = format!("{what} ({status})");
    Err(match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message),
    })
}

/// Returns a message if the job or a rank does not exist. A server that does not list its jobs or processes
/// may still have it.
fn missing(tool: &Tool, args: &Release) -> Result<Option<String>, Failure> {
    let nspace = &args.nspace;
    // A waiting launcher has the name of its server, or the name that the server that started it assigned.
    let of_server = |server: &Proc<'_>| server.nspace.as_bytes() == nspace.as_bytes();
    let is_server = tool.servers().first().is_some_and(of_server);
    let is_no_job = match ps::names(tool) {
        Ok(names) => !names.iter().any(|name| name == nspace),
        Err(_) => false,
    };
    if is_server || is_no_job {
        return Ok(match ps::waiting(tool, nspace)? {
            Ok(waiting) if !waiting.is_empty() => {
                let is_other = |rank: &u32| !waiting.contains_key(&Rank::new(*rank));
                let ranges = args.ranks.iter().flat_map(|ranks| &ranks.0);
                let mut ranks = ranges.flat_map(|(first, last)| *first..=*last);
                ranks.find(is_other).map(|rank| {
                    format!("launcher {nspace:?} has no rank {rank} that is waiting for a release")
                })
            }
            Err(Status::ERR_NOT_SUPPORTED) if is_server => None,
            _ if is_server => Some(format!(
                "the launcher of {nspace:?} is not waiting for a release"
            )),
            _ => Some(format!("the server has no job {nspace:?}")),
        });
    }
    if args.ranks.is_none() {
        return Ok(None);
    }
    let procs = ps::procs(tool, nspace)?.unwrap_or_default();
    Ok(ps::missing_rank(nspace, &procs, args.ranks.as_ref()))
}
