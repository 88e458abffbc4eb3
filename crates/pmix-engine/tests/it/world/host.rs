// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host of all nodes, which performs collectives and direct modexes between them and refuses other upcalls.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use pmix_engine::host::{DirectModex, Group};
use pmix_engine::{CallId, DirectModexId, EngineEvent, HostCall, HostReply, Upcall};
use pmix_host::groups::{EndedConstruct, GroupAssembler, Processes};
use pmix_types::{
    DataArray, GroupOperation, Info, IntoOwned as _, Nspace, Proc, Status, Value, keys,
};

use super::node::Node;

/// The reaction of the host to an upcall.
pub(crate) enum Reaction {
    /// The default.
    Usual,
    /// This reply.
    HostReply(HostReply),
    /// No reply.
    Silence,
    /// The reply of a later [`World::answer`](super::World::answer).
    Later,
}

pub(super) type Rule = Box<dyn FnMut(usize, &Upcall) -> Reaction>;

/// The operation and participants, which match the calls of several nodes.
type Key = (&'static str, Vec<Proc<'static>>);

/// The host of all nodes.
pub(super) struct Host {
    pub(super) rule: Rule,
    /// Calls that wait for other nodes, by node.
    gathering: BTreeMap<Key, Vec<Round>>,
    /// Group calls that wait for other nodes.
    groups: HashMap<GroupKey, Vec<GroupRound>>,
    last_context: u64,
    constructions: GroupAssembler<(usize, CallId)>,
    /// The processes that have terminated.
    gone: HashSet<Proc<'static>>,
    /// Direct modexes that wait for the engine of another node.
    asked: HashMap<(usize, DirectModexId), (usize, CallId)>,
    answers: Vec<(usize, CallId, HostReply)>,
    /// `true` while replies wait until they are released one by one.
    pub(super) is_slow: bool,
    /// Postponed upcalls with their names.
    later: Vec<(usize, CallId, &'static str)>,
}

/// The operation, name and members, which match the group calls of several nodes.
type GroupKey = (GroupOperation, Vec<u8>, Vec<Proc<'static>>);

/// The calls for one group, by node.
type GroupRound = BTreeMap<usize, (CallId, Group)>;

/// A collective.
#[derive(Default)]
struct Round(BTreeMap<usize, (CallId, Part)>);

/// The contribution of a node: its data, or its failure.
type Part = Result<Vec<u8>, Status>;

impl Default for Host {
    fn default() -> Self {
        Self {
            rule: Box::new(|_, _| Reaction::Usual),
            gathering: BTreeMap::new(),
            groups: HashMap::new(),
            last_context: 0,
            constructions: GroupAssembler::default(),
            gone: HashSet::new(),
            asked: HashMap::new(),
            answers: Vec::new(),
            is_slow: false,
            later: Vec::new(),
        }
    }
}

impl Host {
    /// Handles the upcalls of a node and sends replies.
    pub(super) fn serve(&mut self, place: usize, nodes: &mut [Node], now: Instant) -> bool {
        let mut moved = false;
        while let Some(call) = nodes[place].engine.poll_host_call() {
            moved = true;
            match (self.rule)(place, &call.upcall) {
                Reaction::Silence => {}
                Reaction::Later => self.later.push((place, call.id, call.upcall.name())),
                Reaction::HostReply(answer) => self.answers.push((place, call.id, answer)),
                Reaction::Usual => self.usual(place, call, nodes, now),
            }
        }
        let ready = match self.is_slow {
            true => Vec::new(),
            false => std::mem::take(&mut self.answers),
        };
        for (place, call, answer) in ready {
            moved = true;
            nodes[place].engine.handle_host(call, answer, now);
        }
        moved
    }

    /// Replies to the first postponed upcall with a name.
    pub(super) fn answer(&mut self, name: &str, answer: HostReply) {
        let mut later = self.later.iter();
        let first = later.position(|(_, _, known)| *known == name);
        let (place, call, _) = self.later.remove(first.expect("no such call"));
        self.answers.push((place, call, answer));
    }

    /// Handles the data that an engine returned for another one.
    pub(super) fn notice(&mut self, place: usize, event: &EngineEvent) {
        if let EngineEvent::DirectModex { request, result } = event
            && let Some((asker, call)) = self.asked.remove(&(place, *request))
        {
            self.answers
                .push((asker, call, HostReply::Data(result.clone())));
        }
    }

    fn usual(&mut self, place: usize, call: HostCall, nodes: &mut [Node], now: Instant) {
        match call.upcall {
            Upcall::Fence(fence) => {
                self.gather(
                    place,
                    call.id,
                    ("fence", fence.procs),
                    Ok(fence.data),
                    nodes,
                );
            }
            Upcall::Connect(connect) => {
                let part = connect.failed.map_or(Ok(Vec::new()), Err);
                self.gather(place, call.id, ("connect", connect.procs), part, nodes);
            }
            Upcall::Disconnect(end) => {
                let part = end.failed.map_or(Ok(Vec::new()), Err);
                self.gather(place, call.id, ("disconnect", end.procs), part, nodes);
            }
            // An event about a group is sent to the other nodes, which may have members of it.
            Upcall::NotifyEvent(event)
                if event.infos.iter().any(|info| info.key.is(keys::GROUP_ID)) =>
            {
                self.answers
                    .push((place, call.id, HostReply::Done(Status::SUCCESS)));
                let others = nodes.iter_mut().enumerate();
                for (_, node) in others.filter(|(other, _)| *other != place) {
                    let engine = &mut node.engine;
                    engine
                        .notify(event.status, &event.source, event.range, &event.infos, now)
                        .unwrap();
                }
            }
            Upcall::Group(group) if group.operation == GroupOperation::CONSTRUCT => {
                let (jobs, token) = (Jobs(nodes, &self.gone), (place, call.id));
                let ended = self.constructions.take(token, place, &group, &jobs, now);
                self.answer_constructs(ended);
            }
            Upcall::Group(group) => self.gather_group(place, call.id, group, nodes),
            Upcall::DirectModex(modex) => self.direct(place, call.id, &modex, nodes, now),
            _ => self.answers.push((place, call.id, HostReply::NotSupported)),
        }
    }

    /// Waits for all nodes with participants.
    fn gather(&mut self, place: usize, id: CallId, key: Key, part: Part, nodes: &[Node]) {
        let has_part = |node: &Node| {
            let mut procs = key.1.iter();
            procs.any(|proc| node.hosts(proc))
        };
        let expected = nodes.iter().filter(|node| has_part(node)).count();
        let name = key.0;
        let rounds = self.gathering.entry(key).or_default();
        let open = rounds
            .iter()
            .position(|round| !round.0.contains_key(&place));
        let open = open.unwrap_or_else(|| {
            rounds.push(Round::default());
            rounds.len() - 1
        });
        let round = &mut rounds[open].0;
        round.insert(place, (id, part));
        if round.len() < expected {
            return;
        }
        let parts: Result<Vec<_>, _> = round.values().map(|(_, part)| part.clone()).collect();
        for (place, (id, _)) in std::mem::take(round) {
            let answer = match (name, &parts) {
                ("fence", Ok(parts)) => HostReply::Data(Ok(parts.concat())),
                (_, parts) => {
                    HostReply::Done(parts.as_ref().map_or_else(|e| *e, |_| Status::SUCCESS))
                }
            };
            self.answers.push((place, id, answer));
        }
        rounds.remove(open);
    }

    /// Waits for all nodes with members of a group. The first node determines the order of the members.
    fn gather_group(&mut self, place: usize, id: CallId, call: Group, nodes: &[Node]) {
        let has_part = |node: &Node| call.procs.iter().any(|proc| node.hosts(proc));
        let expected = nodes.iter().filter(|node| has_part(node)).count();
        let mut procs = call.procs.clone();
        procs.sort_unstable();
        let key = (call.operation, call.id.as_bytes().to_vec(), procs);
        let rounds = self.groups.entry(key.clone()).or_default();
        let open = rounds.iter().position(|round| !round.contains_key(&place));
        let open = open.unwrap_or_else(|| {
            rounds.push(BTreeMap::new());
            rounds.len() - 1
        });
        rounds[open].insert(place, (id, call));
        if rounds[open].len() < expected {
            return;
        }
        let round = rounds.remove(open);
        let said = || round.values().flat_map(|(_, call)| &call.directives);
        let is = |key: &'static str| said().find(move |info| info.key.is(key));
        let answer = match is(keys::LOCAL_COLLECTIVE_STATUS).map(|info| &info.value) {
            Some(Value::Status(status)) => HostReply::Done(*status),
            _ => {
                let shared = said().filter(|info| info.key.is(keys::GROUP_INFO));
                let mut infos: Vec<_> = shared.cloned().collect();
                let (_, (_, first)) = round.first_key_value().expect("at least one node called");
                let order = listed(first);
                let mut members: Vec<_> = order.iter().flat_map(|list| list.to_vec()).collect();
                // Each node leaves out its own absent members.
                for other in round.values().filter_map(|(_, call)| listed(call)) {
                    members.retain(|proc| other.contains(proc));
                }
                infos.extend(order.map(|_| Info::new(keys::GROUP_MEMBERSHIP, members)));
                if is(keys::GROUP_ASSIGN_CONTEXT_ID).is_some() {
                    self.last_context += 1;
                    let context = Value::Size(self.last_context);
                    infos.push(Info::new(keys::GROUP_CONTEXT_ID, context));
                }
                HostReply::Infos(Status::SUCCESS, infos)
            }
        };
        for (place, (id, _)) in round {
            self.answers.push((place, id, answer.clone()));
        }
    }

    /// Records the termination of a process.
    pub(super) fn proc_ended(&mut self, proc: &Proc<'static>, nodes: &[Node]) {
        self.gone.insert(proc.clone());
        let jobs = Jobs(nodes, &self.gone);
        let ended = self.constructions.proc_ended(proc, &jobs);
        self.answer_constructs(ended);
    }

    fn answer_constructs(&mut self, ended: Vec<EndedConstruct<(usize, CallId)>>) {
        for one in ended {
            let answer = match one.outcome {
                Ok(mut infos) => {
                    if one.wants_context_id {
                        self.last_context += 1;
                        let context = Value::Size(self.last_context);
                        infos.push(Info::new(keys::GROUP_CONTEXT_ID, context));
                    }
                    HostReply::Infos(Status::SUCCESS, infos)
                }
                Err(status) => HostReply::Done(status),
            };
            let tokens = one.tokens.into_iter();
            self.answers
                .extend(tokens.map(|(place, id)| (place, id, answer.clone())));
        }
    }

    /// Requests data from the engine of a process's node.
    fn direct(
        &mut self,
        place: usize,
        id: CallId,
        modex: &DirectModex,
        nodes: &mut [Node],
        now: Instant,
    ) {
        let home = nodes.iter().position(|node| node.hosts(&modex.proc));
        let Some(home) = home.filter(|home| *home != place) else {
            let nobody = HostReply::Data(Err(Status::ERR_NOT_FOUND));
            return self.answers.push((place, id, nobody));
        };
        let engine = &mut nodes[home].engine;
        match engine.dmodex_request(&modex.proc, &modex.infos, now) {
            Ok(request) => {
                self.asked.insert((home, request), (place, id));
            }
            Err(error) => {
                let answer = HostReply::Data(Err(error.status()));
                self.answers.push((place, id, answer));
            }
        }
    }
}

/// Returns the members that a server lists.
fn listed(call: &Group) -> Option<&[Proc<'static>]> {
    let mut infos = call.directives.iter();
    match &infos
        .find(|info| info.key.is(keys::GROUP_MEMBERSHIP))?
        .value
    {
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}

/// The processes of all nodes, and the terminated ones.
struct Jobs<'n>(&'n [Node], &'n HashSet<Proc<'static>>);

impl Processes for Jobs<'_> {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        let procs = self.0.iter().flat_map(|node| &node.procs);
        let size = procs.filter(|proc| proc.nspace == *nspace).count();
        u32::try_from(size).ok().filter(|size| *size > 0)
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        self.1.contains(&proc.clone().into_owned())
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.0.iter().position(|node| node.hosts(proc))
    }

    fn num_running(&self) -> Option<usize> {
        let procs = self.0.iter().flat_map(|node| &node.procs);
        Some(procs.filter(|proc| !self.has_ended(proc)).count())
    }
}
