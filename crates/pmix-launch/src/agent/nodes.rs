// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agents of other nodes: the agent of the controller passes its calls on to them, and takes over what they report.
//!
//! The table of a job has the processes of all nodes, so the controller sees no difference. A process of another node is
//! a copy of the state that its agent has reported.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use pmix_server::upcall::{HostReply, PushStdin, Upcall};
use pmix_server::{Completion, call_host};
use pmix_types::{Info, Nspace, Proc, Rank, Status};
use rustix::process::{Pid, Signal};

use super::local_job::JobSettings;
use super::node_input::NodeInput;
use super::places::Places;
use super::{Agent, NODES};
use crate::host::{HostMessage, RemoteHost};
use crate::input;
use crate::nodes::{
    EndedForm, Found, FromNode, JobForm, Nodes, OnData, ProcName, ServerForm, ToNode, pack_infos,
    stream,
};
use crate::plan::Part;
use crate::process::{Ending, Link, Process};
use crate::{Error, Plan};

/// The other nodes, and the answers to their upcalls.
pub(super) struct OtherNodes {
    pub(super) nodes: Nodes,
    answers: Receiver<(usize, u64, HostReply)>,
    sender: Sender<(usize, u64, HostReply)>,
    /// The messages that wait for the next turn.
    posted: Receiver<(usize, ToNode)>,
    outgoing: Sender<(usize, ToNode)>,
    /// The host that gets the upcalls of other nodes.
    host: RemoteHost,
    input: Option<NodeInput>,
}

impl OtherNodes {
    /// Starts the agents of the other nodes of a plan, if it names any.
    ///
    /// # Errors
    /// Returns [`Error`] if the programs that reach the nodes cannot be started.
    pub(super) fn start(
        plan: &Plan,
        registry: &mio::Registry,
        host: RemoteHost,
    ) -> Result<Self, Error> {
        let nodes = match &plan.part {
            Part::Controller(agents) => Nodes::start(plan, agents, registry, NODES)?,
            Part::Alone | Part::Member { .. } => Nodes::default(),
        };
        let (sender, answers) = channel();
        let (outgoing, posted) = channel();
        Ok(Self {
            nodes,
            answers,
            sender,
            posted,
            outgoing,
            host,
            input: None,
        })
    }
}

impl Agent<'_> {
    /// Lets the agents of other nodes start their parts of a job. Each other node of the session registers the job without
    /// processes, because its own may connect with them.
    ///
    /// # Errors
    /// Returns [`Error`] if the job cannot be encoded, or if the program that reaches a node cannot be started.
    pub(super) fn start_at_nodes(
        &mut self,
        plan: &Plan,
        settings: &JobSettings,
    ) -> Result<(), Error> {
        // The maps of other launchers describe nodes where they start nothing.
        if !self.plan.has_agents() {
            return Ok(());
        }
        let mut wanted = BTreeSet::new();
        for name in plan.layout.others() {
            let place = match self.others.nodes.place(&name) {
                Some(place) => place,
                None => self.add_node(name)?,
            };
            wanted.insert(place);
        }
        let open = self.others.nodes.open_places();
        if wanted.is_empty() && open.is_empty() {
            return Ok(());
        }
        let nspace = Nspace::new(plan.nspace.as_str()).to_shared();
        let form = JobForm::of(plan, settings, self.streams.are_live(plan))?;
        for place in &wanted {
            self.others.nodes.begin(*place, &nspace);
        }
        let all: BTreeSet<_> = open.into_iter().chain(wanted).collect();
        for place in all {
            let message = ToNode::Start(Box::new(form.clone()));
            self.others.nodes.send(place, &message);
        }
        Ok(())
    }

    /// Starts the agent of a further node, which registers the jobs of the session.
    fn add_node(&mut self, name: Vec<u8>) -> Result<usize, Error> {
        let plan = Arc::clone(&self.plan);
        let Part::Controller(agents) = &plan.part else {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(Error::request(format!("node {name} cannot be reached")));
        };
        let registry = self.poll.registry();
        let (place, pid) = self.others.nodes.add(&plan, agents, name, registry)?;
        self.children.spare(pid);
        for job in self.jobs.iter() {
            let form = JobForm::of(&job.plan, &job.settings, false)?;
            let message = ToNode::Start(Box::new(form));
            self.others.nodes.send(place, &message);
        }
        Ok(place)
    }

    /// Reads the messages of other nodes, and sends them those that wait. Returns lines for the user: warnings of agents,
    /// and the nodes that were lost after they had answered.
    pub(crate) fn turn_nodes(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        if self.others.nodes.is_empty() {
            return lines;
        }
        for (place, found) in self.others.nodes.turn(now) {
            // The rest of what a lost node sent is void: its processes have ended.
            if self.others.nodes.is_lost(place) {
                continue;
            }
            let lost = match found {
                Found::Message(message) => match self.handle_node(place, message, now) {
                    Ok(()) => continue,
                    Err(error) => error.to_string(),
                },
                Found::Said(line) => {
                    lines.push(line);
                    continue;
                }
                Found::Lost(why) => why,
            };
            // A node that never answered fails the start of its jobs, which is reported there.
            if self.others.nodes.has_answered(place) {
                let name = self.others.nodes.name(place);
                lines.push(format!("node {name} was lost: {lost}"));
            }
            self.lose_node(place, &lost, now);
        }
        self.send_to_nodes();
        lines
    }

    /// Sends answers, signals and input to other nodes.
    pub(super) fn send_to_nodes(&mut self) {
        let others = &mut self.others;
        if others.nodes.is_empty() {
            return;
        }
        for (place, message) in others.posted.try_iter() {
            others.nodes.send(place, &message);
        }
        for (place, call, reply) in others.answers.try_iter() {
            let reply = reply.pack().or_else(|error| {
                tracing::warn!("cannot pack the answer to another node: {error}");
                HostReply::Done(error.status()).pack()
            });
            if let Ok(reply) = reply {
                others.nodes.send(place, &ToNode::Answer { call, reply });
            }
        }
        for job in self.jobs.iter_mut() {
            let nspace = job.nspace.as_bytes().to_vec();
            for ((place, signals), ranks) in job.table.take_orders() {
                let nspace = nspace.clone();
                let message = ToNode::Signal {
                    nspace,
                    ranks,
                    signals,
                };
                others.nodes.send(place, &message);
            }
        }
        if let Some(input) = &mut others.input {
            while let Some(bytes) = input.next() {
                others.nodes.send(input.place, &ToNode::Input { bytes });
            }
        }
        for (place, num_bytes) in self.streams.take_fed() {
            let num_bytes = u64::try_from(num_bytes).unwrap_or(u64::MAX);
            others.nodes.send(place, &ToNode::Taken { num_bytes });
        }
    }

    /// Handles a message of another node.
    fn handle_node(&mut self, place: usize, message: FromNode, now: Instant) -> Result<(), Error> {
        match message {
            FromNode::Ready { num_processors } => {
                let name = self.others.nodes.name(place);
                tracing::info!("node {name} is ready; it has {num_processors} processors");
                self.others.nodes.set_processors(place, num_processors);
            }
            FromNode::Started { proc, app, pid } => {
                self.adopt_remote(place, proc, (app, pid), now)?
            }
            FromNode::JobStarted { nspace, failure } => {
                let name = self.others.nodes.name(place).to_owned();
                let failure = failure.map(|failure| failure.into_error(&name));
                if failure.is_none() {
                    self.places().check_started(place, &nspace)?;
                }
                self.others.nodes.started(place, &nspace, failure);
            }
            FromNode::Linked { proc, is_connected } => {
                let proc = self.check_remote(place, proc)?;
                let message = match is_connected {
                    true => HostMessage::Connected(proc),
                    false => HostMessage::Finalized(proc),
                };
                self.mailbox.keep(message);
            }
            FromNode::Ended(ended) => self.end_remote(place, ended, now)?,
            FromNode::Output {
                proc,
                is_error,
                bytes,
            } => {
                let proc = self.check_remote(place, proc)?;
                self.feed_output(place, &proc, stream(is_error), &bytes);
            }
            FromNode::JobOver { nspace } => {
                self.places().check_over(place, &nspace)?;
                self.others.nodes.job_over(place, &nspace);
            }
            FromNode::Upcall { call, upcall } => {
                let upcall = Upcall::unpack(&upcall);
                let upcall =
                    upcall.map_err(|error| Error::request(format!("a damaged upcall: {error}")))?;
                let (sender, wake) = (self.others.sender.clone(), self.wake.clone());
                // The receiver lives as long as the agent.
                let answer = move |reply| {
                    let _ = sender.send((place, call, reply));
                    wake();
                };
                call_host(&self.others.host.at(place), upcall, answer);
            }
            FromNode::Data { call, result } => {
                let result = result.map_err(Status::from_raw);
                self.others.nodes.complete(place, call, result);
            }
            FromNode::Server(ServerForm::FenceAcrossJobs { procs }) => {
                let procs = procs.into_iter().map(ProcName::into_proc).collect();
                self.mailbox.keep(HostMessage::FenceAcrossJobs(procs));
            }
            FromNode::Server(ServerForm::ToolLeft { proc }) => {
                self.mailbox.keep(HostMessage::ToolLeft(proc.into_proc()));
            }
            FromNode::InputTaken { num_bytes } => {
                if let Some(input) = &mut self.others.input {
                    input.taken(num_bytes);
                }
            }
            FromNode::Bye => self.others.nodes.leave(place),
        }
        Ok(())
    }

    /// Checks that a process belongs to the node that reports it.
    fn check_remote(&self, place: usize, proc: ProcName) -> Result<Proc<'static>, Error> {
        let proc = proc.into_proc();
        let process = self.jobs.process(&proc);
        match process.is_some_and(|process| process.node == Some(place)) {
            true => Ok(proc),
            false => Err(Error::request(format!(
                "it reports rank {} of {}, which does not run there",
                proc.rank, proc.nspace
            ))),
        }
    }

    /// Adds a process that another node has started.
    fn adopt_remote(
        &mut self,
        place: usize,
        name: ProcName,
        (app, pid): (u32, i32),
        now: Instant,
    ) -> Result<(), Error> {
        let proc = name.into_proc();
        let node = self.others.nodes.name(place).to_owned();
        let foreign = || {
            let Proc { nspace, rank } = &proc;
            Error::request(format!(
                "it reports rank {rank} of {nspace}, which does not belong there"
            ))
        };
        let Some(job) = self.jobs.named_mut(&proc.nspace) else {
            // The job was given up meanwhile.
            return Ok(());
        };
        let owner = job.plan.layout.procs().node_of(proc.rank);
        let owner = owner.and_then(|owner| job.plan.layout.nodes().nth(owner));
        let is_owner = owner.is_some_and(|owner| self.others.nodes.place(&owner) == Some(place));
        let is_new = is_owner && job.table.place(proc.rank).is_none();
        // `from_raw` panics for a negative number, or returns a process group.
        let pid = Some(pid).filter(|pid| is_new && *pid > 0);
        let pid = pid.and_then(Pid::from_raw);
        let app = usize::try_from(app)
            .ok()
            .filter(|app| *app < job.plan.apps.len());
        let (Some(pid), Some(app)) = (pid, app) else {
            return Err(foreign());
        };
        tracing::info!(
            "rank {} of {} runs as process {pid:?} on node {node}",
            proc.rank,
            proc.nspace
        );
        job.table
            .push(Process::remote(place, proc.rank, app, pid, now));
        let is_first = job.settings.number.is_none();
        if is_first && job.plan.stdin_rank == Some(proc.rank) {
            let input = match job.plan.forward_io {
                true => Ok(NodeInput::pushed(place)),
                false => { self.streams.own_input() }
                    .and_then(|own| NodeInput::start(place, own, Arc::clone(&self.wake))),
            };
            self.others.input = input
                .map_err(|e| Error::system("cannot read standard input", e))?
                .into();
        }
        Ok(())
    }

    /// Records the end of a process of another node.
    fn end_remote(&mut self, place: usize, ended: EndedForm, now: Instant) -> Result<(), Error> {
        let proc = self.check_remote(place, ended.proc)?;
        if let Some(job) = self.jobs.named_mut(&proc.nspace) {
            if let Some(process) = job.table.of_rank(proc.rank) {
                process.largest_memory = ended.largest_memory;
                process.processor_time = ended.processor_time;
                process.kernel_kill = ended.kernel_kill;
            }
            let is_reader = job.settings.number.is_none() && job.plan.stdin_rank == Some(proc.rank);
            if let Some(input) = self.others.input.as_mut().filter(|_| is_reader) {
                input.end();
            }
            if job
                .table
                .end_remote(proc.rank, ended.ending.into_ending(), now)
            {
                self.children.add_ended(proc);
            }
        }
        Ok(())
    }

    /// Shows output of a process of another node.
    fn feed_output(
        &mut self,
        place: usize,
        proc: &Proc<'static>,
        kind: pmix_host::forward::OutputStream,
        bytes: &[u8],
    ) {
        if self.streams.feed(place, proc, kind, bytes) || bytes.is_empty() {
            return;
        }
        let Some(job) = self.jobs.named(&proc.nspace) else {
            return;
        };
        let Some(process) = job.process(proc.rank) else {
            return;
        };
        let asked = job.plan.output.files.as_ref();
        let shown = asked.is_none_or(|asked| asked.is_copied);
        let shown = shown.then(|| job.form(process.pid));
        let node = (place, self.others.nodes.name(place));
        self.streams.add_fed(node, proc.clone(), kind, shown);
        self.streams.feed(place, proc, kind, bytes);
    }

    /// Records the loss of a node: its processes have ended, and what was wanted of it fails.
    fn lose_node(&mut self, place: usize, why: &str, now: Instant) {
        let open_jobs = self.others.nodes.lose(place);
        let name = self.others.nodes.name(place).to_owned();
        // The tables decide, because the list of open jobs is as true as the reports of the node.
        let with_processes = self
            .jobs
            .iter()
            .filter(|job| !job.table.running_at(place).is_empty());
        let mut jobs: BTreeSet<_> = with_processes.map(|job| job.nspace().clone()).collect();
        jobs.extend((open_jobs.into_iter()).map(|job| Nspace::new(job).to_shared()));
        for nspace in jobs {
            let Some(job) = self.jobs.named_mut(&nspace) else {
                continue;
            };
            let is_starting = self.starting.has(&nspace);
            let lost = job.table.running_at(place);
            for rank in lost {
                job.table.end_remote(rank, Ending::Lost, now);
                self.children.add_ended(Proc::new(nspace.clone(), rank));
            }
            if is_starting {
                let message = format!("node {name}: {why}");
                let failure = Error::of_node(Status::ERR_JOB_FAILED_TO_LAUNCH, 1, message);
                self.others
                    .nodes
                    .started(place, nspace.as_bytes(), Some(failure));
            }
        }
        self.streams.end_fed(place);
        self.children.request_collect();
        self.mailbox.keep(HostMessage::NodeLost(place));
    }

    /// Asks the node of a process for its data.
    pub(crate) fn modex_at_node(
        &mut self,
        place: usize,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
        done: OnData,
    ) {
        let infos = match pack_infos(infos) {
            Ok(infos) => infos,
            Err(error) => return done(Err(error.status())),
        };
        let name = ProcName::of(proc);
        let message = |call| ToNode::Modex {
            call,
            proc: name.clone(),
            infos: infos.clone(),
        };
        self.others.nodes.want(place, message, done);
    }

    /// Asks the server of this node for data of one of its processes.
    pub(crate) fn modex_here(&mut self, proc: &Proc<'_>, infos: &[Info<'_>], done: OnData) {
        let asked = self.server.dmodex_request(proc, infos, done);
        if let Err(e) = asked {
            // The callback was dropped, which answers the request.
            tracing::debug!("cannot ask for data of rank {}: {e}", proc.rank);
        }
    }

    /// Lets collectives at the node of a process not wait for it any more. Returns `false` if that is not another node.
    pub(super) fn deregister_at_node(&self, proc: &Proc<'_>) -> bool {
        let Some(place) = self.node_of(proc) else {
            return false;
        };
        let proc = ProcName::of(proc);
        self.post(place, ToNode::Deregister { proc });
        true
    }

    /// Sends a message in the next turn.
    pub(super) fn post(&self, place: usize, message: ToNode) {
        // The receiver lives as long as the agent.
        let _ = self.others.outgoing.send((place, message));
        (self.wake)();
    }

    /// Returns the processes of all jobs, and their nodes.
    pub(crate) fn places(&self) -> Places<'_> {
        Places::new(&self.jobs, &self.others.nodes)
    }

    /// Returns the number of the node of a process, or `None` if it is on this one or not known.
    pub(crate) fn node_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.places().node_of(proc)
    }

    /// Sends the signals of a message to processes of this node.
    pub(crate) fn signal_listed(&mut self, nspace: &Nspace<'_>, ranks: &[u32], signals: &[i32]) {
        let signals = signals
            .iter()
            .filter_map(|number| Signal::from_named_raw(*number));
        let signals: Vec<_> = signals.collect();
        let ranks: Vec<_> = ranks.iter().copied().map(Rank::new).collect();
        if let Some(job) = self.jobs.named_mut(nspace) {
            job.table.signal_listed(&ranks, &signals);
        }
    }

    /// Stops reading the output of processes while `is_held` is `true`.
    pub(crate) fn hold_output(&mut self, is_held: bool) {
        self.streams.hold(is_held);
    }

    /// Passes input to the process of the first job that reads it.
    pub(crate) fn push_input_of_first(&mut self, call: PushStdin, done: Completion<()>) {
        // The plan of the session has no processes, so the job knows the reader.
        let first = Nspace::new(self.plan.nspace.as_str());
        let plan = self.jobs.named(&first).map(|job| Arc::clone(&job.plan));
        match plan {
            Some(plan) => self.streams.push_input(&plan, call, done),
            None => done.fail(Status::ERR_NOT_FOUND),
        }
    }

    /// Passes pushed input to the reading process of the first job if that is on another node. Returns the push
    /// otherwise.
    pub(super) fn push_to_node(
        &mut self,
        call: PushStdin,
        done: Completion<()>,
    ) -> Option<(PushStdin, Completion<()>)> {
        let Some(input) = self.others.input.as_mut().filter(|_| self.plan.forward_io) else {
            return Some((call, done));
        };
        match input::is_for(&self.plan, &call) {
            true => {
                let ends = input::ends(&call);
                input.push(call.data, ends, done);
                (self.wake)();
            }
            false => done.fail(Status::ERR_NOT_FOUND),
        }
        None
    }

    /// Requests that ended children are looked for in the next turn.
    pub(crate) fn request_collect(&mut self) {
        self.children.request_collect();
    }

    /// Records the state of a process towards its server, for the controller if that is on another node.
    pub(super) fn report_link(&mut self, proc: &Proc<'static>, link: Link) {
        if self.is_member {
            self.linked.push((proc.clone(), link == Link::Connected));
        }
    }

    /// Returns the processes that have initialized (`true`) or finalized since the last call.
    pub(crate) fn take_linked(&mut self) -> Vec<(Proc<'static>, bool)> {
        std::mem::take(&mut self.linked)
    }

    /// Waits for the end of the agents of other nodes, for a bounded time.
    pub(super) fn finish_nodes(&mut self) {
        if self.others.nodes.is_empty() {
            return;
        }
        self.send_to_nodes();
        self.others.nodes.end();
        let until = Instant::now() + Nodes::patience();
        let mut events = mio::Events::with_capacity(super::EVENTS);
        while self.others.nodes.are_leaving() {
            let now = Instant::now();
            let Some(left) = until.checked_duration_since(now) else {
                tracing::warn!("agents of other nodes have not ended in time");
                break;
            };
            for (place, found) in self.others.nodes.turn(now) {
                match found {
                    Found::Message(FromNode::Bye) => self.others.nodes.leave(place),
                    Found::Lost(_) => _ = self.others.nodes.lose(place),
                    Found::Message(_) | Found::Said(_) => {}
                }
            }
            if !self.others.nodes.are_leaving() {
                break;
            }
            if let Err(e) = self.poll.poll(&mut events, Some(left)) {
                if e.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                tracing::warn!("cannot wait for other nodes: {e}");
                break;
            }
            for event in &events {
                self.others.nodes.handle_ready(event.token());
            }
        }
    }
}
