// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loss of a participant of a construct with a leader, and the election of a lost leader's successor.
//!
//! Only these functions handle the loss of a participant: [`Collectives::lost_while_led`] before the host is called,
//! [`Collectives::lost_while_hosting`] afterwards, and [`Collectives::leader_lost_elsewhere`] when another server
//! reports it.

use pmix_types::{Info, Proc, Status, keys};

use super::super::table::Collectives;
use super::super::tracker::{Phase, Slot};
use super::leadership::Leader;
use crate::cx::Cx;
use crate::ids::{ClientId, TrackerId};
use crate::timer::Timer;

impl Collectives {
    /// Handles the loss of a participant while a construct gathers. Returns `true` if a decision about it follows, and
    /// `false` if the loss is handled as in a construct without a leader.
    pub(in super::super) fn lost_while_led(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        client: ClientId,
        proc: &Proc<'static>,
    ) -> bool {
        let Some(tracker) = self.get_mut(id).filter(|tracker| !tracker.is_tolerant) else {
            return false;
        };
        let Some(leadership) = tracker
            .construct
            .leadership
            .as_mut()
            .filter(|led| led.is_led())
        else {
            return false;
        };
        let has_called = matches!(tracker.slots.get(&client), Some(Slot::Arrived(_)));
        // A loss is reported twice: when the connection closes, and when the client is deregistered.
        if has_called && !leadership.lost_callers.insert(client) {
            return true;
        }
        // `settle_leader` compares the replies with the callers that remain.
        leadership.declined.remove(proc);
        match &leadership.leader {
            Leader::Leads(leader) if leader == proc => self.leader_lost(cx, id, proc),
            Leader::Leads(_) if !leadership.is_held_back => self.ask_leader(cx, id, proc),
            Leader::Leads(_) => _ = leadership.undecided.insert(proc.clone()),
            // The elected leader will be asked about this process.
            Leader::Electing(_) | Leader::None => {
                leadership.undecided.insert(proc.clone());
                self.settle_leader(cx, id);
            }
            Leader::ElectingElsewhere(_) => {
                leadership.undecided.insert(proc.clone());
                self.wait_for_election(cx, id);
            }
        }
        true
    }

    /// Handles the loss of a participant after the host was called. If the leader is lost, a successor is elected,
    /// because other servers may still gather. The lost process remains a member, like any process lost at this time.
    pub(in super::super) fn lost_while_hosting(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        proc: &Proc<'static>,
    ) {
        let leadership = self
            .get(id)
            .and_then(|open| open.construct.leadership.as_ref());
        if leadership.is_some_and(|led| led.leader() == Some(proc) && !led.is_local) {
            self.leader_lost(cx, id, proc);
        }
    }

    /// Begins the election of a local leader's successor: all participants are notified.
    fn leader_lost(&mut self, cx: &mut Cx, id: TrackerId, proc: &Proc<'static>) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let to = tracker.key.1.to_procs();
        if let Some(leadership) = &mut tracker.construct.leadership {
            leadership.leader = Leader::Electing(proc.clone());
        }
        let more = vec![Info::new(keys::GROUP_LEADER, proc.clone())];
        self.ask_for_decision(cx, id, Status::GROUP_LEADER_FAILED, to, proc, more);
    }

    /// Begins to wait for the election of the successor of a leader on another node, which its server decides.
    pub(super) fn leader_lost_elsewhere(&mut self, cx: &mut Cx, id: TrackerId, old: Proc<'static>) {
        // The election shows that the construct has not ended.
        self.ask_held_back(cx, id);
        let Some(leadership) = self.leadership_of(id) else {
            return;
        };
        leadership.leader = Leader::ElectingElsewhere(old);
        // This limit was for a decision of the lost leader.
        let until = leadership.until.take();
        let waits = leadership.is_open();
        if let Some(until) = until {
            cx.timers.cancel(until, Timer::Leadership(id));
        }
        if waits {
            self.wait_for_election(cx, id);
        }
    }

    /// Waits for the outcome of an election that another server decides. That server may use all of its own time.
    fn wait_for_election(&mut self, cx: &mut Cx, id: TrackerId) {
        let until = cx.after(cx.config.leader_time.saturating_mul(2));
        self.wait_until(cx, id, until);
    }

    /// Ends an election of this server with a leader. The group is formed without the lost one.
    pub(super) fn elected(&mut self, cx: &mut Cx, id: TrackerId, leader: &Proc<'static>) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let to = tracker.key.1.to_procs();
        let Some(leadership) = &mut tracker.construct.leadership else {
            return;
        };
        let Some(old) = leadership.lost_leader().cloned() else {
            return;
        };
        leadership.leader = Leader::Leads(leader.clone());
        leadership.declined.clear();
        let more = vec![Info::new(keys::GROUP_LEADER, leader.clone())];
        let selected = Status::GROUP_LEADER_SELECTED;
        self.notify(cx, id, selected, to, &old, more, false);
        self.ask_about_lost(cx, id);
        self.is_decided(cx, id, &old);
    }

    /// Processes the outcome of an election that another server has decided, with or without a leader.
    pub(super) fn elected_elsewhere(
        &mut self,
        cx: &mut Cx,
        id: TrackerId,
        leader: Option<Proc<'static>>,
    ) {
        let Some(tracker) = self.get_mut(id) else {
            return;
        };
        let phase = tracker.phase;
        let Some(leadership) = &mut tracker.construct.leadership else {
            return;
        };
        let is_led = leader.is_some();
        leadership.leader = leader.map_or(Leader::None, Leader::Leads);
        match (is_led, phase) {
            (true, _) => self.ask_about_lost(cx, id),
            (false, Phase::Gathering) => self.fail(cx, id, Status::GROUP_LEADER_FAILED),
            (false, _) => {}
        }
    }

    /// Ends an election of this server without a leader if all participants have called and declined. With participants
    /// on other nodes, a process there may still offer to lead.
    pub(in super::super) fn settle_leader(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let Some(leadership) = &tracker.construct.leadership else {
            return;
        };
        let num_callers = tracker.caller_infos.len() - leadership.lost_callers.len();
        let is_electing = leadership.lost_leader().is_some() && leadership.is_local;
        if is_electing && tracker.is_complete() && leadership.declined.len() >= num_callers {
            self.leader_unreachable(cx, id);
        }
    }

    /// Ends the wait for a decision: no process has a handler for the event, or the time limit has expired.
    pub(crate) fn leader_unreachable(&mut self, cx: &mut Cx, id: TrackerId) {
        let Some(tracker) = self.get(id) else {
            return;
        };
        let phase = tracker.phase;
        let Some(leadership) = tracker
            .construct
            .leadership
            .as_ref()
            .filter(|led| led.is_open())
        else {
            return;
        };
        let (status, old) = (leadership.status(), leadership.lost_leader().cloned());
        if let Some(old) = old {
            let (to, selected) = (tracker.key.1.to_procs(), Status::GROUP_LEADER_SELECTED);
            self.notify(cx, id, selected, to, &old, Vec::new(), false);
        }
        match phase {
            Phase::Gathering => self.fail(cx, id, status),
            // The host was called here, but a server that still gathers ends the construct.
            _ => self.close_leadership(cx, id),
        }
    }
}
