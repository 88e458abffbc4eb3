// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix release`: lets the processes of a job go on that wait for a debugger.

use std::io::Write as _;

use pmix_tool::Tool;
use pmix_types::{Proc, Status};
use serde_json::json;

use super::{attach, find_job, is_answer, leave, ps};
use crate::args::{Global, Ranks, Release};
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Release) -> Result<Exit, Failure> {
    let nspace = &args.nspace;
    let tool = attach(&find_job(&args.attach, Some(nspace))?, &args.attach)?;
    // An event that nobody gets is no error to a server.
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
    let what = missing.unwrap_or_else(|| format!("the server does not release job {nspace:?}"));
    let message = format!("{what} ({status})");
    Err(match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message),
    })
}

/// Says what of the job and its ranks there is not. A server that does not tell its jobs, or the processes
/// of one, may have it.
fn missing(tool: &Tool, args: &Release) -> Result<Option<String>, Failure> {
    let nspace = &args.nspace;
    // A launcher that waits itself is called as its server is.
    let of_server = |server: &Proc<'_>| server.nspace.as_bytes() == nspace.as_bytes();
    if tool.servers().first().is_some_and(of_server) {
        return Ok(None);
    }
    match ps::names(tool) {
        Ok(names) if !names.iter().any(|name| name == nspace) => {
            return Ok(Some(format!("the server has no job {nspace:?}")));
        }
        _ => {}
    }
    if args.ranks.is_none() {
        return Ok(None);
    }
    let procs = ps::procs(tool, nspace)?.unwrap_or_default();
    Ok(ps::missing_rank(nspace, &procs, args.ranks.as_ref()))
}
