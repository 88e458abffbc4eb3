// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix kill`: ends, stops, continues or signals the processes of a running job.

use pmix_tool::Control;
use pmix_types::Status;
use serde_json::json;

use super::{attach, find_job, is_answer, leave};
use crate::args::{Global, Kill, Ranks};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use std::io::Write as _;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Kill) -> Result<Exit, Failure> {
    let control = control(args);
    let targets = Ranks::procs(args.ranks.as_ref(), &args.nspace);
    let tool = attach(&find_job(&args.attach, Some(&args.nspace))?, &args.attach)?;
    let done = tool.control(targets, control);
    let status = match done {
        Ok(()) => Status::SUCCESS,
        Err(error) if is_answer(error.status()) => error.status(),
        Err(error) => return Err(error.into()),
    };
    leave(tool);
    if global.json {
        let mut out = Out::new();
        let (what, signal) = name(control);
        out.json(&json!({
            "nspace": args.nspace,
            "ranks": args.ranks.as_ref().map(|ranks| &ranks.0),
            "control": what,
            "signal": signal,
            "status": status.as_raw(),
        }))?;
        out.flush()?;
    }
    if status.is_success() {
        return Ok(Exit::Ok);
    }
    let nspace = &args.nspace;
    let message = match status {
        Status::ERR_NOT_FOUND => format!("job {nspace:?} has no such running process ({status})"),
        _ => format!("the server rejected the request for job {nspace:?} ({status})"),
    };
    Err(match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message),
    })
}

/// Returns the requested control.
fn control(args: &Kill) -> Control {
    match args.signal {
        Some(number) => Control::Signal(number),
        None if args.kill => Control::Kill,
        None if args.pause => Control::Pause,
        None if args.resume => Control::Resume,
        None => Control::Terminate,
    }
}

/// Returns the name of a control, and its signal.
fn name(control: Control) -> (&'static str, Option<i32>) {
    match control {
        Control::Kill => ("kill", None),
        Control::Pause => ("pause", None),
        Control::Resume => ("resume", None),
        Control::Signal(number) => ("signal", Some(number)),
        _ => ("terminate", None),
    }
}
