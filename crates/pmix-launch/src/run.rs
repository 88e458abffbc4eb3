// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run of a job: everything is started, then one thread waits for all events.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use pmix_host::helpers::Cancel;
use pmix_server::WireObserver;
use signal_hook::consts::{SIGCONT, SIGHUP};

use crate::agent::{Agent, EVENTS, PollEvent, SIGNALS};
use crate::controller::{Controller, Cx, ToolWait};
use crate::output::{OwnStreams, Route, Standard};
use crate::preparation::{JobPlace, Preparation};
use crate::process::{self, CommandForm, limits};
use crate::signals::Signals;
use crate::{Error, Outcome, Plan};

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

/// The controller of the jobs, and the context with the agent of this node.
///
/// The order of the fields is the order of their drop.
struct Session<'a> {
    controller: Controller,
    cx: Cx<'a>,
    signals: Signals,
}

impl<'a> Session<'a> {
    /// Creates the session, waits for its release if a tool started it, and begins the start of the first job.
    fn start(
        plan: &Plan,
        standard: Standard<'a>,
        observer: Option<Box<dyn WireObserver>>,
        wait: Option<ToolWait>,
    ) -> Result<Self, Error> {
        // Check first: nothing was created yet that would have to be removed. No process and no tool is served before
        // the server exists, so nothing else waits if a disk blocks this preparation.
        let streams = OwnStreams::examine(standard.output, standard.errors);
        let least = Route::least_descriptors(plan, streams);
        limits::check(plan.layout.here().len(), least)?;
        let form = CommandForm::default();
        let preparation = Preparation::of(plan, &form, process::allowed());
        let prepared = preparation.prepare(&Cancel::never())?;
        let mut session = Self::prepare(plan, standard, streams, observer)?;
        let place = match wait {
            // Tools are served until the job has its directory, so a thread creates it.
            Some(wait) => session.wait_for_release(wait)?,
            // The server does not run yet, so nothing waits for a slow disk.
            None => {
                let plan = Arc::clone(&session.cx.plan);
                session.cx.agent.placing(plan, None)(&Cancel::never())?
            }
        };
        let Self { controller, cx, .. } = &mut session;
        controller.start_first(cx, prepared, place)?;
        Ok(session)
    }

    /// Creates the session without jobs.
    fn prepare(
        plan: &Plan,
        standard: Standard<'a>,
        streams: OwnStreams<'a>,
        observer: Option<Box<dyn WireObserver>>,
    ) -> Result<Self, Error> {
        let plan = Arc::new(plan.clone());
        let poll = Poll::new().map_err(|e| Error::system("cannot poll", e))?;
        // Before the server exists: a tool that finds it may send a signal at once.
        let signals = Signals::take(poll.registry(), SIGNALS)?;
        let (agent, wake) = Agent::new(&plan, poll, (standard, streams), observer)?;
        let controller = Controller::new(&plan, wake)?;
        Ok(Self {
            controller,
            cx: Cx::new(plan, agent),
            signals,
        })
    }

    /// Waits until the launcher is released and the directories of its job exist, and serves the tools that attach
    /// meanwhile.
    fn wait_for_release(&mut self, wait: ToolWait) -> Result<JobPlace, Error> {
        let mut wait = self.controller.begin_wait(&mut self.cx, wait)?;
        let mut events = Events::with_capacity(EVENTS);
        loop {
            match self.controller.advance_wait(&self.cx, &mut wait) {
                Ok(None) => {}
                ended => {
                    self.controller.end_wait(&mut self.cx, wait)?;
                    return ended.and_then(|place| place.ok_or_else(Error::cancelled));
                }
            }
            self.cx.agent.turn_output();
            let late = self.controller.advance_waiting(&mut self.cx);
            self.turn(&mut events, [wait.until, late].into_iter().flatten().min())?;
        }
    }

    /// Runs the session until all jobs have ended.
    fn run(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let Self { controller, cx, .. } = self;
            cx.agent.turn_output();
            controller.dismiss_ended(cx);
            if controller.is_over(cx) {
                return Ok(());
            }
            let until = controller.advance(cx)?;
            self.turn(&mut events, until)?;
        }
    }

    /// Waits for events until the given time at most, and handles them.
    fn turn(&mut self, events: &mut Events, until: Option<Instant>) -> Result<(), Error> {
        let deadline = self.controller.deadline(&mut self.cx);
        let until = [until, deadline].into_iter().flatten().min();
        let mut has_events = (self.controller).wait_and_serve(&mut self.cx, until)?;
        // The server reports only once that the poll has events, whatever their number, so the poll is drained.
        while has_events {
            let num_events = match self.cx.agent.poll_now(events) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|e| Error::system("cannot poll", e))?,
            };
            for event in &*events {
                let event = self.cx.agent.handle_event(event.token(), Instant::now());
                self.handle_event(event);
            }
            has_events = num_events == EVENTS;
        }
        let now = Instant::now();
        let event = self.cx.agent.tick(now);
        self.handle_event(event);
        self.controller.tick(&mut self.cx, now);
        Ok(())
    }

    /// Handles an event of the poll that the agent does not handle alone.
    fn handle_event(&mut self, event: Option<PollEvent>) {
        let Self {
            controller,
            cx,
            signals,
        } = self;
        match event {
            None => {}
            Some(PollEvent::Signals) => {
                for signal in signals.pending() {
                    controller.handle_signal(cx, signal);
                    // The launcher may have come to the foreground, so that it can read its terminal.
                    if signal == SIGCONT
                        && cx.agent.turn_input(Instant::now()) == Some(PollEvent::HangUp)
                    {
                        hang_up(controller, cx, signals);
                    }
                }
            }
            Some(PollEvent::Release) => controller.read_release(),
            Some(PollEvent::HangUp) => hang_up(controller, cx, signals),
        }
    }

    /// Cleans up and returns the outcome.
    fn end(self, began: Instant) -> Outcome {
        let Self {
            controller,
            mut cx,
            signals,
        } = self;
        let mut outcome = controller.end(&mut cx, began);
        drop(cx);
        drop(signals);
        outcome.elapsed = began.elapsed();
        outcome.processor_time = processor_time();
        outcome
    }
}

/// Handles the hang-up of the terminal that rank 0 reads, in the same way as SIGHUP from a shell.
fn hang_up(controller: &mut Controller, cx: &mut Cx<'_>, signals: &mut Signals) {
    tracing::info!("the terminal of the launcher hung up");
    if signals.is_first_hang_up() {
        controller.terminate(cx, SIGHUP);
    }
}

fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}
