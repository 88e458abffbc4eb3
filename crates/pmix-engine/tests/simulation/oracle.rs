// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has to be true, whatever goes wrong.

use std::collections::{BTreeMap, BTreeSet};

use pmix_proto::{Tag, reply};
use pmix_types::{Proc, Status};

use crate::client::{Asked, What, Who};
use crate::process::{KEYS, Kind, Meeting, ProcId, Stamp};
use crate::world::World;

/// What was seen of collectives.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// How many calls each process has made for each meeting.
    calls: BTreeMap<(Meeting, ProcId), usize>,
    rounds: BTreeMap<(Meeting, usize), Seen>,
    /// Servers that the host did not answer in time and as the others.
    pub(crate) excused: BTreeSet<(Meeting, usize, usize)>,
    /// Servers whose clock is not that of the others.
    pub(crate) jumped: BTreeSet<usize>,
}

/// What was seen of one collective.
#[derive(Debug, Default)]
struct Seen {
    /// Who has called, and what it had shared by then.
    callers: BTreeMap<ProcId, Option<Stamp>>,
    /// What each server told its clients.
    told: BTreeMap<usize, Status>,
    /// Whether any of them wants data.
    collects: bool,
}

impl World {
    /// A process is about to call for a meeting; tells the how-manieth time it is.
    pub(crate) fn meets(&mut self, proc: ProcId, meeting: &Meeting, collects: bool) -> usize {
        let count = self
            .oracle
            .calls
            .entry((meeting.clone(), proc))
            .or_default();
        let place = *count;
        *count += 1;
        let round = self
            .oracle
            .rounds
            .entry((meeting.clone(), place))
            .or_default();
        round.callers.insert(proc, self.procs[proc].shared);
        round.collects |= collects;
        place
    }

    /// A server let a connection in.
    pub(crate) fn welcomed(&mut self, who: Who) {
        let client = &mut self.clients[who];
        client.is_in = true;
        let Some(place) = client.proc.or(client.claims) else {
            return;
        };
        let is_itself = client.proc.is_some();
        let proc = &mut self.procs[place];
        let last = proc.admitted;
        proc.num_admitted += 1;
        if is_itself {
            proc.admitted = proc.stamp.life;
        } else {
            proc.is_restless = true;
        }
        if proc.was_lost {
            proc.was_lost = false;
            proc.shared = None;
            proc.floor = last + 1;
        }
        self.say(|| format!("connection {who} is let in"));
    }

    /// A server says that a process is lost.
    pub(crate) fn lost(&mut self, node: usize, name: &Proc<'_>, incarnation: u32) {
        self.say(|| {
            format!(
                "node {node} lost {}:{} life {incarnation}",
                name.nspace, name.rank
            )
        });
        let found = self.procs.iter_mut().find(|proc| proc.name() == *name);
        let proc = found.expect("a process that is lost was there");
        if self.jobs[proc.job].is_gone {
            return;
        }
        assert_eq!(incarnation, proc.num_admitted, "lives are counted");
        proc.was_lost = true;
    }

    /// A server sends a message that belongs to a tag.
    pub(crate) fn answered(&mut self, who: Who, tag: Tag, payload: &[u8]) {
        if !tag.is_request() {
            return;
        }
        let client = &mut self.clients[who];
        let (form, is_spoiled) = match &client.session {
            Some(session) => (*session.form(), client.is_spoiled),
            None => return,
        };
        let Some(asked) = client.asked.get_mut(&tag) else {
            assert!(
                is_spoiled,
                "connection {who}: an answer with tag {tag} that nobody waits for"
            );
            return;
        };
        let reply = reply::Reply::decode(asked.command, &form, None, payload);
        // Any request may be answered with a status alone, even one whose answer has none.
        let status = reply.map(|reply| reply.status());
        let status =
            status.or_else(|_| reply::Done::decode(&form, None, payload).map(|d| d.status));
        let status = status.expect("an answer that can be read");
        if let Some(before) = asked.answer.replace(status) {
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
    }

    fn check_answer(&mut self, who: Who, asked: &Asked, status: Status, payload: &[u8]) {
        match &asked.what {
            What::Any | What::Finalize => {}
            What::Commit(stamp) => {
                if let Some(proc) = self.clients[who].proc
                    && status.is_success()
                {
                    self.procs[proc].shared = Some(*stamp);
                }
            }
            What::Meet(meeting, place) => self.check_meeting(who, meeting, *place, status),
            What::Get(proc, key, _, floor) => {
                self.check_get(who, *proc, key, *floor, status, payload);
            }
            What::Lookup(proc) => self.check_lookup(who, *proc, status, payload),
        }
        if status == Status::ERR_TIMEOUT
            && let What::Get(_, _, Some(limit), _) = asked.what
            && self.now < asked.at + limit
            && self.oracle.jumped.is_empty()
        {
            panic!("connection {who}: a get timed out before its time");
        }
    }

    /// All local participants are told the same, and so are those of other nodes unless the host
    /// kept it from their server. Nobody is told of success before all have come.
    fn check_meeting(&mut self, who: Who, meeting: &Meeting, place: usize, status: Status) {
        let mut members = meeting.members.iter();
        let is_gone = |proc: ProcId| self.jobs[self.procs[proc].job].is_gone;
        if members.any(|proc| self.procs[*proc].is_restless || is_gone(*proc)) {
            return;
        }
        let node = self.clients[who].node;
        let id = (meeting.clone(), place);
        let round = self
            .oracle
            .rounds
            .get_mut(&id)
            .expect("a meeting that nobody called for");
        if let Some(before) = round.told.insert(node, status) {
            assert_eq!(
                before, status,
                "participants of one node are told different things"
            );
        }
        let excused = |node: usize| {
            let (meeting, place) = id.clone();
            let jumped = &self.oracle.jumped;
            jumped.contains(&node) || self.oracle.excused.contains(&(meeting, place, node))
        };
        // A connect that fails before the host is called is not told to it: there is nothing in
        // its call that would say so.
        let is_told = meeting.kind == Kind::Fence;
        let round = &self.oracle.rounds[&id];
        if !excused(node) && is_told {
            for (other, told) in round.told.iter().filter(|(other, _)| !excused(**other)) {
                assert_eq!(
                    told.is_success(),
                    status.is_success(),
                    "{meeting:?}, {place}: node {other} told {told}, node {node} told {status}"
                );
            }
        }
        if status.is_success() {
            let members = meeting.members.iter();
            let told = members.filter(|member| is_told || self.procs[**member].node == node);
            for member in told {
                assert!(
                    round.callers.contains_key(member),
                    "process {member} did not come"
                );
            }
            if round.collects && meeting.kind == Kind::Fence {
                let learned = &mut self.clients[who].learned;
                for (proc, stamp) in &round.callers {
                    if let Some(stamp) = stamp {
                        let known = learned.entry(*proc).or_default();
                        *known = (*known).max(*stamp);
                    }
                }
            }
        }
    }

    /// What a process that asks now may rely on.
    pub(crate) fn floor(&self, who: Who, of: ProcId) -> Option<Stamp> {
        match self.procs[of].node == self.clients[who].node {
            true => self.procs[of].shared,
            false => self.clients[who].learned.get(&of).copied(),
        }
    }

    fn check_get(
        &mut self,
        who: Who,
        of: ProcId,
        key: &str,
        floor: Option<Stamp>,
        status: Status,
        payload: &[u8],
    ) {
        let is_local = self.procs[of].node == self.clients[who].node;
        let proc = &self.procs[of];
        let form = *self.clients[who].session.as_ref().unwrap().form();
        if !status.is_success() {
            let scope = KEYS
                .iter()
                .find(|(known, _)| *known == key)
                .map(|(_, scope)| *scope);
            let is_for_us = match scope {
                Some(pmix_types::Scope::LOCAL) => is_local,
                Some(pmix_types::Scope::REMOTE) => !is_local,
                Some(_) => true,
                None => false,
            };
            let is_there = is_for_us && floor.is_some_and(|stamp| stamp.has(key));
            let gone = self.jobs[proc.job].is_gone || (is_local && proc.shared != floor);
            let denied = status == Status::ERR_OUT_OF_RESOURCE;
            assert!(
                !is_there || gone || denied,
                "connection {who}: {key} of process {of} is there, but the answer is {status}"
            );
            return;
        }
        let objects = reply::Objects::decode(&form, None, payload).unwrap();
        let mut values = Vec::new();
        for object in objects.procs(&form, None) {
            let object = object.unwrap();
            if object.of != proc.name() {
                continue;
            }
            for kval in object.kvals(&form, None).unwrap() {
                if let Some((owner, stamp)) = Stamp::of(&kval.value) {
                    assert_eq!(owner, of, "{} of another process", kval.key);
                    values.push((kval.key.is(key), stamp, kval.key.to_string()));
                }
            }
        }
        for (is_asked, stamp, name) in values {
            assert!(
                proc.committed.contains(&stamp),
                "{name}: {stamp:?} was never put"
            );
            assert!(stamp.has(&name), "{name} was not put by {stamp:?}");
            if !is_asked {
                continue;
            }
            if is_local {
                assert!(
                    stamp.life >= proc.floor,
                    "{name} of life {} is stale",
                    stamp.life
                );
                if let Some(shared) = proc.shared.filter(|shared| shared.has(key)) {
                    assert_eq!(stamp, shared, "{name} is not what was committed last");
                }
            } else if let Some(floor) = floor {
                assert!(
                    stamp >= floor,
                    "{name}: {stamp:?}, but a fence brought {floor:?}"
                );
            }
        }
    }

    fn check_lookup(&mut self, who: Who, of: ProcId, status: Status, payload: &[u8]) {
        if !status.is_success() {
            return;
        }
        let form = *self.clients[who].session.as_ref().unwrap().form();
        let found = reply::Found::decode(&form, None, payload).unwrap();
        for data in found.data.into_iter().flatten() {
            let (owner, _) = Stamp::of(&data.value).expect("what was published");
            assert_eq!((owner, data.proc), (of, self.procs[of].name()));
        }
    }

    /// A request whose time is over has its answer, if anybody is there to hear it.
    pub(crate) fn check_deadline(&mut self, who: Who, tag: Tag) {
        let client = &self.clients[who];
        if tag == Tag::HELLO {
            assert!(
                !client.is_known,
                "connection {who} said nothing and was not closed"
            );
            return;
        }
        if !client.is_known || client.is_spoiled {
            return;
        }
        if let Some(asked) = client.asked.get(&tag) {
            assert!(asked.answer.is_some(), "connection {who}: {asked:?} hangs");
        }
    }

    /// No engine holds more than its configuration allows.
    pub(crate) fn check_bounds(&self) {
        for node in &self.nodes {
            let census = node.engine.census();
            let most = census.num_peers * (self.config.queued_bytes_per_peer + (64 << 10));
            assert!(
                census.queued_bytes <= most,
                "{} bytes are queued",
                census.queued_bytes
            );
            // Whoever has asked too much may still say that it leaves.
            assert!(census.num_requests <= census.num_peers * (self.config.requests_per_peer + 1));
            assert!(census.num_greetings <= self.config.greetings_per_user);
            assert_eq!(census.num_undelivered, 0);
        }
    }

    /// Every request of a connection that outlived the jobs was answered.
    pub(crate) fn check_end(&self) {
        for (who, client) in self.clients.iter().enumerate() {
            assert!(
                !client.is_open || client.proc.is_none(),
                "connection {who} is still open"
            );
        }
    }
}
