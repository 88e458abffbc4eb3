// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running a job: everything is started, then one thread waits for all there is to wait for.

mod answer;
mod begun_removals;
mod children;
mod connected;
mod construct;
mod control;
mod daemons;
mod debug;
mod directives;
mod display;
mod ended;
mod events;
mod groups;
mod job;
mod launcher;
mod log;
mod measure;
mod missing;
mod monitor;
mod node;
mod query;
mod removals;
mod request;
mod restart;
mod session;
mod session_control;
mod sets;
mod signal;
mod spawn;
mod spawn_queue;
mod start;
mod stop;
mod stopped;
mod support;
mod tool_wait;

use std::os::fd::BorrowedFd;
use std::time::Instant;

use pmix_server::WireObserver;

use crate::{Error, Outcome, Plan};
use session::Session;
pub use tool_wait::{PAUSE_FOR_TOOL, ToolWait};

/// The standard streams of the launcher.
#[derive(Clone, Copy, Debug)]
pub struct Standard<'a> {
    /// What rank 0 reads.
    pub input: BorrowedFd<'a>,
    /// Where the processes' standard output goes.
    pub output: BorrowedFd<'a>,
    /// Where their standard error goes.
    pub errors: BorrowedFd<'a>,
}

/// Starts a job, waits until it has ended, and leaves nothing behind: neither its processes, nor
/// what they started, nor the directory of its session.
///
/// Signals that reach the launcher meanwhile are handed on to every process group of the job. When
/// the job has ended, those that end programs end this one again, however they were taken before.
///
/// An observer hears all that passes between the processes and the server.
///
/// # Errors
/// The job could not be started; what was started of it is ended. What becomes of a job that runs
/// is told by its [`Outcome`].
pub fn launch(
    plan: &Plan,
    standard: Standard<'_>,
    observer: Option<Box<dyn WireObserver>>,
) -> Result<Outcome, Error> {
    launch_for_tool(plan, standard, observer, None)
}

/// Does what [`launch`] does, but waits to be released before it starts the job, if there is a [`ToolWait`]: tools
/// attach to its server meanwhile, and register for what they want to be told of the job.
///
/// # Errors
/// As [`launch`]; `PMIX_ERR_JOB_CANCELED` if it was not released before a signal came, the time limit passed, or
/// nobody was left who could.
pub fn launch_for_tool(
    plan: &Plan,
    standard: Standard<'_>,
    observer: Option<Box<dyn WireObserver>>,
    wait: Option<ToolWait>,
) -> Result<Outcome, Error> {
    plan.check()?;
    let began = Instant::now();
    let mut session = Session::start(plan, standard, observer, wait)?;
    session.watch()?;
    Ok(session.end(began))
}
