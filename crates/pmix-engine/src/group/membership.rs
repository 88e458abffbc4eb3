// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formation and end of groups, and the members that leave or are lost.

use std::sync::Arc;

use pmix_proto::{PeerForm, reply};
use pmix_types::{
    DataArray, DataRange, Info, IntoOwned, Nspace, Proc, QualifiedValue, Scope, Status, Text,
    Value, keys, memory,
};

use super::known::{Groups, KnownGroup, changed};
use super::members::{Members, absent, absent_among, was_here};
use crate::collective::{
    Collective, DesertedGroup, EndedGroup, GroupOutcome, MemberLeft, MembershipChange,
    Participants, count, each, in_wanted_order, is_gathered, listed, members_now, present,
};
use crate::cx::Cx;
use crate::events::{Notification, Reporter};
use crate::infos::value;
use crate::peers::{Member, Ticket};
use crate::procs::Procs;
use crate::{Error, GroupChange};

impl Groups {
    /// Applies the outcome of a collective to its group. Returns the events that follow.
    pub(crate) fn handle_outcome(
        &mut self,
        cx: &mut Cx,
        outcome: GroupOutcome,
    ) -> Vec<Notification> {
        match outcome {
            GroupOutcome::Ended(ended) if ended.kind == Collective::GroupConstruct => {
                self.construct_ended(cx, ended)
            }
            GroupOutcome::Ended(ended) => {
                self.forget(cx, &ended.name, &ended.participants);
                for ticket in ended.tickets {
                    cx.reply_status(ticket, ended.status);
                }
                Vec::new()
            }
            GroupOutcome::DestructFailed {
                name,
                participants,
                recipients,
            } => {
                for id in self.constructed_by(cx, &name, &participants) {
                    if let Some(group) = self.groups.get_mut(&id) {
                        // The host knows of the failure, so the loss of the last local member must not call it again.
                        group.destruct_failed = true;
                    }
                }
                self.release(cx, &name, &recipients);
                Vec::new()
            }
            // These outcomes concern a construct that is still open.
            GroupOutcome::Led(_) | GroupOutcome::Announced(_) => Vec::new(),
            GroupOutcome::InviteFailed { name, procs, proc } => {
                let event = event(cx, Status::GROUP_INVITE_FAILED, &name, procs, &proc);
                event.into_iter().collect()
            }
        }
    }

    /// Applies the end of a construct. Returns the events that follow.
    fn construct_ended(&mut self, cx: &mut Cx, ended: EndedGroup) -> Vec<Notification> {
        let called = { ended.caller_infos.iter() }.filter_map(|(id, _)| cx.registry.client(*id));
        let called: Vec<_> = called.map(|client| client.proc.clone()).collect();
        let (name, notifies, lost) = (ended.name.clone(), ended.notifies(), ended.lost.clone());
        let absent_procs = match ended.notifies_of_absent() {
            true => ended.absent.clone(),
            false => Vec::new(),
        };
        // A late reply must not add a group again after it has lost its last member on this node.
        let mut lost_now = called.iter().chain(&lost);
        let are_lost = lost_now.all(|proc| lost.contains(proc) || !absent(cx, proc).is_empty());
        let is_over = is_gathered(&ended.caller_infos)
            && are_lost
            && final_members(cx, &ended).is_ok_and(|members| self.was_deserted(&name, &members));
        let Some(done) = self.constructed(cx, ended, &called, is_over) else {
            return Vec::new();
        };
        if is_over {
            return done.update.into_iter().collect();
        }
        // A further reply to the same construct concerns its own callers; losses of the others were reported before.
        let among = if done.is_new { &done.members } else { &called };
        let gone = lost_before(cx, among, lost);
        let mut events: Vec<_> = done.update.into_iter().collect();
        // A process that was lost before its call is no member, but the survivors requested to learn of it.
        let listed = count(cx, &done.members).saturating_mul(absent_procs.len() as u64);
        // Each event lists the members; without room for the lists, the reply alone shows who is left.
        let has_room = done.is_new && listed <= MAX_LISTED;
        let failed = absent_procs.iter().filter(|_| has_room);
        events.extend(failed.filter_map(|proc| {
            let members = done.members.clone();
            event(cx, Status::GROUP_MEMBER_FAILED, &name, members, proc)
        }));
        events.extend(self.notify_earlier_losses(cx, &name, &done.members, notifies, &gone));
        events
    }

    /// Notifies the members of losses between the call (or the acceptance) and the end of the construct, when the group
    /// did not exist yet. A group without another member on this node is not stored.
    pub(super) fn notify_earlier_losses(
        &mut self,
        cx: &mut Cx,
        name: &Text<'static>,
        members: &[Proc<'static>],
        notifies: bool,
        gone: &[Proc<'static>],
    ) -> Vec<Notification> {
        let Some(first) = gone.first() else {
            return Vec::new();
        };
        let mut events = Vec::new();
        // An earlier reply may have added the group; then the loss removed the process from it.
        let is_kept = { self.named(name.as_bytes()).iter() }.any(|id| {
            let known = self.groups.get(id);
            known.is_some_and(|known| known.members.list() == members)
        });
        let mut room = MAX_LISTED;
        if is_kept {
            for proc in gone {
                if let Some((id, _)) = self.of(name.as_bytes(), proc) {
                    let failed = Status::GROUP_MEMBER_FAILED;
                    events.extend(self.member_leaves(cx, id, proc, failed, &mut room));
                }
            }
            return events;
        }
        let mut known = Procs::default();
        known.extend(members);
        if notifies {
            // Each event has a list of the others. Without room for the lists, the events are for the listed members: the
            // lost ones among them have no connection.
            let num = count(cx, members).saturating_mul(gone.len() as u64);
            let others = match num <= room {
                true => present(cx, members.to_vec(), gone).ok(),
                false => None,
            };
            let others = others.unwrap_or_else(|| members.to_vec());
            for proc in gone.iter().filter(|proc| known.has(proc)) {
                let others = others.clone();
                events.extend(event(cx, Status::GROUP_MEMBER_FAILED, name, others, proc));
            }
        }
        self.none_left(cx, name, members, (&first.nspace, !notifies));
        events
    }

    /// Reports to the collectives that a group has lost its last member on this node, if it had one. The last member
    /// belonged to `job`.
    fn none_left(
        &mut self,
        cx: &mut Cx,
        name: &Text<'static>,
        members: &[Proc<'static>],
        (job, fails): (&Nspace<'static>, bool),
    ) {
        // Each server answers for the members of its own node.
        if !members.iter().any(|proc| was_here(cx, proc)) {
            return;
        }
        let mut known = Procs::default();
        known.extend(members);
        self.deserted.truncate(MAX_DESERTED - 1);
        self.deserted
            .push_front((name.clone(), known.fingerprint()));
        // No other server waits for a group whose members are all on this node. A process may be the last member of
        // thousands of such groups, so they are not reported.
        let is_client = |proc: &Proc<'_>| {
            let job = cx.registry.job(&proc.nspace);
            job.is_some_and(|job| job.clients.contains_key(&proc.rank))
        };
        if members.iter().all(is_client) {
            return;
        }
        cx.membership_changes
            .push_back(MembershipChange::DesertedGroup(DesertedGroup {
                name: name.clone(),
                members: members.to_vec(),
                job: job.clone(),
                fails,
            }));
    }

    /// Returns `true` if a group has recently lost its last member on this node.
    fn was_deserted(&self, name: &Text<'_>, members: &[Proc<'static>]) -> bool {
        let mut known = Procs::default();
        known.extend(members);
        let number = known.fingerprint();
        let mut deserted = self.deserted.iter();
        deserted.any(|(other, members)| other == name && *members == number)
    }

    /// Returns the groups with a name that these processes have constructed.
    fn constructed_by(&self, cx: &Cx, name: &Text<'_>, participants: &Participants) -> Vec<u64> {
        let mut procs = Procs::default();
        procs.extend(&participants.to_procs());
        let size = |nspace: &Nspace<'_>| Ok(cx.job_size(nspace));
        let is_it = |id: &&u64| {
            // A process that has left the group may be in another group with this name.
            self.groups.get(*id).is_some_and(|group| {
                let list = group.members.list();
                group.members.meet(&procs)
                    && Participants::of(list, &group.job, size, |_, _| true)
                        .is_ok_and(|members| members == *participants)
            })
        };
        let named = self.named(name.as_bytes()).iter();
        named.filter(is_it).copied().collect()
    }

    /// Adds the group of a construct that all members have called, unless there is no room or it has already ended, and
    /// replies to the callers.
    fn constructed(
        &mut self,
        cx: &mut Cx,
        mut ended: EndedGroup,
        called: &[Proc<'static>],
        is_over: bool,
    ) -> Option<Constructed> {
        let context_id = value(&ended.host_infos, keys::GROUP_CONTEXT_ID);
        let context_id = context_id.and_then(|id| id.to_number::<u64>().ok());
        let members = final_members(cx, &ended)
            .and_then(|list| each(cx, &list).map(|members| (list, members)));
        let (list, members) = match members {
            Ok(members) => members,
            Err(error) => {
                for ticket in ended.tickets {
                    cx.reply_error(ticket, &error);
                }
                return None;
            }
        };
        let named = list.clone();
        let infos = take_shared(&mut ended);
        let update = update(cx, &ended, &members);
        let notifies = ended.notifies();
        let group = KnownGroup {
            name: ended.name,
            job: ended.job,
            members: Members::new(list),
            notifies,
            destruct_failed: false,
        };
        let known = self.formed_before(&group, called);
        let is_new = known.is_none();
        if let Some(known) = known.and_then(|id| self.groups.get_mut(&id)) {
            // Callers with a separate reply may differ in this directive.
            known.notifies |= notifies;
        } else if !is_over && let Err(error) = self.add(cx, group) {
            for ticket in ended.tickets {
                cx.reply_error(ticket, &error);
            }
            return None;
        }
        if let Some(context_id) = context_id {
            for (proc, infos) in infos.iter().filter_map(of_member) {
                share(cx, proc, infos, context_id);
            }
        }
        let group = reply::Group {
            status: Status::SUCCESS,
            members,
            context_id,
            infos,
        };
        reply_to_all(cx, ended.tickets, &group);
        Some(Constructed {
            members: named,
            update,
            is_new,
        })
    }

    /// Returns the group that an earlier reply to the same construct has added: the host replies separately to the
    /// listed leaders of a node and to each process that calls for itself.
    fn formed_before(&self, group: &KnownGroup, called: &[Proc<'static>]) -> Option<u64> {
        let is_it = |id: &&u64| {
            let known = self.groups.get(*id).map(|known| &known.members);
            known.is_some_and(|known| {
                // A caller that has left or destructed a group constructs another one.
                known.list() == group.members.list()
                    && !called.iter().any(|proc| known.is_done_with(proc))
            })
        };
        let mut named = self.named(group.name.as_bytes()).iter();
        named.find(is_it).copied()
    }

    /// Removes the group with a name that these processes have constructed.
    fn forget(&mut self, cx: &mut Cx, name: &Text<'static>, participants: &Participants) {
        for id in self.constructed_by(cx, name, participants) {
            if let Some(group) = self.remove(id) {
                let members = group.members.list().to_vec();
                changed(cx, name, GroupChange::Destructed(members));
            }
        }
    }

    /// Removes a group for the processes that received the failure of its destruct; the other members have not called
    /// yet.
    fn release(&mut self, cx: &Cx, name: &Text<'_>, recipients: &[Proc<'static>]) {
        for proc in recipients {
            let Some((id, _)) = self.of(name.as_bytes(), proc) else {
                continue;
            };
            if let Some(group) = self.groups.get_mut(&id) {
                group.members.release(proc);
                if !group.members.any_local(cx) {
                    self.remove(id);
                }
            }
        }
    }

    /// Removes a departed or lost member from a group. Returns the event that notifies the others, and takes the room for
    /// its list of members.
    pub(super) fn member_leaves(
        &mut self,
        cx: &mut Cx,
        id: u64,
        proc: &Proc<'static>,
        status: Status,
        room: &mut u64,
    ) -> Option<Notification> {
        let group = self.groups.get_mut(&id)?;
        let has_left = status == Status::GROUP_LEFT;
        // Collectives by the group name have the members before the departure as participants.
        // Without room for the members, no request could name them either.
        let remaining = |members: &Members| {
            let remaining = members.remaining(cx);
            remaining.unwrap_or_else(|_| members.list().to_vec())
        };
        let before = has_left.then(|| remaining(&group.members));
        if !group.members.remove(proc, has_left) {
            return None;
        }
        if let Some(before) = before {
            let now = remaining(&group.members);
            changed(cx, &group.name, GroupChange::Left(proc.clone()));
            cx.membership_changes
                .push_back(MembershipChange::Left(MemberLeft {
                    name: group.name.clone(),
                    proc: proc.clone(),
                    members: group.members.list().to_vec(),
                    before,
                    now,
                }));
        }
        let is_reported = status == Status::GROUP_LEFT || group.notifies;
        let events = is_reported.then(|| {
            event(
                cx,
                status,
                &group.name,
                group.members.present(cx, room),
                proc,
            )
        });
        // No local process is left that could destruct the group.
        if !group.members.any_local(cx)
            && let Some(group) = self.remove(id)
            && !group.destruct_failed
        {
            let fails = !group.notifies && group.members.any_lost_here(cx);
            let members = group.members.list();
            self.none_left(cx, &group.name, members, (&proc.nspace, fails));
        }
        events.flatten()
    }

    /// Handles the end of the last connection of a process, which leaves all of its groups. Returns the events that
    /// follow.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, member: &Member) -> Vec<Notification> {
        let client = member.client.and_then(|id| cx.registry.client(id));
        if self.is_empty() || client.is_some_and(|client| !client.peers.is_empty()) {
            return Vec::new();
        }
        let mut events = self.invited_lost(cx, &member.proc);
        events.extend(self.proc_gone(cx, &member.proc));
        events
    }

    /// Removes a lost process from its groups.
    fn proc_gone(&mut self, cx: &mut Cx, proc: &Proc<'static>) -> Vec<Notification> {
        let own = self.naming(proc);
        let failed = Status::GROUP_MEMBER_FAILED;
        let mut room = MAX_LISTED;
        let events = own.into_iter();
        events
            .filter_map(|id| self.member_leaves(cx, id, proc, failed, &mut room))
            .collect()
    }

    /// Removes the groups without a member on this node after a job was deregistered.
    pub(crate) fn job_gone(&mut self, cx: &mut Cx, nspace: &Nspace<'_>) {
        for id in self.of_job(nspace) {
            let group = self.groups.get(&id);
            if group.is_some_and(|group| !group.members.any_local(cx)) {
                self.remove(id);
            }
        }
        self.drop_runs_of_job(cx, nspace);
        self.forget_invitations(cx, nspace);
        self.forget_elections(cx, nspace);
    }
}

/// Sends the same reply to all callers of a construct, packed once for each form of peer.
fn reply_to_all(cx: &mut Cx, tickets: Vec<Ticket>, group: &reply::Group<'_>) {
    let mut packed: Vec<(PeerForm, Arc<Vec<u8>>)> = Vec::new();
    for ticket in tickets {
        let Some(form) = cx.form(ticket.peer()) else {
            cx.reply_status(ticket, Status::SUCCESS);
            continue;
        };
        let known = packed.iter().find(|(known, _)| *known == form);
        if let Some((_, bytes)) = known {
            let bytes = Arc::clone(bytes);
            cx.reply(ticket, bytes);
            continue;
        }
        match group.encode(&form, Some(cx.framer())) {
            Ok(bytes) => {
                let bytes = Arc::new(bytes);
                packed.push((form, Arc::clone(&bytes)));
                cx.reply(ticket, bytes);
            }
            Err(error) => cx.reply_error(ticket, &error.into()),
        }
    }
}

/// The members of a completed construct.
struct Constructed {
    /// The members as listed.
    members: Vec<Proc<'static>>,
    /// The event with the final members for the callers, if some of the listed processes are not members.
    update: Option<Notification>,
    /// `true` if no earlier reply has added the group.
    is_new: bool,
}

/// The number of remembered groups that lost their last member on this node.
const MAX_DESERTED: usize = 64;

/// The largest number of processes that the events about the loss of one process, or of one group, list together, 40 MiB.
/// A process can be in thousands of groups of whole jobs.
pub(super) const MAX_LISTED: u64 = 1 << 20;

/// Returns the lost processes: those given, and the processes of this node in a list that have disconnected.
pub(super) fn lost_before(
    cx: &Cx,
    among: &[Proc<'static>],
    mut lost: Vec<Proc<'static>>,
) -> Vec<Proc<'static>> {
    lost.extend(absent_among(cx, among));
    lost.sort_unstable();
    lost.dedup();
    lost
}

/// Returns the final members of a group: those listed by the host, or else those listed by the callers, without absent
/// processes.
///
/// # Errors
///
/// Returns the errors of [`each`].
fn final_members(cx: &Cx, ended: &EndedGroup) -> Result<Vec<Proc<'static>>, Error> {
    let (caller_infos, absent) = (&ended.caller_infos, &ended.absent);
    match listed(&ended.host_infos) {
        Some(list) => present(cx, list.to_vec(), absent),
        None => {
            let members = members_now(cx, &ended.participants, caller_infos, absent)?;
            in_wanted_order(cx, members, caller_infos)
        }
    }
}

/// Returns the event `PMIX_GROUP_MEMBERSHIP_UPDATE` for the callers of this node, unless all processes that they listed
/// are members. Each server notifies its own processes.
fn update(cx: &Cx, ended: &EndedGroup, members: &[Proc<'static>]) -> Option<Notification> {
    let named = each(cx, &ended.participants.to_procs()).ok()?;
    let adds_none = !is_gathered(&ended.caller_infos);
    if adds_none && named.len() == members.len() {
        return None;
    }
    let mut known = Procs::default();
    known.extend(members);
    if named.iter().all(|proc| known.has(proc)) {
        return None;
    }
    let called =
        { ended.caller_infos.iter() }.filter_map(|(client, _)| cx.registry.client(*client));
    let called: Vec<_> = called.map(|client| client.proc.clone()).collect();
    memory::check(size_of_val(members)).ok()?;
    let list = Value::DataArray(DataArray::Proc(members.to_vec()));
    let infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::EVENT_DO_NOT_CACHE, true),
        Info::new(keys::EVENT_STAYS_LOCAL, true),
        Info::new(keys::EVENT_CUSTOM_RANGE, called),
        Info::new(keys::GROUP_ID, Value::String(Some(ended.name.clone()))),
        Info::new(keys::GROUP_MEMBERSHIP, list),
    ];
    let (status, source) = (Status::GROUP_MEMBERSHIP_UPDATE, cx.config.server.clone());
    let event = Notification::new(Reporter::Server, status, source, DataRange::CUSTOM, infos);
    event.ok()
}

/// Moves the infos that members share out of a construct: those of all nodes if the host returned them, or else those of
/// this node.
fn take_shared(ended: &mut EndedGroup) -> Vec<Info<'static>> {
    let is_shared = |info: &mut Info<'_>| info.key.is(keys::GROUP_INFO);
    let shared: Vec<_> = ended.host_infos.extract_if(.., is_shared).collect();
    if !shared.is_empty() {
        return shared;
    }
    let own = ended.caller_infos.iter_mut().map(|(_, infos)| infos);
    own.flat_map(|infos| infos.extract_if(.., is_shared))
        .collect()
}

/// Returns the member that shares infos, which is the first info, and the remaining infos.
fn of_member<'i>(info: &'i Info<'static>) -> Option<(&'i Proc<'static>, &'i [Info<'static>])> {
    let Value::DataArray(DataArray::Info(infos)) = &info.value else {
        return None;
    };
    let (first, rest) = infos.split_first()?;
    match &first.value {
        Value::Proc(proc) if first.key.is(keys::PROCID) => Some((proc, rest)),
        _ => None,
    }
}

/// Stores the infos that a member shares, for gets with the context id.
fn share(cx: &mut Cx, proc: &Proc<'static>, infos: &[Info<'static>], context_id: u64) {
    cx.shared.puts_changed(proc);
    let more = crate::weight::infos(infos);
    let most = cx.config.put_bytes_per_process;
    let stored = cx.store.update_modex(&proc.nspace, |puts| {
        let num_keys = puts.num_keys(proc.rank).saturating_add(infos.len());
        // Shared infos count against the limits of the process's own data.
        if puts.num_bytes(proc.rank).saturating_add(more) > most
            || num_keys > cx.config.put_keys_per_process
        {
            tracing::warn!(nspace = %proc.nspace, rank = %proc.rank, "the data of a group member exceeds the \
            limit and is not shared");
            return Ok(());
        }
        for info in infos {
            let mut value = QualifiedValue::new(info.try_clone()?);
            value.qualify(keys::GROUP_CONTEXT_ID, Value::Size(context_id));
            puts.put(proc.rank, Scope::GLOBAL, value.into_info())?;
        }
        Ok(())
    });
    if let Err(error) = stored {
        tracing::debug!(%error, "cannot store the data that a member shares with its group");
    }
}

/// Returns the event that informs the members of a group about one of them.
pub(super) fn event(
    cx: &Cx,
    status: Status,
    name: &Text<'_>,
    mut members: Vec<Proc<'static>>,
    about: &Proc<'static>,
) -> Option<Notification> {
    members.retain(|member| member != about);
    if members.is_empty() {
        return None;
    }
    let name = Value::String(Some(name.clone().into_owned()));
    let infos = vec![
        Info::new(keys::EVENT_NON_DEFAULT, true),
        // The event is for the current members, not for later ones.
        Info::new(keys::EVENT_DO_NOT_CACHE, true),
        Info::new(keys::EVENT_CUSTOM_RANGE, members),
        Info::new(keys::GROUP_ID, name),
        Info::new(keys::EVENT_AFFECTED_PROC, about.clone()),
    ];
    let source = match status {
        Status::GROUP_LEFT => about.clone(),
        _ => cx.config.server.clone(),
    };
    let event = Notification::new(Reporter::Server, status, source, DataRange::CUSTOM, infos);
    event.ok()
}
