// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix release`: lets the processes of a job go on that wait for a debugger.

use std::io::Write as _;

use pmix_types::Status;
use serde_json::json;

use super::{attach, find_job, is_answer, leave, ps};
use crate::args::{Global, Ranks, Release};
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Release) -> Result<Exit, Failure> {
    let nspace = &args.nspace;
    let tool = attach(&find_job(&args.attach, Some(nspace))?, &args.attach)?;
    // An event that nobody gets is no error to a server. One that does not tell its jobs may have this one.
    let is_there = ps::names(&tool).map_or(true, |names| names.iter().any(|name| name == nspace));
    let status = match is_there {
        true => match tool.release(Ranks::procs(args.ranks.as_ref(), nspace)) {
            Ok(()) => Status::SUCCESS,
            Err(error) if is_answer(error.status()) => error.status(),
            Err(error) => return Err(error.into()),
        },
        false => Status::ERR_NOT_FOUND,
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
    let message = match status {
        Status::ERR_NOT_FOUND => format!("the server has no job {nspace:?} ({status})"),
        _ => format!("the server does not release job {nspace:?} ({status})"),
    };
    Err(match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message),
    })
}
