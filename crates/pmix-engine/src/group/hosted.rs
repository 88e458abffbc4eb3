// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invitations that this server runs for their leader: since 7.0 `PMIx_Group_invite` and `PMIx_Group_join` are requests.
//! Libraries of earlier releases collect the answers themselves.
//!
//! | state | event | next state | events that follow |
//! | --- | --- | --- | --- |
//! | none | GROUP_INVITE | waiting | `INVITED` |
//! | waiting | an answer or loss, others are missing | waiting | none |
//! | waiting | the last answer or the time limit; not all have accepted, and the group is not optional | none | `CONSTRUCT_ABORT` |
//! | waiting | the last answer or the time limit | none | `INVITE_FAILED` for each missing process, `CONSTRUCT_COMPLETE` |
//! | waiting | the same, and the group should have a context id | assigning | `INVITE_FAILED` for each missing process |
//! | assigning | the reply of the host | none | `CONSTRUCT_COMPLETE` |
//! | any | the leader is lost | none | those of `invitation` |
//!
//! The answers travel as events, as between earlier releases, so the leader and the processes may have different
//! libraries and servers.
//!
//! Source: OpenPMIx 7.0, the page "Group Construction, Destruction, and Fault Tolerance" of its documentation.

pub(super) mod table;

use std::collections::HashSet;
use std::time::Duration;

use pmix_proto::request;
use pmix_types::{
    DataRange, Info, IntoOwned as _, Nspace, Proc, Rank, Scope, Status, Text, Value, keys, memory,
};

use self::table::Run;
use super::invitation::table::{Key, key_of};
use super::known::{Groups, KnownGroup};
use super::members::{Members, absent};
use super::membership::{event, lost_before};
use super::serve::client;
use crate::Error;
use crate::collective::each;
use crate::cx::Cx;
use crate::events::{Notification, Reporter};
use crate::host::{HostReply, JobControl};
use crate::ids::InvitationId;
use crate::peers::Ticket;
use crate::pending::Pending;
use crate::procs::Procs;
use crate::timer::Timer;

/// The largest size of the endpoint data of all members in bytes; the announcement of a group has them.
const MAX_ENDPOINT_BYTES: usize = 4 << 20;

impl Groups {
    /// Handles GROUP_INVITE. The reply confirms that the invitation is open; its outcome is an event. Returns the events
    /// that follow.
    pub(crate) fn invite(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::GroupInvite<'_>,
    ) -> Vec<Notification> {
        let begun = self.begin_run(cx, &ticket, request);
        replied(cx, ticket, begun)
    }

    fn begin_run(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::GroupInvite<'_>,
    ) -> Result<Vec<Notification>, Error> {
        let member = client(cx, ticket)?;
        let leader = member.proc.clone();
        for run in request.procs.chunk_by(|a, b| a.nspace == b.nspace) {
            if let Some(proc) = run.first() {
                cx.check_reads(member, &proc.nspace)?;
            }
        }
        self.check_name(cx, &leader, request.group.as_ref())?;
        let name = request.group.clone().unwrap_or_default().into_owned();
        let procs = Proc::owned_list(&request.procs);
        let key = key_of(&name, &leader);
        if self.hosted.id(&key).is_some() {
            let message = format!("the caller has invited to a group {name} already");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        let (members, waiting) = each_member(cx, &procs)?;
        if !waiting.has(&leader) {
            let message = "the caller is not among the invited processes";
            return Err(Error::new(Status::ERR_NOT_A_MEMBER, message));
        }
        self.check_room(cx, &leader.nspace, &name, &members)?;
        self.add_run(cx, key.clone(), procs.clone(), (members, waiting), request);
        let infos = about_group(&name, procs);
        let invited =
            self.handle_invitation_event(cx, ticket, Status::GROUP_INVITED, &name, &infos);
        let follow = match invited {
            Ok(follow) => follow,
            Err(error) => {
                self.drop_run(cx, &key);
                return Err(error);
            }
        };
        let only = cx
            .member(ticket)
            .ok()
            .and_then(|member| cx.only_user(member));
        let reporter = Reporter::Peer(ticket.peer());
        let (status, range) = (Status::GROUP_INVITED, DataRange::CUSTOM);
        let event = Notification::new(reporter, status, leader.clone(), range, infos)?;
        self.hosted.answer(&key, &leader, true);
        let mut events = vec![event.only(only)];
        events.extend(follow);
        Ok(events)
    }

    fn add_run(
        &mut self,
        cx: &mut Cx,
        key: Key,
        procs: Vec<Proc<'static>>,
        (members, waiting): (Vec<Proc<'static>>, Procs),
        request: &request::GroupInvite<'_>,
    ) {
        self.hosted.last += 1;
        let id = self.hosted.last;
        let time = Duration::from_secs(request.timeout.into());
        let until = (!time.is_zero()).then(|| cx.after(time)).flatten();
        if let Some(until) = until {
            cx.timers.set(until, Timer::Invitation(InvitationId(id)));
        }
        let bytes = 2 * super::known::weight(&key.0, &members);
        self.add_bytes(&key.1.nspace, bytes);
        let run = Run {
            key,
            procs,
            waiting,
            members,
            accepted: HashSet::new(),
            is_optional: request.is_optional,
            assigns_context_id: request.assigns_context_id,
            until,
            bytes,
        };
        self.hosted.insert(id, run);
    }

    /// Handles GROUP_JOIN, the answer to an invitation, which reaches the leader as an event. Without a leader it is the
    /// answer to the latest invitation to the group. Returns the events that follow.
    pub(crate) fn join(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::GroupJoin<'_>,
    ) -> Vec<Notification> {
        let answered = self.answer_invitation(cx, &ticket, request);
        replied(cx, ticket, answered)
    }

    fn answer_invitation(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::GroupJoin<'_>,
    ) -> Result<Vec<Notification>, Error> {
        let member = client(cx, ticket)?;
        let (source, only) = (member.proc.clone(), cx.only_user(member));
        let answers = [Status::GROUP_INVITE_ACCEPTED, Status::GROUP_INVITE_DECLINED];
        if !answers.contains(&request.answer) {
            return Err(Error::bad("an answer neither accepts nor declines"));
        }
        let name = request.group.clone().unwrap_or_default().into_owned();
        let leader = match &request.leader {
            Some(leader) => leader.clone().into_owned(),
            None => self.latest_leader(&name, &source)?,
        };
        let infos = about_group(&name, vec![leader]);
        let follow = self.handle_invitation_event(cx, ticket, request.answer, &name, &infos)?;
        let (reporter, range) = (Reporter::Peer(ticket.peer()), DataRange::CUSTOM);
        let event = Notification::new(reporter, request.answer, source, range, infos)?;
        let mut events = vec![event.only(only)];
        events.extend(follow);
        Ok(events)
    }

    /// Returns the leader of the latest open invitation of a process to a group.
    fn latest_leader(
        &self,
        name: &Text<'_>,
        source: &Proc<'static>,
    ) -> Result<Proc<'static>, Error> {
        let open = self.invitations.open_of(source).into_iter();
        let found = open
            .rev()
            .find(|(of, leader)| of == name && leader != source);
        found.map(|(_, leader)| leader).ok_or_else(|| {
            Error::not_found(format!(
                "the caller has no open invitation to a group {name}"
            ))
        })
    }

    /// Ends the wait for answers to an invitation whose time limit has expired.
    pub(crate) fn invitation_expired(&mut self, id: InvitationId) {
        if let Some(run) = self.hosted.all.get_mut(&id.0) {
            // The timer has expired. The end of the invitation must not cancel it.
            run.until = None;
            // Without a missing answer, the end is queued already.
            if !run.waiting.is_empty() {
                run.waiting = Procs::default();
                self.hosted.answered.push_back(id.0);
            }
        }
    }

    /// Ends the next invitation whose answers are complete. Returns the events that follow, or `None` without one.
    pub(crate) fn end_answered(&mut self, cx: &mut Cx) -> Option<Vec<Notification>> {
        let id = self.hosted.answered.pop_front()?;
        let Some(run) = self.hosted.all.get_mut(&id) else {
            return Some(Vec::new());
        };
        if let Some(until) = run.until.take() {
            cx.timers.cancel(until, Timer::Invitation(InvitationId(id)));
        }
        let run = &*run;
        let missing = run
            .members
            .iter()
            .filter(|proc| !run.accepted.contains(proc));
        let missing: Vec<_> = missing.cloned().collect();
        if !missing.is_empty() && !run.is_optional {
            return Some(self.abort_run(cx, id));
        }
        let (name, leader) = run.key.clone();
        let failed = missing.iter().filter(|proc| absent(cx, proc).is_empty());
        let failed = failed.filter_map(|proc| {
            event(
                cx,
                Status::GROUP_INVITE_FAILED,
                &name,
                vec![leader.clone()],
                proc,
            )
        });
        let mut events: Vec<_> = failed.collect();
        match run.assigns_context_id {
            // Only the host can assign a number that no other group has.
            true => {
                let directives = vec![
                    Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true),
                    Info::new(keys::GROUP_ID, Value::String(Some(name))),
                ];
                let call = JobControl {
                    proc: leader,
                    targets: Vec::new(),
                    directives,
                };
                cx.call_host(call, Pending::GroupContext(InvitationId(id)));
            }
            false => events.extend(self.complete_run(cx, id, None)),
        }
        Some(events)
    }

    /// Handles the reply of the host with the context id. The group is formed without an id if the host assigns none.
    pub(crate) fn context_assigned(
        &mut self,
        cx: &mut Cx,
        id: InvitationId,
        reply: &HostReply,
    ) -> Vec<Notification> {
        let found = match reply {
            HostReply::Infos(status, infos) if status.is_success() => infos
                .iter()
                .find(|info| info.key.is(keys::GROUP_CONTEXT_ID)),
            _ => None,
        };
        let context_id = found.and_then(|info| info.value.to_number::<u64>().ok());
        self.complete_run(cx, id.0, context_id)
    }

    fn complete_run(&mut self, cx: &mut Cx, id: u64, context_id: Option<u64>) -> Vec<Notification> {
        let Some(run) = self.hosted.all.get(&id) else {
            return Vec::new();
        };
        let (name, leader) = run.key.clone();
        let accepted = run
            .members
            .iter()
            .filter(|proc| run.accepted.contains(proc));
        let list: Vec<_> = accepted.cloned().collect();
        let mut infos = about_group(&name, list.clone());
        infos.push(Info::new(keys::GROUP_MEMBERSHIP, list.clone()));
        infos.extend(context_id.map(|id| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(id))));
        infos.extend(endpoints(cx, &list));
        let group = KnownGroup::completed(&name, &leader, &list, &infos);
        let added = Members::check(&list)
            .and_then(|()| self.check_free(&name, &list))
            .and_then(|()| self.add(cx, group));
        if let Err(error) = added {
            tracing::debug!(%error, %name, "a group by invitation cannot be formed");
            return self.abort_run(cx, id);
        }
        self.end_run(id);
        self.invitation_ended(&name, &leader);
        let mut events = from_leader(Status::GROUP_CONSTRUCT_COMPLETE, leader, infos);
        // A member may have been lost between its acceptance and the end.
        let gone = lost_before(cx, &list, Vec::new());
        events.extend(self.notify_earlier_losses(cx, &name, &list, false, &gone));
        events
    }

    /// Aborts an invitation: every invited process and the leader receive the event.
    fn abort_run(&mut self, cx: &mut Cx, id: u64) -> Vec<Notification> {
        let Some(run) = self.end_run(id) else {
            return Vec::new();
        };
        if let Some(until) = run.until {
            cx.timers.cancel(until, Timer::Invitation(InvitationId(id)));
        }
        let (name, leader) = run.key;
        self.invitation_ended(&name, &leader);
        let infos = about_group(&name, run.procs);
        from_leader(Status::GROUP_CONSTRUCT_ABORT, leader, infos)
    }

    fn end_run(&mut self, id: u64) -> Option<Run> {
        let run = self.hosted.remove(id)?;
        self.take_bytes(&run.key.1.nspace, run.bytes);
        Some(run)
    }

    fn drop_run(&mut self, cx: &mut Cx, key: &Key) {
        let id = self.hosted.id(key);
        if let Some((id, run)) = id.and_then(|id| Some((id, self.end_run(id)?)))
            && let Some(until) = run.until
        {
            cx.timers.cancel(until, Timer::Invitation(InvitationId(id)));
        }
    }

    /// Drops the invitations of a leader that is lost.
    pub(super) fn drop_runs_of(&mut self, cx: &mut Cx, leader: &Proc<'static>) {
        for key in self.hosted.led_by(leader) {
            self.drop_run(cx, &key);
        }
    }

    /// Drops the invitations of the leaders of a job that was deregistered.
    pub(super) fn drop_runs_of_job(&mut self, cx: &mut Cx, nspace: &Nspace<'_>) {
        for key in self.hosted.led_by_job(nspace) {
            self.drop_run(cx, &key);
        }
    }
}

/// Returns the processes of a list one by one, without duplicates, and as a set.
///
/// # Errors
///
/// Returns the errors of [`each`], and `PMIX_ERR_NOT_FOUND` for a whole job whose size is unknown.
fn each_member(cx: &Cx, list: &[Proc<'static>]) -> Result<(Vec<Proc<'static>>, Procs), Error> {
    let is_unknown =
        |proc: &&Proc<'_>| proc.rank == Rank::WILDCARD && cx.job_size(&proc.nspace).is_none();
    if let Some(proc) = list.iter().find(is_unknown) {
        let message = format!("the size of job {} is unknown", proc.nspace);
        return Err(Error::not_found(message));
    }
    let members = each(cx, list)?;
    // The list without duplicates, and the set of missing answers, have a copy of each name.
    memory::check(members.len().saturating_mul(2 * size_of::<Proc<'_>>()))?;
    let mut set = Procs::default();
    let members = set.extend_distinct(&members, |_| true);
    Ok((members, set))
}

/// Returns the endpoint data of the members that this server knows: the values that each has put and committed for remote
/// processes. They are left out if they are too long for an event.
fn endpoints(cx: &Cx, members: &[Proc<'static>]) -> Vec<Info<'static>> {
    let mut all = Vec::new();
    let mut room = MAX_ENDPOINT_BYTES;
    for of_job in members.chunk_by(|a, b| a.nspace == b.nspace) {
        let Some(job) = of_job.first().and_then(|proc| cx.store.job(&proc.nspace)) else {
            continue;
        };
        let puts = job.modex_store();
        for proc in of_job {
            let Some(left) = room.checked_sub(puts.num_bytes(proc.rank)) else {
                tracing::debug!("the endpoint data of a group exceed {MAX_ENDPOINT_BYTES} bytes");
                return all;
            };
            room = left;
            let values = puts.all(proc.rank, Scope::REMOTE).into_iter().flatten();
            let values = values.filter(|kval| !kval.key.is_reserved());
            let values: Vec<_> = { values.map(|kval| kval.into_owned()) }
                .map(|kval| Info::new(kval.key, kval.value))
                .collect();
            if !values.is_empty() {
                let mut infos = vec![
                    Info::new(keys::PROCID, proc.clone()),
                    Info::new(keys::DATA_SCOPE, Value::Scope(Scope::REMOTE)),
                ];
                infos.extend(values);
                all.push(Info::new(keys::PROC_INFO_ARRAY, infos));
            }
        }
    }
    all
}

/// Replies to a request with its status. Returns the events that follow.
fn replied(
    cx: &mut Cx,
    ticket: Ticket,
    result: Result<Vec<Notification>, Error>,
) -> Vec<Notification> {
    match result {
        Ok(events) => {
            cx.reply_status(ticket, Status::SUCCESS);
            events
        }
        Err(error) => {
            cx.reply_error(ticket, &error);
            Vec::new()
        }
    }
}

/// Returns the infos of an event about a group.
fn about_group(name: &Text<'static>, to: Vec<Proc<'static>>) -> Vec<Info<'static>> {
    vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, to),
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::GROUP_ID, Value::String(Some(name.clone()))),
    ]
}

/// Returns an event in the name of the leader, which receives it, too: its library has not reported it.
fn from_leader(
    status: Status,
    leader: Proc<'static>,
    infos: Vec<Info<'static>>,
) -> Vec<Notification> {
    let event = Notification::new(Reporter::Server, status, leader, DataRange::CUSTOM, infos);
    event.into_iter().collect()
}
