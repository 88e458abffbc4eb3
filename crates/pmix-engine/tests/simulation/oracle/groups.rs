// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups after their construction, and invitations: all operations end, and their results agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pmix_proto::{Event, PeerForm};
use pmix_types::{DataArray, Info, IntoOwned as _, Proc, Status, Value, keys};

use super::Oracle;
use crate::agenda;
use crate::client::{Saying, What, Who};
use crate::fault::Fault;
use crate::invite::{name_of, number_of};
use crate::process::{Collective, ProcId};
use crate::world::World;

/// The time in which servers report their information.
const SOON: Duration = Duration::from_secs(4);

/// The time in which the election of a lost leader's successor ends.
const CHOSEN_BY: Duration = Duration::from_secs(10);

/// An invitation with its observations. After the loss of its first leader, others may lead it.
#[derive(Debug)]
pub(crate) struct Invitation {
    /// The first leader.
    pub(crate) leader: ProcId,
    /// The current and previous leaders, with connections and incarnations.
    pub(crate) leads: BTreeMap<ProcId, (Who, u16)>,
    /// The processes that offered to replace a lost leader.
    claims: BTreeMap<ProcId, (Who, u16)>,
    /// The elected successors by lost leader.
    chosen: BTreeMap<ProcId, ProcId>,
    /// The lost leaders whose loss led a process to abort the construct.
    given_up_with: BTreeSet<ProcId>,
    /// The lost leaders whose server received such an abort before the election ended.
    ended_with: BTreeSet<ProcId>,
    pub(crate) invited: Vec<ProcId>,
    /// `true` if members are notified of terminations.
    pub(crate) notifies: bool,
    /// The outcome that each leader intends.
    pub(crate) end: BTreeMap<ProcId, Outcome>,
    /// The outcomes that servers accepted.
    ended: BTreeMap<ProcId, Outcome>,
    /// `true` if the server accepted the invitation.
    is_open: bool,
    /// The acceptances: process and leader.
    accepted: BTreeSet<(ProcId, ProcId)>,
    /// The successful acceptances: connection and leader.
    joined: BTreeSet<(Who, ProcId)>,
    /// The outcome that each connection received under each leader.
    pub(super) told: BTreeMap<(Who, ProcId), Outcome>,
    pub(super) told_at: BTreeMap<(Who, ProcId), Duration>,
    /// The connections that do not wait for the outcome any more.
    pub(crate) given_up: BTreeSet<Who>,
    /// `true` if a leader withdrew its completion because its server refused it.
    pub(super) is_unclear: bool,
    /// The reported losses: leader and lost process.
    failed: BTreeSet<(ProcId, ProcId)>,
    /// The members that processes received, by leader.
    formed: BTreeMap<ProcId, Vec<Proc<'static>>>,
}

/// The outcome of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Complete,
    Aborted,
    LeaderFailed,
}

impl Invitation {
    pub(crate) fn new(
        leader: ProcId,
        (led_by, life): (Who, u16),
        invited: Vec<ProcId>,
        notifies: bool,
    ) -> Self {
        Self {
            leader,
            leads: BTreeMap::from([(leader, (led_by, life))]),
            claims: BTreeMap::new(),
            chosen: BTreeMap::new(),
            given_up_with: BTreeSet::new(),
            ended_with: BTreeSet::new(),
            invited,
            notifies,
            end: BTreeMap::new(),
            ended: BTreeMap::new(),
            is_open: false,
            accepted: BTreeSet::new(),
            joined: BTreeSet::new(),
            told: BTreeMap::new(),
            told_at: BTreeMap::new(),
            given_up: BTreeSet::new(),
            is_unclear: false,
            failed: BTreeSet::new(),
            formed: BTreeMap::new(),
        }
    }

    /// Returns the outcomes that a connection received under any leader.
    pub(super) fn told_to(&self, who: Who) -> impl Iterator<Item = Outcome> {
        let told = self.told.iter();
        told.filter(move |((to, _), _)| *to == who)
            .map(|(_, outcome)| *outcome)
    }

    /// Returns `true` if a connection may still wait for the end of the invitation: it has accepted the invitation of a
    /// leader and received no outcome under this leader, or it has led the invitation.
    pub(super) fn may_wait(&self, who: Who) -> bool {
        let mut joined = self.joined.iter();
        joined.any(|(by, leader)| *by == who && !self.told.contains_key(&(who, *leader)))
            || self.leads.values().any(|(by, _)| *by == who)
    }
}

impl Oracle {
    /// Records a call for the destruct of a group.
    pub(crate) fn calls_destruct(
        &mut self,
        proc: ProcId,
        collective: &Collective,
        round: usize,
        now: Duration,
    ) {
        let calls = self.calls.entry((collective.clone(), proc)).or_default();
        *calls = (*calls).max(round + 1);
        let round = self.rounds.entry((collective.clone(), round)).or_default();
        round.callers.insert(proc, None);
        round.last_called = now;
    }

    /// Records a departure from a group.
    pub(crate) fn leaves(&mut self, proc: ProcId, made: &Collective, round: usize) {
        self.left.insert((made.members.clone(), round, proc));
    }

    pub(super) fn has_left(&self, collective: &Collective, round: usize, proc: ProcId) -> bool {
        let is_destruct = matches!(collective.kind, crate::process::Kind::Destruct(_));
        is_destruct
            && self
                .left
                .contains(&(collective.members.clone(), round, proc))
    }
}

/// Faults after which servers may know different groups.
pub(super) const UNCLEAR_GROUPS: &[Fault] = &[
    Fault::CrashServer,
    Fault::Deregister,
    Fault::LateJob,
    Fault::Again,
    Fault::Duplicate,
    Fault::Dismiss,
    Fault::Garbage,
];

impl World {
    /// Checks that a member can leave its group, and that a process cannot leave a destructed one.
    pub(super) fn check_left(&self, who: Who, is_in: bool, status: Status) {
        let place = self.clients[who].proc.unwrap();
        // Another incarnation may have been a member.
        let is_unclear = self.procs[place].is_restless || self.plan.has(Fault::Deregister);
        let expected = match is_in {
            true => Status::SUCCESS,
            false => Status::ERR_NOT_FOUND,
        };
        assert!(
            status == expected || is_unclear || status == Status::ERR_OUT_OF_RESOURCE,
            "connection {who} leaves a group (member: {is_in}) and got {status}"
        );
    }

    /// Records a core's statement about an invitation.
    pub(crate) fn says_of_invitation(&mut self, who: Who, number: usize, saying: Saying) {
        let Some(place) = self.clients[who].proc else {
            return;
        };
        let life = self.procs[place].stamp.life;
        let invitation = &mut self.oracle.invitations[number];
        match saying {
            Saying::Accept(leader) => _ = invitation.accepted.insert((place, leader)),
            Saying::Lead(_) => _ = invitation.claims.insert(place, (who, life)),
            Saying::GiveUp(leader) => _ = invitation.given_up_with.insert(leader),
            Saying::Complete | Saying::Abort => {
                let end = match saying {
                    Saying::Complete => Outcome::Complete,
                    _ => Outcome::Aborted,
                };
                let before = invitation.end.insert(place, end);
                invitation.is_unclear |= before.is_some_and(|before| before != end);
            }
            Saying::Invite | Saying::Decline | Saying::Follow => {}
        }
    }

    /// Checks the reply of a server to a statement about an invitation.
    pub(super) fn check_said(&mut self, who: Who, number: usize, saying: Saying, status: Status) {
        let is_done = status.is_success();
        let is_excused = self.is_groups_excused(number, who);
        let own = self.clients[who].proc;
        let invitation = &mut self.oracle.invitations[number];
        match saying {
            Saying::Invite => invitation.is_open = is_done,
            Saying::Accept(leader) if is_done => {
                invitation.joined.insert((who, leader));
                // Every leader has given up by then.
                let after = Duration::from_secs(20);
                self.after(after, agenda::Event::Joined(number, who, leader));
            }
            Saying::GiveUp(old) if is_done => {
                let node = self.clients[who].node;
                if node == self.procs[old].node && !invitation.chosen.contains_key(&old) {
                    invitation.ended_with.insert(old);
                }
            }
            Saying::Accept(leader) if status == Status::GROUP_CONSTRUCT_ABORT => {
                self.check_is_ended(number, who, leader);
            }
            Saying::Complete | Saying::Abort if is_done => {
                let Some(leader) = own else {
                    return;
                };
                let end = invitation.end[&leader];
                invitation.ended.insert(leader, end);
                let complete = invitation.ended.values();
                let complete = complete.filter(|end| **end == Outcome::Complete).count();
                assert!(
                    complete <= 1 || is_excused,
                    "invitation {number} is complete under two leaders: {invitation:?}"
                );
                let joined = invitation.joined.iter();
                let joined = joined.filter(|(_, to)| *to == leader);
                for (who, leader) in joined.copied().collect::<Vec<_>>() {
                    self.after(SOON, agenda::Event::Joined(number, who, leader));
                }
            }
            _ => {}
        }
    }

    /// Checks that an acceptance is refused only if the invitation has ended.
    fn check_is_ended(&self, number: usize, who: Who, leader: ProcId) {
        let invitation = &self.oracle.invitations[number];
        let is_over = invitation.end.contains_key(&leader) || !self.leads_on(number, leader);
        // A finalizing process counts as lost in an election.
        let leaves = |(by, _): &(Who, u16)| {
            let asked = self.clients[*by].asked.values();
            { asked }.any(|asked| asked.what == What::Finalize)
        };
        let is_over = is_over || invitation.leads.get(&leader).is_some_and(leaves);
        assert!(
            is_over || self.is_groups_excused(number, who),
            "connection {who} cannot accept invitation {number}, which is open"
        );
    }

    /// Returns `true` if a leader is connected in the incarnation in which it began to lead.
    fn leads_on(&self, number: usize, leader: ProcId) -> bool {
        let invitation = &self.oracle.invitations[number];
        let leads = invitation.leads.get(&leader);
        leads.is_some_and(|(by, life)| {
            self.clients[*by].is_live() && self.procs[leader].stamp.life == *life
        })
    }

    /// Returns `true` after a fault that servers do not observe.
    fn is_groups_excused(&self, number: usize, who: Who) -> bool {
        let invitation = &self.oracle.invitations[number];
        let client = &self.clients[who];
        let mut leads = invitation.leads.values();
        let is_late =
            client.held.is_some() || leads.any(|(by, _)| self.clients[*by].held.is_some());
        self.is_over || is_late || self.has_any(UNCLEAR_GROUPS)
    }

    /// Returns the process with a name.
    pub(crate) fn place_of(&self, name: &Proc<'_>) -> Option<ProcId> {
        self.procs.iter().position(|proc| proc.name() == *name)
    }

    /// Checks an event of a server about an invitation.
    pub(super) fn group_event_sent(&mut self, who: Who, form: &PeerForm, payload: &[u8]) {
        let event = Event::decode(form, None, payload).expect("an event that can be read");
        if event.status == Status::GROUP_MEMBER_FAILED {
            return self.termination_told(who, &event);
        }
        let Some(number) = number_of(&event.infos) else {
            return self.led_event_sent(who, &event);
        };
        let about = proc_in(&event.infos, keys::EVENT_AFFECTED_PROC);
        let about = about.and_then(|proc| self.place_of(&proc));
        let source = self.place_of(&event.source);
        let invitation = &mut self.oracle.invitations[number];
        let (outcome, leader) = match (event.status, source) {
            (Status::GROUP_CONSTRUCT_COMPLETE, Some(leader)) => (Outcome::Complete, leader),
            (Status::GROUP_CONSTRUCT_ABORT, Some(leader)) => (Outcome::Aborted, leader),
            (Status::GROUP_CONSTRUCT_ABORT, None) => {
                let old = about.expect("a leader that is lost");
                assert!(
                    invitation.given_up_with.contains(&old),
                    "invitation {number} ends, but no process aborted it: {invitation:?}"
                );
                invitation
                    .told
                    .entry((who, old))
                    .or_insert(Outcome::LeaderFailed);
                return;
            }
            // A finalizing leader also receives the messages of others to its server, while it is connected.
            (Status::GROUP_LEADER_FAILED, Some(_)) if about == self.clients[who].proc => return,
            (Status::GROUP_LEADER_FAILED, _) => {
                (Outcome::LeaderFailed, about.expect("a leader that is lost"))
            }
            (Status::GROUP_LEADER_SELECTED, _) => {
                let old = about.expect("a leader that is lost");
                // A process that registered after the loss receives this event only.
                let told = invitation.told.entry((who, old));
                told.or_insert(Outcome::LeaderFailed);
                let new = proc_in(&event.infos, keys::GROUP_LEADER);
                if let Some(new) = new.and_then(|new| self.place_of(&new)) {
                    self.check_chosen(number, who, old, new);
                }
                return;
            }
            (Status::GROUP_INVITED, Some(leader)) if leader != invitation.leader => {
                // A process that receives both invitations at once may accept the outdated one.
                if !invitation.joined.iter().any(|(by, _)| *by == who) {
                    return;
                }
                self.after(SOON, agenda::Event::Follows(number, who, leader));
                return;
            }
            (Status::GROUP_INVITE_FAILED, _) => {
                let about = about.expect("the event names the lost process");
                assert!(invitation.invited.contains(&about), "it was not invited");
                let leader = self.clients[who].proc.expect("the leader gets the event");
                let leads = invitation.leads.get(&leader);
                assert!(
                    leads.is_some_and(|(by, _)| *by == who) || self.procs[leader].is_restless,
                    "connection {who} does not lead invitation {number}: {invitation:?}"
                );
                assert!(
                    invitation.failed.insert((leader, about)),
                    "the leader got the loss of process {about} twice"
                );
                return;
            }
            _ => return,
        };
        match outcome {
            Outcome::LeaderFailed => {
                assert!(
                    leader == invitation.leader || invitation.leads.contains_key(&leader),
                    "process {leader} never led invitation {number}"
                );
                // The server reports the loss before it closes the connection.
                self.after(SOON, agenda::Event::LeaderGone(number, leader));
            }
            outcome => assert!(
                Some(&outcome) == invitation.end.get(&leader) || invitation.is_unclear,
                "invitation {number} is {outcome:?}: {invitation:?}"
            ),
        }
        self.say(|| {
            format!("connection {who} got {outcome:?} for invitation {number} of {leader}")
        });
        // The loss of a leader on another node may overtake its last event.
        let is_elsewhere = self.procs[leader].node != self.clients[who].node;
        let now = self.now;
        let invitation = &mut self.oracle.invitations[number];
        // Other processes may be asked first if they lead.
        let known_at = match outcome {
            Outcome::LeaderFailed => now + CHOSEN_BY,
            _ => now,
        };
        invitation.told_at.entry((who, leader)).or_insert(known_at);
        let before = invitation.told.insert((who, leader), outcome);
        let is_overtaken = is_elsewhere && before == Some(Outcome::LeaderFailed);
        let is_overtaken = is_overtaken || invitation.is_unclear;
        assert!(
            before.is_none() || is_overtaken,
            "connection {who} got {before:?} and {outcome:?} for invitation {number}"
        );
    }

    /// Checks that all processes receive the same new leader, which has offered to lead.
    fn check_chosen(&mut self, number: usize, who: Who, old: ProcId, new: ProcId) {
        let is_excused = self.is_groups_excused(number, who);
        self.say(|| {
            format!("connection {who} is notified that {new} leads invitation {number} for {old}")
        });
        let invitation = &mut self.oracle.invitations[number];
        let claim = invitation.claims.get(&new).copied();
        assert!(
            claim.is_some(),
            "process {new} did not offer to lead: {invitation:?}"
        );
        assert!(
            !invitation.ended_with.contains(&old) || is_excused,
            "process {new} leads invitation {number}, which was aborted: {invitation:?}"
        );
        let before = invitation.chosen.insert(old, new);
        let is_decided_here = self.clients[who].node == self.procs[old].node
            && self.procs[new].node == self.procs[old].node;
        let is_there = claim.is_some_and(|(by, _)| self.clients[by].is_known);
        assert!(
            is_there || !is_decided_here || before.is_some() || is_excused,
            "process {new} has exited but leads invitation {number}"
        );
        assert!(
            before.is_none_or(|before| before == new) || is_excused,
            "{before:?} and {new} both replace {old} in invitation {number}"
        );
        invitation
            .leads
            .entry(new)
            .or_insert_with(|| claim.unwrap_or_default());
    }

    /// Checks that a leader reported as lost is lost.
    pub(crate) fn check_leader_gone(&self, number: usize, leader: ProcId) {
        assert!(
            !self.leads_on(number, leader),
            "the leader of invitation {number} is alive"
        );
    }

    /// Checks that a waiting process invited by a new leader has accepted.
    pub(crate) fn check_follows(&self, number: usize, who: Who, leader: ProcId) {
        let invitation = &self.oracle.invitations[number];
        let client = &self.clients[who];
        let waits = { client.begun.values() }.any(|begun| begun.what == What::Join(number));
        let is_slow = [Fault::Slow, Fault::Delay, Fault::Lie]
            .iter()
            .any(|f| self.plan.has(*f));
        let own = client.proc.expect("a process");
        let is_lost = client
            .core
            .as_ref()
            .is_none_or(|core| core.lost().is_some());
        assert!(
            invitation.accepted.contains(&(own, leader))
                || invitation.chosen.values().any(|chosen| *chosen == own)
                || invitation.told.contains_key(&(who, leader))
                || !waits
                || is_lost
                || is_slow
                || self.is_groups_excused(number, who),
            "connection {who} does not follow {leader} in invitation {number}: {invitation:?}"
        );
    }

    /// Checks that a process that accepted an invitation has received the outcome.
    pub(crate) fn check_joined(&self, number: usize, who: Who, leader: ProcId) {
        let invitation = &self.oracle.invitations[number];
        let client = &self.clients[who];
        let is_there = client.is_live() && !client.is_spoiled && client.hears_groups;
        let is_told =
            invitation.told.contains_key(&(who, leader)) || invitation.given_up.contains(&who);
        // The last statement of the leader may never reach its server.
        let is_known = invitation.ended.contains_key(&leader) || !self.leads_on(number, leader);
        assert!(
            is_told || !is_there || !is_known || self.is_groups_excused(number, who),
            "connection {who} joined invitation {number} and got no event: {invitation:?}"
        );
    }

    /// Checks that members agree on the leader and the members, which have all accepted.
    pub(super) fn check_formed(&mut self, who: Who, number: usize, members: &[Proc<'static>]) {
        let own = self.clients[who].proc.expect("a process");
        let places: Vec<_> = members.iter().map(|name| self.place_of(name)).collect();
        let is_excused = self.is_groups_excused(number, who);
        let invitation = &mut self.oracle.invitations[number];
        let told = invitation.told.iter();
        let told = told.filter(|((to, _), told)| *to == who && **told == Outcome::Complete);
        let leader = told.map(|((_, leader), _)| *leader).next();
        let leads = invitation.leads.contains_key(&own)
            && invitation.end.get(&own) == Some(&Outcome::Complete);
        let Some(leader) = leader.or_else(|| leads.then_some(own)) else {
            panic!("connection {who} is in a group but got no event of it: {invitation:?}");
        };
        assert!(
            places.contains(&Some(own)),
            "it is not in its own group: {members:?}"
        );
        let has_accepted = |place: &Option<ProcId>| {
            place.is_some_and(|place| {
                place == leader || invitation.accepted.contains(&(place, leader))
            })
        };
        assert!(
            places.iter().all(has_accepted),
            "not all of {places:?} have accepted: {invitation:?}"
        );
        let before = invitation
            .formed
            .entry(leader)
            .or_insert_with(|| members.to_vec());
        assert_eq!(before, members, "members of invitation {number}");
        assert!(
            invitation.formed.len() == 1 || is_excused,
            "invitation {number} is formed twice: {invitation:?}"
        );
        if invitation.notifies {
            let members = places.into_iter().flatten().collect();
            self.in_group_that_notifies(who, &name_of(number), members);
        }
    }

    /// Returns `true` if a joining process was notified to give up: by its leader, or by a process that aborted for
    /// all.
    pub(super) fn is_told_to_end(&self, who: Who, number: usize) -> bool {
        let invitation = &self.oracle.invitations[number];
        let own = self.clients[who].proc;
        let is_without = |members: &Vec<Proc<'_>>| {
            !own.is_some_and(|own| members.contains(&self.procs[own].name()))
        };
        let mut told = invitation.told_to(who);
        told.any(|told| told == Outcome::Aborted)
            || !invitation.given_up_with.is_empty()
            || own.is_some_and(|own| invitation.leads.contains_key(&own))
            || invitation.formed.values().any(is_without)
    }

    /// Schedules the checks after a loss: waiting leaders, and processes waiting for a leader, must be notified.
    pub(super) fn expect_news_of_groups(&mut self, lost: ProcId) {
        let mut due = Vec::new();
        for (number, invitation) in self.oracle.invitations.iter().enumerate() {
            if invitation.leads.contains_key(&lost) && !invitation.ended.contains_key(&lost) {
                let joined = invitation.joined.iter();
                let joined = joined.filter(|(_, leader)| *leader == lost);
                due.extend(joined.map(|(who, _)| agenda::Event::Joined(number, *who, lost)));
            }
            if invitation.invited.contains(&lost) && invitation.is_open {
                let leader = invitation.leader;
                due.push(agenda::Event::Failed(number, lost, leader));
            }
        }
        for event in due {
            self.after(SOON, event);
        }
    }

    /// Checks that the leader was notified of the loss of an invited process, unless it had ended the invitation.
    pub(crate) fn check_failed(&self, number: usize, lost: ProcId, leader: ProcId) {
        let invitation = &self.oracle.invitations[number];
        let is_told =
            invitation.failed.contains(&(leader, lost)) || invitation.end.contains_key(&leader);
        let who = invitation.leads[&leader].0;
        assert!(
            is_told || !self.leads_on(number, leader) || self.is_groups_excused(number, who),
            "the leader of invitation {number} did not get the loss of process {lost}"
        );
    }
}

/// Returns the process, or the first of a list, under a key.
pub(crate) fn proc_in(infos: &[Info<'_>], key: &str) -> Option<Proc<'static>> {
    let found = infos.iter().find(|info| info.key.is(key))?;
    match &found.value {
        Value::DataArray(DataArray::Proc(procs)) => procs.first().cloned().map(|p| p.into_owned()),
        Value::Proc(proc) => Some(proc.clone().into_owned()),
        _ => None,
    }
}
