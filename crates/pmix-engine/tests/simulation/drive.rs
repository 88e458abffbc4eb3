// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver of a process's client core: passes bytes, calls and times to the core, checks its outputs and executes
//! them.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use pmix_client::driver::{Answer, Core, CoreStats, OperationId};
use pmix_client::{Decision, Error, Settings, Uri};
use pmix_proto::{Header, Hello, Request};
use pmix_types::{Info, Proc, Rank, Status, keys};

use crate::agenda;
use crate::client::{Asked, Begun, HandlerResult, Known, Saying, What, Who, hello};
use crate::fault::Fault;
use crate::invite::number_of;
use crate::oracle::groups::{Outcome, proc_in};
use crate::oracle::led::constructed;
use crate::process::{Kind, ProcId};
use crate::world::World;

/// The time limit of a server's reply to a core's statement about an invitation.
pub(crate) const SAY_TIME: Duration = Duration::from_secs(15);

impl World {
    /// Creates a core for a connection of a process.
    pub(crate) fn begin_core(&mut self, who: Who, proc: ProcId) {
        let name = self.procs[proc].name();
        let hello = hello(name.clone());
        self.begin_core_as(who, name, &hello);
    }

    /// Creates a core with a given hello.
    pub(crate) fn begin_core_as(&mut self, who: Who, name: Proc<'static>, hello: &Hello<'_>) {
        let server = Uri {
            server: Proc::new("server", Rank::new(0)),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        };
        let mut settings = Settings::new(name, server);
        settings.time_limit = Some(SAY_TIME);
        settings.max_reply_bytes = 16 << 20;
        // A core without a stated limit caches data that it did not request, and may read old values
        // (docs/decisions/0024).
        settings.max_prefetch_bytes = if self.random.once_in(2) { 1 << 16 } else { 1 };
        let time = self.time_for(Some(Duration::from_secs(3)));
        let end = time.map(|time| self.instant() + time);
        let core = Core::new(settings, hello, end).unwrap();
        let client = &mut self.clients[who];
        client.form = Some(*core.form());
        client.core = Some(core);
        self.has_begun(who, Core::INIT, What::Init, time);
        self.pump(who, None);
        self.set_limit(who);
    }

    /// Begins an operation, and schedules the check that it has a result.
    pub(crate) fn ask(
        &mut self,
        who: Who,
        what: What,
        own: Option<Duration>,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> OperationId {
        let time = self.time_for(own);
        // Messages that the core sends on its own come first.
        self.pump(who, None);
        let id = self.begin_call(who, what.clone(), time, begin);
        self.pump(who, Some((id, what, own)));
        self.settle_soon(who);
        id
    }

    /// Begins an operation with several requests.
    pub(crate) fn ask_in_steps(
        &mut self,
        who: Who,
        what: What,
        time: Duration,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> OperationId {
        let id = self.begin_call(who, what, Some(time), begin);
        self.pump(who, None);
        self.settle_soon(who);
        id
    }

    /// Sends a request that the core treats as opaque.
    pub(crate) fn request(
        &mut self,
        who: Who,
        request: &Request<'_>,
        what: What,
        own: Option<Duration>,
    ) -> OperationId {
        self.ask(who, what, own, |core, end| core.request(request, end))
    }

    /// Sends a request that a program may make.
    pub(crate) fn ask_for(
        &mut self,
        who: Who,
        request: Request<'_>,
        what: What,
        own: Option<Duration>,
    ) -> OperationId {
        self.ask(who, what, own, |core, end| core.call(request, end))
    }

    fn begin_call(
        &mut self,
        who: Who,
        what: What,
        time: Option<Duration>,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> OperationId {
        let end = time.map(|time| self.instant() + time);
        let core = self.clients[who].core.as_mut().expect("a live client");
        let id = begin(core, end).expect("a core that is not lost");
        self.say(|| format!("connection {who} begins {id}: {what:?} within {time:?}"));
        self.has_begun(who, id, what, time);
        id
    }

    fn has_begun(&mut self, who: Who, id: OperationId, what: What, time: Option<Duration>) {
        let grace = match what {
            What::Lead(_) => SAY_TIME,
            _ => Duration::ZERO,
        };
        let end = time.map(|time| self.now + time);
        if let Some(time) = time {
            let after = time + grace + Duration::from_millis(1);
            self.after(after, agenda::Event::Overdue(who, id));
        }
        if self.strikes(Fault::Haste, 20) {
            let after = self.random.millis(0, 2000);
            self.after(after, agenda::Event::Cancel(who, id));
        }
        let begun = Begun {
            what,
            tag: None,
            end,
            is_cancelled: false,
        };
        let before = self.clients[who].begun.insert(id, begun);
        assert!(before.is_none(), "connection {who}: {id} begins twice");
    }

    /// Returns the time limit of an operation that its server answers within `own`.
    fn time_for(&mut self, own: Option<Duration>) -> Option<Duration> {
        if self.strikes(Fault::Haste, 10) {
            return Some(self.random.millis(0, 3000));
        }
        let own = own.unwrap_or(Duration::from_secs(20));
        (!self.random.once_in(10)).then(|| self.deadline(own) + Duration::from_secs(5))
    }

    /// Sends the messages of a core: those of an operation, or its own.
    fn pump(&mut self, who: Who, mut of: Option<(OperationId, What, Option<Duration>)>) {
        while let Some(bytes) = self.clients[who]
            .core
            .as_mut()
            .and_then(Core::poll_transmit)
        {
            self.sent(who, &bytes, of.take());
            self.send(who, bytes, true);
        }
    }

    fn sent(&mut self, who: Who, bytes: &[u8], of: Option<(OperationId, What, Option<Duration>)>) {
        let (head, payload) = bytes.split_first_chunk::<{ Header::LEN }>().unwrap();
        let tag = Header::decode(head).tag;
        if !tag.is_request() {
            return;
        }
        let form = self.clients[who].form;
        let request = Request::decode(form.as_ref().unwrap(), None, payload).unwrap();
        let command = request.command();
        let is_init = self.clients[who].begun.contains_key(&Core::INIT);
        let of = of.or_else(|| is_init.then_some((Core::INIT, What::Init, Some(Duration::ZERO))));
        let (what, own) = match of {
            Some((id, what, own)) => {
                let begun = self.clients[who].begun.get_mut(&id);
                let before = begun.expect("what has begun").tag.replace(tag);
                assert_eq!(before, None, "{id} asks twice");
                (what, own)
            }
            None => (self.by_itself(&request), Some(Duration::ZERO)),
        };
        let client = &mut self.clients[who];
        let asked = Asked {
            command,
            what: what.clone(),
            at: self.now,
            answer: None,
            values: Vec::new(),
        };
        let before = client.asked.insert(tag, asked);
        assert!(before.is_none(), "connection {who} uses tag {tag} twice");
        self.say(|| format!("connection {who} asks {command}, tag {tag}: {what:?}"));
        if let What::Invitation(number, saying) = what {
            self.says_of_invitation(who, number, saying);
        }
        if let Some(own) = own {
            self.deadline_of(who, tag, own);
        }
    }

    /// Passes received bytes to a core.
    pub(crate) fn hear(&mut self, who: Who, bytes: &[u8]) {
        let now = self.instant();
        if let Some(core) = &mut self.clients[who].core {
            let before = core.stats().num_events;
            core.handle_input(bytes, now);
            if core.stats().num_events > before {
                self.note_known(who);
            }
            self.settle(who);
        }
    }

    /// Runs the expired timers of a core.
    pub(crate) fn limit(&mut self, who: Who) {
        let now = self.instant();
        let client = &mut self.clients[who];
        client.alarm = None;
        if let Some(core) = &mut client.core {
            core.handle_timeout(now);
            self.settle(who);
        }
    }

    /// Cancels an operation of a process.
    pub(crate) fn cancel(&mut self, who: Who, id: OperationId) {
        let now = self.instant();
        let client = &mut self.clients[who];
        if let (Some(begun), Some(core)) = (client.begun.get_mut(&id), &mut client.core) {
            begun.is_cancelled = true;
            core.cancel(id, now);
            self.say(|| format!("connection {who} cancels {id}"));
            self.settle(who);
        }
    }

    /// Schedules the processing of results that a call produced at once, after the caller has returned.
    fn settle_soon(&mut self, who: Who) {
        let core = self.clients[who].core.as_ref();
        if core.is_some_and(|core| core.stats().num_completed > 0) {
            self.after(Duration::ZERO, agenda::Event::Limit(who));
        }
        self.set_limit(who);
    }

    fn set_limit(&mut self, who: Who) {
        let now = self.instant();
        let client = &mut self.clients[who];
        let Some(at) = client.core.as_ref().and_then(Core::poll_timeout) else {
            return;
        };
        let after = at.saturating_duration_since(now);
        let at = self.now + after;
        if client.alarm.is_none_or(|known| at < known) {
            client.alarm = Some(at);
            self.after(after, agenda::Event::Limit(who));
        }
    }

    /// Processes the results of a core; then its process continues or leaves.
    fn settle(&mut self, who: Who) {
        let (may_go_on, leaves) = self.take_completed(who);
        if !self.clients[who].is_member() {
            return self.leave(who);
        }
        // A program may be busy when an event arrives.
        match self.random.once_in(4) {
            true => {
                let later = self.random.millis(1, 200);
                self.after(later, agenda::Event::Listen(who));
            }
            false => self.take_events(who),
        }
        self.pump(who, None);
        self.check_held(who);
        let client = &self.clients[who];
        let Some(core) = &client.core else {
            return;
        };
        if let Some(error) = core.lost() {
            let has_reason = client.is_lied_to || client.is_spoiled || !client.has_begun;
            assert!(has_reason, "connection {who} is given up: {error}");
            return self.leave(who);
        }
        if leaves {
            return self.leave(who);
        }
        self.settle_soon(who);
        if may_go_on {
            let pause = self.random.millis(0, 60);
            self.after(pause, agenda::Event::Step(who));
        }
    }

    /// Processes the completed operations. Returns `true` if the process continues, and `true` if it leaves.
    fn take_completed(&mut self, who: Who) -> (bool, bool) {
        let (mut may_go_on, mut leaves, mut is_news) = (false, false, false);
        while let Some((id, outcome)) = self.clients[who]
            .core
            .as_mut()
            .and_then(Core::poll_completed)
        {
            let begun = self.clients[who].begun.remove(&id);
            let begun = begun.unwrap_or_else(|| panic!("connection {who}: {id} ends twice"));
            self.say(|| format!("connection {who}: {id} ends: {:?}", status(&outcome)));
            self.check_completed(who, id, &begun, &outcome);
            let client = &mut self.clients[who];
            is_news |= begun.tag.is_some() && !matches!(begun.what, What::Get(..));
            if client.waits == Some(id) {
                client.waits = None;
                may_go_on = true;
            }
            match begun.what {
                What::Init if outcome.is_ok() => {
                    client.has_begun = true;
                    may_go_on = true;
                }
                What::Finalize => leaves = true,
                What::Collective(collective, round) if outcome.is_ok() => match collective.kind {
                    Kind::Group(_) => client.groups.push((collective, round)),
                    Kind::Destruct(_) => client.destructed.push((collective, round)),
                    _ => {}
                },
                What::AddMembers(number) => {
                    if let Ok(Answer::Group(group)) = &outcome {
                        self.is_in_constructed(who, number, &group.members);
                    }
                }
                What::HearInvitations => client.hears_invitations |= outcome.is_ok(),
                What::Lead(number) => self.led(who, number, outcome.is_ok()),
                What::Join(number) => {
                    if outcome.is_err() {
                        self.oracle.invitations[number].given_up.insert(who);
                    }
                    self.led(who, number, outcome.is_ok());
                }
                What::Spawn(number) if outcome.is_ok() => self.has_spawned(who, number),
                What::Pull(nspace) => {
                    if let Ok(Answer::Pulled(number)) = outcome {
                        self.oracle.pulls.push((who, number, nspace));
                    }
                }
                _ => {}
            }
        }
        if is_news {
            self.note_known(who);
        }
        (may_go_on, leaves)
    }

    /// Records the end of an invitation for its leader.
    fn led(&mut self, who: Who, number: usize, is_formed: bool) {
        let core = self.clients[who].core.as_ref();
        let own = self.clients[who].proc;
        if let Some(own) = own.filter(|_| core.is_some_and(|core| core.lost().is_none())) {
            let end = match is_formed {
                true => Outcome::Complete,
                false => Outcome::Aborted,
            };
            let invitation = &mut self.oracle.invitations[number];
            if invitation.leads.contains_key(&own) {
                invitation.end.entry(own).or_insert(end);
            }
        }
    }

    /// Processes the events that arrived while a program was busy.
    pub(crate) fn listen(&mut self, who: Who) {
        if self.clients[who].is_member() {
            self.take_events(who);
            self.pump(who, None);
            self.settle_soon(who);
        }
    }

    fn take_events(&mut self, who: Who) {
        let now = self.instant();
        while let Some(event) = self.clients[who].core.as_mut().and_then(Core::poll_event) {
            self.check_handed_out(who, &event);
            let number = number_of(&event.infos);
            let client = &self.clients[who];
            let is_lost = client
                .core
                .as_ref()
                .is_none_or(|core| core.lost().is_some());
            let may_answer = client.is_live() && !client.is_lied_to && !is_lost;
            if may_answer {
                self.is_added(who, &event);
            }
            if let Some(number) = number.filter(|_| may_answer)
                && event.status == Status::GROUP_INVITED
            {
                self.answer_invitation(who, number);
            }
        }
        while let Some(output) = self.clients[who].core.as_mut().and_then(Core::poll_output) {
            self.check_output(who, &output);
        }
        while let Some((question, event)) = self.clients[who]
            .core
            .as_mut()
            .and_then(Core::poll_question)
        {
            // Some programs do not decide in time.
            if constructed(&event.infos).is_some() && self.random.once_in(4) {
                self.say(|| format!("connection {who} does not decide after {}", event.status));
                continue;
            }
            let decision = self.decision(who, &event);
            self.note_decision(&event, decision.as_ref());
            self.say(|| {
                format!(
                    "connection {who} decides {decision:?} after {}",
                    event.status
                )
            });
            if let Some(core) = &mut self.clients[who].core {
                let is_lost = core.lost().is_some();
                let decided = core.decide(&question, decision, now);
                assert!(is_lost || decided.is_ok(), "{decided:?}");
            }
        }
    }

    /// Returns a program's decision after the loss of an invited process or of the leader.
    fn decision(&mut self, who: Who, event: &pmix_proto::Event<'_>) -> Option<Decision> {
        let is_leader = event.status == Status::GROUP_LEADER_FAILED;
        if constructed(&event.infos).is_some() {
            return self.construct_decision(who, event);
        }
        match (self.random.below(8), is_leader) {
            (0..3, true) => Some(Decision::Lead),
            (0..2, false) => Some(Decision::GoOnWithout),
            (2, false) => {
                let number = number_of(&event.infos)?;
                let invitation = &self.oracle.invitations[number];
                let is_new = |place: &ProcId| {
                    self.jobs[self.procs[*place].job].is_begun
                        && *place != invitation.leader
                        && !invitation.invited.contains(place)
                };
                let new = (0..self.procs.len()).find(is_new)?;
                let invitation = &mut self.oracle.invitations[number];
                invitation.invited.push(new);
                Some(Decision::Invite(vec![self.procs[new].name()]))
            }
            (3, _) => Some(Decision::Abort),
            _ => None,
        }
    }

    /// Classifies a request that a core makes on its own.
    fn by_itself(&self, request: &Request<'_>) -> What {
        let notify = match request {
            Request::RegisterEvents(_) => return What::HearGroups,
            // The core leaves a group that was formed too late.
            Request::GroupLeave(_) => return What::Any,
            Request::Notify(notify) => notify,
            other => panic!("a core sends {} without an operation", other.command()),
        };
        let infos = &notify.infos;
        let about = proc_in(infos, keys::EVENT_AFFECTED_PROC);
        let about = about.and_then(|name| self.place_of(&name));
        if let Some(name) = constructed(infos) {
            // A process with corrupted input may report any process.
            return about.map_or(What::Any, |about| {
                What::Decision(name, about, handler_result(notify.status, infos))
            });
        }
        let number = number_of(infos).expect("an invitation");
        let saying = match (notify.status, about) {
            (Status::GROUP_INVITED, _) => Saying::Invite,
            (Status::GROUP_INVITE_ACCEPTED, _) => {
                let to = proc_in(infos, keys::EVENT_CUSTOM_RANGE);
                let to = to.and_then(|name| self.place_of(&name));
                Saying::Accept(to.expect("a leader"))
            }
            (Status::GROUP_INVITE_DECLINED, _) => Saying::Decline,
            (Status::GROUP_CONSTRUCT_COMPLETE, _) => Saying::Complete,
            (Status::GROUP_CONSTRUCT_ABORT, None) => Saying::Abort,
            (Status::GROUP_CONSTRUCT_ABORT, Some(old)) => Saying::GiveUp(old),
            (Status::GROUP_LEADER_FAILED, Some(old)) => {
                let leads = infos.iter().any(|info| info.key.is(keys::GROUP_LEADER));
                match leads {
                    true => Saying::Lead(old),
                    false => Saying::Follow,
                }
            }
            (status, _) => panic!("a core notifies {status} without an operation"),
        };
        What::Invitation(number, saying)
    }

    /// Records the data guaranteed after a message other than the reply to a get.
    fn note_known(&mut self, who: Who) {
        let known = (0..self.procs.len()).map(|of| {
            let is_local = self.procs[of].node == self.clients[who].node;
            Known {
                floor: self.floor(who, of),
                first_life: match is_local {
                    true => self.procs[of].floor,
                    false => self.first_life(who, of),
                },
            }
        });
        self.clients[who].known = known.collect();
    }

    /// Ends a connection: all operations end and the core is removed.
    pub(crate) fn lose(&mut self, who: Who) {
        let Some(core) = &mut self.clients[who].core else {
            return;
        };
        core.handle_closed(ErrorKind::BrokenPipe.into());
        self.take_completed(who);
        self.take_events(who);
        let client = &mut self.clients[who];
        client.waits = None;
        let mut core = client.core.take().unwrap();
        let begun = &client.begun;
        assert!(begun.is_empty(), "connection {who}: {begun:?} does not end");
        while core.poll_event().is_some() {}
        while core.poll_output().is_some() {}
        while core.poll_question().is_some() {}
        assert_eq!(
            core.stats(),
            CoreStats::default(),
            "state left by connection {who}"
        );
        assert_eq!(core.poll_timeout(), None);
        assert_eq!(core.poll_transmit(), None);
    }
}

/// Returns the decision in a core's event about a construct.
fn handler_result(status: Status, infos: &[Info<'_>]) -> HandlerResult {
    let says = |key: &str| infos.iter().any(|info| info.key.is(key));
    match status {
        Status::GROUP_CONSTRUCT_ABORT => HandlerResult::Abort,
        Status::GROUP_LEADER_FAILED if says(keys::GROUP_LEADER) => HandlerResult::Lead,
        Status::GROUP_LEADER_FAILED => HandlerResult::Follow,
        Status::GROUP_INVITE_FAILED
            if says(keys::GROUP_OPTIONAL) || says(keys::GROUP_ADD_MEMBERS) =>
        {
            HandlerResult::GoOn
        }
        Status::GROUP_INVITE_FAILED => HandlerResult::End,
        status => panic!("a core notifies {status} without an operation"),
    }
}

fn status(outcome: &Result<Answer, Error>) -> Status {
    match outcome {
        Ok(_) => Status::SUCCESS,
        Err(error) => error.status(),
    }
}
