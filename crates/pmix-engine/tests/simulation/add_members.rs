// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructs of groups whose leaders add members (`PMIX_GROUP_ADD_MEMBERS`, `PMIX_GROUP_BOOTSTRAP`), and the host that
//! determines their members.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_client::Decision;
use pmix_client::driver::OperationId;
use pmix_engine::HostReply;
use pmix_engine::host::Group;
use pmix_host::groups::{EndedConstruct, GroupAssembler, Processes};
use pmix_proto::{Event, Request, request};
use pmix_types::{Info, Nspace, Proc, Status, Value, keys};

use crate::agenda::{self, Call};
use crate::client::{What, Who};
use crate::fault::Fault;
use crate::oracle::led::constructed;
use crate::process::{
    Collective, FIRST_ADD_MEMBERS, Job, Kind, Phase, ProcId, group_name, round_of,
};
use crate::random::Random;
use crate::world::World;

/// The modulus and the remainder of the seeds with such constructs; other runs do not change.
pub(crate) const ADD_MEMBERS_RUNS: (u64, u64) = (4, 2);

/// A construct of a group, with its leaders and the members that they add.
#[derive(Clone, Debug)]
pub(crate) struct AddMembersConstruct {
    /// The leaders, followed by the added members.
    pub(crate) members: Vec<ProcId>,
    num_leaders: usize,
    /// `true` if leaders know only their number.
    pub(crate) is_counted: bool,
    /// The members that each leader adds.
    pub(crate) adds: BTreeMap<ProcId, Vec<ProcId>>,
    /// The final order of the members.
    pub(crate) order: Option<Vec<ProcId>>,
    /// `true` if the last leader requests another order.
    pub(crate) is_contradicted: bool,
    /// `true` if the leaders allow missing members.
    is_optional: bool,
    /// `true` if members are notified of later terminations, and the group is formed without members terminated
    /// earlier.
    pub(crate) notifies: bool,
    /// The leader that decides about lost leaders, if there is one.
    pub(crate) decider: Option<ProcId>,
    /// The time limit in seconds.
    timeout: Option<u32>,
}

impl AddMembersConstruct {
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
        // No random number is used, so that the other constructs do not change.
        let sum: usize = members.iter().sum();
        let decides = !is_counted && !sum.is_multiple_of(3);
        let decider = decides.then(|| members[sum % num_leaders]);
        let notifies = sum % 5 < 2;
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
            notifies,
            adds,
            is_contradicted: order.is_some() && num_leaders > 1 && random.once_in(4),
            order,
            is_optional: random.once_in(3),
            timeout: (!random.once_in(3)).then(|| 1 + random.below_u32(5)),
            members,
        }
    }

    /// Returns `true` if the group may be formed with missing members.
    pub(crate) const fn may_lack_members(&self) -> bool {
        self.is_optional || self.notifies
    }

    pub(crate) fn leaders(&self) -> &[ProcId] {
        &self.members[..self.num_leaders]
    }

    /// Returns the leader that requests another order than the others.
    pub(crate) fn contradictor(&self) -> Option<ProcId> {
        let last = self.leaders().last().copied();
        last.filter(|_| self.is_contradicted)
    }

    /// Returns the leader that adds a member.
    pub(crate) fn adder(&self, added: ProcId) -> Option<ProcId> {
        let mut adds = self.adds.iter();
        let found = adds.find(|(_, all)| all.contains(&added));
        found.map(|(leader, _)| *leader)
    }
}

/// Adds the constructs of a run to the script of its processes.
pub(crate) fn add_constructs(
    seed: u64,
    jobs: &[Job],
    script: &mut Vec<Phase>,
) -> Vec<AddMembersConstruct> {
    let mut constructs = Vec::new();
    if seed % ADD_MEMBERS_RUNS.0 != ADD_MEMBERS_RUNS.1 {
        return constructs;
    }
    let mut random = Random::new(!seed);
    for number in 0..1 + random.below(3) {
        constructs.push(AddMembersConstruct::draw(&mut random, jobs));
        let at = 1 + random.below(script.len());
        script.insert(at, Phase::AddMembers(number));
        if !random.once_in(3) {
            let at = at + 1 + random.below(script.len() - at);
            script.insert(at, Phase::DestructAddMembers(number));
        }
    }
    constructs
}

/// The host's state of such constructs.
#[derive(Default)]
pub(crate) struct HostConstructions {
    all: GroupAssembler<Call>,
    /// The calls without a reply, with their constructs.
    open: BTreeMap<Call, usize>,
    last_context: u64,
}

/// The host's information about processes.
struct ProcessStates {
    procs: BTreeMap<Proc<'static>, (usize, bool)>,
    sizes: Vec<(&'static str, u32)>,
    num_running: Option<usize>,
}

impl Processes for ProcessStates {
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
    /// Calls for a construct that the process is a member of.
    pub(crate) fn construct_adding(
        &mut self,
        who: Who,
        place: ProcId,
        number: usize,
    ) -> Option<OperationId> {
        let construct = self.constructs[number].clone();
        if construct.decider.is_some() {
            self.hear_of_losses(who);
        }
        if !construct.members.contains(&place) {
            return None;
        }
        let mut infos = vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
        let timeout = construct.timeout.filter(|_| !self.random.once_in(4));
        infos.extend(timeout.map(|seconds| Info::new(keys::TIMEOUT, seconds)));
        let leads = construct.leaders().contains(&place);
        let procs = match (leads, construct.is_counted) {
            (true, false) => self.names(construct.leaders()),
            (true, true) => {
                let count = u64::try_from(construct.leaders().len()).unwrap();
                infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(count)));
                self.names(&[place])
            }
            // Libraries up to 5.0 cannot send an empty list.
            (false, _) if self.random.once_in(2) => {
                infos.push(Info::new(keys::GROUP_BOOTSTRAP, Value::Size(0)));
                self.names(&[place])
            }
            (false, _) => Vec::new(),
        };
        if let Some(added) = construct.adds.get(&place) {
            infos.push(Info::new(keys::GROUP_ADD_MEMBERS, self.names(added)));
        }
        if let Some(mut order) = construct.order.clone().filter(|_| leads) {
            if construct.contradictor() == Some(place) {
                order.reverse();
                order.truncate(1);
            }
            let order = self.names(&order);
            infos.push(Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, order));
        }
        if construct.decider == Some(place) {
            infos.push(Info::new(keys::GROUP_LEADER, true));
        }
        if construct.is_optional && leads {
            infos.push(Info::new(keys::GROUP_OPTIONAL, true));
        }
        if construct.notifies {
            self.hear_of_terminations(who);
            infos.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
        }
        let own = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let own = own.or(self.config.collective_time);
        let name = Self::construct_name(number);
        self.say(|| format!("process {place} constructs {name}, {construct:?}"));
        self.construct_called(number, place);
        let id = self.ask_for(
            who,
            Request::GroupConstruct(request::GroupConstruct {
                group: Some(name.into()),
                procs,
                infos,
            }),
            What::AddMembers(number),
            own,
        );
        (!self.random.once_in(4)).then_some(id)
    }

    /// Returns a program's decision after the loss of a member or of the leader of a construct.
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

    /// Returns a replacement for a lost process, if the group may have other members.
    fn stand_in(&mut self, who: Who, event: &Event<'_>) -> Option<Proc<'static>> {
        let number = number_in(&event.infos)?;
        let leader = self.clients[who].proc?;
        let members = &self.constructs[number].members;
        let is_there = |place: &ProcId| {
            let client = self.procs[*place].client.map(|who| &self.clients[who]);
            client.is_some_and(|client| client.is_live() && client.hears_losses)
        };
        let mut others = (0..self.procs.len()).filter(|place| !members.contains(place));
        let new = others.find(is_there)?;
        let construct = &mut self.constructs[number];
        construct.members.push(new);
        construct.adds.entry(leader).or_default().push(new);
        Some(self.procs[new].name())
    }

    /// Lets a process call for the group after a leader has added it as a replacement.
    pub(crate) fn is_added(&mut self, who: Who, event: &Event<'_>) {
        let place = self.clients[who].proc;
        let number = number_in(&event.infos);
        let is_asked = event.status == Status::GROUP_INVITED && { event.infos.iter() }
            .any(|info| info.key.is(keys::GROUP_ADD_MEMBERS));
        if let (Some(place), Some(number), true) = (place, number, is_asked) {
            self.construct_adding(who, place, number);
        }
    }

    /// Records that a process was informed of its membership in such a group.
    pub(crate) fn is_in_constructed(&mut self, who: Who, number: usize, members: &[Proc<'_>]) {
        let places = members.iter().map(|name| self.place_of(name));
        // A process with corrupted input may receive any name.
        let Some(mut members) = places.collect::<Option<Vec<_>>>() else {
            return;
        };
        members.sort_unstable();
        let kind = Kind::Group(0);
        let group = (Collective { kind, members }, FIRST_ADD_MEMBERS + number);
        self.clients[who].groups.push(group);
    }

    /// Returns the name of such a group.
    pub(crate) fn construct_name(number: usize) -> String {
        group_name(&[], FIRST_ADD_MEMBERS + number)
    }

    fn names(&self, places: &[ProcId]) -> Vec<Proc<'static>> {
        let names = places.iter().map(|place| self.procs[*place].name());
        names.collect()
    }

    /// Returns `true` if a process has terminated from the host's view; it may be restarted.
    pub(crate) fn has_ended(&self, place: ProcId) -> bool {
        let proc = &self.procs[place];
        self.jobs[proc.job].is_gone || proc.stamp.life > 0 && proc.client.is_none()
    }

    fn process_states(&self) -> ProcessStates {
        let jobs = self.jobs.iter().filter(|job| job.is_begun && !job.is_gone);
        let procs = self.procs.iter().enumerate();
        let procs: BTreeMap<_, _> = procs
            .map(|(place, proc)| (proc.name(), (proc.node, self.has_ended(place))))
            .collect();
        let running = procs.values().filter(|(_, has_ended)| !has_ended);
        // Some hosts do not know the number.
        let counts = !self.constructs.len().is_multiple_of(2);
        ProcessStates {
            num_running: counts.then(|| running.count()),
            sizes: jobs.map(|job| (job.nspace, job.size())).collect(),
            procs,
        }
    }

    /// Handles a server's call for such a construct.
    pub(crate) fn construct_call(&mut self, call: Call, group: &Group) {
        let process_states = self.process_states();
        let number = round_of(&group.id) - FIRST_ADD_MEMBERS;
        self.host.constructions.open.insert(call, number);
        if !group.procs.is_empty() {
            self.oracle.constructs[number].called_host.insert(call.node);
        }
        let now = self.instant();
        let constructions = &mut self.host.constructions.all;
        let ended = constructions.take(call, call.node, group, &process_states, now);
        self.answer_constructs(ended);
        self.set_constructions_timer();
    }

    /// Informs the host of the termination of a process.
    pub(crate) fn proc_ended(&mut self, place: ProcId) {
        let (process_states, name) = (self.process_states(), self.procs[place].name());
        let constructions = &mut self.host.constructions.all;
        let ended = constructions.proc_ended(&name, &process_states);
        self.answer_constructs(ended);
    }

    /// Informs the host of the termination of a server.
    pub(crate) fn constructions_server_ended(&mut self, node: usize) {
        let process_states = self.process_states();
        let constructions = &mut self.host.constructions.all;
        let ended = constructions.server_ended(node, &process_states);
        self.answer_constructs(ended);
    }

    /// Checks that no call waits once no process remains that could call.
    pub(crate) fn check_constructions_ended(&self) {
        let open = &self.host.constructions.open;
        let is_over = self.process_states().num_running == Some(0);
        assert!(!is_over || open.is_empty(), "{open:?} are not answered");
    }

    /// Ends the constructs whose time limit has expired.
    pub(crate) fn constructions_due(&mut self) {
        let now = self.instant();
        let ended = self.host.constructions.all.handle_timeout(now);
        self.answer_constructs(ended);
        self.set_constructions_timer();
    }

    fn set_constructions_timer(&mut self) {
        let now = self.instant();
        if let Some(at) = self.host.constructions.all.poll_timeout() {
            self.after(
                at.saturating_duration_since(now),
                agenda::Event::Constructions,
            );
        }
    }

    fn answer_constructs(&mut self, ended: Vec<EndedConstruct<Call>>) {
        for one in ended {
            let is_faulty = one.outcome.is_ok() && self.strikes(Fault::HostError, 8);
            let answer = match one.outcome {
                Ok(_) if is_faulty => HostReply::Done(Status::ERR_OUT_OF_RESOURCE),
                Ok(mut infos) => {
                    let constructions = &mut self.host.constructions;
                    constructions.last_context += 1;
                    let context = Value::Size(constructions.last_context);
                    assert!(one.wants_context_id, "every call requests a context id");
                    infos.push(Info::new(keys::GROUP_CONTEXT_ID, context));
                    HostReply::Infos(Status::SUCCESS, infos)
                }
                Err(status) => HostReply::Done(status),
            };
            for call in one.tokens {
                let number = self.host.constructions.open.remove(&call);
                let number = number.expect("a call is answered once");
                if let HostReply::Infos(_, infos) = &answer {
                    self.host_formed(number, infos);
                }
                let fate = self.fate();
                if !self.send_answer(call, answer.clone(), fate) {
                    self.oracle.constructs[number].excused.insert(call.node);
                }
            }
        }
    }
}

/// Returns the number of the construct in infos.
fn number_in(infos: &[Info<'_>]) -> Option<usize> {
    let name = constructed(infos)?;
    let number = name.strip_prefix("added-")?.parse::<usize>().ok()?;
    number.checked_sub(FIRST_ADD_MEMBERS)
}
