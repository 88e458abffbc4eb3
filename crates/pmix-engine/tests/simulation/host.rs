// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host of all nodes, which performs collectives, direct modexes, events and publications, with the faults of the
//! run's plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use pmix_engine::host::{DirectModex, NotifyEvent};
use pmix_engine::{DirectModexId, HostCall, HostReply, Upcall};
use pmix_host::publish::{Caller, LookupResult, PubSub};
use pmix_types::{DataArray, DataRange, GroupOperation, Info, Proc, Status, Value, keys};

use crate::add_members::HostConstructions;
use crate::agenda::{Call, Event};
use crate::fault::Fault;
use crate::oracle::tools::name_of;
use crate::process::{Collective, FIRST_ADD_MEMBERS, Kind, ProcId, round_of};
use crate::world::World;

/// The host of all nodes.
#[derive(Default)]
pub(crate) struct Host {
    /// Calls without a reply in transit.
    pub(crate) open: BTreeSet<Call>,
    pub(crate) rounds: BTreeMap<Collective, Vec<Round>>,
    /// Direct modexes that wait for the engine of another node.
    pub(crate) asked: HashMap<(usize, DirectModexId), Call>,
    pub(crate) board: PubSub<Call>,
    pub(crate) constructions: HostConstructions,
    /// The number of tools that it has named.
    pub(crate) num_tools: usize,
    /// The constructing processes of each group, including departed ones.
    pub(crate) groups: HashMap<String, Vec<ProcId>>,
}

/// A collective, with its number among those of the same participants.
pub(crate) type RoundId = (Collective, usize);

/// The host's state of a collective.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The contributions of servers, with their calls.
    contributed: BTreeMap<usize, (Option<Call>, Vec<u8>)>,
    /// The participants according to each server.
    waited_for: BTreeMap<usize, Vec<ProcId>>,
    /// The result.
    result: Option<Result<Vec<u8>, Status>>,
}

impl Round {
    /// Returns `true` if a server has contributed.
    pub(crate) fn has(&self, node: usize) -> bool {
        self.contributed.contains_key(&node)
    }
}

/// An event in transit to another server.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) status: Status,
    pub(crate) source: Proc<'static>,
    pub(crate) range: DataRange,
    pub(crate) infos: Vec<Info<'static>>,
    /// The process and incarnation whose loss the event reports, if it does.
    pub(crate) lost: Option<(ProcId, u16)>,
}

/// The treatment of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    Late,
    Silent,
    Dropped,
    Twice,
}

impl World {
    /// Handles an upcall of an engine.
    pub(crate) fn host_call(&mut self, node: usize, call: HostCall) {
        let id = Call {
            node,
            life: self.nodes[node].life,
            id: call.id,
        };
        self.host.open.insert(id);
        self.say(|| format!("node {node} calls {}", call.upcall.name()));
        match call.upcall {
            Upcall::Fence(fence) => {
                self.contribute(id, Kind::Fence, &fence.procs, &fence.infos, Ok(fence.data));
            }
            Upcall::Connect(call) => {
                let part = call.failed.map_or(Ok(Vec::new()), Err);
                self.contribute(id, Kind::Connect, &call.procs, &call.infos, part);
            }
            Upcall::Disconnect(call) => {
                let part = call.failed.map_or(Ok(Vec::new()), Err);
                self.contribute(id, Kind::Disconnect, &call.procs, &call.infos, part);
            }
            Upcall::Group(call)
                if call.operation == GroupOperation::CONSTRUCT
                    && round_of(&call.id) >= FIRST_ADD_MEMBERS =>
            {
                self.construct_call(id, &call);
            }
            Upcall::Group(call) => {
                let infos = &call.directives;
                let failed = infos
                    .iter()
                    .find(|info| info.key.is(keys::LOCAL_COLLECTIVE_STATUS));
                let members = infos
                    .iter()
                    .find(|info| info.key.is(keys::GROUP_MEMBERSHIP));
                let part = match (
                    failed.map(|info| &info.value),
                    members.map(|info| &info.value),
                ) {
                    (Some(Value::Status(status)), _) => Err(*status),
                    (_, Some(Value::DataArray(DataArray::Proc(members)))) => {
                        let (members, _) = self.members(members);
                        Ok(members
                            .into_iter()
                            .map(|place| u8::try_from(place).unwrap())
                            .collect())
                    }
                    _ => Ok(Vec::new()),
                };
                let round = round_of(&call.id);
                let kind = match call.operation {
                    GroupOperation::DESTRUCT => Kind::Destruct(round),
                    _ => Kind::Group(round),
                };
                let made = self.host.groups.get(&call.id.to_string()).cloned();
                let made = made.filter(|_| kind == Kind::Destruct(round));
                self.contribute_of(id, kind, (&call.procs, made), infos, part);
            }
            Upcall::DirectModex(modex) => self.direct(id, &modex),
            Upcall::NotifyEvent(event) => self.spread(id, event),
            Upcall::Publish(call) => {
                let caller = Caller::of_upcall(&call.proc, &call.infos);
                let published = self.host.board.publish(&caller, &call.infos);
                let status = published
                    .as_ref()
                    .err()
                    .map_or(Status::SUCCESS, |e| e.status());
                self.answer(id, HostReply::Done(status));
                self.looked(published.unwrap_or_default());
            }
            Upcall::Lookup(call) => {
                let caller = Caller::of_upcall(&call.proc, &call.infos);
                let now = self.instant();
                let board = &mut self.host.board;
                match board.lookup(id, &caller, &call.keys, &call.infos, now) {
                    Ok(Some(looked)) => self.looked(vec![looked]),
                    Ok(None) => self.set_board(),
                    Err(error) => self.answer(id, HostReply::Done(error.status())),
                }
            }
            Upcall::Unpublish(call) => {
                let caller = Caller::of_upcall(&call.proc, &call.infos);
                let done = self.host.board.unpublish(&caller, &call.keys, &call.infos);
                let status = done.err().map_or(Status::SUCCESS, |error| error.status());
                self.answer(id, HostReply::Done(status));
            }
            Upcall::ToolConnected(call) => {
                let tool = self.check_tool_call(&call);
                let answer = match (&self.tools[tool].name, self.random.below(3)) {
                    (_, 0) => HostReply::NotSupported,
                    (_, 1) => HostReply::Done(Status::SUCCESS),
                    (Some(name), _) => HostReply::Tool(Ok(name.clone())),
                    (None, _) => {
                        self.host.num_tools += 1;
                        HostReply::Tool(Ok(name_of(self.host.num_tools)))
                    }
                };
                self.answer(id, answer);
            }
            Upcall::Spawn(spawn) => self.start_job(id, &spawn),
            Upcall::ClientConnected(_)
            | Upcall::ClientFinalized(_)
            | Upcall::IofPull(_)
            | Upcall::RegisterEvents(_) => {
                self.answer(id, HostReply::Done(Status::SUCCESS));
            }
            _ => self.answer(id, HostReply::NotSupported),
        }
    }

    pub(crate) fn fate(&mut self) -> Fate {
        let fates = [
            (Fault::HostLate, Fate::Late),
            (Fault::HostSilent, Fate::Silent),
            (Fault::HostDrops, Fate::Dropped),
            (Fault::HostTwice, Fate::Twice),
        ];
        for (fault, fate) in fates {
            if self.strikes(fault, 8) {
                return fate;
            }
        }
        Fate::Good
    }

    /// Replies to a call that only the host serves.
    fn answer(&mut self, call: Call, answer: HostReply) {
        let answer = match self.strikes(Fault::HostError, 12) {
            true => HostReply::Done(Status::ERR_OUT_OF_RESOURCE),
            false => answer,
        };
        // Only the host limits the time of such a call, so it drops calls that it will not answer.
        let fate = match self.fate() {
            Fate::Silent => Fate::Dropped,
            fate => fate,
        };
        self.send_answer(call, answer, fate);
    }

    /// Sends a reply, or none. Returns `true` if it arrives in time and unchanged.
    pub(crate) fn send_answer(&mut self, call: Call, answer: HostReply, fate: Fate) -> bool {
        let soon = self.random.millis(1, 200);
        let late = self.random.millis(1500, 6000);
        let (after, answer) = match fate {
            Fate::Silent => return false,
            Fate::Good | Fate::Twice => (soon, answer),
            Fate::Late => (late, answer),
            Fate::Dropped => (soon, HostReply::DROPPED),
        };
        if fate == Fate::Twice {
            self.after(late, Event::HostReply(call, answer.clone()));
        }
        self.after(after, Event::HostReply(call, answer));
        matches!(fate, Fate::Good | Fate::Twice)
    }

    /// Records a server's contribution to a collective.
    fn contribute(
        &mut self,
        call: Call,
        kind: Kind,
        procs: &[Proc<'_>],
        infos: &[Info<'_>],
        part: Result<Vec<u8>, Status>,
    ) {
        self.contribute_of(call, kind, (procs, None), infos, part);
    }

    /// Records a contribution to a collective that is identified by its original participants.
    fn contribute_of(
        &mut self,
        call: Call,
        kind: Kind,
        (procs, made): (&[Proc<'_>], Option<Vec<ProcId>>),
        infos: &[Info<'_>],
        part: Result<Vec<u8>, Status>,
    ) {
        let (waited_for, is_dead) = self.members(procs);
        let members = made.unwrap_or_else(|| waited_for.clone());
        let collective = Collective { kind, members };
        let rounds = self.host.rounds.entry(collective.clone()).or_default();
        let own = |round: &Round| !round.contributed.contains_key(&call.node);
        let place = rounds.iter().position(own).unwrap_or_else(|| {
            rounds.push(Round::default());
            rounds.len() - 1
        });
        let round = &mut rounds[place];
        let failed = part.as_ref().err().copied();
        let data = part.unwrap_or_default();
        round.contributed.insert(call.node, (Some(call), data));
        round.waited_for.insert(call.node, waited_for.clone());
        let mut named = round.waited_for.values();
        // For a construct, a server leaves out the members that it drops.
        let is_same = named.all(|named| *named == waited_for);
        assert!(
            is_same || is_dead || matches!(kind, Kind::Group(_)),
            "{kind:?}: {:?}",
            round.waited_for
        );
        let id = (collective, place);
        let limit = infos.iter().find(|info| info.key.is(keys::TIMEOUT));
        let limit = limit.and_then(|info| info.value.to_number::<u32>().ok());
        if let Some(seconds) = limit.filter(|seconds| *seconds > 0) {
            let time = Duration::from_secs(seconds.into());
            self.after(time, Event::Expire(id.clone()));
        }
        if let Some(status) = failed {
            self.end_round(&id, Err(status));
        }
        if is_dead {
            self.end_round(&id, Err(Status::ERR_NOT_FOUND));
        }
        let expected: BTreeSet<_> = waited_for
            .iter()
            .map(|proc| self.procs[*proc].node)
            .collect();
        let round = &self.host.rounds[&id.0][id.1];
        if let Some(result) = round.result.clone() {
            return self.tell(&id, call, &result);
        }
        if !expected
            .iter()
            .all(|node| round.contributed.contains_key(node))
        {
            return;
        }
        let parts = round.contributed.values();
        let mut whole: Vec<_> = parts.flat_map(|(_, data)| data.clone()).collect();
        if self.strikes(Fault::HostError, 8) {
            return self.end_round(&id, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        if kind == Kind::Fence && self.strikes(Fault::HostNonsense, 4) {
            self.spoil(&mut whole);
            self.oracle.spoiled.insert(id.clone());
        }
        self.end_round(&id, Ok(whole));
    }

    /// Returns the selected processes, and `true` if one of their jobs has ended.
    fn members(&self, procs: &[Proc<'_>]) -> (Vec<usize>, bool) {
        let is_named = |place: usize| {
            let own = self.procs[place].name();
            let mut named = procs.iter();
            named.any(|proc| proc.nspace == own.nspace && own.rank.matches(proc.rank))
        };
        let members = (0..self.procs.len()).filter(|place| is_named(*place));
        let members: Vec<_> = members.collect();
        let mut jobs = members.iter().map(|proc| self.procs[*proc].job);
        let is_dead = jobs.any(|job| self.jobs[job].is_gone);
        (members, is_dead)
    }

    /// Ends a collective for all servers that have contributed; later ones get the same result.
    pub(crate) fn end_round(&mut self, id: &RoundId, result: Result<Vec<u8>, Status>) {
        let round = self
            .host
            .rounds
            .get_mut(&id.0)
            .and_then(|rounds| rounds.get_mut(id.1));
        let Some(round) = round.filter(|round| round.result.is_none()) else {
            return;
        };
        round.result = Some(result.clone());
        let calls: Vec<_> = round
            .contributed
            .values()
            .filter_map(|(call, _)| *call)
            .collect();
        for call in calls {
            self.tell(id, call, &result);
        }
    }

    fn tell(&mut self, id: &RoundId, call: Call, result: &Result<Vec<u8>, Status>) {
        let fate = self.fate();
        let answer = match (id.0.kind, result) {
            (Kind::Fence, result) => HostReply::Data(result.clone()),
            (Kind::Group(round), Ok(members)) if id.0.leader().is_some() => {
                let context = u64::try_from(round).unwrap() + 1;
                // Each server leaves out its own absent members.
                let contributed = self.host.rounds[&id.0][id.1].contributed.values();
                let num_servers = contributed.filter(|(call, _)| call.is_some()).count();
                let is_left = |place: &&ProcId| {
                    let named = members
                        .iter()
                        .filter(|named| usize::from(**named) == **place);
                    named.count() == num_servers
                };
                let left = id.0.members.iter().filter(is_left);
                let left: Vec<_> = left.map(|place| self.procs[*place].name()).collect();
                let infos = vec![
                    Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)),
                    Info::new(keys::GROUP_MEMBERSHIP, left),
                ];
                HostReply::Infos(Status::SUCCESS, infos)
            }
            (Kind::Group(round), Ok(_)) => {
                let context = u64::try_from(round).unwrap() + 1;
                let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
                HostReply::Infos(Status::SUCCESS, vec![context])
            }
            (_, Ok(_)) => HostReply::Done(Status::SUCCESS),
            (_, Err(status)) => HostReply::Done(*status),
        };
        if !self.send_answer(call, answer, fate) {
            let (mut collective, mut place) = id.clone();
            match &mut collective.kind {
                Kind::Group(round) | Kind::Destruct(round) => {
                    place = std::mem::take(round);
                }
                _ => {}
            }
            self.oracle.excused.insert((collective, place, call.node));
        }
    }

    fn direct(&mut self, call: Call, modex: &DirectModex) {
        let home = self.procs.iter().find(|proc| proc.name() == modex.proc);
        let home = home.map(|proc| proc.node).filter(|home| *home != call.node);
        let Some(home) = home else {
            return self.answer(call, HostReply::Data(Err(Status::ERR_NOT_FOUND)));
        };
        let now = self.node_time(home);
        let engine = &mut self.nodes[home].engine;
        match engine.dmodex_request(&modex.proc, &modex.infos, now) {
            Ok(request) => {
                self.host.asked.insert((home, request), call);
            }
            Err(error) => self.answer(call, HostReply::Data(Err(error.status()))),
        }
        self.drain(home);
    }

    /// Handles the data that an engine returned for another one.
    pub(crate) fn brought(
        &mut self,
        node: usize,
        request: DirectModexId,
        result: Result<Vec<u8>, Status>,
    ) {
        let Some(call) = self.host.asked.remove(&(node, request)) else {
            panic!("node {node} returned data without a request");
        };
        let fate = self.fate();
        self.send_answer(call, HostReply::Data(result), fate);
    }

    fn spread(&mut self, call: Call, event: NotifyEvent) {
        let is_loss = event.status == Status::ERR_LOST_CONNECTION;
        let source = self.procs.iter().position(|p| p.name() == event.source);
        let lost = source.filter(|_| is_loss);
        let lost = lost.map(|proc| (proc, self.procs[proc].admitted));
        for node in 0..self.nodes.len() {
            if node != call.node {
                let notice = Notice {
                    lost,
                    status: event.status,
                    source: event.source.clone(),
                    range: event.range,
                    infos: event.infos.clone(),
                };
                let after = self.random.millis(1, 100);
                self.after(after, Event::Notice(node, Box::new(notice)));
            }
        }
        self.answer(call, HostReply::Done(Status::SUCCESS));
    }

    pub(crate) fn looked(&mut self, looked: Vec<LookupResult<Call>>) {
        for LookupResult {
            token,
            status,
            data,
        } in looked
        {
            self.answer(token, HostReply::Found(status, data));
        }
    }

    fn set_board(&mut self) {
        let now = self.instant();
        if let Some(at) = self.host.board.poll_timeout() {
            self.after(at.saturating_duration_since(now), Event::Board);
        }
    }

    pub(crate) fn board_due(&mut self) {
        let now = self.instant();
        let looked = self.host.board.handle_timeout(now);
        self.looked(looked);
        self.set_board();
    }

    /// Removes the calls of a crashed server, and ends those that wait for it.
    pub(crate) fn host_lost(&mut self, node: usize) {
        self.host.open.retain(|call| call.node != node);
        let asked: Vec<_> = self
            .host
            .asked
            .extract_if(|(home, _), _| *home == node)
            .collect();
        let mut asked: Vec<_> = asked.into_iter().map(|(_, call)| call).collect();
        asked.sort();
        for call in asked {
            self.answer(call, HostReply::Data(Err(Status::ERR_LOST_CONNECTION)));
        }
        let rounds = self.host.rounds.iter().flat_map(|(collective, rounds)| {
            (0..rounds.len()).map(move |place| (collective.clone(), place))
        });
        let ids: Vec<RoundId> = rounds.collect();
        for id in ids {
            if !id
                .0
                .members
                .iter()
                .any(|proc| self.procs[*proc].node == node)
            {
                continue;
            }
            self.end_round(&id, Err(Status::ERR_LOST_CONNECTION));
            // The next server begins with the next round.
            let rounds = self.host.rounds.get_mut(&id.0).unwrap();
            rounds[id.1].contributed.entry(node).or_default();
        }
        self.constructions_server_ended(node);
    }
}
