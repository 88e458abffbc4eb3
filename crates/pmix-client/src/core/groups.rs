// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: collectives, which are requests, and invitations, which are events.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

use std::time::{Duration, Instant};

use pmix_proto::{Command, Event, Request, reply, request};
use pmix_types::{
    DataArray, DataRange, Info, IntoOwned as _, Measure, Proc, Rank, Status, Text, Value, keys,
};

use super::operation::{Answer, OperationId, Requester, Waiting};
use super::{ACKNOWLEDGMENT_TIME, Core};
use crate::group::{
    Decision, EVENT_CODES, EXIT_CODES, OpId, Question, Step, check_name, ended_here, invitation,
    is_without_host_events,
};
use crate::known::Known;
use crate::{Error, Group};

/// The time for which a joining process waits for a new leader after its leader is lost. Servers of this project select
/// one within 5 s, or twice that; those of other implementations never do.
const CHOICE_TIME: Duration = Duration::from_secs(30);

/// Returns a request about groups in the form that the server expects, or `None` if that is the form of the request:
/// with members in place of the names of groups, unless the server replaces them, and with the changes of 6.0 and 7.0.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` for a rank that no member of the group has.
pub(super) fn adapted<'r>(
    known: &Known,
    request: &Request<'r>,
) -> Result<Option<Request<'r>>, Error> {
    let major = known.server_major();
    if let Request::GroupConstruct(construct) = request {
        check_caller(known, construct)?;
    }
    let procs: &[Proc<'_>] = match request {
        Request::GroupConstruct(construct) if major >= 6 => {
            return Ok(names_sharer(known.proc(), construct));
        }
        Request::GroupLeave(leave) if major >= 7 => {
            return left(known, leave).map(Some);
        }
        Request::Fence(request::Fence { procs, .. })
        | Request::Connect(request::Connect { procs, .. })
        | Request::Disconnect(request::Disconnect { procs, .. }) => procs,
        Request::Notify(event) => targets(&event.infos).map_or(&[], |(_, procs)| procs),
        _ => return Ok(None),
    };
    let Some(resolved) = known.resolved(procs)? else {
        return Ok(None);
    };
    let mut request = request.clone();
    match &mut request {
        Request::Fence(request::Fence { procs, .. })
        | Request::Connect(request::Connect { procs, .. })
        | Request::Disconnect(request::Disconnect { procs, .. }) => *procs = resolved,
        Request::Notify(event) => {
            if let Some((place, _)) = targets(&event.infos)
                && let Some(info) = event.infos.get_mut(place)
            {
                info.value = Value::from(resolved);
            }
        }
        _ => {}
    }
    Ok(Some(request))
}

/// Checks that the caller of a construct is among its members. A server of OpenPMIx does not reply to others.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_A_MEMBER` if it is not.
fn check_caller(known: &Known, construct: &request::GroupConstruct<'_>) -> Result<(), Error> {
    let own = known.proc();
    let is_own = |proc: &Proc<'_>| {
        proc.nspace == own.nspace && (proc.rank == own.rank || proc.rank == Rank::WILDCARD)
    };
    let names_group = |proc: &Proc<'_>| known.groups().has(proc.nspace.as_bytes());
    // Other processes may add the caller, or not know each other.
    let is_open = |info: &Info<'_>| {
        info.key.is(keys::GROUP_ADD_MEMBERS) || info.key.is(keys::GROUP_BOOTSTRAP)
    };
    let mut procs = construct.procs.iter();
    if construct.procs.is_empty()
        || construct.infos.iter().any(is_open)
        || procs.any(|proc| is_own(proc) || names_group(proc))
    {
        return Ok(());
    }
    let name = construct.group.clone().unwrap_or_default();
    let message = format!("this process is not among the members of {name}");
    Err(Error::new(Status::ERR_NOT_A_MEMBER, message))
}

/// Puts the name of this process before the infos that it shares with the members (`PMIX_GROUP_INFO`). Servers since 6.0
/// refuse infos without a name. Returns `None` if nothing is shared.
fn names_sharer<'r>(
    own: &Proc<'static>,
    construct: &request::GroupConstruct<'r>,
) -> Option<Request<'r>> {
    let is_unnamed = |info: &Info<'_>| match &info.value {
        Value::DataArray(DataArray::Info(infos)) if info.key.is(keys::GROUP_INFO) => infos
            .first()
            .is_some_and(|first| !matches!(first.value, Value::Proc(_))),
        _ => false,
    };
    if !construct.infos.iter().any(is_unnamed) {
        return None;
    }
    let mut construct = construct.clone();
    for info in construct.infos.iter_mut().filter(|info| is_unnamed(info)) {
        if let Value::DataArray(DataArray::Info(infos)) = &mut info.value {
            infos.insert(0, Info::new(keys::PROCID, own.clone()));
        }
    }
    Some(Request::GroupConstruct(construct))
}

/// Returns the event by which a process leaves a group since 7.0, whose servers have no request for it.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` if this process is in no such group.
fn left<'r>(known: &Known, leave: &request::GroupLeave<'r>) -> Result<Request<'r>, Error> {
    let own = known.proc();
    let name = leave.group.clone();
    let members = { name.as_ref() }.map(|name| known.groups().members(name));
    let mut others = members.unwrap_or_default();
    if !others.contains(own) {
        let name = name.unwrap_or_default();
        let message = format!("this process is not in a group {name}");
        return Err(Error::new(Status::ERR_NOT_FOUND, message));
    }
    others.retain(|member| member != own);
    let mut infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, others),
        Info::new(keys::EVENT_AFFECTED_PROC, own.clone()),
        Info::new(keys::GROUP_ID, Value::String(name)),
    ];
    infos.extend(leave.infos.iter().cloned());
    Ok(Request::Notify(request::Notify {
        status: Status::GROUP_LEFT,
        range: DataRange::CUSTOM,
        infos,
    }))
}

/// Returns the custom range of an event and the index of its info.
fn targets<'i>(infos: &'i [Info<'_>]) -> Option<(usize, &'i [Proc<'i>])> {
    let of_range = |info: &Info<'_>| info.key.is(keys::EVENT_CUSTOM_RANGE);
    let place = infos.iter().position(of_range)?;
    match &infos.get(place)?.value {
        Value::Proc(proc) => Some((place, std::slice::from_ref(proc))),
        Value::DataArray(DataArray::Proc(procs)) => Some((place, procs)),
        _ => None,
    }
}

/// The state of the registration for the events of invitations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventRegistration {
    None,
    Requested,
    Done,
}

impl Core {
    /// Invites processes as [`Client::group_invite`](crate::Client::group_invite) (`PMIx_Group_invite`):
    /// [`Answer::Group`]. The list has single processes only; `pmix.job.size` is the number of those in a whole job.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit), and `PMIX_ERR_BAD_PARAM` for an invalid name or list.
    pub fn invite(
        &mut self,
        name: Text<'static>,
        procs: Vec<Proc<'static>>,
        infos: &[Info<'_>],
        end: Option<Instant>,
        now: Instant,
    ) -> Result<OperationId, Error> {
        self.check_begun()?;
        if procs
            .iter()
            .any(|proc| !proc.rank.is_valid() || proc.rank == Rank::WILDCARD)
        {
            let message = "invited processes must be listed individually";
            return Err(Error::new(Status::ERR_BAD_PARAM, message));
        }
        let of = self.groups.invite(&name, procs, infos, end)?;
        Ok(self.begin_group(of, end, now))
    }

    /// Accepts an invitation as [`Client::group_join`](crate::Client::group_join) (`PMIx_Group_join`):
    /// [`Answer::Group`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit), `PMIX_ERR_BAD_PARAM` for an invalid name or leader,
    /// `PMIX_ERR_NOT_FOUND` without a leader and without a received invitation, and `PMIX_ERR_NOT_SUPPORTED` for a
    /// required directive that is not supported.
    pub fn join(
        &mut self,
        name: Text<'static>,
        leader: Option<&Proc<'_>>,
        infos: &[Info<'_>],
        end: Option<Instant>,
        now: Instant,
    ) -> Result<OperationId, Error> {
        self.check_begun()?;
        let leader = self.leader_of(&name, leader)?;
        let of = self.groups.join(&name, &leader, infos, end)?;
        Ok(self.begin_group(of, end, now))
    }

    /// Declines an invitation as [`Client::group_decline`](crate::Client::group_decline) (`PMIx_Group_join`):
    /// [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit) and of [`join`](Self::join).
    pub fn decline(
        &mut self,
        name: &Text<'static>,
        leader: Option<&Proc<'_>>,
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        check_name(name)?;
        let leader = self.leader_of(name, leader)?;
        self.groups.declined(name, &leader);
        let declined = invitation(Status::GROUP_INVITE_DECLINED, name, &leader);
        self.call(Request::Notify(declined), end)
    }

    /// Returns `leader` if given, else the leader that has invited this process to a group of this name.
    pub(crate) fn leader_of(
        &self,
        name: &Text<'_>,
        leader: Option<&Proc<'_>>,
    ) -> Result<Proc<'static>, Error> {
        match leader {
            Some(leader) => Ok(leader.clone().into_owned()),
            None => self.groups.leader_of(name),
        }
    }

    /// Answers a question about a group. Without a decision, the directives of the invitation apply.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a [`Decision::Invite`] with an empty list, with a rank that is no process, or
    /// with a process that was invited before. The question remains open then.
    pub fn decide(
        &mut self,
        question: &Question,
        decision: Option<Decision>,
        now: Instant,
    ) -> Result<(), Error> {
        if let Some(decision) = &decision {
            self.groups.check(question, decision)?;
        }
        if let Some(report) = question.report(decision.as_ref()) {
            return self.send(&Request::Notify(report)).map(drop);
        }
        self.groups.decide(question, decision);
        self.advance_groups(now);
        Ok(())
    }

    /// Aborts invitations and joins as [`Client::group_abort`](crate::Client::group_abort). Returns `true` if there were
    /// any.
    pub fn abort_group(&mut self, name: &Text<'_>, now: Instant) -> bool {
        if self.event_registration == EventRegistration::Done {
            let is_any = self.groups.abort_named(name);
            self.advance_groups(now);
            return is_any;
        }
        // Nothing was sent before the registration is acknowledged, so no other process has to be notified.
        let of = self.groups.named(name);
        for of in &of {
            if let Some(id) = self.operations.of_group(*of) {
                self.give_up(id, *of, ended_here(name));
            }
        }
        !of.is_empty()
    }

    fn check_begun(&self) -> Result<(), Error> {
        match (self.lost(), self.known.cache()) {
            (Some(error), _) => Err(error.clone()),
            _ if self.is_singleton() => Err(Error::no_server()),
            (None, None) => Err(Error::not_begun()),
            (None, Some(_)) => Ok(()),
        }
    }

    fn begin_group(&mut self, of: OpId, end: Option<Instant>, now: Instant) -> OperationId {
        let id = self.operations.begin(Waiting::Group(of), end);
        self.advance_groups(now);
        id
    }

    /// Handles an event. Returns `true` if the program must not receive it.
    pub(super) fn handle_group_event(&mut self, event: &Event<'static>, now: Instant) -> bool {
        // A later join may omit its leader, so an invitation is recorded even if no operation waits for it.
        self.groups.record_invitation(event);
        self.groups
            .handle_exit(event, self.settings.selects_leaders);
        let is_needed = self.groups.needs(event);
        if is_needed && event.status == Status::GROUP_CONSTRUCT_COMPLETE {
            self.store_endpoints(&event.infos);
        }
        let is_taken = is_needed && self.groups.handle_event(event);
        if event.status == Status::GROUP_LEADER_FAILED {
            // The state machine has no clock, so the wait for a new leader gets its end here.
            self.groups.choose_by(now.checked_add(CHOICE_TIME));
        }
        self.advance_groups(now);
        is_taken || self.queue_construct_question(event)
    }

    /// Queues a question to the program if an event is about an open construct.
    fn queue_construct_question(&mut self, event: &Event<'static>) -> bool {
        let constructs = |name: &Text<'_>| self.operations.constructs(name);
        let question = Question::of_construct(event, constructs);
        match question {
            Some(question) if self.unsolicited.has_room_for_question(event) => {
                match event.try_clone() {
                    Ok(event) => {
                        self.unsolicited.keep_question(question, event);
                        true
                    }
                    // Without memory for the copy, the program gets the event itself.
                    Err(_) => false,
                }
            }
            _ => false,
        }
    }

    /// Handles the outcome of a request that an invitation has sent.
    pub(super) fn handle_group_reply(&mut self, requester: Requester, outcome: Result<(), Error>) {
        match (requester, outcome) {
            (Requester::GroupEvent(of), outcome) => self.groups.sent(of, outcome),
            (Requester::ContextId(of), Ok(())) => self.groups.assigned(of, Ok(None)),
            (Requester::ContextId(of), Err(error)) => self.groups.assigned(of, Err(error)),
            // The context id is valid even if the destruct of the temporary group failed.
            (Requester::TemporaryGroup(of, id), _) => self.groups.assigned(of, Ok(id)),
            (Requester::EventRegistration, Err(error)) if !is_without_host_events(&error) => {
                self.event_registration = EventRegistration::None;
                self.groups.fail(&error);
                self.end_groups();
            }
            (Requester::EventRegistration, _) => self.event_registration = EventRegistration::Done,
            (Requester::Operation(_), _) => {}
        }
    }

    /// Handles the time limit of an invitation or acceptance.
    pub(super) fn handle_late_group(&mut self, id: OperationId, of: OpId, now: Instant) {
        if self.event_registration == EventRegistration::Done {
            return self.groups.tick(now);
        }
        let late = Waiting::Group(of).late();
        self.give_up(id, of, late);
    }

    /// Ends an invitation or acceptance.
    pub(super) fn give_up(&mut self, id: OperationId, of: OpId, error: Error) {
        if self.event_registration == EventRegistration::Done {
            return self.groups.cancel(of, error);
        }
        // No event was sent, so no process has to be notified.
        self.groups.give_up(of);
        self.operations.complete(id, Err(error));
    }

    /// Completes the operations of ended invitations without sending messages.
    pub(super) fn end_groups(&mut self) {
        while let Some(step) = self.groups.poll() {
            if let Step::End(of, outcome) = step {
                self.end_group(of, outcome);
            }
        }
    }

    fn end_group(&mut self, of: OpId, outcome: Result<Group, Error>) {
        let outcome = outcome.map(|group| self.known.groups().insert(group));
        if let Some(id) = self.operations.of_group(of) {
            self.operations.complete(id, outcome.map(Answer::Group));
        }
    }

    /// Sends the next messages of invitations, once the registration for their events is acknowledged. An earlier
    /// invitation could miss an answer.
    pub(super) fn advance_groups(&mut self, now: Instant) {
        if self.event_registration == EventRegistration::None && self.groups.num_open() > 0 {
            let (codes, infos) = ([&EVENT_CODES[..], &EXIT_CODES].concat(), Vec::new());
            let register = request::RegisterEvents { codes, infos };
            match self.send(&Request::RegisterEvents(register)) {
                Ok(tag) => {
                    self.event_registration = EventRegistration::Requested;
                    self.operations.expect(
                        tag,
                        Requester::EventRegistration,
                        self.acknowledgment_end(now),
                    );
                }
                Err(error) => {
                    self.groups.fail(&error);
                    self.end_groups();
                }
            }
        }
        while self.event_registration == EventRegistration::Done
            && let Some(step) = self.groups.poll()
        {
            self.take_step(step, now);
        }
    }

    /// Returns `true` if the operations on groups have registered for an event.
    pub(super) fn needs_event(&self, code: Status) -> bool {
        self.event_registration != EventRegistration::None
            && (EVENT_CODES.contains(&code) || EXIT_CODES.contains(&code))
    }

    /// Requests a context id by the construct of a temporary group with this process as the only member.
    fn request_context_id(&mut self, of: OpId, name: Text<'static>, now: Instant) {
        let assign = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
        let construct = Request::GroupConstruct(request::GroupConstruct {
            group: Some(name),
            procs: vec![self.settings.proc.clone()],
            infos: vec![assign],
        });
        self.expect_group(&construct, Requester::ContextId(of), now);
    }

    /// Stores the context id of the temporary group, and destructs the group.
    pub(super) fn context_assigned(&mut self, of: OpId, payload: &[u8], now: Instant) {
        let made = reply::Group::decode(&self.form, None, payload).map_err(Error::from);
        let name = self.groups.name(of).cloned().unwrap_or_default();
        let made = made.and_then(|made| Group::constructed(name, made, Command::GROUP_CONSTRUCT));
        match made {
            Err(error) => self.groups.assigned(of, Err(error)),
            Ok(group) => {
                // The host must not keep the temporary group under the name of the group that is formed.
                let destruct = Request::GroupDestruct(request::GroupDestruct {
                    group: Some(group.name),
                    procs: vec![self.settings.proc.clone()],
                    infos: Vec::new(),
                });
                let id = group.context_id;
                self.expect_group(&destruct, Requester::TemporaryGroup(of, id), now);
            }
        }
    }

    fn expect_group(&mut self, request: &Request<'_>, requester: Requester, now: Instant) {
        match self.send(request) {
            Ok(tag) => self
                .operations
                .expect(tag, requester, self.acknowledgment_end(now)),
            Err(error) => self.handle_group_reply(requester, Err(error)),
        }
    }

    fn take_step(&mut self, step: Step, now: Instant) {
        match step {
            Step::Context(of, name) => self.request_context_id(of, name, now),
            Step::Notify(of, mut event) => {
                self.add_endpoints(&mut event);
                match (self.send(&Request::Notify(event)), of) {
                    (Ok(tag), Some(of)) => {
                        let end = self.acknowledgment_end(now);
                        self.operations.expect(tag, Requester::GroupEvent(of), end);
                    }
                    (Err(error), Some(of)) => self.groups.sent(of, Err(error)),
                    // No operation depends on this event.
                    (_, None) => {}
                }
            }
            // The server removes a lost member from the group itself, so an error has no consequence.
            Step::Leave(name) => {
                let (group, infos) = (Some(name), Vec::new());
                let leave = Request::GroupLeave(request::GroupLeave { group, infos });
                if let Err(error) = self.send_unanswered(&leave) {
                    tracing::debug!("cannot leave a group after giving it up: {error}");
                }
            }
            Step::Question(question, event) => match self.unsolicited.has_room_for_question(&event)
            {
                true => self.unsolicited.keep_question(question, event),
                false => self.groups.decide(&question, None),
            },
            // The event did not arrive from the server, so it has no size on the wire, but it may list many processes.
            Step::Deliver(event) => {
                let bytes = event.measure(Measure::All);
                self.unsolicited.keep_event(event, bytes);
            }
            Step::End(of, outcome) => self.end_group(of, outcome),
        }
    }

    /// Adds the endpoint data of this process to its acceptance of an invitation, or as the leader to the announcement
    /// of the group, which then has those of all members. Clients before 7.0 ignore them.
    fn add_endpoints(&self, event: &mut request::Notify<'static>) {
        let announces = event.status == Status::GROUP_CONSTRUCT_COMPLETE;
        if !announces && event.status != Status::GROUP_INVITE_ACCEPTED {
            return;
        }
        event.infos.extend(self.known.endpoints());
        // The leader does not receive its own announcement.
        if announces {
            self.store_endpoints(&event.infos);
        }
    }

    /// Stores the endpoint data of the members of a group. Without memory for them, a get requests them.
    fn store_endpoints(&self, infos: &[Info<'_>]) {
        if let Err(error) = self.known.store_endpoints(infos) {
            tracing::warn!("cannot store the endpoint data of a group: {error}");
        }
    }

    /// Returns the time limit for the acknowledgment of an event of an invitation.
    fn acknowledgment_end(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.settings.time_limit.unwrap_or(ACKNOWLEDGMENT_TIME))
    }
}
