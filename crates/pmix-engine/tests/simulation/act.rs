// SPDX-License-Identifier: MIT OR Apache-2.0
//! The actions of processes: connecting, following the script, leaving.

use std::time::Duration;

use pmix_client::driver::OperationId;
use pmix_engine::Origin;
use pmix_proto::{Request, request};
use pmix_types::{Info, Proc, Rank, Status, keys};

use crate::agenda::Event;
use crate::client::{Client, What, Who};
use crate::fault::Fault;
use crate::process::{Collective, FIRST_ADD_MEMBERS, Kind, Phase, ProcId, Stamp};
use crate::world::World;

/// The greatest number of incarnations of a process.
const MAX_LIVES: u16 = 3;

impl World {
    /// Opens a connection to a node.
    pub(crate) fn open(&mut self, node: usize) -> Who {
        let now = self.node_time(node);
        let peer = self.nodes[node].engine.open(Origin::default(), now);
        let who = self.clients.len();
        self.clients.push(Client::new(node, peer));
        self.nodes[node].peers.insert(peer, who);
        self.drain(node);
        who
    }

    /// Opens a connection of a process and sends its hello.
    pub(crate) fn connect(&mut self, proc: ProcId) -> Who {
        let who = self.open(self.procs[proc].node);
        self.begin_core(who, proc);
        who
    }

    /// Starts an incarnation of a process.
    pub(crate) fn start(&mut self, place: ProcId) {
        let proc = &mut self.procs[place];
        if self.is_over || proc.client.is_some() || self.jobs[proc.job].is_gone {
            return;
        }
        let life = proc.stamp.life + 1;
        proc.stamp = Stamp {
            life,
            version: 0,
            keys: u16::try_from(self.random.below(16)).unwrap(),
        };
        if life > 1 {
            proc.is_restless = true;
            self.tally.count(Fault::Again);
            // Some hosts register a process again before its restart, others do not.
            if self.random.once_in(2) {
                self.register_again(place);
            }
        }
        let who = self.connect(place);
        self.clients[who].proc = Some(place);
        self.procs[place].client = Some(who);
        self.say(|| format!("process {place} starts incarnation {life} on connection {who}"));
    }

    /// Closes the connection of a process.
    pub(crate) fn leave(&mut self, who: Who) {
        if self.clients[who].is_open {
            self.say(|| format!("connection {who} is closed by its client"));
            self.clients[who].is_open = false;
            self.send_close(who, true);
            self.lose(who);
            self.life_over(who);
        }
    }

    /// Ends an incarnation of a process, which may be followed by another one.
    pub(crate) fn life_over(&mut self, who: Who) {
        if let Some(tool) = self.clients[who].tool {
            return self.tool_left(tool);
        }
        let Some(place) = self.clients[who].proc else {
            return;
        };
        self.parent_died(place);
        let proc = &mut self.procs[place];
        proc.client = None;
        proc.ended_at = self.now;
        proc.then.clear();
        let life = proc.stamp.life;
        if !self.constructs.is_empty() {
            self.constructs_lose(place);
            let soon = self.random.millis(1, 300);
            self.after(soon, Event::Ended(place));
        }
        let again = self.plan.has(Fault::Again) && life < MAX_LIVES && !self.is_over;
        if again && !self.random.once_in(3) {
            let len = self.script_of(place).len();
            let proc = &mut self.procs[place];
            proc.phase = self.random.below(len + 1);
            let after = self.random.millis(1, 500);
            self.after(after, Event::Start(place));
        }
    }

    /// Performs the next step of a process, unless it waits for an operation.
    pub(crate) fn step(&mut self, who: Who) {
        let client = &self.clients[who];
        if !client.is_open || !client.has_begun || client.waits.is_some() {
            return;
        }
        if let Some(tool) = client.tool {
            return self.tool_step(who, tool);
        }
        let Some(place) = client.proc else {
            return;
        };
        let then = self.procs[place].then.pop();
        let is_scripted = then.is_none();
        let phase = self.procs[place].phase;
        let next = then.or_else(|| self.script_of(place).get(phase).cloned());
        let Some(next) = next else {
            let own = Some(Duration::from_secs(2));
            let id = self.ask(who, What::Finalize, own, |core, end| core.finalize(end));
            self.clients[who].waits = Some(id);
            return;
        };
        self.procs[place].phase += usize::from(is_scripted);
        let waits = match next {
            Phase::Own => self.do_own(who, place),
            Phase::Collective {
                collective,
                collects,
                is_short,
                timeout,
                is_loose,
            } if collective.members.contains(&place) => {
                let leader = collective.leader();
                if leader.is_some() && self.strikes(Fault::Crash, 6) {
                    return self.cut_off(who, false);
                }
                let id = self.call_collective(who, place, collective, collects, is_short, timeout);
                if leader == Some(place) && self.strikes(Fault::Crash, 3) {
                    return self.cut_off(who, false);
                }
                // Other members may be lost after their call.
                if leader.is_some() && self.strikes(Fault::Crash, 4) {
                    let soon = self.random.millis(5, 300);
                    self.after(soon, Event::Crash(who));
                }
                (!is_loose).then_some(id)
            }
            Phase::Collective { .. } => None,
            Phase::AddMembers(number) => {
                if self.strikes(Fault::Crash, 4) {
                    return self.cut_off(who, false);
                }
                let id = self.construct_adding(who, place, number);
                if self.strikes(Fault::Crash, 6) {
                    return self.cut_off(who, false);
                }
                if self.strikes(Fault::Crash, 6) {
                    let soon = self.random.millis(5, 300);
                    self.after(soon, Event::Crash(who));
                }
                id
            }
            Phase::Destruct {
                collective,
                timeout,
            } => {
                let is_it = |(made, _): &(Collective, usize)| *made == collective;
                self.destruct_last(who, place, is_it, timeout)
            }
            Phase::DestructAddMembers(number) => {
                let is_it = |(_, round): &(Collective, usize)| *round == FIRST_ADD_MEMBERS + number;
                let timeout = (!self.random.once_in(3)).then_some(3);
                self.destruct_last(who, place, is_it, timeout)
            }
        };
        self.clients[who].waits = waits;
        if waits.is_none() {
            self.after(Duration::from_millis(1), Event::Step(who));
        }
    }

    /// Returns the script of a job's processes.
    pub(crate) fn script_of(&self, place: ProcId) -> &[Phase] {
        let script = self.jobs[self.procs[place].job].script.as_ref();
        script.unwrap_or(&self.script)
    }

    fn call_collective(
        &mut self,
        who: Who,
        place: ProcId,
        collective: Collective,
        collects: bool,
        is_short: bool,
        timeout: Option<u32>,
    ) -> OperationId {
        let round = self.calls_collective(place, &collective, collects);
        let mut infos = Vec::new();
        if collects {
            infos.push(Info::new(keys::COLLECT_DATA, true));
        }
        if let Some(seconds) = timeout {
            infos.push(Info::new(keys::TIMEOUT, seconds));
        }
        let procs = self.named(&collective, is_short);
        let own = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let own = own.or(self.config.collective_time);
        self.say(|| format!("process {place} calls for {collective:?}, {round}"));
        let (kind, what) = (collective.kind, What::Collective(collective.clone(), round));
        match kind {
            Kind::Fence => self.ask_for(
                who,
                Request::Fence(request::Fence { procs, infos }),
                what,
                own,
            ),
            Kind::Connect => self.ask_for(
                who,
                Request::Connect(request::Connect {
                    procs,
                    infos,
                    shared: Vec::new(),
                }),
                what,
                own,
            ),
            Kind::Disconnect => self.ask_for(
                who,
                Request::Disconnect(request::Disconnect { procs, infos }),
                what,
                own,
            ),
            Kind::Group(_) => {
                infos.push(Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true));
                if collective.leader().is_some() {
                    self.hear_of_losses(who);
                }
                if collective.leader() == Some(place) {
                    infos.push(Info::new(keys::GROUP_LEADER, true));
                }
                let name = collective.group(round);
                self.host.groups.insert(name.clone(), collective.members);
                let construct = Request::GroupConstruct(request::GroupConstruct {
                    group: Some(name.into()),
                    procs,
                    infos,
                });
                self.ask_for(who, construct, what, own)
            }
            Kind::Destruct(_) => unreachable!("a process destructs a group that it is in"),
        }
    }

    /// Registers a process, with some probability, for the events that ask construct members for decisions.
    pub(crate) fn hear_of_losses(&mut self, who: Who) {
        if self.clients[who].hears_losses || self.random.once_in(6) {
            return;
        }
        self.clients[who].hears_losses = true;
        let codes = [
            Status::GROUP_INVITE_FAILED,
            Status::GROUP_LEADER_FAILED,
            Status::GROUP_LEADER_SELECTED,
            Status::GROUP_INVITED,
        ];
        // A process that a leader adds as a replacement is notified like an invited one.
        let codes = &codes[..if self.constructs.is_empty() { 3 } else { 4 }];
        self.ask_for(
            who,
            Request::RegisterEvents(request::RegisterEvents {
                codes: codes.to_vec(),
                infos: vec![],
            }),
            What::Any,
            Some(Duration::ZERO),
        );
    }

    /// Calls the destruct of the last matching group, if the process is in one.
    fn destruct_last(
        &mut self,
        who: Who,
        place: ProcId,
        is_it: impl Fn(&(Collective, usize)) -> bool,
        timeout: Option<u32>,
    ) -> Option<OperationId> {
        let groups = &mut self.clients[who].groups;
        let last = groups.iter().rposition(is_it)?;
        let (made, round) = groups.remove(last);
        let collective = Collective {
            kind: Kind::Destruct(0),
            members: made.members,
        };
        self.oracle
            .calls_destruct(place, &collective, round, self.now);
        let mut infos = Vec::new();
        if let Some(seconds) = timeout {
            infos.push(Info::new(keys::TIMEOUT, seconds));
        }
        let name = collective.group(round);
        let own = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let own = own.or(self.config.collective_time);
        self.say(|| format!("process {place} destructs {collective:?}, {round}"));
        let what = What::Collective(collective, round);
        let destruct = Request::GroupDestruct(request::GroupDestruct {
            group: Some(name.into()),
            procs: vec![],
            infos,
        });
        Some(self.ask_for(who, destruct, what, own))
    }

    /// Leaves one of the groups of a process, or one that has been destructed.
    pub(crate) fn leave_group(&mut self, who: Who, place: ProcId) -> Option<OperationId> {
        let client = &mut self.clients[who];
        let is_in = !client.groups.is_empty();
        let groups = match is_in {
            true => &mut client.groups,
            false => &mut client.destructed,
        };
        if groups.is_empty() {
            return None;
        }
        let which = self.random.below(groups.len());
        let (made, round) = groups.remove(which);
        self.say(|| format!("process {place} leaves {made:?}, {round}"));
        // From now on other members may observe the departure.
        if is_in {
            self.oracle.leaves(place, &made, round);
        }
        let name = made.group(round);
        let (what, soon) = (What::Leave(is_in), Some(Duration::ZERO));
        Some(self.ask_for(
            who,
            Request::GroupLeave(request::GroupLeave {
                group: Some(name.into()),
                infos: vec![],
            }),
            what,
            soon,
        ))
    }

    /// Returns the names of the participants: individually, or by wildcards for whole jobs.
    fn named(&self, collective: &Collective, is_short: bool) -> Vec<Proc<'static>> {
        let mut names = Vec::new();
        for job in &self.jobs {
            let all = job.first..job.first + usize::try_from(job.size()).unwrap();
            let own = collective.members.iter().filter(|proc| all.contains(proc));
            let own: Vec<_> = own.map(|proc| self.procs[*proc].name()).collect();
            match is_short && own.len() == all.len() {
                true => names.push(Proc::new(job.nspace, Rank::WILDCARD)),
                false => names.extend(own),
            }
        }
        names
    }
}
