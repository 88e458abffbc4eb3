// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run of a job: everything is started, then one thread waits for all events.

mod session;

use std::time::Instant;

use pmix_server::WireObserver;

use crate::controller::ToolWait;
use crate::output::Standard;
use crate::{Error, Outcome, Plan};
use session::Session;

/// Starts a job, waits until it has ended, and cleans up its processes, their descendants, and the session directory.
///
/// Signals to the launcher are forwarded to every process group of the job. After the job has ended, terminating
/// signals have their default effect on this process, whatever handlers it had before, unless they are ignored.
///
/// The observer receives all messages between the processes and the server.
///
/// # Errors
/// Returns [`Error`] if the job could not be started; the part that was started is terminated. Failures of a running
/// job are part of its [`Outcome`].
pub fn launch(
    plan: &Plan,
    standard: Standard<'_>,
    observer: Option<Box<dyn WireObserver>>,
) -> Result<Outcome, Error> {
    launch_for_tool(plan, standard, observer, None)
}

/// Does the same as [`launch`], but first waits for a release if there is a [`ToolWait`]. Tools can attach to the
/// server meanwhile and register for events of the job.
///
/// # Errors
/// Returns the errors of [`launch`], and `PMIX_ERR_JOB_CANCELED` if the launcher was not released before a signal
/// arrived, the time limit passed, or no tool was left that could release it.
pub fn launch_for_tool(
    plan: &Plan,
    standard: Standard<'_>,
    observer: Option<Box<dyn WireObserver>>,
    wait: Option<ToolWait>,
) -> Result<Outcome, Error> {
    plan.check()?;
    let began = Instant::now();
    let mut session = Session::start(plan, standard, observer, wait)?;
    session.run()?;
    Ok(session.end(began))
}
