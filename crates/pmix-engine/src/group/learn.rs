// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events about groups: invitations, formed groups, departed and lost members.

use pmix_proto::request;
use pmix_types::{DataArray, Info, IntoOwned, Proc, Status, Text, Value, keys};

use super::invitation::table::key_of;
use super::known::{Groups, KnownGroup};
use super::members::Members;
use super::members::absent;
use super::membership::lost_before;
use crate::Error;
use crate::cx::Cx;
use crate::events::Notification;
use crate::infos::{is_set, value};
use crate::peers::Ticket;
use crate::procs::Procs;

impl Groups {
    /// Handles an event of a process of this node. Returns the ticket and the events that follow if the event should be
    /// delivered. Otherwise replies to the process.
    pub(crate) fn learn_from_proc(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::Notify<'_>,
    ) -> Option<(Ticket, Vec<Notification>)> {
        if !concerns_groups(request.status) {
            return Some((ticket, Vec::new()));
        }
        if is_too_late(cx, &ticket, request) {
            cx.reply_status(ticket, Status::SUCCESS);
            return None;
        }
        match self.reported(cx, &ticket, request) {
            Ok(follow) => Some((ticket, follow)),
            Err(error) => {
                cx.reply_error(ticket, &error);
                None
            }
        }
    }

    fn reported(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        request: &request::Notify<'_>,
    ) -> Result<Vec<Notification>, Error> {
        let member = cx.member(ticket)?;
        let source = &member.proc;
        let Some(name) = name(&request.infos).filter(|_| member.client.is_some()) else {
            return Ok(Vec::new());
        };
        if request.status == Status::GROUP_LEFT {
            let about = affected(&request.infos).unwrap_or(source);
            // A process can report only its own departure.
            if about == source {
                let source = source.clone();
                self.leaves(cx, name, &source, Status::GROUP_LEFT);
            }
            return Ok(Vec::new());
        }
        if request.status != Status::GROUP_CONSTRUCT_COMPLETE {
            return self.handle_invitation_event(cx, ticket, request.status, name, &request.infos);
        }
        let Some(list) = listed(&request.infos) else {
            return Ok(Vec::new());
        };
        // A program may report the completion that its library has already reported.
        let known = self.of(name.as_bytes(), source);
        if known.is_some_and(|(_, group)| group.members.list() == list) {
            return Ok(Vec::new());
        }
        self.check_name(cx, source, Some(name))?;
        Members::check(list)?;
        self.check_free(name, list)?;
        for run in list.chunk_by(|a, b| a.nspace == b.nspace) {
            if let Some(proc) = run.first() {
                // Members are notified of each other's losses, which a process may learn only of jobs that it may read.
                cx.check_reads(member, &proc.nspace)?;
            }
        }
        let group = KnownGroup::completed(name, source, list, &request.infos);
        let is_invitation = self.invitations.get(&key_of(name, source)).is_some();
        if !group.members.has(source) && !is_invitation {
            let message =
                "the leader of a group is not among its members, and has sent no invitation";
            return Err(Error::bad(message));
        }
        let (leader, notifies) = (source.clone(), group.notifies);
        self.add(cx, group)?;
        self.invitation_ended(name, &leader);
        let (name, list) = (name.clone().into_owned(), Proc::owned_list(list));
        // A member may have been lost between its acceptance and this report.
        let gone = lost_before(cx, &list, Vec::new());
        Ok(self.notify_earlier_losses(cx, &name, &list, notifies, &gone))
    }

    /// Handles an event of the host from another server. Returns the events that follow, or `None` if the event is
    /// known and clients must not receive it again.
    pub(crate) fn learn_from_host(
        &mut self,
        cx: &mut Cx,
        status: Status,
        source: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Option<Vec<Notification>> {
        let Some(name) = name(infos).filter(|_| concerns_groups(status)) else {
            return Some(Vec::new());
        };
        let source = source.clone().into_owned();
        let mut follow = self.learn_of_invitation(cx, status, name, &source, infos)?;
        if is_about_invitation(status) {
            return Some(follow);
        }
        if status != Status::GROUP_CONSTRUCT_COMPLETE {
            let about = affected(infos).unwrap_or(&source);
            // A process can only report its own departure; servers report losses.
            let is_process = cx.store.job(&source.nspace).is_some();
            // This server observes the losses of its own processes itself.
            let is_failed = status == Status::GROUP_MEMBER_FAILED && !cx.registry.was_here(about);
            if *about == source || (is_failed && !is_process) {
                self.leaves(cx, name, &about.clone().into_owned(), status);
            }
            return Some(follow);
        }
        if let Some(list) = listed(infos) {
            match self.add_from_host(cx, name, &source, list, infos) {
                Ok(notifies) => {
                    let (name, list) = (name.clone().into_owned(), Proc::owned_list(list));
                    let gone = lost_before(cx, &list, Vec::new());
                    follow.extend(self.notify_earlier_losses(cx, &name, &list, notifies, &gone));
                }
                Err(error) => {
                    tracing::debug!(%error, %name, "ignoring a group from the host");
                }
            }
        }
        Some(follow)
    }

    /// Adds a group that the host reports, if it has members on this node. Returns `true` if its members are notified
    /// of lost members.
    fn add_from_host(
        &mut self,
        cx: &mut Cx,
        name: &Text<'_>,
        source: &Proc<'static>,
        list: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Result<bool, Error> {
        self.check_name(cx, source, Some(name))?;
        Members::check(list)?;
        self.check_free(name, list)?;
        let group = KnownGroup::completed(name, source, list, infos);
        let notifies = group.notifies;
        if group.members.any_local(cx) {
            self.add(cx, group)?;
        }
        Ok(notifies)
    }

    /// Checks that no member is in another group with the same name.
    pub(super) fn check_free(&self, name: &Text<'_>, list: &[Proc<'_>]) -> Result<(), Error> {
        let mut procs = Procs::default();
        procs.extend(list);
        let mut others = self.named(name.as_bytes()).iter();
        let is_taken = |id: &u64| {
            let group = self.groups.get(id);
            group.is_some_and(|group| group.members.any_of(&procs))
        };
        match others.any(is_taken) {
            true => Err(Error::new(
                Status::ERR_EXISTS,
                format!("a member is already in a group {name}"),
            )),
            false => Ok(()),
        }
    }

    fn leaves(&mut self, cx: &mut Cx, name: &Text<'_>, proc: &Proc<'static>, status: Status) {
        if let Some((id, _)) = self.of(name.as_bytes(), proc) {
            // The caller delivers the event about the departure already.
            _ = self.member_leaves(cx, id, proc, status, &mut 0);
        }
    }
}

impl KnownGroup {
    /// Creates a group formed by invitation.
    pub(super) fn completed(
        name: &Text<'_>,
        leader: &Proc<'static>,
        list: &[Proc<'_>],
        infos: &[Info<'_>],
    ) -> Self {
        Self {
            name: name.clone().into_owned(),
            job: leader.nspace.clone(),
            members: Members::new(Proc::owned_list(list)),
            notifies: is_set(infos, keys::GROUP_NOTIFY_TERMINATION),
            destruct_failed: false,
        }
    }
}

/// Returns `true` if a finalizing process invites as the replacement of a lost leader: it counts as lost itself.
fn is_too_late(cx: &Cx, ticket: &Ticket, request: &request::Notify<'_>) -> bool {
    let leads = request.status == Status::GROUP_INVITED && affected(&request.infos).is_some();
    let member = cx.member(ticket).ok().filter(|_| leads);
    member.is_some_and(|member| !absent(cx, &member.proc).is_empty())
}

fn concerns_groups(status: Status) -> bool {
    matches!(
        status,
        Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_LEFT | Status::GROUP_MEMBER_FAILED
    ) || is_about_invitation(status)
}

const fn is_about_invitation(status: Status) -> bool {
    matches!(
        status,
        Status::GROUP_INVITED
            | Status::GROUP_INVITE_ACCEPTED
            | Status::GROUP_INVITE_DECLINED
            | Status::GROUP_INVITE_FAILED
            | Status::GROUP_CONSTRUCT_ABORT
            | Status::GROUP_LEADER_FAILED
            | Status::GROUP_LEADER_SELECTED
    )
}

/// Returns the name of the group in infos.
pub(super) fn name<'i>(infos: &'i [Info<'_>]) -> Option<&'i Text<'i>> {
    match value(infos, keys::GROUP_ID)? {
        Value::String(name) => name.as_ref(),
        _ => None,
    }
}

pub(super) fn affected<'i>(infos: &'i [Info<'_>]) -> Option<&'i Proc<'i>> {
    match value(infos, keys::EVENT_AFFECTED_PROC)? {
        Value::Proc(proc) => Some(proc),
        _ => None,
    }
}

/// Returns the members that an event lists, or else its recipients.
fn listed<'i>(infos: &'i [Info<'_>]) -> Option<&'i [Proc<'i>]> {
    let named = value(infos, keys::GROUP_MEMBERSHIP);
    match named.or_else(|| value(infos, keys::EVENT_CUSTOM_RANGE))? {
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
        _ => None,
    }
}
