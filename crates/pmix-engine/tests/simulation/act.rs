// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do: connect, follow the script, leave.

use std::time::Duration;

use pmix_engine::Origin;
use pmix_proto::{ClientConnection, Request, Tag, request};
use pmix_types::{Info, Proc, Rank, Status, keys};

use crate::agenda::Event;
use crate::client::{Asked, Client, What, Who, hello};
use crate::fault::Fault;
use crate::process::{Kind, Meeting, Phase, ProcId, Stamp};
use crate::world::World;

/// How often a process may live.
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

    /// A connection that says whom it belongs to.
    pub(crate) fn connect(&mut self, proc: ProcId) -> Who {
        let who = self.open(self.procs[proc].node);
        let hello = hello(self.procs[proc].name());
        self.clients[who].session = Some(ClientConnection::connect(&hello, u32::MAX).unwrap());
        self.pump(who);
        who
    }

    /// A process begins a life.
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
            // Some hosts say that a process is to come again, others leave it to the process.
            if self.random.once_in(2) {
                self.register_again(place);
            }
        }
        let who = self.connect(place);
        self.clients[who].proc = Some(place);
        self.procs[place].client = Some(who);
        self.say(|| format!("process {place} begins life {life} on connection {who}"));
    }

    /// Hands on what a client has to say.
    pub(crate) fn pump(&mut self, who: Who) {
        while let Some(bytes) = self.clients[who]
            .session
            .as_mut()
            .and_then(ClientConnection::poll_transmit)
        {
            self.send(who, bytes, true);
        }
    }

    /// Bytes reach a client.
    pub(crate) fn hear(&mut self, who: Who, bytes: &[u8]) {
        let client = &mut self.clients[who];
        let Some(session) = &mut client.session else {
            return;
        };
        let was_in = session.welcome().is_some();
        if let Err(error) = session.handle_input(bytes) {
            assert!(client.is_spoiled, "connection {who}: {error}");
            return;
        }
        let is_in = session.welcome().is_some();
        let mut may_go_on = is_in && !was_in;
        let mut leaves = false;
        while let Some(response) = session.poll_reply() {
            let asked = client.asked.remove(&response.tag);
            may_go_on |= client.waits == Some(response.tag);
            let is_done = |asked: &Asked| asked.answer.is_some_and(Status::is_success);
            match asked.as_ref().map(|asked| &asked.what) {
                Some(What::Finalize) => leaves = true,
                Some(What::Meet(meeting, round))
                    if matches!(meeting.kind, Kind::Group(_))
                        && asked.as_ref().is_some_and(is_done) =>
                {
                    client.groups.push((meeting.clone(), *round));
                }
                Some(What::Meet(meeting, round))
                    if matches!(meeting.kind, Kind::Destruct(_))
                        && asked.as_ref().is_some_and(is_done) =>
                {
                    client.taken_apart.push((meeting.clone(), *round));
                }
                Some(What::HearGroups) => {
                    client.hears_groups |= asked.as_ref().is_some_and(is_done);
                }
                _ => {}
            }
            if client.waits == Some(response.tag) {
                client.waits = None;
            }
        }
        let mut notices = Vec::new();
        while let Some(notice) = session.poll_unsolicited() {
            notices.push(notice);
        }
        if client.proc.is_none() {
            return self.leave(who);
        }
        self.hear_of_groups(who, &notices);
        if leaves {
            self.leave(who);
        } else if may_go_on {
            let pause = self.random.millis(0, 60);
            self.after(pause, Event::Step(who));
        }
    }

    /// A process closes its connection.
    pub(crate) fn leave(&mut self, who: Who) {
        if self.clients[who].is_open {
            self.say(|| format!("connection {who} is closed by its client"));
            self.clients[who].is_open = false;
            self.send_close(who, true);
            self.life_over(who);
        }
    }

    /// A life of a process is over; there may be another one.
    pub(crate) fn life_over(&mut self, who: Who) {
        let Some(place) = self.clients[who].proc else {
            return;
        };
        let proc = &mut self.procs[place];
        proc.client = None;
        let again = self.plan.has(Fault::Again) && proc.stamp.life < MAX_LIVES && !self.is_over;
        if again && !self.random.once_in(3) {
            proc.phase = self.random.below(self.script.len() + 1);
            let after = self.random.millis(1, 500);
            self.after(after, Event::Start(place));
        }
    }

    /// A process does what is next, unless it waits for something.
    pub(crate) fn step(&mut self, who: Who) {
        let client = &self.clients[who];
        let Some(place) = client
            .proc
            .filter(|_| client.is_open && client.waits.is_none())
        else {
            return;
        };
        let phase = self.procs[place].phase;
        let Some(next) = self.script.get(phase).cloned() else {
            let tag = self.ask(
                who,
                &Request::Finalize,
                What::Finalize,
                Some(Duration::from_secs(2)),
            );
            self.clients[who].waits = Some(tag);
            return;
        };
        self.procs[place].phase += 1;
        let waits = match next {
            Phase::Own => self.do_own(who, place),
            Phase::Meet {
                meeting,
                collects,
                is_short,
                timeout,
                is_loose,
            } => meeting
                .members
                .contains(&place)
                .then(|| {
                    let tag = self.meet(who, place, meeting, collects, is_short, timeout);
                    (!is_loose).then_some(tag)
                })
                .flatten(),
            Phase::TakeApart { meeting, timeout } => self.take_apart(who, place, &meeting, timeout),
        };
        self.clients[who].waits = waits;
        if waits.is_none() {
            self.after(Duration::from_millis(1), Event::Step(who));
        }
    }

    /// Sends a request; by the time it has its answer, if there is one.
    pub(crate) fn ask(
        &mut self,
        who: Who,
        request: &Request<'_>,
        what: What,
        own: Option<Duration>,
    ) -> Tag {
        let command = request.command();
        let client = &mut self.clients[who];
        let session = client.session.as_mut().unwrap();
        let tag = session.request(request, None).unwrap();
        let at = self.now;
        if command.is_answered() {
            let answer = None;
            client.asked.insert(
                tag,
                Asked {
                    command,
                    what,
                    at,
                    answer,
                },
            );
        }
        self.say(|| format!("connection {who} asks {command}, tag {tag}"));
        if let Some(own) = own {
            self.deadline_of(who, tag, own);
        }
        self.pump(who);
        tag
    }

    fn meet(
        &mut self,
        who: Who,
        place: ProcId,
        meeting: Meeting,
        collects: bool,
        is_short: bool,
        timeout: Option<u32>,
    ) -> Tag {
        let round = self.meets(place, &meeting, collects);
        let mut infos = Vec::new();
        if collects {
            infos.push(Info::new(keys::COLLECT_DATA, true));
        }
        if let Some(seconds) = timeout {
            infos.push(Info::new(keys::TIMEOUT, seconds));
        }
        let procs = self.named(&meeting, is_short);
        let request = match meeting.kind {
            Kind::Fence => Request::Fence(request::Fence { procs, infos }),
            Kind::Connect => Request::Connect(request::Connect { procs, infos }),
            Kind::Disconnect => Request::Disconnect(request::Disconnect { procs, infos }),
            Kind::Group(_) => {
                infos.push(Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true));
                let name = meeting.group(round);
                let members = meeting.members.clone();
                self.host.groups.insert(name.clone(), members);
                Request::GroupConstruct(request::GroupConstruct {
                    group: Some(name.into()),
                    procs,
                    infos,
                })
            }
            Kind::Destruct(_) => unreachable!("taken apart is what was made"),
        };
        let own = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let own = own.or(self.config.collective_time);
        self.say(|| format!("process {place} comes to {meeting:?}, {round}"));
        self.ask(who, &request, What::Meet(meeting, round), own)
    }

    /// Joins the destruction of the last group that these made, if the process is in one.
    fn take_apart(
        &mut self,
        who: Who,
        place: ProcId,
        made: &Meeting,
        timeout: Option<u32>,
    ) -> Option<Tag> {
        let groups = &mut self.clients[who].groups;
        let last = groups.iter().rposition(|(meeting, _)| meeting == made)?;
        let (made, round) = groups.remove(last);
        let meeting = Meeting {
            kind: Kind::Destruct(0),
            members: made.members,
        };
        self.oracle.calls_destruct(place, &meeting, round);
        let mut infos = Vec::new();
        if let Some(seconds) = timeout {
            infos.push(Info::new(keys::TIMEOUT, seconds));
        }
        let group = Some(meeting.group(round).into());
        let procs = vec![];
        let request = request::GroupDestruct {
            group,
            procs,
            infos,
        };
        let own = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        let own = own.or(self.config.collective_time);
        self.say(|| format!("process {place} takes apart {meeting:?}, {round}"));
        let what = What::Meet(meeting, round);
        Some(self.ask(who, &Request::GroupDestruct(request), what, own))
    }

    /// Leaves one of the groups of a process, or one that is no longer there.
    pub(crate) fn leave_group(&mut self, who: Who, place: ProcId) -> Option<Tag> {
        let client = &mut self.clients[who];
        let is_in = !client.groups.is_empty();
        let groups = match is_in {
            true => &mut client.groups,
            false => &mut client.taken_apart,
        };
        if groups.is_empty() {
            return None;
        }
        let which = self.random.below(groups.len());
        let (made, round) = groups.remove(which);
        self.say(|| format!("process {place} leaves {made:?}, {round}"));
        // From now on the others may find it gone.
        if is_in {
            self.oracle.leaves(place, &made, round);
        }
        let group = Some(made.group(round).into());
        let infos = vec![];
        let leave = Request::GroupLeave(request::GroupLeave { group, infos });
        let what = What::Leave(is_in);
        Some(self.ask(who, &leave, what, Some(Duration::ZERO)))
    }

    /// The names of those who meet: one by one, or whole jobs where they are whole.
    fn named(&self, meeting: &Meeting, is_short: bool) -> Vec<Proc<'static>> {
        let mut names = Vec::new();
        for job in &self.jobs {
            let all = job.first..job.first + usize::try_from(job.size()).unwrap();
            let own = meeting.members.iter().filter(|proc| all.contains(proc));
            let own: Vec<_> = own.map(|proc| self.procs[*proc].name()).collect();
            match is_short && own.len() == all.len() {
                true => names.push(Proc::new(job.nspace, Rank::WILDCARD)),
                false => names.extend(own),
            }
        }
        names
    }
}
