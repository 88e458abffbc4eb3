// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start of jobs, from their registration to the report of the agent.

use std::sync::Arc;
use std::time::Instant;

use pmix_types::Nspace;

use super::debugging::Debugging;
use super::display::Display;
use super::events::notify_started;
use super::job::{Job, Origin};
use super::request::Refusal;
use super::stop::Stop;
use super::{Controller, Cx};
use crate::Error;
use crate::agent::{FromAgent, JobSettings, NewJob};
use crate::preparation::{JobPlace, Prepared};

impl Controller {
    /// Begins the start of the first job.
    ///
    /// # Errors
    /// Returns [`Error`] if the job cannot be registered.
    pub(crate) fn start_first(
        &mut self,
        cx: &mut Cx<'_>,
        prepared: Prepared,
        place: JobPlace,
    ) -> Result<(), Error> {
        self.spawning.take_number();
        let display = Display {
            map: cx.plan.announce,
            ..Display::default()
        };
        let job = NewJob {
            plan: Arc::clone(&cx.plan),
            settings: JobSettings::default(),
            prepared,
            place,
        };
        self.start_job(cx, job, None, display)?;
        self.spawning.queue().set_first_starting(true);
        Ok(())
    }

    /// Registers a job, whose processes the agent starts.
    ///
    /// # Errors
    /// Returns [`Error`] if the job exceeds a limit, or if the server refuses it. Nothing of the job is left then.
    pub(crate) fn start_job(
        &mut self,
        cx: &mut Cx<'_>,
        new: NewJob,
        origin: Option<Origin>,
        display: Display,
    ) -> Result<(), Error> {
        let plan = Arc::clone(&new.plan);
        // Before the job moves to the agent, and shown only if the agent accepts it.
        let lines = display.lines(&plan, &new.prepared.bound);
        cx.agent.register_job(new)?;
        let spares_exit_codes = { origin.as_ref() }.is_some_and(|origin| origin.spares_exit_codes);
        // The time limit of the first job starts with the launcher, which may have waited for its release. Spawned
        // jobs get the rest of that limit.
        let limited_from = match &origin {
            Some(_) => Instant::now(),
            None => self.began,
        };
        self.spawning.count_job(plan.layout.num_procs());
        self.jobs.push(Job {
            nspace: Nspace::new(plan.nspace.clone()).to_shared(),
            stop: Stop::new(&plan, limited_from).sparing_exit_codes_if(spares_exit_codes),
            debugging: Debugging::new(&plan.stops),
            has_failed: false,
            has_spread: false,
            leaving: None,
            origin,
            plan,
        });
        show(cx, &lines);
        Ok(())
    }

    /// Lets the agent advance the starts of jobs, and completes those that it reports.
    ///
    /// # Errors
    /// Returns [`Error`] if the first job could not be started.
    pub(crate) fn finish_starts(&mut self, cx: &mut Cx<'_>) -> Result<(), Error> {
        for report in cx.agent.advance_starts() {
            if let FromAgent::JobStarted(nspace, result) = report {
                self.finish_start(cx, nspace, result)?;
            }
        }
        Ok(())
    }

    /// Completes the start of a job, or terminates the part that was started.
    fn finish_start(
        &mut self,
        cx: &mut Cx<'_>,
        nspace: Nspace<'static>,
        result: Result<(), Error>,
    ) -> Result<(), Error> {
        let spawn = self.spawning.queue().take_started(&nspace);
        // By name: other jobs may have been removed since the start began.
        let index = self.jobs.place(&nspace);
        let is_first = index == Some(0);
        if is_first {
            // From here on the session may be over as soon as its processes have ended.
            self.spawning.queue().set_first_starting(false);
        }
        match (result, index, spawn) {
            (Ok(()), Some(index), spawn) => {
                if let Some(job) = self.jobs.get(index) {
                    notify_started(&cx.agent, job);
                }
                self.register_stops_on_exec(cx, index);
                self.publish_to_mpir(cx, index);
                if let Some(spawn) = spawn {
                    self.finish_spawn(cx, nspace, spawn);
                }
                Ok(())
            }
            (Err(error), _, Some(spawn)) => {
                self.refuse(cx, spawn, Refusal::of(&error));
                Ok(())
            }
            (Err(error), _, None) if is_first => {
                let job = self.jobs.get(0);
                match job.is_some_and(|job| job.stop.is_killed()) {
                    // The first job was killed while it started. Its outcome has the cause.
                    true => Ok(()),
                    false => Err(error),
                }
            }
            // The spawn was given up meanwhile.
            (..) => Ok(()),
        }
    }
}

/// Displays information on a job. It is skipped while earlier output was not read: spawns that only prepare a job can
/// repeat without limit.
pub(crate) fn show(cx: &mut Cx<'_>, lines: &str) {
    if !cx.agent.has_room_for_errors() {
        return tracing::debug!("cannot print information about jobs");
    }
    if !lines.is_empty() {
        cx.agent.write_error(lines);
    }
}
