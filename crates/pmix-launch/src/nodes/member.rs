// SPDX-License-Identifier: MIT OR Apache-2.0
//! The session of `pmix node`: the agent of a node whose controller is at the other end of a link.
//!
//! The agent does everything that concerns its node, and the member passes on what concerns the controller: upcalls of
//! the server, starts and ends of processes, output. If the link ends, the processes end as well.

mod asked;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use pmix_host::forward::OutputChunk;
use pmix_host::helpers::Cancel;
use pmix_server::upcall::{HostReply, NotifyEvent, PushStdin, Upcall};
use pmix_server::{Completion, EventSource, UntypedCompletion};
use pmix_types::{DataRange, Nspace, Proc, Rank, Status};
use signal_hook::consts::SIGCHLD;

use super::joining::{MemberSettings, await_session, enter, plan};
use super::link::Link;
use super::message::is_error;
use super::message::{
    EndForm, EndedForm, ErrorForm, FromNode, JobForm, ProcName, ServerForm, SpawnedForm, ToNode,
};
use super::unpack_infos;
use crate::agent::{Agent, EVENTS, FromAgent, Measured, NewJob, SIGNALS};
use crate::host::HostMessage;
use crate::output::{OwnStreams, Standard};
use crate::preparation::Preparation;
use crate::process::{self, Process};
use crate::signals::Signals;
use crate::{Error, Plan, null, service};

/// The tokens of the link. They follow those that an agent uses for itself.
const READ: Token = Token(6);
const WRITE: Token = Token(7);

/// The largest number of bytes of output on the way to the controller.
const MOST_OUTPUT: u64 = 4 << 20;

/// The time after which the member looks at its link without an event.
const CHECK: Duration = Duration::from_secs(3600);

/// Serves the controller at the other end of a link as the agent of this node, until the session ends.
///
/// # Errors
/// Returns [`Error`] if the settings of the session do not arrive or are not usable, or if the agent cannot be started.
pub fn serve_as_member(
    settings: &MemberSettings,
    (input, output): (OwnedFd, OwnedFd),
) -> Result<(), Error> {
    let poll = Poll::new().map_err(|e| Error::system("cannot poll", e))?;
    let link = Link::new(poll.registry(), (READ, input), (WRITE, output));
    let mut link = link.map_err(|e| Error::system("cannot use the link to the controller", e))?;
    link.greet();
    let Some((form, poll)) = await_session(&mut link, poll)? else {
        // The controller has ended before it began.
        return Ok(());
    };
    let wdir = form.wdir.clone();
    let plan = Arc::new(plan(form, settings)?);
    enter(wdir.as_deref(), &plan);
    let null = null::both().map_err(|e| Error::system("cannot open the null device", e))?;
    // The output of processes goes to the controller only.
    let standard = Standard {
        input: null.as_fd(),
        output: null.as_fd(),
        errors: null.as_fd(),
    };
    let signals = Signals::take(poll.registry(), SIGNALS)?;
    let streams = OwnStreams::examine(standard.output, standard.errors);
    let (agent, wake) = Agent::new(&plan, poll, (standard, streams), None)?;
    let (answers, answered) = channel();
    let mut member = Member {
        plan,
        agent,
        link,
        signals,
        calls: BTreeMap::new(),
        last_call: 0,
        starting: BTreeMap::new(),
        open_jobs: BTreeSet::new(),
        num_unread: 0,
        answers,
        answered,
        wake: Arc::new(wake),
        is_ending: false,
    };
    let num_processors = process::allowed().map_or(1, |cpus| cpus.len());
    member.send(&FromNode::Ready { num_processors })?;
    let served = member.serve();
    member.end();
    served
}

/// The session of the agent of a node.
///
/// The order of the fields is the order of their drop: the link ends after the agent.
struct Member<'a> {
    plan: Arc<Plan>,
    agent: Agent<'a>,
    link: Link,
    signals: Signals,
    /// The upcalls that the controller has not answered.
    calls: BTreeMap<u64, UntypedCompletion>,
    last_call: u64,
    /// The jobs whose processes are being started, with the ranks that were not reported as started.
    starting: BTreeMap<Vec<u8>, BTreeSet<Rank>>,
    /// The jobs of which something is left.
    open_jobs: BTreeSet<Vec<u8>>,
    /// The number of bytes of output that the controller has not taken.
    num_unread: u64,
    /// The results of requests of the controller, from any thread.
    answers: Sender<FromNode>,
    answered: Receiver<FromNode>,
    wake: Arc<dyn Fn() + Send + Sync>,
    is_ending: bool,
}

impl Member<'_> {
    fn send(&mut self, message: &FromNode) -> Result<(), Error> {
        self.link.send(message)
    }

    /// Serves the controller until it ends the session, or the link ends.
    fn serve(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.link.read();
            while let Some(message) = self.link.take()? {
                self.handle(message)?;
            }
            if self.is_ending {
                return Ok(());
            }
            if self.link.is_closed() {
                return Err(Error::request("the link to the controller has ended"));
            }
            self.advance()?;
            self.turn(&mut events)?;
        }
    }

    /// Does what is possible without waiting.
    fn advance(&mut self) -> Result<(), Error> {
        self.pass_output()?;
        for report in self.agent.advance_starts() {
            if let FromAgent::JobStarted(nspace, result) = report {
                self.report_started()?;
                self.starting.remove(nspace.as_bytes());
                let failure = result.err().map(|error| ErrorForm::of(&error));
                let nspace = nspace.as_bytes().to_vec();
                self.send(&FromNode::JobStarted { nspace, failure })?;
            }
        }
        self.report_started()?;
        self.agent.turn_removals();
        self.report_links()?;
        self.pass_upcalls()?;
        self.collect()?;
        let answered: Vec<_> = self.answered.try_iter().collect();
        for message in answered {
            self.send(&message)?;
        }
        self.report_over()
    }

    /// Waits for events and handles them.
    fn turn(&mut self, events: &mut Events) -> Result<(), Error> {
        let now = Instant::now();
        let is_busy = self.agent.is_busy() || self.link.is_busy() || self.agent.is_collect_due();
        let until = match is_busy {
            true => Some(now),
            false => self.agent.deadline(now).or_else(|| now.checked_add(CHECK)),
        };
        let mut has_events = self.agent.wait(until)?;
        while has_events {
            let num_events = match self.agent.poll_now(events) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                result => result.map_err(|e| Error::system("cannot poll", e))?,
            };
            for event in &*events {
                match event.token() {
                    READ | WRITE => self.link.handle_ready(),
                    SIGNALS => {
                        for signal in self.signals.pending() {
                            self.handle_signal(signal);
                        }
                    }
                    token => _ = self.agent.handle_event(token, Instant::now()),
                }
            }
            has_events = num_events == EVENTS;
        }
        let now = Instant::now();
        _ = self.agent.tick(now);
        self.finish_examinations()?;
        self.turn_monitors(now)
    }

    fn handle_signal(&mut self, signal: i32) {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        match signal {
            SIGCHLD => self.agent.request_collect(),
            // The controller passes on the signals that are for processes, so this one is for the agent itself.
            SIGHUP | SIGINT | SIGTERM => self.is_ending = true,
            _ => {}
        }
    }

    /// Sends output to the controller, as much as it takes.
    fn pass_output(&mut self) -> Result<(), Error> {
        for chunk in self.agent.turn_output() {
            let OutputChunk {
                source,
                kind,
                bytes,
            } = chunk;
            self.num_unread += bytes.len() as u64;
            let proc = ProcName::of(&source);
            let is_error = is_error(kind);
            self.send(&FromNode::Output {
                proc,
                is_error,
                bytes,
            })?;
        }
        self.agent.hold_output(self.num_unread > MOST_OUTPUT);
        Ok(())
    }

    /// Reports the processes whose start was not reported.
    fn report_started(&mut self) -> Result<(), Error> {
        let mut started = Vec::new();
        for (nspace, awaited) in &mut self.starting {
            let nspace = Nspace::new(nspace.clone()).to_shared();
            let Some(job) = self.agent.job(&nspace) else {
                continue;
            };
            let found = awaited.iter().filter_map(|rank| job.process(*rank));
            let found: Vec<_> = found
                .map(|process| (process.rank, process.app, process.pid))
                .collect();
            for (rank, app, pid) in found {
                awaited.remove(&rank);
                started.push(FromNode::Started {
                    proc: ProcName::of(&Proc::new(nspace.clone(), rank)),
                    app: u32::try_from(app).unwrap_or(u32::MAX),
                    pid: pid.as_raw_nonzero().get(),
                });
            }
        }
        started.iter().try_for_each(|message| self.send(message))
    }

    /// Reports the processes that have initialized or finalized.
    fn report_links(&mut self) -> Result<(), Error> {
        for (proc, is_connected) in self.agent.take_linked() {
            let proc = ProcName::of(&proc);
            self.send(&FromNode::Linked { proc, is_connected })?;
        }
        Ok(())
    }

    /// Passes the upcalls of the server to the controller.
    fn pass_upcalls(&mut self) -> Result<(), Error> {
        loop {
            let next = self.agent.next_upcall();
            // An initialize precedes the calls that follow it.
            self.report_links()?;
            let Some(message) = next else {
                return Ok(());
            };
            match message.into_upcall() {
                Ok((upcall, done)) => self.pass_upcall(&upcall, done)?,
                Err(message) => self.pass_other(*message)?,
            }
        }
    }

    /// Handles a message of the server that is no upcall for the controller, or one without an answer.
    fn pass_other(&mut self, message: HostMessage) -> Result<(), Error> {
        match message {
            HostMessage::Monitor(call, done) => {
                let user = rustix::process::geteuid().as_raw();
                let node = self.agent.local_node();
                self.agent.monitors().monitor(call, user, node, done);
                Ok(())
            }
            HostMessage::FenceAcrossJobs(procs) => {
                let procs = procs.iter().map(ProcName::of).collect();
                self.send(&FromNode::Server(ServerForm::FenceAcrossJobs { procs }))
            }
            HostMessage::ToolLeft(proc) => {
                let proc = ProcName::of(&proc);
                self.send(&FromNode::Server(ServerForm::ToolLeft { proc }))
            }
            HostMessage::Event(_, call) => self.pass_event(call),
            HostMessage::Refused(Proc { nspace, rank }, what) => {
                tracing::warn!(
                    "rank {rank} of {nspace} asked to {what}, which pmix run does not support"
                );
                Ok(())
            }
            // The controller reports only those of its own server: debuggers, groups, fences, missing participants.
            _ => Ok(()),
        }
    }

    /// Passes an event to the controller, whose answer nothing waits for.
    fn pass_event(&mut self, event: NotifyEvent) -> Result<(), Error> {
        let done = Completion::<()>::from_fn(|_| {}).untyped();
        self.pass_upcall(&Upcall::from(event), done)
    }

    fn pass_upcall(&mut self, upcall: &Upcall, done: UntypedCompletion) -> Result<(), Error> {
        match upcall.pack() {
            Ok(bytes) => {
                self.last_call += 1;
                self.calls.insert(self.last_call, done);
                let (call, upcall) = (self.last_call, bytes);
                self.send(&FromNode::Upcall { call, upcall })
            }
            Err(error) => {
                tracing::warn!("cannot pass on a call: {error}");
                done.complete(HostReply::Done(error.status()));
                Ok(())
            }
        }
    }

    /// Records ended processes, and reports them after everything that they had sent before.
    fn collect(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.agent.is_collect_due() {
            self.agent.collect(now);
            self.agent.drive(now)?;
            self.pass_upcalls()?;
        }
        if self.agent.awaits_last_words(now) {
            return Ok(());
        }
        for proc in self.agent.take_ended() {
            self.agent.explain_kill(&proc);
            let Some(process) = self.agent.jobs().process(&proc).cloned() else {
                continue;
            };
            let Some(ended) = self.ended(&proc, process) else {
                continue;
            };
            // The link keeps the order, so the controller has the output that was read before this.
            self.send(&FromNode::Ended(ended))?;
            self.agent.monitors().proc_ended(&proc);
        }
        Ok(())
    }

    fn ended(&self, proc: &Proc<'_>, process: Process) -> Option<EndedForm> {
        let (ending, _) = process.ended?;
        let pid = process.pid.as_raw_nonzero().get();
        let is_measured = self.plan.diagnosis.measures;
        // The process is not reaped yet, so the kernel still has its time.
        let time = is_measured.then(|| pmix_host::usage::processor_time(pid).ok());
        Some(EndedForm {
            proc: ProcName::of(proc),
            ending: EndForm::of(ending)?,
            largest_memory: process.largest_memory,
            processor_time: time.flatten(),
            kernel_kill: process.kernel_kill,
        })
    }

    /// Reports the jobs of which nothing is left on this node.
    fn report_over(&mut self) -> Result<(), Error> {
        let agent = &self.agent;
        let starting = &self.starting;
        let is_over = |nspace: &&Vec<u8>| {
            let name = name((*nspace).clone());
            !starting.contains_key(*nspace) && agent.is_job_over(&name)
        };
        let over: Vec<_> = self.open_jobs.iter().filter(is_over).cloned().collect();
        for nspace in over {
            self.open_jobs.remove(&nspace);
            self.send(&FromNode::JobOver { nspace })?;
        }
        Ok(())
    }

    /// Handles a message of the controller.
    fn handle(&mut self, message: ToNode) -> Result<(), Error> {
        match message {
            ToNode::Session(_) => return Err(Error::request("a second session")),
            ToNode::Start(form) => {
                let nspace = form.nspace.clone().into_bytes();
                if let Err(error) = self.start(*form) {
                    let failure = Some(ErrorForm::of(&error));
                    self.open_jobs.remove(&nspace);
                    self.send(&FromNode::JobStarted {
                        nspace: nspace.clone(),
                        failure,
                    })?;
                    self.send(&FromNode::JobOver { nspace })?;
                }
            }
            ToNode::Cancel { nspace } => self.agent.cancel_start(&name(nspace)),
            ToNode::Signal {
                nspace,
                ranks,
                signals,
            } => {
                self.agent.signal_listed(&name(nspace), &ranks, &signals);
            }
            ToNode::Abandon { nspace } => {
                let nspace = name(nspace);
                self.agent.abandon(&nspace);
                self.agent.close_output(&nspace);
            }
            ToNode::EndJob { nspace } => {
                self.starting.remove(&nspace);
                self.open_jobs.remove(&nspace);
                let nspace = name(nspace);
                if let Some(ended) = self.agent.end_job(&nspace) {
                    self.agent.monitors().job_ended(&nspace);
                    self.agent.remove_job_dir(&ended);
                }
            }
            ToNode::Answer { call, reply } => {
                if let Some(done) = self.calls.remove(&call) {
                    let reply = HostReply::unpack(&reply);
                    let damaged = |error| Error::request(format!("a damaged answer: {error}"));
                    done.complete(reply.map_err(damaged)?);
                }
            }
            ToNode::Modex { call, proc, infos } => self.answer_modex(call, proc, &infos)?,
            ToNode::Waits { call, jobs } => self.answer_waits(call, jobs)?,
            ToNode::Examine {
                call,
                subjects,
                has_stacks,
            } => self.examine(call, subjects, has_stacks)?,
            ToNode::Measure { call, questions } => self.measure(call, questions)?,
            ToNode::Event {
                status,
                source,
                range,
                infos,
            } => {
                let (source, infos) = (source.into_proc(), unpack_infos(&infos)?);
                let (status, range) = (Status::from_raw(status), DataRange::from_raw(range));
                self.agent.notify_here((status, &source, range), &infos);
            }
            ToNode::Deregister { proc } => self.agent.deregister_client(&proc.into_proc()),
            ToNode::Input { bytes } => self.push_input(bytes),
            ToNode::Taken { num_bytes } => {
                self.num_unread = self.num_unread.saturating_sub(num_bytes);
            }
            ToNode::End => self.is_ending = true,
        }
        Ok(())
    }

    /// Begins the start of the part of a job.
    fn start(&mut self, mut form: JobForm) -> Result<(), Error> {
        let spawned = form.spawned.take().map(SpawnedForm::into_settings);
        let settings = spawned.transpose()?.unwrap_or_default();
        let plan = form.into_plan(&self.plan)?;
        let nspace = plan.nspace.clone().into_bytes();
        let preparation = Preparation::of(&plan, &settings.form, process::allowed());
        let never = Cancel::never();
        let prepared = preparation.prepare(&never)?;
        let plan = Arc::new(plan);
        let place = self.agent.placing(Arc::clone(&plan), settings.number)(&never)?;
        let ranks = plan.layout.here().iter().copied().collect();
        self.agent.register_job(NewJob {
            plan,
            settings,
            prepared,
            place,
        })?;
        self.starting.insert(nspace.clone(), ranks);
        self.open_jobs.insert(nspace);
        Ok(())
    }

    /// Passes input to the process of the first job that reads it.
    fn push_input(&mut self, bytes: Vec<u8>) {
        let num_bytes = bytes.len() as u64;
        let (answers, wake) = (self.answers.clone(), Arc::clone(&self.wake));
        let done = Completion::<()>::from_fn(move |_| {
            // The receiver lives as long as the member.
            let _ = answers.send(FromNode::InputTaken { num_bytes });
            wake();
        });
        let first = Proc::new(self.plan.nspace.clone(), Rank::WILDCARD);
        let call = PushStdin::new(first, Vec::new(), Vec::new(), bytes);
        self.agent.push_input_of_first(call, done);
    }

    /// Handles the results of monitors. Their events are for the clients of this node, and the controller passes them on.
    fn turn_monitors(&mut self, now: Instant) -> Result<(), Error> {
        while let Some(measured) = self.agent.monitors().next() {
            match measured {
                Measured::Monitor(Ok(found), _, done) => done.succeed(found),
                Measured::Monitor(Err(error), proc, done) => {
                    let Proc { nspace, rank } = proc;
                    tracing::warn!(
                        "PMIx_Process_monitor of rank {rank} of {nspace} failed: {error}"
                    );
                    done.fail(error.status());
                }
                // The controller answers queries.
                Measured::Query(_) => {}
                Measured::Asked(call, answers) => self.send_measured(call, answers)?,
                Measured::Events(events) => {
                    for event in events {
                        let server = service::name(&self.plan);
                        let source = event
                            .observed
                            .as_ref()
                            .map_or_else(|| EventSource::Reporter(&server), EventSource::Observed);
                        let (status, range) = (event.status, event.range);
                        (self.agent).notify_of_monitor(status, source, range, &event.infos);
                        let source = event.observed.unwrap_or(server);
                        let event = NotifyEvent::new(status, source, range, event.infos);
                        self.pass_event(event)?;
                    }
                }
            }
        }
        self.agent.tick_monitors(now);
        Ok(())
    }

    /// Ends all processes and the server, removes the files, and tells the controller.
    fn end(&mut self) {
        self.agent.end_processes();
        let _ = self.pass_output();
        self.agent.finalize();
        self.agent.finish();
        if let Err(error) = self.send(&FromNode::Bye) {
            tracing::debug!("the controller is not told of the end: {error}");
        }
        // The last bytes are written while the controller reads them.
        let until = Instant::now() + Duration::from_secs(1);
        while self.link.num_unsent() > 0 && !self.link.is_closed() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            self.link.handle_ready();
        }
    }
}

fn name(nspace: Vec<u8>) -> Nspace<'static> {
    Nspace::new(nspace).to_shared()
}
