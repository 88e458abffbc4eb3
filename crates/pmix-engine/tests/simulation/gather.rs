// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructions of groups whose members do not all know each other, and the host that gathers them.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_client::{Decision, OperationId};
use pmix_engine::Answer;
use pmix_engine::constructions::{Constructions, EndedConstruction, Processes};
use pmix_engine::host::Group;
use pmix_proto::Event;
use pmix_types::{Info, Nspace, Proc, Status, Value, keys};

use crate::agenda::{self, Call};
use crate::client::{What, Who};
use crate::fault::Fault;
use crate::oracle::led::constructed;
use crate::process::{GATHERED, Job, Kind, Meeting, Phase, ProcId, group_name, round_of};
use crate::random::Random;
use crate::world::World;

/// In which of so many runs there are such constructions, so that the others stay what they were.
pub(crate) const GATHERINGS: (u64, u64) = (4, 2);

/// A construction of a group: who leads it, and whom the leaders add.
#[derive(Clone, Debug)]
pub(crate) struct Gathering {
    /// Those who lead, and those who are added.
    pub(crate) members: Vec<ProcId>,
    num_leaders: usize,
    /// Whether leaders know how many they are, and not who.
    pub(crate) is_counted: bool,
    /// Whom each leader adds.
    pub(crate) adds: BTreeMap<ProcId, Vec<ProcId>>,
    /// In which order the members are to be in the end.
    pub(crate) order: Option<Vec<ProcId>>,
    /// Whether the last of the leaders wants another order.
    pub(crate) is_contradicted: bool,
    /// Whether the group may be formed without some of them.
    pub(crate) is_optional: bool,
    /// The one of those who lead that decides about those of them that are lost, if one does.
    pub(crate) decider: Option<ProcId>,
    /// In seconds.
    timeout: Option<u32>,
}

impl Gathering {
    fn draw(random: &mut Random, jobs: &[Job]) -> Self {
        let mut left: Vec<_> = jobs.iter().flat_map(Job::procs).collect();
        let count = 1 + random.below(left.len());
        let members = (0..count).map(|_| left.swap_remove(random.below(left.len())));
        let members: Vec<_> = members.collect();
        let num_leaders = 1 + random.below(members.len());
        let mut adds = BTreeMap::<_, Vec<_>>::new();
        for added in &members[num_leaders..] {
            let leader = members[random.below(num_leaders)];
            adds.entry(leader).or_default().push(*added);
        }
        let is_counted = random.once_in(2);
        // Nothing is drawn for it, so that the other constructions stay what they were.
        let sum: usize = members.iter().sum();
        let decides = !is_counted && !sum.is_multiple_of(3);
        let decider = decides.then(|| members[sum % num_leaders]);
        let order = random.once_in(3).then(|| {
            let mut order = members.clone();
            let by = random.below(order.len());
            order.rotate_left(by);
            order
        });
        Self {
            num_leaders,
            is_counted,
            decider,
            adds,
            is_contradicted: order.is_some() && num_leaders > 1 && random.once_in(4),
            order,
            is_optional: random.once_in(3),
            timeout: (!random.once_in(3)).then(|| 1 + random.below_u32(5)),
            members,
        }
    }

    pub(crate) fn leaders(&self) -> &[ProcId] {
        &self.members[..self.num_leaders]
    }

    /// The leader that wants another order than the others.
    pub(crate) fn contradictor(&self) -> Option<ProcId> {
        let last = self.leaders().last().copied();
        last.filter(|_| self.is_contradicted)
    }

    /// Who adds one that does not lead.
    pub(crate) fn adder(&self, added: ProcId) -> Option<ProcId> {
        let mut adds = self.adds.iter();
        let found = adds.find(|(_, all)| all.contains(&added));
        found.map(|(leader, _)| *leader)
    }
}

/// The constructions of a run, which its processes are to take part in besides what they do anyway.
pub(crate) fn weave(seed: u64, jobs: &[Job], script: &mut Vec<Phase>) -> Vec<Gathering> {
    let mut gatherings = Vec::new();
    if seed % GATHERINGS.0 != GATHERINGS.1 {
        return gatherings;
    }
    let mut random = Random::new(!seed);
    for number in 0..1 + random.below(3) {
        gatherings.push(Gathering::draw(&mut random, jobs));
        let at = 1 + random.below(script.len());
        script.insert(at, Phase::Gather(number));
        if !random.once_in(3) {
            let at = at + 1 + random.below(script.len() - at);
            script.insert(at, Phase::Dissolve(number));
        }
    }
    gatherings
}

/// What the host knows of such constructions.
#[derive(Default)]
pub(crate) struct Gatherer {
    constructions: Constructions<Call>,
    /// The calls that are not answered, and of which construction.
    open: BTreeMap<Call, usize>,
    last_context: u64,
}

/// What the host knows of processes.
struct Census {
    procs: BTreeMap<Proc<'static>, (usize, bool)>,
    sizes: Vec<(&'static str, u32)>,
    num_running: Option<usize>,
}

impl Processes for Census {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        let mut sizes = self.sizes.iter();
        let found = sizes.find(|(job, _)| nspace.as_bytes() == job.as_bytes());
        found.map(|(_, size)| *size)
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        self.procs.get(proc).is_none_or(|(_, has_ended)| *has_ended)
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.procs.get(proc).map(|(node, _)| *node)
    }

    fn num_running(&self) -> Option<usize> {
        self.num_running
    }
}

impl World {
    /// A process calls for a construction that it is a part of.
    pub(crate) fn gather(&mut self, who: Who, place: ProcId, number: usize) -> Option<OperationId> {
        let gathering = self.gatherings[number].clone();
        if gathering.decider.is_some() {
            self.hear_of_losses(who);
        }
        if !gathering.members.contains(&place) {
            return None;
        }
        let mut infos = vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
        let timeout = gathering.timeout.filter(|_| !self.random.once_in(4));
        infos.extend(timeout.map(|seconds| Info::new(keys::TIMEOUT, seconds)));
        let leads = gathering.leaders().contains(&place);
        let procs = match (leads, gathering.is_counted) {
            (true, false) => self.names(gathering.leaders()),
            (true, true) => {
                let count = u64::try_from(gathering.leaders().len()).unwrap();
                infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(count)));
                self.names(&[place])
            }
            // Libraries up to 5.0 cannot give an empty list.
            (false, _) if self.random.once_in(2) => {
                infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(0)));
                self.names(&[place])
            }
            (false, _) => Vec::new(),
        };
        if let Some(added) = gathering.adds.get(&place) {
            infos.push(Info::new(keys::GROUP_ADD_MEMBERS, self.names(added)));
        }
        if let Some(mut order) = gathering.order.clone().filter(|_| leads) {
            if gathering.contradictor() == Some(place) {
                order.reverse();
                order.truncate(1);
            }
            let order = self.names(&order);
            infos.push(Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, order));
        }
        if gathering.decider == Some(place) {
            infos.push(Info::new(keys::GROUP_LEADER, true));
        }
        if gathering.is_optional && leads {
            infos.push(Info::new(keys::GROUP_OPTIONAL, true));
        }
        let own = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let own = own.or(self.config.collective_time);
        let name = Self::gathered_name(number);
        self.say(|| format!("process {place} comes to {name}, {gathering:?}"));
        self.gathering_called(number, place);
        let id = self.ask(who, What::Gather(number), own, |core, end| {
            core.group_construct(&name, &procs, &infos, end)
        });
        (!self.random.once_in(4)).then_some(id)
    }

    /// What a program wants when a member of a construct that one of them leads is lost, or the leader is.
    pub(crate) fn construct_decision(&mut self, who: Who, event: &Event<'_>) -> Option<Decision> {
        let is_leader = event.status == Status::GROUP_LEADER_FAILED;
        match (self.random.below(6), is_leader) {
            (0..3, true) => Some(Decision::Lead),
            (0..2, false) => Some(Decision::GoOnWithout),
            (2, false) => Some(match self.stand_in(who, event) {
                Some(new) => Decision::Invite(vec![new]),
                None => Decision::GoOnWithout,
            }),
            (3 | 4, _) => Some(Decision::Abort),
            _ => None,
        }
    }

    /// A process that a leader adds in the place of one that is lost, if its group may have others.
    fn stand_in(&mut self, who: Who, event: &Event<'_>) -> Option<Proc<'static>> {
        let number = number_in(&event.infos)?;
        let leader = self.clients[who].proc?;
        let members = &self.gatherings[number].members;
        let is_there = |place: &ProcId| {
            let client = self.procs[*place].client.map(|who| &self.clients[who]);
            client.is_some_and(|client| client.is_live() && client.hears_losses)
        };
        let mut others = (0..self.procs.len()).filter(|place| !members.contains(place));
        let new = others.find(is_there)?;
        let gathering = &mut self.gatherings[number];
        gathering.members.push(new);
        gathering.adds.entry(leader).or_default().push(new);
        Some(self.procs[new].name())
    }

    /// A leader adds a process in the place of one that is lost, which calls for the group then.
    pub(crate) fn is_added(&mut self, who: Who, event: &Event<'_>) {
        let place = self.clients[who].proc;
        let number = number_in(&event.infos);
        let is_asked = event.status == Status::GROUP_INVITED && { event.infos.iter() }
            .any(|info| info.key.is(keys::GROUP_ADD_MEMBERS));
        if let (Some(place), Some(number), true) = (place, number, is_asked) {
            self.gather(who, place, number);
        }
    }

    /// A process was told that it is in such a group.
    pub(crate) fn is_in_gathered(&mut self, who: Who, number: usize, members: &[Proc<'_>]) {
        let places = members.iter().map(|name| self.place_of(name));
        // Who was lied to may be told of anybody.
        let Some(mut members) = places.collect::<Option<Vec<_>>>() else {
            return;
        };
        members.sort_unstable();
        let kind = Kind::Group(0);
        let group = (Meeting { kind, members }, GATHERED + number);
        self.clients[who].groups.push(group);
    }

    /// The name of such a group.
    pub(crate) fn gathered_name(number: usize) -> String {
        group_name(&[], GATHERED + number)
    }

    fn names(&self, places: &[ProcId]) -> Vec<Proc<'static>> {
        let names = places.iter().map(|place| self.procs[*place].name());
        names.collect()
    }

    /// Whether a process has ended, as the host sees it; it may come again.
    pub(crate) fn has_ended(&self, place: ProcId) -> bool {
        let proc = &self.procs[place];
        self.jobs[proc.job].is_gone || proc.stamp.life > 0 && proc.client.is_none()
    }

    fn census(&self) -> Census {
        let jobs = self.jobs.iter().filter(|job| job.is_begun && !job.is_gone);
        let procs = self.procs.iter().enumerate();
        let procs: BTreeMap<_, _> = procs
            .map(|(place, proc)| (proc.name(), (proc.node, self.has_ended(place))))
            .collect();
        let running = procs.values().filter(|(_, has_ended)| !has_ended);
        // Not every host knows it.
        let counts = !self.gatherings.len().is_multiple_of(2);
        Census {
            num_running: counts.then(|| running.count()),
            sizes: jobs.map(|job| (job.nspace, job.size())).collect(),
            procs,
        }
    }

    /// A server calls for such a construction.
    pub(crate) fn gather_call(&mut self, call: Call, group: &Group) {
        let census = self.census();
        let number = round_of(&group.id) - GATHERED;
        self.host.gatherer.open.insert(call, number);
        if !group.procs.is_empty() {
            self.oracle.gathered[number].called_host.insert(call.node);
        }
        let now = self.instant();
        let constructions = &mut self.host.gatherer.constructions;
        let ended = constructions.take(call, call.node, group, &census, now);
        self.tell_gathered(ended);
        self.set_gatherer();
    }

    /// The host sees that a process has ended.
    pub(crate) fn proc_ended(&mut self, place: ProcId) {
        let (census, name) = (self.census(), self.procs[place].name());
        let constructions = &mut self.host.gatherer.constructions;
        let ended = constructions.proc_ended(&name, &census);
        self.tell_gathered(ended);
    }

    /// The host sees that a server has ended.
    pub(crate) fn gatherer_lost(&mut self, node: usize) {
        let census = self.census();
        let constructions = &mut self.host.gatherer.constructions;
        let ended = constructions.server_ended(node, &census);
        self.tell_gathered(ended);
    }

    /// Where no process is left that could call, nobody waits for another.
    pub(crate) fn check_gatherer(&self) {
        let open = &self.host.gatherer.open;
        let is_over = self.census().num_running == Some(0);
        assert!(!is_over || open.is_empty(), "{open:?} are not answered");
    }

    /// The time of constructions may be over.
    pub(crate) fn gatherer_due(&mut self) {
        let now = self.instant();
        let ended = self.host.gatherer.constructions.handle_timeout(now);
        self.tell_gathered(ended);
        self.set_gatherer();
    }

    fn set_gatherer(&mut self) {
        let now = self.instant();
        if let Some(at) = self.host.gatherer.constructions.poll_timeout() {
            self.after(at.saturating_duration_since(now), agenda::Event::Gatherer);
        }
    }

    fn tell_gathered(&mut self, ended: Vec<EndedConstruction<Call>>) {
        for one in ended {
            let is_faulty = one.outcome.is_ok() && self.strikes(Fault::HostError, 8);
            let answer = match one.outcome {
                Ok(_) if is_faulty => Answer::Done(Status::ERR_OUT_OF_RESOURCE),
                Ok(mut infos) => {
                    let gatherer = &mut self.host.gatherer;
                    gatherer.last_context += 1;
                    let context = Value::Size(gatherer.last_context);
                    assert!(one.wants_context_id, "all of them want a context id");
                    infos.push(Info::new(keys::GROUP_CONTEXT_ID, context));
                    Answer::Infos(Status::SUCCESS, infos)
                }
                Err(status) => Answer::Done(status),
            };
            for call in one.tokens {
                let number = self.host.gatherer.open.remove(&call);
                let number = number.expect("a call is answered once");
                if let Answer::Infos(_, infos) = &answer {
                    self.gathered(number, infos);
                }
                let fate = self.fate();
                if !self.send_answer(call, answer.clone(), fate) {
                    self.oracle.gathered[number].excused.insert(call.node);
                }
            }
        }
    }
}

/// The number of the construction of such a group that infos are about.
fn number_in(infos: &[Info<'_>]) -> Option<usize> {
    let name = constructed(infos)?;
    let number = name.strip_prefix("gathered-")?.parse::<usize>().ok()?;
    number.checked_sub(GATHERED)
}
