// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller of the jobs of a session: it starts, watches and ends them through the agents of their nodes.
//!
//! | subsystem | state |
//! | --- | --- |
//! | `Jobs` | plans, spawn requests, termination and stops for debuggers of the running jobs |
//! | `Spawning` | spawn requests whose jobs have not started, the names and numbers of jobs |
//! | `Outcomes` | the first failure, the outcomes of spawned jobs that have ended |
//! | `Connected` | the connections between jobs |
//! | `Services` | published data, credentials, groups, process sets |
//! | `Gathering` | the collectives that wait for other nodes |
//! | `Inquiries` | the requests to the agents of other nodes that wait for answers |
//! | `SessionNodes` | the nodes on which jobs may have processes, with their slots |
//! | `Notices` | the collectives that were reported because they wait for long |
//! | `Waiting` | the wait of an intermediate launcher for its release |
//!
//! Methods of the controller are in the file that tells their story, from the upcall (`answer.rs`) to the end of a job
//! (`ending.rs`). They take the context [`Cx`], which has what all of them share: the plan of the session, the agent,
//! and the warnings for the user. State of a subsystem is private to it.

mod answer;
mod connected;
mod control;
mod debug;
mod debug_request;
mod debugging;
mod diagnosis;
mod directives;
mod display;
mod ended;
mod ending;
mod events;
mod fences;
mod gathering;
mod groups;
mod inquiries;
mod inspection;
mod job;
mod launcher;
mod monitor;
mod node;
mod outcomes;
mod purpose;
mod query;
mod request;
mod services;
mod session_control;
mod signal;
mod spawn;
mod spawn_hosts;
mod spawn_plan;
mod spawn_queue;
mod spawning;
mod start;
mod stop;
mod support;
mod tool_wait;
mod warnings;

use std::sync::Arc;
use std::time::Instant;

use pmix_types::{Nspace, Proc};

use self::connected::Connected;
use self::diagnosis::Notices;
use self::fences::Fences;
use self::gathering::Gathering;
use self::inquiries::Inquiries;
use self::job::Jobs;
use self::outcomes::Outcomes;
use self::purpose::Purpose;
use self::services::Services;
use self::spawn_hosts::SessionNodes;
use self::spawning::Spawning;
use self::tool_wait::Waiting;
use self::warnings::Warnings;
use crate::agent::Agent;
use crate::{Error, Outcome, Plan};

pub use self::tool_wait::{PAUSE_FOR_TOOL, ToolWait};

/// The context that the methods of the controller share.
pub(crate) struct Cx<'a> {
    /// The plan of the first job, with the settings for the whole session.
    pub(crate) plan: Arc<Plan>,
    /// The agent of the launcher's own node, which passes calls on to the agents of other nodes.
    pub(crate) agent: Agent<'a>,
    pub(crate) warnings: Warnings,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(plan: Arc<Plan>, agent: Agent<'a>) -> Self {
        Self {
            plan,
            agent,
            warnings: Warnings::default(),
        }
    }

    /// Returns the name of a process for messages: its rank alone if it belongs to the first job.
    fn name_of(&self, proc: &Proc<'_>) -> String {
        let Proc { nspace, rank } = proc;
        match nspace.as_bytes() == self.plan.nspace.as_bytes() {
            true => format!("rank {rank}"),
            false => format!("rank {rank} of {nspace}"),
        }
    }

    /// Returns the name of a process for messages, with its program, process id and node.
    fn identify(&self, proc: &Proc<'_>) -> String {
        let name = self.name_of(proc);
        let local = self.agent.job(&proc.nspace);
        let found = local.and_then(|local| Some((local, local.process(proc.rank)?)));
        let Some((local, process)) = found else {
            return name;
        };
        let program = local.plan().apps.get(process.app);
        let program = program.map(|app| app.program.to_string_lossy());
        let program = program.unwrap_or_default();
        let host = local.plan().layout.host_of(proc.rank);
        let host = String::from_utf8_lossy(&host);
        format!("{name} ({program}, pid {} on {host})", process.pid)
    }

    /// Writes a message of the launcher to its standard error, or counts it if too much output waits for a reader.
    fn say(&mut self, line: &str) {
        if !self.agent.has_room_for_errors() {
            return self.warnings.count_unwritten(Instant::now());
        }
        // Parts of the line are from processes, and a terminal would execute control characters.
        let shown = |c: char| if c.is_control() { '?' } else { c };
        let line: String = line.chars().map(shown).collect();
        self.agent.write_error(&format!("pmix run: {line}\n"));
    }

    /// Writes a warning, or counts it if it was written before.
    fn warn(&mut self, line: String) {
        self.warnings.warn_of(line, Instant::now());
    }
}

/// Exchanges messages with other nodes, and shows the lines that come of it.
fn turn_nodes(cx: &mut Cx<'_>) {
    for line in cx.agent.turn_nodes(Instant::now()) {
        cx.say(&line);
    }
}

/// The controller of the jobs of a session. The number of the session (`PMIX_SESSION_ID`) is the launcher's process id.
pub(crate) struct Controller {
    jobs: Jobs,
    spawning: Spawning,
    outcomes: Outcomes,
    connected: Connected,
    services: Services,
    notices: Notices,
    gathering: Gathering,
    inquiries: Inquiries<Purpose>,
    nodes: SessionNodes,
    fences: Fences,
    /// The state of the wait for the release of an intermediate launcher.
    tool_wait: Option<Waiting>,
    /// The start of the session.
    began: Instant,
}

impl Controller {
    /// Creates a controller without jobs. `wake` is called by the threads that prepare jobs.
    ///
    /// # Errors
    /// Returns [`Error`] if there are no credentials.
    pub(crate) fn new(plan: &Plan, wake: impl Fn() + Send + Sync + 'static) -> Result<Self, Error> {
        Ok(Self {
            jobs: Jobs::default(),
            spawning: Spawning::new(wake),
            outcomes: Outcomes::default(),
            connected: Connected::default(),
            services: Services::new(plan)?,
            notices: Notices::default(),
            gathering: Gathering::default(),
            inquiries: Inquiries::default(),
            nodes: SessionNodes::of(plan),
            fences: Fences::default(),
            tool_wait: None,
            began: Instant::now(),
        })
    }

    /// Does what is possible without waiting: refuses and starts spawned jobs, adopts started processes, restarts
    /// processes. Returns the time of the next call if no event comes before.
    ///
    /// # Errors
    /// Returns [`Error`] if the first job could not be started.
    pub(crate) fn advance(&mut self, cx: &mut Cx<'_>) -> Result<Option<Instant>, Error> {
        turn_nodes(cx);
        self.tick_inquiries(cx, Instant::now());
        let late = self.refuse_late(cx, Instant::now());
        // After the refusals, so that no job starts whose time limit has passed.
        self.start_waiting(cx);
        self.finish_starts(cx)?;
        self.finish_restarts(cx, Instant::now());
        cx.agent.turn_removals();
        // Without a signal, a full disk may get room again, so files are waited for without limit.
        let stuck = match self.jobs.are_interrupted() {
            true => cx.agent.give_up_files(Instant::now()),
            false => None,
        };
        Ok([late, stuck].into_iter().flatten().min())
    }

    /// Does what is due at this time.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>, now: Instant) {
        if cx.agent.is_collect_due() {
            self.collect(cx);
        }
        self.services.tick(now);
        self.tick_collectives(now);
        self.tick_inquiries(cx, now);
        self.tick_monitors(cx, now);
        cx.warnings.tick(now);
        self.finish_reports(cx, now);
        self.tick_notices(cx, now);
        // By index, because an order may change the other jobs but removes none.
        for index in 0..self.jobs.len() {
            let order = self.jobs.get_mut(index).and_then(|job| job.stop.tick(now));
            if let Some(order) = order {
                self.execute(cx, index, order);
            }
            self.terminate_late(cx, index, now);
        }
        self.spread_failures(cx, now);
    }

    /// Returns `true` if the session is over: no job runs, no spawn waits, and nothing of a job is left.
    pub(crate) fn is_over(&self, cx: &Cx<'_>) -> bool {
        self.spawning.is_empty() && cx.agent.is_over()
    }

    /// Returns the time of the next turn if no event comes before.
    pub(crate) fn deadline(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        let now = Instant::now();
        // Spawn requests wait while the launcher itself waits for its release.
        let is_asked = self.tool_wait.is_none() && self.spawning.can_advance();
        // A turn without waiting: the poll reports only what happens after it has begun.
        if cx.agent.is_busy() || is_asked {
            return Some(now);
        }
        let stops = self.jobs.iter().map(|job| {
            let leave = job.leaving.as_ref().map(|(until, _)| *until);
            [job.stop.deadline(), leave].into_iter().flatten().min()
        });
        let others = [
            self.services.deadline(),
            self.gathering.deadline(),
            self.inquiries.deadline(),
            self.notices.deadline(),
            cx.warnings.deadline(),
            cx.agent.deadline(now),
        ];
        stops.chain(others).flatten().min()
    }

    /// Ends all jobs and the server, and returns the outcome.
    pub(crate) fn end(mut self, cx: &mut Cx<'_>, began: Instant) -> Outcome {
        let first = Nspace::new(cx.plan.nspace.clone());
        let mut outcome = self
            .outcomes
            .of_first_job(&cx.plan, cx.agent.job(&first), began);
        // The first job was counted as well.
        outcome.num_spawned = self.spawning.num_jobs().saturating_sub(1);
        let unsound = cx.agent.job(&first).map(|job| job.unsound());
        // Files are removed only after all processes have ended, since these could create them again.
        while self.jobs.len() > 1 {
            self.dismiss(cx, self.jobs.len() - 1);
        }
        // Output and cleanups that these processes caused are handled by the server below.
        cx.agent.end_processes();
        // The server handles the cleanups for the end of the job before it is shut down.
        cx.agent.deregister_nspace(&first);
        self.serve(cx);
        cx.warnings.write();
        cx.agent.finalize();
        outcome.spawned = self.outcomes.take_spawned();
        (outcome.fences, outcome.num_fences) = self.fences.outcomes(began);
        let mut groups = std::mem::take(self.services.groups());
        groups.lost(&unsound.unwrap_or_default());
        outcome.num_groups = groups.num_formed();
        outcome.groups = groups.outcomes();
        cx.agent.finish();
        outcome
    }
}
