// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that hold regardless of faults.

pub(crate) mod add_members;
mod collective;
pub(crate) mod data;
pub(crate) mod events;
pub(crate) mod groups;
pub(crate) mod led;
mod news;
mod operations;
pub(crate) mod terminations;
pub(crate) mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pmix_proto::{Output, Tag, reply};
use pmix_types::{DataRange, Info, IntoOwned as _, Proc, Rank, Status};

use crate::agenda::{Call, Event};
use crate::client::{Asked, What, Who};
use crate::fault::Fault;
use crate::process::{Collective, Kind, ProcId, Stamp};
use crate::spawn::Spawning;
use crate::world::World;

/// The recorded observations.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// The number of calls of each process for each collective.
    calls: BTreeMap<(Collective, ProcId), usize>,
    rounds: BTreeMap<(Collective, usize), Seen>,
    /// Servers that did not get the host's result in time or unchanged.
    pub(crate) excused: BTreeSet<(Collective, usize, usize)>,
    /// Events, in the order in which servers processed them.
    taken: Vec<events::Taken>,
    /// Nodes whose clock has jumped.
    pub(crate) jumped: BTreeSet<usize>,
    /// Collectives for which the host returned invalid bytes.
    pub(crate) spoiled: BTreeSet<(Collective, usize)>,
    /// The departures from groups.
    left: BTreeSet<(Vec<ProcId>, usize, ProcId)>,
    pub(crate) invitations: Vec<groups::Invitation>,
    pub(crate) led: led::Led,
    pub(crate) constructs: Vec<add_members::SeenConstruct>,
    pub(crate) terminations: terminations::Terminations,
    pub(crate) spawns: Vec<Spawning>,
    /// The jobs whose output tools have requested.
    pub(crate) wanted: BTreeSet<(Who, &'static str)>,
    /// The successful pulls of tools: connection, number, job.
    pub(crate) pulls: Vec<(Who, u64, &'static str)>,
    /// The names of admitted tools, and the ends of their connections.
    pub(crate) tool_names: BTreeMap<Who, Proc<'static>>,
    pub(crate) tool_ends: BTreeMap<Who, tools::ToolEnd>,
}

/// The observations of one collective.
#[derive(Debug, Default)]
struct Seen {
    /// The callers, with the data they had shared before.
    callers: BTreeMap<ProcId, Option<Stamp>>,
    /// The time of the last call for a destruct.
    last_called: Duration,
    /// The results that each server sent to its clients.
    told: BTreeMap<usize, Status>,
    /// `true` if any participant requests data.
    collects: bool,
}

impl Oracle {
    /// Creates an oracle for a number of constructs with added members.
    pub(crate) fn of(num_constructs: usize) -> Self {
        Self {
            constructs: (0..num_constructs).map(|_| Default::default()).collect(),
            ..Self::default()
        }
    }
}

impl World {
    /// Records the call of a process for a collective; returns the number of its earlier calls.
    pub(crate) fn calls_collective(
        &mut self,
        proc: ProcId,
        collective: &Collective,
        collects: bool,
    ) -> usize {
        let count = self
            .oracle
            .calls
            .entry((collective.clone(), proc))
            .or_default();
        let place = *count;
        *count += 1;
        let round = self
            .oracle
            .rounds
            .entry((collective.clone(), place))
            .or_default();
        round.callers.insert(proc, self.procs[proc].shared);
        round.collects |= collects;
        place
    }

    /// Records the welcome of a server.
    pub(crate) fn welcomed(&mut self, who: Who, bytes: &[u8]) {
        if let Some(tool) = self.clients[who].tool {
            return self.tool_welcomed(who, tool, bytes);
        }
        let client = &mut self.clients[who];
        client.is_in = true;
        let Some(place) = client.proc.or(client.claims) else {
            return;
        };
        let is_itself = client.proc.is_some();
        let proc = &mut self.procs[place];
        let last = proc.admitted;
        let mut is_back = false;
        proc.num_admitted += 1;
        if is_itself {
            proc.admitted = proc.stamp.life;
            is_back = proc.stamp.life > 1;
            proc.admitted_at = self.now;
        } else {
            proc.is_restless = true;
        }
        if proc.was_lost {
            proc.was_lost = false;
            proc.shared = None;
            proc.floor = last + 1;
        }
        self.say(|| format!("connection {who} is accepted"));
        if is_back {
            for _ in 0..3 {
                let after = self.random.millis(1, 600);
                self.after(after, Event::Curious(place));
            }
        }
    }

    /// Records a server's report of a lost process.
    pub(crate) fn lost(&mut self, node: usize, name: &Proc<'_>, incarnation: u32) {
        self.say(|| {
            format!(
                "node {node} lost {}:{} life {incarnation}",
                name.nspace, name.rank
            )
        });
        let found = self.procs.iter_mut().find(|proc| proc.name() == *name);
        let proc = found.expect("a lost process was connected");
        if self.jobs[proc.job].is_gone {
            return;
        }
        assert_eq!(incarnation, proc.num_admitted, "incarnations are counted");
        proc.was_lost = true;
        if let Some(place) = self.procs.iter().position(|proc| proc.name() == *name) {
            self.expect_bad_news(node, place, Duration::ZERO);
            self.expect_news_of_groups(place);
            self.expect_news_of_termination(place);
        }
    }

    /// Checks a message of a server with a tag.
    pub(crate) fn answered(&mut self, who: Who, tag: Tag, payload: &[u8]) {
        if tag == Tag::EVENT
            && let Some(form) = self.clients[who].form
        {
            self.event_sent(who, &form, payload);
            self.group_event_sent(who, &form, payload);
        }
        if tag == Tag::OUTPUT
            && let Some(form) = self.clients[who].form
        {
            let sent = Output::decode(&form, None, payload).expect("output that can be read");
            let source = sent.source.clone().into_owned();
            let sent = (sent.local_id, sent.data.into_owned());
            self.check_output_sent(who, &source, &sent.1);
            self.clients[who].output.push_back(sent);
        }
        if !tag.is_request() {
            return;
        }
        let client = &mut self.clients[who];
        let (Some(form), is_spoiled) = (client.form, client.is_spoiled) else {
            return;
        };
        let Some(asked) = client.asked.get_mut(&tag) else {
            assert!(
                is_spoiled,
                "connection {who}: reply with tag {tag} without a pending request"
            );
            return;
        };
        let reply = reply::Reply::decode(asked.command, &form, None, payload);
        // Every request may get a status only, including those whose reply has none.
        let status = reply.map(|reply| reply.status());
        let status =
            status.or_else(|_| reply::Done::decode(&form, None, payload).map(|d| d.status));
        let status = status.expect("an answer that can be read");
        let before = asked.answer.replace(status);
        // Invalid bytes may form a request with a used tag.
        if let Some(before) = before.filter(|_| !is_spoiled) {
            panic!(
                "connection {who}: {:?} is answered twice: {before}, {status}",
                asked.what
            );
        }
        let asked = asked.clone();
        self.note(&[
            3,
            who as u64,
            u64::from(tag.0),
            status.as_raw().cast_unsigned().into(),
        ]);
        self.say(|| {
            format!(
                "connection {who}: {} {:?} is answered {status}",
                asked.command, asked.what
            )
        });
        self.check_answer(who, &asked, status, payload);
        if let (What::Get(of, ..), true) = (&asked.what, status.is_success()) {
            let values = data::values(&form, payload, &self.procs[*of].name());
            let values = values.into_iter().filter(|(_, owner, _)| owner == of);
            let values = values.map(|(name, _, stamp)| (name, stamp)).collect();
            if let Some(asked) = self.clients[who].asked.get_mut(&tag) {
                asked.values = values;
            }
        }
    }

    fn check_answer(&mut self, who: Who, asked: &Asked, status: Status, payload: &[u8]) {
        match &asked.what {
            What::Any | What::Init => {}
            What::HearInvitations | What::HearTerminations => {
                self.clients[who].hears_terminations |= status.is_success();
            }
            What::Lead(_) | What::Join(_) => {}
            What::Finalize => {
                self.check_heard(who);
                self.expect_news_of_leaving(who);
            }
            What::Listen(wants) => self.clients[who].gets_events |= *wants && status.is_success(),
            What::Report(number) => {
                if status.is_success() {
                    let node = self.clients[who].node;
                    self.event_taken(node, events::Reporter::Peer(who), *number);
                }
            }
            What::Commit(stamp) => {
                if let Some(proc) = self.clients[who].proc
                    && status.is_success()
                {
                    self.procs[proc].shared = Some(*stamp);
                }
            }
            What::Collective(collective, place) => {
                if status.is_success() && matches!(collective.kind, Kind::Group(_)) {
                    self.check_group(who, collective, *place, payload);
                }
                if let Some(leader) = collective.leader() {
                    self.check_led_end(who, &collective.group(*place), leader, status);
                }
                self.check_collective(who, collective, *place, status);
            }
            What::Get(proc, key, _, floor, first_life, lives) => {
                let (of, floor, first_life) = (*proc, *floor, *first_life);
                let wanted = data::Wanted {
                    of,
                    key,
                    floor,
                    first_life,
                };
                self.check_get(who, &wanted, status, payload);
                if let Some(lives) = lives
                    && status.is_success()
                {
                    self.check_unasked(who, of, lives, payload);
                }
            }
            What::AddMembers(number) => {
                if let Some(leader) = self.constructs[*number].decider {
                    self.check_led_end(who, &Self::construct_name(*number), leader, status);
                }
                self.check_construct(who, *number, status, payload);
            }
            What::Leave(is_in) => self.check_left(who, *is_in, status),
            What::HearGroups => self.clients[who].hears_groups |= status.is_success(),
            What::Invitation(number, saying) => self.check_said(who, *number, *saying, status),
            What::Decision(name, about, result) if status.is_success() => {
                self.expect_result_taken(who, name, *about, *result);
            }
            What::Decision(..) => {}
            What::Query => self.check_query(who, status, payload),
            What::Pull(nspace) => self.check_pull(who, nspace, status),
            What::EndPull(nspace, number) => self.check_pull_ended(who, nspace, *number, status),
            What::Spawn(number) => self.check_spawned(who, *number, status, payload),
            What::Lookup(proc) => self.check_lookup(who, *proc, status, payload),
        }
        if status == Status::ERR_TIMEOUT
            && let What::Get(_, _, Some(limit), ..) = asked.what
            && self.now < asked.at + limit
            && self.oracle.jumped.is_empty()
        {
            panic!("connection {who}: a get timed out before its time");
        }
    }

    /// Checks that an expired request has a reply, if its client still exists.
    pub(crate) fn check_deadline(&mut self, who: Who, tag: Tag) {
        let client = &self.clients[who];
        if tag == Tag::HELLO {
            let is_let_in = client.tool.is_some() && client.is_in;
            assert!(
                !client.is_known || is_let_in,
                "connection {who} sent nothing and was not closed"
            );
            return;
        }
        // A process with corrupted input may remain after its finalize.
        if !client.is_known || client.is_spoiled || client.is_lied_to {
            return;
        }
        // Replies are packed when there is room: soon after the client reads again.
        if client.held.is_some() {
            return self.after(Duration::from_secs(1), Event::Deadline(who, tag));
        }
        if let Some(asked) = client.asked.get(&tag) {
            assert!(asked.answer.is_some(), "connection {who}: {asked:?} hangs");
        }
    }

    /// Checks that no engine waits for a reply that it received, or on behalf of a disconnected peer.
    pub(crate) fn check_pending(&self) {
        for (place, node) in self.nodes.iter().enumerate() {
            for pending in node.engine.pending_calls() {
                let call = Call {
                    node: place,
                    life: node.life,
                    id: pending.id,
                };
                assert!(
                    self.host.open.contains(&call),
                    "node {place} still waits for {pending:?}, which was answered"
                );
                assert!(
                    pending
                        .peer
                        .is_none_or(|peer| node.peers.contains_key(&peer)),
                    "node {place} still waits for {pending:?}, whose peer has disconnected"
                );
            }
        }
    }

    /// Checks the limits of all engines.
    pub(crate) fn check_bounds(&self) {
        for node in &self.nodes {
            let stats = node.engine.stats();
            let most = stats.num_peers * (self.config.queued_bytes_per_peer + (64 << 10));
            assert!(
                stats.queued_bytes <= most,
                "{} bytes are queued",
                stats.queued_bytes
            );
            // A finalize is accepted beyond the limit.
            assert!(stats.num_requests <= stats.num_peers * (self.config.requests_per_peer + 1));
            assert!(stats.num_handshaking <= self.config.handshakes_per_user);
            assert_eq!(stats.num_undelivered, 0);
        }
    }

    /// Checks the counters and timers of all engines.
    pub(crate) fn check_counts(&self) {
        for (place, node) in self.nodes.iter().enumerate() {
            if let Some(difference) = node.engine.recount().first() {
                panic!("node {place}: {difference}");
            }
        }
    }

    /// Checks that no engine holds data of deregistered jobs, or expired events.
    pub(crate) fn check_nothing_is_left(&mut self) {
        let is_noted_later = self.plan.has(Fault::Deregister);
        for place in 0..self.nodes.len() {
            let mut jobs = self.jobs.iter();
            let has_all = jobs.all(|job| !job.is_begun || !job.ranks_on(place).is_empty());
            let kept_for = self.config.events.kept_for;
            let now = self.node_time(place) + kept_for;
            let node = &mut self.nodes[place];
            if has_all && !is_noted_later && self.tools.is_empty() {
                let num_cached = node.engine.stats().num_cached_events;
                assert_eq!(
                    num_cached, 0,
                    "node {place} keeps events of deregistered jobs"
                );
            }
            // An event of a new job displaces the expired ones, and is removed with its job.
            let (nspace, none): (_, &[Info<'_>]) = ("omega".into(), &[]);
            let source = Proc::new("omega", Rank::new(0));
            node.engine.register_nspace(&nspace, 0, none).unwrap();
            let (status, range) = (Status::EVENT_SYS_OTHER, DataRange::LOCAL);
            let notified = node.engine.notify(status, &source, range, none, now);
            notified.unwrap();
            node.engine.deregister_nspace(&nspace).unwrap();
            assert_eq!(
                node.engine.stats(),
                pmix_engine::Stats::default(),
                "node {place} still holds state: {:?}",
                node.engine
            );
            assert!(node.store.nspaces().is_empty());
        }
    }

    /// Checks that every request of a connection that outlived the jobs has a reply.
    pub(crate) fn check_end(&self) {
        for (who, client) in self.clients.iter().enumerate() {
            assert!(
                !client.is_open || client.proc.is_none(),
                "connection {who} is still open"
            );
            assert!(client.core.is_none(), "connection {who} still has a core");
        }
    }
}
