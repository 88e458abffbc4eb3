// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run: nodes, jobs, connections, a host and a clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_engine::{Config, EngineEvent, Transmit};
use pmix_proto::{Header, Tag};

use crate::add_members::{ADD_MEMBERS_RUNS, AddMembersConstruct, add_constructs};
use crate::agenda::{Agenda, Event};
use crate::client::{Client, Who};
use crate::fault::{Fault, Plan, Tally};
use crate::host::Host;
use crate::node::{Node, UID};
use crate::oracle::Oracle;
use crate::oracle::events::{Reporter, number};
use crate::process::{Job, LED_RUNS, Phase, Process, Stamp, add_led, script};
use crate::random::Random;
use crate::tool::{Tool, tools};

/// The modulus of the seeds with tools and jobs to spawn.
const TOOLS: u64 = 8;

/// The time at which the host ends everything.
const END: Duration = Duration::from_secs(40);

/// The number of events between two recounts of the engines.
const COUNTED: u32 = 4;

/// A run.
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) plan: Plan,
    pub(crate) tally: Tally,
    pub(crate) config: Config,
    base: Instant,
    pub(crate) now: Duration,
    pub(crate) agenda: Agenda,
    pub(crate) nodes: Vec<Node>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) procs: Vec<Process>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) script: Vec<Phase>,
    pub(crate) constructs: Vec<AddMembersConstruct>,
    pub(crate) clients: Vec<Client>,
    pub(crate) host: Host,
    pub(crate) oracle: Oracle,
    /// The number of sent packets.
    pub(crate) num_packets: u64,
    /// The number of raised events.
    pub(crate) num_events: u32,
    pub(crate) is_over: bool,
    /// `true` if processes commit the same data again within an incarnation.
    pub(crate) is_steady: bool,
    /// The trace of the run, if it is to be printed.
    pub(crate) trace: Option<Vec<String>>,
    /// A digest of all events.
    pub(crate) digest: u64,
}

impl World {
    /// Creates the run of a seed, with its own faults or the given ones.
    pub(crate) fn new(seed: u64, plan: Option<Plan>, is_traced: bool) -> Self {
        let mut random = Random::new(seed);
        let has_tools = seed % TOOLS == TOOLS - 1;
        let drawn = match has_tools {
            true => Plan::draw(&mut random, Fault::ALL),
            false => Plan::draw(&mut random, Fault::WITHOUT_TOOLS),
        };
        let is_led = seed % LED_RUNS.0 == LED_RUNS.1;
        let has_constructs = seed % ADD_MEMBERS_RUNS.0 == ADD_MEMBERS_RUNS.1;
        // A crash during a construct requires a decision.
        let drawn = match is_led || has_constructs && seed.is_multiple_of(3) {
            true => drawn.with(Fault::Crash),
            false => drawn,
        };
        let plan = plan.unwrap_or(drawn);
        let mut config = config(&mut random, plan, has_tools);
        if is_led || has_constructs {
            // Shorter than any time limit, so that time limits do not end constructs.
            config.leader_time = Duration::from_millis(900);
        }
        let num_nodes = 1 + random.below(3);
        let mut jobs = jobs(&mut random, num_nodes);
        let mut script = script(&mut random, &jobs);
        if is_led {
            add_led(seed, &jobs, &mut script);
        }
        let constructs = add_constructs(seed, &jobs, &mut script);
        // Tools and jobs to spawn are in some runs only, because such runs take longer.
        let tools = match has_tools {
            true => tools(&mut random, num_nodes),
            false => Vec::new(),
        };
        if has_tools {
            add_spare(&mut random, num_nodes, &mut jobs);
        }
        let procs = jobs.iter().enumerate().flat_map(|(place, job)| {
            (0..job.per_node.len()).flat_map(move |node| {
                let ranks = job.ranks_on(node);
                ranks.map(move |rank| process(place, job, node, rank))
            })
        });
        let procs = procs.collect();
        let is_steady = seed.is_multiple_of(3);
        let nodes = (0..num_nodes).map(|place| Node::new(place, 0, &config));
        let nodes = nodes.collect();
        Self {
            random,
            plan,
            tally: Tally::default(),
            config,
            base: Instant::now(),
            now: Duration::ZERO,
            agenda: Agenda::default(),
            nodes,
            jobs,
            procs,
            tools,
            script,
            oracle: Oracle::of(constructs.len()),
            constructs,
            clients: Vec::new(),
            host: Host::default(),
            num_packets: 0,
            num_events: 0,
            is_over: false,
            is_steady,
            trace: is_traced.then(Vec::new),
            digest: 0,
        }
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) {
        self.begin();
        let mut num_events = 0_u32;
        while let Some((at, event)) = self.agenda.next() {
            self.now = at;
            self.happen(event);
            self.check_bounds();
            self.check_pending();
            // A wrong counter remains wrong, so an occasional recount suffices and takes less time.
            num_events += 1;
            if num_events.is_multiple_of(COUNTED) || self.is_over {
                self.check_counts();
            }
        }
        self.check_end();
    }

    fn begin(&mut self) {
        for tool in 0..self.tools.len() {
            let after = self.random.millis(1, 1500);
            self.after(after, Event::Attach(tool));
        }
        for job in 0..self.jobs.len() {
            if !self.jobs[job].is_begun {
                continue;
            }
            let is_late = self.strikes(Fault::LateJob, 2);
            for place in 0..self.nodes.len() {
                let job = &self.jobs[job];
                self.nodes[place].register(place, job, !is_late);
            }
            if is_late {
                let after = self.random.millis(1, 3000);
                self.after(after, Event::Register(job));
            }
        }
        for proc in 0..self.procs.len() {
            if !self.jobs[self.procs[proc].job].is_begun {
                continue;
            }
            let after = self.random.millis(1, 100);
            self.after(after, Event::Start(proc));
        }
        let has_tools = !self.tools.is_empty();
        for fault in Fault::STRIKES {
            if !has_tools && !Fault::WITHOUT_TOOLS.contains(fault) {
                continue;
            }
            for _ in 0..2 {
                let after = self.random.millis(1, 1500);
                if self.plan.has(*fault) {
                    self.after(after, Event::Strike(*fault));
                }
            }
        }
        self.agenda.add(END, Event::End);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(proc) => self.start(proc),
            Event::Attach(tool) => self.attach(tool),
            Event::Step(who) => self.step(who),
            Event::Curious(proc) => self.be_curious(proc),
            Event::Up(who) => self.arrive_up(who),
            Event::Down(who) => self.arrive_down(who),
            Event::Wake(who) => self.wake(who),
            Event::Alarm(node) => self.alarm(node),
            Event::HostReply(call, answer) => {
                if self.nodes[call.node].life == call.life {
                    self.host.open.remove(&call);
                    self.spawn_told(call, &answer);
                    let status = answer.status();
                    self.say(|| format!("host answers node {}: {status}", call.node));
                    let now = self.node_time(call.node);
                    let engine = &mut self.nodes[call.node].engine;
                    engine.handle_host(call.id, answer, now);
                    self.drain(call.node);
                }
            }
            Event::Verified(node, life, peer, answer) => {
                if self.nodes[node].life == life {
                    let now = self.node_time(node);
                    self.nodes[node].engine.handle_verified(peer, answer, now);
                    self.drain(node);
                }
            }
            Event::Expire(round) => {
                self.end_round(&round, Err(pmix_types::Status::ERR_TIMEOUT));
            }
            Event::Board => self.board_due(),
            Event::Notice(node, notice) => {
                let now = self.node_time(node);
                let engine = &mut self.nodes[node].engine;
                let crate::host::Notice {
                    status,
                    source,
                    range,
                    infos,
                    lost,
                } = *notice;
                engine.notify(status, &source, range, &infos, now).unwrap();
                if let Some(number) = number(&infos) {
                    self.event_taken(node, Reporter::Host(source), number);
                }
                if let Some((proc, life)) = lost {
                    self.heard_of_loss(node, proc, life);
                }
                self.drain(node);
            }
            Event::Deadline(who, tag) => self.check_deadline(who, tag),
            Event::Limit(who) => self.limit(who),
            Event::Listen(who) => self.listen(who),
            Event::Overdue(who, id) => self.check_overdue(who, id),
            Event::Cancel(who, id) => self.cancel(who, id),
            Event::Joined(number, who, leader) => self.check_joined(number, who, leader),
            Event::Follows(number, who, leader) => self.check_follows(number, who, leader),
            Event::LeaderGone(number, leader) => self.check_leader_gone(number, leader),
            Event::Failed(number, lost, leader) => self.check_failed(number, lost, leader),
            Event::Decided(who, tag, lost) => self.check_decided(who, tag, lost, false),
            Event::DecidedAtLast(who, tag, lost) => self.check_decided(who, tag, lost, true),
            Event::ResultTaken(who, name, about, result) => {
                self.check_result_taken(who, &name, about, result);
            }
            Event::Replaced(name, old) => self.check_replaced(&name, old),
            Event::Leaderless(who, name) => self.check_leaderless(who, &name),
            Event::Terminated(name, lost) => self.check_terminated(&name, lost),
            Event::Crash(who) => {
                if self.clients[who].is_live() && !self.is_over {
                    self.cut_off(who, false);
                }
            }
            Event::Ended(proc) => self.proc_ended(proc),
            Event::Constructions => self.constructions_due(),
            Event::ConstructLost(number) => self.check_construct_lost(number),
            Event::ConstructDue(number) => self.check_waits_of_construct(number),
            Event::Strike(fault) => self.strike(fault),
            Event::Register(job) => self.register(job),
            Event::Deregister(job) => {
                self.deregister(job);
            }
            Event::Output(job) => self.child_writes(job),
            Event::End => self.end(),
        }
    }

    pub(crate) fn register(&mut self, job: usize) {
        if self.jobs[job].is_gone {
            return;
        }
        let name = self.jobs[job].nspace;
        self.say(|| format!("job {name} is registered"));
        for place in 0..self.nodes.len() {
            self.hand_in_time(place);
            let job = &self.jobs[job];
            self.nodes[place].register(place, job, true);
            self.drain(place);
        }
    }

    /// Adds a line to the trace.
    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", self.now.as_secs_f64(), what()));
        }
    }

    /// Adds numbers to the digest, which allows two runs to be compared.
    pub(crate) fn note(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.digest = (self.digest ^ number)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
    }

    /// Returns `true` if a planned fault occurs, with a probability of one in `times`.
    pub(crate) fn strikes(&mut self, fault: Fault, times: usize) -> bool {
        let strikes = self.plan.has(fault) && self.random.once_in(times) && !self.is_over;
        if strikes {
            self.tally.count(fault);
            self.say(|| format!("FAULT {fault}"));
        }
        strikes
    }

    pub(crate) fn after(&mut self, time: Duration, event: Event) {
        self.agenda.add(self.now + time, event);
    }

    /// Returns the time of the host.
    pub(crate) fn instant(&self) -> Instant {
        self.base + self.now
    }

    /// Returns the time of a node.
    pub(crate) fn node_time(&self, node: usize) -> Instant {
        self.instant() + self.nodes[node].ahead
    }

    /// Passes the time to an engine before a call of the host.
    pub(crate) fn hand_in_time(&mut self, node: usize) {
        let now = self.node_time(node);
        self.nodes[node].engine.handle_timeout(now);
    }

    fn alarm(&mut self, node: usize) {
        let now = self.node_time(node);
        let node_ = &mut self.nodes[node];
        if node_.alarm.is_none_or(|at| at > now) {
            return;
        }
        node_.alarm = None;
        node_.engine.handle_timeout(now);
        self.drain(node);
    }

    /// Processes the outputs of an engine.
    pub(crate) fn drain(&mut self, node: usize) {
        let now = self.node_time(node);
        while self.nodes[node].engine.handle_queued(now).is_some() {}
        let life = self.nodes[node].life;
        for (peer, answer) in self.nodes[node].take_asked() {
            let soon = self.random.millis(0, 200);
            self.after(soon, Event::Verified(node, life, peer, answer));
        }
        self.nodes[node].share(&self.jobs);
        while let Some(transmit) = self.nodes[node].engine.poll_transmit() {
            self.transmit(node, &transmit);
        }
        while let Some(call) = self.nodes[node].engine.poll_host_call() {
            self.host_call(node, call);
        }
        while let Some(event) = self.nodes[node].engine.poll_event() {
            self.engine_event(node, event);
        }
        self.set_alarm(node);
    }

    fn set_alarm(&mut self, node: usize) {
        let now = self.node_time(node);
        let node_ = &mut self.nodes[node];
        if let Some(at) = node_.engine.poll_timeout()
            && node_.alarm.is_none_or(|known| at < known)
        {
            node_.alarm = Some(at);
            let after = at.saturating_duration_since(now);
            self.after(after, Event::Alarm(node));
        }
    }

    fn transmit(&mut self, node: usize, transmit: &Transmit) {
        let Some(who) = self.nodes[node].peers.get(&transmit.peer).copied() else {
            panic!("node {node} sends to a connection that it has closed");
        };
        let (head, payload) = (transmit.bytes.head(), transmit.bytes.payload());
        match head.first_chunk::<{ Header::LEN }>() {
            Some(head) => self.answered(who, Header::decode(head).tag, payload),
            None => self.welcomed(who, payload),
        }
        let bytes = [head, payload].concat();
        self.send(who, bytes, false);
    }

    fn engine_event(&mut self, node: usize, event: EngineEvent) {
        match event {
            EngineEvent::Close(peer) => {
                let who = self.nodes[node].peers.remove(&peer).expect("closed twice");
                self.say(|| format!("node {node} closes connection {who}"));
                self.clients[who].is_known = false;
                self.send_close(who, false);
            }
            EngineEvent::DirectModex { request, result } => self.brought(node, request, result),
            EngineEvent::ProcessLost {
                proc,
                incarnation,
                is_tool,
            } => match is_tool {
                true => self.tool_lost(node, &proc),
                false => self.lost(node, &proc, incarnation),
            },
            EngineEvent::Refused { peer, reason } => {
                self.say(|| format!("node {node} refuses {peer}: {reason}"));
            }
            other => self.say(|| format!("node {node} says {other:?}")),
        }
    }

    /// Ends all jobs and calls, and disconnects all processes.
    fn end(&mut self) {
        self.say(|| "the host ends all that is left".to_owned());
        self.is_over = true;
        for job in 0..self.jobs.len() {
            self.deregister(job);
        }
        self.check_constructions_ended();
        for who in 0..self.clients.len() {
            let client = &self.clients[who];
            if client.is_known {
                let (node, peer) = (client.node, client.peer);
                let now = self.node_time(node);
                self.clients[who].is_known = false;
                self.nodes[node].peers.remove(&peer);
                self.nodes[node].engine.handle_closed(peer, now);
                self.send_close(who, false);
                self.drain(node);
            }
        }
        while let Some(call) = self.host.open.pop_first() {
            let now = self.node_time(call.node);
            let engine = &mut self.nodes[call.node].engine;
            engine.handle_host(call.id, pmix_engine::HostReply::DROPPED, now);
            self.drain(call.node);
        }
        self.check_nothing_is_left();
    }

    /// Returns the time by which every reply with a time limit of `own` is in transit.
    pub(crate) fn deadline(&self, own: Duration) -> Duration {
        // A late packet in each direction, a late reply of the host, and a server's grace period for the host.
        own + Duration::from_secs(4 + 7 + 3)
    }

    pub(crate) fn deadline_of(&mut self, who: Who, tag: Tag, own: Duration) {
        let after = self.deadline(own);
        self.after(after, Event::Deadline(who, tag));
    }
}

fn config(random: &mut Random, plan: Plan, has_tools: bool) -> Config {
    let has_limit = !random.once_in(4);
    let mut config = Config::default();
    config.collective_time = has_limit.then(|| Duration::from_secs(6));
    config.return_time = Some(Duration::from_secs(3));
    config.user = Some((UID, UID));
    config.foreign_tools = has_tools && random.once_in(2);
    config.tool_time = Duration::from_secs(5);
    if plan.has(Fault::Slow) && random.once_in(2) {
        config.queued_bytes_per_peer = 10_000;
        config.reply_window = 1_000;
    }
    if plan.has(Fault::Flood) && random.once_in(2) {
        config.requests_per_peer = 12;
    }
    if plan.has(Fault::Mute) && random.once_in(2) {
        config.handshakes_per_user = 2;
    }
    config
}

fn jobs(random: &mut Random, num_nodes: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    for nspace in ["alpha", "beta"] {
        if nspace == "beta" && !random.once_in(3) {
            break;
        }
        let num_nodes = 1 + random.below(num_nodes);
        let per_node = (0..num_nodes).map(|_| 1 + random.below_u32(3));
        add_job(&mut jobs, nspace, per_node.collect(), true);
    }
    jobs
}

/// Adds the jobs that may be spawned.
fn add_spare(random: &mut Random, num_nodes: usize, jobs: &mut Vec<Job>) {
    for nspace in ["child", "grandchild"] {
        let num_nodes = 1 + random.below(num_nodes);
        let per_node = (0..num_nodes).map(|_| 1 + random.below_u32(2));
        add_job(jobs, nspace, per_node.collect(), false);
    }
}

fn add_job(jobs: &mut Vec<Job>, nspace: &'static str, per_node: Vec<u32>, is_begun: bool) {
    jobs.push(Job {
        nspace,
        per_node,
        first: jobs.last().map_or(0, |last| last.procs().end),
        is_gone: false,
        is_begun,
        parent: None,
        script: None,
    });
}

fn process(place: usize, job: &Job, node: usize, rank: u32) -> Process {
    Process {
        job: place,
        rank,
        nspace: job.nspace,
        node,
        client: None,
        phase: 0,
        then: Vec::new(),
        stamp: Stamp::default(),
        committed: Vec::new(),
        shared: None,
        floor: 0,
        heard: BTreeMap::new(),
        settled: BTreeMap::new(),
        admitted_at: Duration::ZERO,
        was_lost: false,
        ended_at: Duration::ZERO,
        admitted: 0,
        num_admitted: 0,
        is_registered: true,
        is_restless: false,
    }
}
