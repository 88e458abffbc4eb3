// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decisions of members about a construct with a leader.

use pmix_types::{DataArray, Info, Nspace, Proc, Status, Value, keys};

use super::super::participants::Participants;
use super::super::table::Collectives;
use super::super::tracker::{Phase, Slot};
use crate::Error;
use crate::cx::Cx;
use crate::ids::TrackerId;
use crate::infos::{is_set, value};
use crate::peers::Ticket;
use crate::timer::Timer;

/// The reply of a member to a question.
pub(super) struct MemberDecision<'s> {
    source: &'s Proc<'static>,
    status: Status,
    about: Proc<'static>,
    infos: &'s [Info<'s>],
}

impl Collectives {
    /// Handles an event that a process of this node reports. Returns `true` if it is a decision about a construct,
    /// which clients do not receive.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NO_PERMISSIONS` for an event that only servers raise. Returns the error of invalid added
    /// processes: the list, or a job that the leader may not read.
    pub(crate) fn handle_member_decision(
        &mut self,
        cx: &mut Cx,
        ticket: &Ticket,
        status: Status,
        infos: &[Info<'_>],
    ) -> Result<bool, Error> {
        if Self::is_announcement(status, infos) {
            return Err(Error::denied(
                "only a server may announce the leader of a group construct",
            ));
        }
        let member = cx.member(ticket)?;
        let source = member.proc.clone();
        let found = self.construct_decided_by(&source, status, infos);
        let Some((id, decision)) = found.filter(|_| member.client.is_some()) else {
            return Ok(false);
        };
        if let Some(Value::DataArray(DataArray::Proc(procs))) =
            value(infos, keys::GROUP_ADD_MEMBERS)
        {
            let size = |nspace: &Nspace<'_>| cx.readable_size(member, nspace);
            let is_here = |nspace: &Nspace<'_>, rank| cx.registry.find(nspace, rank).is_some();
            // Only this server knows the user of the leader, and so which jobs it may add.
            Participants::of(procs, &member.proc.nspace, size, is_here)?;
        }
        self.decided(cx, id, &decision);
        Ok(true)
    }

    /// Returns the construct that the event of a process may decide.
    pub(super) fn construct_decided_by<'s>(
        &self,
        source: &'s Proc<'static>,
        status: Status,
        infos: &'s [Info<'s>],
    ) -> Option<(TrackerId, MemberDecision<'s>)> {
        let concerns = [
            Status::GROUP_INVITE_FAILED,
            Status::GROUP_LEADER_FAILED,
            Status::GROUP_CONSTRUCT_ABORT,
        ];
        if !concerns.contains(&status) {
            return None;
        }
        let Some(Value::String(Some(name))) = value(infos, keys::GROUP_ID) else {
            return None;
        };
        let Some(Value::Proc(about)) = value(infos, keys::EVENT_AFFECTED_PROC) else {
            return None;
        };
        let about = Proc::new(about.nspace.to_shared(), about.rank);
        let is_it = |id: &TrackerId| {
            self.get(*id).is_some_and(|tracker| {
                let leadership = tracker.construct.leadership.as_ref();
                leadership.is_some_and(|led| led.concerns(&about)) && tracker.key.1.has(source)
            })
        };
        let id = self.led.of(name).find(is_it)?;
        let decision = MemberDecision {
            source,
            status,
            about,
            infos,
        };
        Some((id, decision))
    }

    /// Applies a decision, if its source is entitled to it.
    pub(super) fn decided(&mut self, cx: &mut Cx, id: TrackerId, decision: &MemberDecision<'_>) {
        let is_in = self.has_called(cx, id, decision.source);
        let Some(leadership) = self.leadership_of(id) else {
            return;
        };
        let leads = leadership.leader() == Some(decision.source);
        let is_old = leadership.lost_leader() == Some(&decision.about);
        match decision.status {
            // During an election no process leads, so any caller may abort.
            Status::GROUP_CONSTRUCT_ABORT if leads || (is_old && is_in) => {
                self.aborted(cx, id, &decision.about);
            }
            Status::GROUP_INVITE_FAILED if leads => self.leader_decided(cx, id, decision),
            Status::GROUP_LEADER_FAILED if is_old && is_in => {
                if is_set(decision.infos, keys::GROUP_LEADER) {
                    return self.elected(cx, id, decision.source);
                }
                leadership.declined.insert(decision.source.clone());
                self.settle_leader(cx, id);
            }
            _ => {}
        }
    }

    /// Returns `true` if a process has called and is not lost. A process of another node may have called.
    fn has_called(&self, cx: &Cx, id: TrackerId, proc: &Proc<'_>) -> bool {
        let Some(client) = cx.registry.find(&proc.nspace, proc.rank) else {
            return !cx.registry.was_here(proc);
        };
        self.get(id).is_some_and(|tracker| {
            let leadership = tracker.construct.leadership.as_ref();
            matches!(tracker.slots.get(&client), Some(Slot::Arrived(_)))
                && !leadership.is_some_and(|led| led.lost_callers.contains(&client))
        })
    }

    /// Ends a construct for all participants.
    fn aborted(&mut self, cx: &mut Cx, id: TrackerId, about: &Proc<'static>) {
        let status = Status::GROUP_CONSTRUCT_ABORT;
        let Some(tracker) = self.get(id) else {
            return;
        };
        if tracker.phase == Phase::Gathering {
            return self.fail(cx, id, status);
        }
        // The host was called here, but a server that still gathers ends the construct.
        let to = tracker.key.1.to_procs();
        let more = vec![Info::new(keys::GROUP_LEADER, about.clone())];
        self.notify(cx, id, status, to, about, more, false);
        self.close_leadership(cx, id);
    }

    /// Applies the decision of the leader about a lost process.
    fn leader_decided(&mut self, cx: &mut Cx, id: TrackerId, decision: &MemberDecision<'_>) {
        let added = procs_of_any(decision.infos, keys::GROUP_ADD_MEMBERS);
        if added.is_empty() && !is_set(decision.infos, keys::GROUP_OPTIONAL) {
            return self.fail(cx, id, Status::ERR_LOST_CONNECTION);
        }
        if !added.is_empty()
            && let Some(leadership) = self.leadership_of(id)
        {
            leadership.added.extend_from_slice(&added);
            let more = vec![Info::new(keys::GROUP_ADD_MEMBERS, added.clone())];
            let invited = Status::GROUP_INVITED;
            self.notify(cx, id, invited, added, decision.source, more, false);
        }
        self.is_decided(cx, id, &decision.about);
    }

    /// Drops a lost process from the construct, which continues once no decision is pending.
    pub(super) fn is_decided(&mut self, cx: &mut Cx, id: TrackerId, about: &Proc<'static>) {
        let Some(leadership) = self.leadership_of(id) else {
            return;
        };
        leadership.undecided.remove(about);
        if !leadership.is_open()
            && let Some(until) = leadership.until.take()
        {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
        self.go_on(cx, id);
    }
}

/// Returns the processes that infos list under a key.
fn procs_of_any(infos: &[Info<'_>], key: &str) -> Vec<Proc<'static>> {
    match value(infos, key) {
        Some(Value::DataArray(DataArray::Proc(procs))) => Proc::owned_list(procs),
        _ => Vec::new(),
    }
}
