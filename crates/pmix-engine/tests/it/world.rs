// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated environment: nodes with an engine each, clients in memory, one host for all nodes.
//!
//! [`World::run`] moves bytes, upcalls and replies until all are delivered, and [`World::advance`] advances the clock.
//! A rule that a test may replace determines the host's reaction to each upcall.

mod client;
mod host;
mod node;

use std::time::{Duration, Instant};

use pmix_engine::{Config, EngineEvent, Error, HostObject, Origin, PeerId};
use pmix_proto::{Hello, Request, Tag};
use pmix_types::{Info, Proc, Rank, Status, keys};

pub(crate) use self::client::{Client, UID, hello};
pub(crate) use self::host::Reaction;
use self::host::{Host, Rule};
use self::node::Node;

/// Nodes, clients, a host and a clock.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    host: Host,
}

/// The index of a client in the world.
pub(crate) type Who = usize;

impl World {
    /// Creates nodes without jobs.
    pub(crate) fn new(num_nodes: usize) -> Self {
        Self::with(num_nodes, &Config::default())
    }

    pub(crate) fn with(num_nodes: usize, config: &Config) -> Self {
        Self {
            now: Instant::now(),
            nodes: (0..num_nodes)
                .map(|place| Node::new(place, config))
                .collect(),
            clients: Vec::new(),
            host: Host::default(),
        }
    }

    /// Replaces the reactions of the host.
    pub(crate) fn rule(
        &mut self,
        rule: impl FnMut(usize, &pmix_engine::Upcall) -> Reaction + 'static,
    ) {
        let rule: Rule = Box::new(rule);
        self.host.rule = rule;
    }

    /// Sends the host's reply to the first postponed upcall with a name.
    pub(crate) fn answer(&mut self, name: &str, answer: pmix_engine::HostReply) {
        self.host.answer(name, answer);
        self.run();
    }

    /// Delays the replies of the host until they are released, or stops the delay.
    pub(crate) fn slow_host(&mut self, is_slow: bool) {
        self.host.is_slow = is_slow;
    }

    /// Registers a job with the given numbers of consecutive ranks on its nodes, and its processes.
    pub(crate) fn job(&mut self, nspace: &'static str, per_node: &[u32]) {
        self.job_of(nspace, per_node, UID);
    }

    pub(crate) fn job_of(&mut self, nspace: &'static str, per_node: &[u32], uid: u32) {
        let names: Vec<_> = (0..per_node.len()).map(node::name).collect();
        let mut first = 0;
        let groups = per_node.iter().map(|count| {
            let ranks: Vec<_> = (first..first + count)
                .map(|rank| rank.to_string())
                .collect();
            first += count;
            ranks.join(",")
        });
        let groups: Vec<_> = groups.collect();
        let infos = [
            Info::new(keys::NODE_MAP, names.join(",")),
            Info::new(keys::PROC_MAP, groups.join(";")),
        ];
        let mut rank = 0;
        for (node, count) in self.nodes.iter_mut().zip(per_node) {
            let engine = &mut node.engine;
            engine
                .register_nspace(&nspace.into(), *count, &infos)
                .unwrap();
            for _ in 0..*count {
                let proc = Proc::new(nspace, Rank::new(rank));
                let object = HostObject(rank.into());
                engine
                    .register_client(&proc, pmix_engine::Credentials::new(uid, uid), object)
                    .unwrap();
                node.procs.push(proc);
                rank += 1;
            }
        }
    }

    /// Connects a process of a job to its node and requests its job info.
    pub(crate) fn join(&mut self, node: usize, nspace: &'static str, rank: u32) -> Who {
        let who = self.connect(node, &hello(nspace, rank));
        self.run();
        let tag = self.ask(who, &Request::JobInfo);
        self.run();
        assert!(
            self.clients[who].reply(tag).is_some(),
            "{nspace} {rank} has no job"
        );
        who
    }

    /// Connects all processes of a job, in the order of their ranks.
    pub(crate) fn join_all(&mut self, nspace: &'static str, per_node: &[u32]) -> Vec<Who> {
        let nodes = per_node.iter().enumerate();
        let nodes = nodes.flat_map(|(node, count)| (0..*count).map(move |_| node));
        let nodes: Vec<_> = nodes.collect();
        let ranks = nodes.into_iter().zip(0..);
        ranks
            .map(|(node, rank)| self.join(node, nspace, rank))
            .collect()
    }

    /// Connects a peer that sends a hello.
    pub(crate) fn connect(&mut self, node: usize, hello: &Hello<'_>) -> Who {
        self.connect_from(node, hello, Origin::default())
    }

    pub(crate) fn connect_from(&mut self, node: usize, hello: &Hello<'_>, origin: Origin) -> Who {
        let peer = self.nodes[node].engine.open(origin, self.now);
        self.clients.push(Client::new(node, peer, hello));
        self.clients.len() - 1
    }

    /// Adds a tool to which the host connected to a node.
    pub(crate) fn add_tool(
        &mut self,
        node: usize,
        name: &Proc<'static>,
        origin: Origin,
    ) -> Result<Who, Error> {
        let hello = hello("tool", 0);
        let (engine, form) = (&mut self.nodes[node].engine, hello.form().unwrap());
        let peer = engine.add_tool(origin, name.clone(), form, self.now)?;
        self.clients.push(Client::admitted(node, peer, &hello));
        Ok(self.clients.len() - 1)
    }

    /// Creates a request, which the next run delivers.
    pub(crate) fn ask(&mut self, who: Who, request: &Request<'_>) -> Tag {
        self.clients[who].ask(request)
    }

    /// Sends a request and returns the status of its reply, if there is one.
    pub(crate) fn status_of(&mut self, who: Who, request: &Request<'_>) -> Option<Status> {
        let tag = self.ask(who, request);
        self.run();
        self.clients[who].status(tag)
    }

    /// Closes the connection of a client without a finalize.
    pub(crate) fn kill(&mut self, who: Who) {
        let client = &mut self.clients[who];
        if let Some(peer) = client.peer.take() {
            let engine = &mut self.nodes[client.node].engine;
            engine.handle_closed(peer, self.now);
            while engine.handle_queued(self.now).is_some() {}
        }
        self.run();
    }

    /// Informs the host that a process has terminated.
    pub(crate) fn end_proc(&mut self, nspace: &'static str, rank: u32) {
        let proc = Proc::new(nspace, Rank::new(rank));
        self.host.proc_ended(&proc, &self.nodes);
        self.run();
    }

    /// Advances the clock, with every timer at its time.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.run();
        let end = self.now + time;
        loop {
            let next = self
                .nodes
                .iter()
                .filter_map(|node| node.engine.poll_timeout());
            let Some(next) = next.min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            for node in &mut self.nodes {
                node.engine.handle_timeout(self.now);
            }
            self.run();
        }
        self.now = end;
        self.run();
    }

    /// Advances the clock without running anything; then runs the timers before any input.
    pub(crate) fn oversleep(&mut self, time: Duration) {
        self.run();
        self.now += time;
        for node in &mut self.nodes {
            node.engine.handle_timeout(self.now);
        }
        self.run();
    }

    /// Moves bytes, upcalls and replies until all are delivered.
    pub(crate) fn run(&mut self) {
        loop {
            let mut moved = false;
            for who in 0..self.clients.len() {
                moved |= self.carry_up(who);
            }
            for place in 0..self.nodes.len() {
                moved |= self.carry_down(place);
                moved |= self.host.serve(place, &mut self.nodes, self.now);
                moved |= self.carry_down(place);
                moved |= self.note_events(place);
            }
            if !moved {
                return;
            }
        }
    }

    /// Passes a client's bytes to its engine.
    fn carry_up(&mut self, who: Who) -> bool {
        let client = &mut self.clients[who];
        let Some(peer) = client.peer else {
            return false;
        };
        let Some(bytes) = client.session.poll_transmit() else {
            return false;
        };
        self.nodes[client.node]
            .engine
            .handle_input(peer, &bytes, self.now);
        true
    }

    /// Passes an engine's bytes to its clients.
    fn carry_down(&mut self, place: usize) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.nodes[place].engine.poll_transmit() {
            moved = true;
            let Some(client) = self.client_of(place, transmit.peer) else {
                continue;
            };
            if client.is_deaf {
                client.unread.push_back(transmit.bytes);
                continue;
            }
            client.hear(transmit.bytes.head());
            client.hear(transmit.bytes.payload());
            let len = transmit.bytes.len();
            let engine = &mut self.nodes[place].engine;
            engine.handle_written(transmit.peer, len);
            while engine.handle_queued(self.now).is_some() {}
        }
        moved
    }

    /// Lets a client that does not read read one of its waiting messages.
    pub(crate) fn read_one(&mut self, who: Who) {
        let client = &mut self.clients[who];
        let bytes = client.unread.pop_front().expect("nothing to read");
        client.hear(bytes.head());
        client.hear(bytes.payload());
        let (node, peer) = (client.node, client.peer.expect("it is closed"));
        let engine = &mut self.nodes[node].engine;
        engine.handle_written(peer, bytes.len());
        while engine.handle_queued(self.now).is_some() {}
        self.run();
    }

    fn note_events(&mut self, place: usize) -> bool {
        let mut moved = false;
        while let Some(event) = self.nodes[place].engine.poll_event() {
            moved = true;
            if let EngineEvent::Close(peer) = event
                && let Some(client) = self.client_of(place, peer)
            {
                client.peer = None;
            }
            self.host.notice(place, &event);
            self.nodes[place].events.push(event);
        }
        moved
    }

    fn client_of(&mut self, place: usize, peer: PeerId) -> Option<&mut Client> {
        let mut clients = self.clients.iter_mut();
        clients.find(|client| client.node == place && client.peer == Some(peer))
    }
}

impl Drop for World {
    /// Checks the counters of all engines after each successful test.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for node in &self.nodes {
                assert_eq!(node.engine.recount(), []);
            }
        }
    }
}
