// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups after they were made, and invitations: everybody ends, and they agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pmix_proto::{Event, PeerForm};
use pmix_types::{Status, Value, keys};

use super::Oracle;
use crate::agenda;
use crate::client::{Saying, Who};
use crate::fault::Fault;
use crate::invite::number_of;
use crate::process::{Meeting, ProcId};
use crate::world::World;

/// Within which time servers tell of what they know.
const SOON: Duration = Duration::from_secs(4);

/// Within which time somebody leads in the place of a leader that is lost, or nobody.
const CHOSEN_BY: Duration = Duration::from_secs(10);

/// An invitation, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Invitation {
    pub(crate) leader: ProcId,
    /// The connection of the leader, and its life then.
    pub(crate) led_by: Who,
    life: u16,
    pub(crate) invited: Vec<ProcId>,
    /// How it ends, as the leader wants it.
    pub(crate) end: Option<Outcome>,
    /// Whether the server took that.
    is_ended: bool,
    /// Whether the server took the invitation.
    is_open: bool,
    /// Who was told that its acceptance is on its way.
    joined: BTreeSet<Who>,
    /// What each was told about the end.
    pub(super) told: BTreeMap<Who, Outcome>,
    pub(super) told_at: BTreeMap<Who, Duration>,
    /// Who waits for its end no longer.
    pub(crate) given_up: BTreeSet<Who>,
    /// Whether the leader took back that it is complete, as its server did not take that.
    pub(super) is_unclear: bool,
    /// Of whose loss the leader was told.
    failed: BTreeSet<ProcId>,
}

/// How an invitation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Complete,
    Aborted,
    LeaderFailed,
}

impl Invitation {
    pub(crate) fn new(leader: ProcId, led_by: Who, life: u16, invited: Vec<ProcId>) -> Self {
        Self {
            leader,
            led_by,
            life,
            invited,
            end: None,
            is_ended: false,
            is_open: false,
            joined: BTreeSet::new(),
            told: BTreeMap::new(),
            told_at: BTreeMap::new(),
            given_up: BTreeSet::new(),
            is_unclear: false,
            failed: BTreeSet::new(),
        }
    }
}

impl Oracle {
    /// A process calls for the destruction of a group.
    pub(crate) fn calls_destruct(&mut self, proc: ProcId, meeting: &Meeting, round: usize) {
        self.calls.insert((meeting.clone(), proc), round + 1);
        let round = self.rounds.entry((meeting.clone(), round)).or_default();
        round.callers.insert(proc, None);
    }

    /// A process leaves a group.
    pub(crate) fn leaves(&mut self, proc: ProcId, made: &Meeting, round: usize) {
        self.left.insert((made.members.clone(), round, proc));
    }

    pub(super) fn has_left(&self, meeting: &Meeting, round: usize, proc: ProcId) -> bool {
        let is_destruct = matches!(meeting.kind, crate::process::Kind::Destruct(_));
        is_destruct && self.left.contains(&(meeting.members.clone(), round, proc))
    }
}

impl World {
    /// A group that a process is in can be left, and one that was taken apart cannot.
    pub(super) fn check_left(&self, who: Who, is_in: bool, status: Status) {
        let place = self.clients[who].proc.unwrap();
        // Another life may have been in it.
        let is_unclear = self.procs[place].is_restless || self.plan.has(Fault::Deregister);
        let expected = match is_in {
            true => Status::SUCCESS,
            false => Status::ERR_NOT_FOUND,
        };
        assert!(
            status == expected || is_unclear || status == Status::ERR_OUT_OF_RESOURCE,
            "connection {who} leaves a group, is it in one: {is_in}, and is told {status}"
        );
    }

    /// A server answers what was said about an invitation.
    pub(super) fn check_said(&mut self, who: Who, number: usize, saying: Saying, status: Status) {
        let is_done = status.is_success();
        let invitation = &mut self.oracle.invitations[number];
        match saying {
            Saying::Invite => invitation.is_open = is_done,
            Saying::Accept if is_done => {
                invitation.joined.insert(who);
                // Even a leader that forgets nothing has given up by then.
                self.after(Duration::from_secs(20), agenda::Event::Joined(number, who));
            }
            Saying::Accept if status == Status::GROUP_CONSTRUCT_ABORT => {
                self.check_is_ended(number, who);
            }
            Saying::Complete | Saying::Abort if is_done => {
                invitation.is_ended = true;
                let joined = invitation.joined.clone();
                for who in joined {
                    self.after(SOON, agenda::Event::Joined(number, who));
                }
            }
            _ => {}
        }
    }

    /// A leader says how an invitation ends.
    pub(crate) fn ends_invitation(&mut self, number: usize, saying: Saying) {
        let invitation = &mut self.oracle.invitations[number];
        let end = match saying {
            Saying::Complete => Outcome::Complete,
            _ => Outcome::Aborted,
        };
        let before = invitation.end.replace(end);
        invitation.is_unclear |= before.is_some_and(|before| before != end);
    }

    /// Nobody is told that an invitation is not open which is.
    fn check_is_ended(&self, number: usize, who: Who) {
        let invitation = &self.oracle.invitations[number];
        let is_over = invitation.end.is_some() || !self.leads_on(number);
        assert!(
            is_over || self.is_groups_excused(number, who),
            "connection {who} cannot accept invitation {number}, which is open"
        );
    }

    /// Whether the leader is as it was when it invited.
    fn leads_on(&self, number: usize) -> bool {
        let invitation = &self.oracle.invitations[number];
        let life = self.procs[invitation.leader].stamp.life;
        self.clients[invitation.led_by].is_live() && life == invitation.life
    }

    /// Whether a fault that no server hears of took place.
    fn is_groups_excused(&self, number: usize, who: Who) -> bool {
        let faults = [
            Fault::CrashServer,
            Fault::Deregister,
            Fault::LateJob,
            Fault::Again,
            Fault::Duplicate,
            Fault::Dismiss,
            Fault::Garbage,
        ];
        let invitation = &self.oracle.invitations[number];
        let client = &self.clients[who];
        let is_late = client.held.is_some() || self.clients[invitation.led_by].held.is_some();
        self.is_over || is_late || faults.iter().any(|fault| self.plan.has(*fault))
    }

    /// A server tells a client of an event that concerns an invitation.
    pub(super) fn group_event_sent(&mut self, who: Who, form: &PeerForm, payload: &[u8]) {
        let event = Event::decode(form, None, payload).expect("an event that can be read");
        let Some(number) = number_of(&event.infos) else {
            return;
        };
        let mut about = event.infos.iter();
        let about = about.find(|info| info.key.is(keys::EVENT_AFFECTED_PROC));
        let about = about.and_then(|info| match &info.value {
            Value::Proc(proc) => self.procs.iter().position(|p| p.name() == *proc),
            _ => None,
        });
        let invitation = &mut self.oracle.invitations[number];
        let outcome = match event.status {
            Status::GROUP_CONSTRUCT_COMPLETE => Outcome::Complete,
            Status::GROUP_CONSTRUCT_ABORT => Outcome::Aborted,
            Status::GROUP_LEADER_FAILED => Outcome::LeaderFailed,
            // Who asked to hear of it after the loss hears of this alone.
            Status::GROUP_LEADER_SELECTED => {
                assert_eq!(about, Some(invitation.leader));
                let told = invitation.told.entry(who);
                told.or_insert(Outcome::LeaderFailed);
                return;
            }
            Status::GROUP_INVITE_FAILED => {
                let about = about.expect("a process that is gone");
                assert!(invitation.invited.contains(&about), "it was not invited");
                assert_eq!(who, invitation.led_by, "who leads is told");
                assert!(
                    invitation.failed.insert(about),
                    "the leader is told twice of process {about}"
                );
                return;
            }
            _ => return,
        };
        match outcome {
            Outcome::LeaderFailed => {
                assert_eq!(about, Some(invitation.leader));
                // The server says first that it closes the connection, and then closes it.
                self.after(SOON, agenda::Event::LeaderGone(number));
            }
            outcome => assert!(
                Some(outcome) == invitation.end || invitation.is_unclear,
                "invitation {number} is {outcome:?}: {invitation:?}"
            ),
        }
        self.say(|| format!("connection {who} is told that invitation {number} is {outcome:?}"));
        let leader = self.oracle.invitations[number].leader;
        // From another node, the loss of a leader may come before what it said last.
        let is_elsewhere = self.procs[leader].node != self.clients[who].node;
        let now = self.now;
        let invitation = &mut self.oracle.invitations[number];
        // Others may be asked first whether they lead.
        let known_at = match outcome {
            Outcome::LeaderFailed => now + CHOSEN_BY,
            _ => now,
        };
        invitation.told_at.entry(who).or_insert(known_at);
        let before = invitation.told.insert(who, outcome);
        let is_overtaken = is_elsewhere && before == Some(Outcome::LeaderFailed);
        let is_overtaken = is_overtaken || invitation.is_unclear;
        assert!(
            before.is_none() || is_overtaken,
            "connection {who} is told {before:?} and {outcome:?} about invitation {number}"
        );
    }

    /// A leader that is said to be gone is.
    pub(crate) fn check_leader_gone(&self, number: usize) {
        assert!(
            !self.leads_on(number),
            "the leader of invitation {number} is there"
        );
    }

    /// Who accepted an invitation has been told how it ended.
    pub(crate) fn check_joined(&self, number: usize, who: Who) {
        let invitation = &self.oracle.invitations[number];
        let client = &self.clients[who];
        let is_there = client.is_live() && !client.is_spoiled && client.hears_groups;
        let is_told = invitation.told.contains_key(&who) || invitation.given_up.contains(&who);
        // What the leader says last may never come to its server.
        let is_known = invitation.is_ended || !self.leads_on(number);
        assert!(
            is_told || !is_there || !is_known || self.is_groups_excused(number, who),
            "connection {who} joined invitation {number} and hears nothing: {invitation:?}"
        );
    }

    /// A process is lost: leaders who wait for it are told, and who waits for it as a leader.
    pub(super) fn expect_news_of_groups(&mut self, lost: ProcId) {
        let mut due = Vec::new();
        for (number, invitation) in self.oracle.invitations.iter().enumerate() {
            if invitation.leader == lost && !invitation.is_ended {
                let joined = invitation.joined.iter();
                due.extend(joined.map(|who| agenda::Event::Joined(number, *who)));
            }
            if invitation.invited.contains(&lost) && invitation.is_open {
                due.push(agenda::Event::Failed(number, lost));
            }
        }
        for event in due {
            self.after(SOON, event);
        }
    }

    /// The leader was told of the loss of one that it invited, unless it had ended the invitation.
    pub(crate) fn check_failed(&self, number: usize, lost: ProcId) {
        let invitation = &self.oracle.invitations[number];
        let is_told = invitation.failed.contains(&lost) || invitation.end.is_some();
        let who = invitation.led_by;
        assert!(
            is_told || !self.leads_on(number) || self.is_groups_excused(number, who),
            "process {lost} is lost, and the leader of invitation {number} is not told"
        );
    }
}
