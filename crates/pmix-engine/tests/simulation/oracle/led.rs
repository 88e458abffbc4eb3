// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructs with a leader: dropped processes, and successors of lost leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_client::Decision;
use pmix_proto::{Event, Tag};
use pmix_types::{Info, Proc, Status, Value, keys};

use super::groups::proc_in;
use crate::agenda;
use crate::client::{HandlerResult, What, Who};
use crate::fault::Fault;
use crate::process::{Collective, Kind, ProcId};
use crate::world::World;

/// The number of groups formed without a lost process, and of those with a successor of a lost leader.
pub(crate) static NUM_WITHOUT: AtomicU64 = AtomicU64::new(0);
pub(crate) static NUM_REPLACED: AtomicU64 = AtomicU64::new(0);

/// The time in which the host delivers an event to all servers.
const SOON: Duration = Duration::from_millis(500);

/// The observations of constructs with a leader, by group name.
#[derive(Debug, Default)]
pub(crate) struct Led {
    /// The processes dropped by a decision, and the replaced leaders.
    without: BTreeSet<(String, ProcId)>,
    replaced: BTreeSet<(String, ProcId)>,
    /// The constructs that a decision aborted.
    aborted: BTreeSet<String>,
    /// The successors of lost leaders; `None` if none was elected.
    chosen: BTreeMap<(String, ProcId), Option<Proc<'static>>>,
    /// The connections notified of a lost leader, and of the outcome of its election.
    told_lost: BTreeSet<(String, ProcId, Who)>,
    told_chosen: BTreeSet<(String, ProcId, Who)>,
    /// The members received first.
    members: BTreeMap<String, Vec<Proc<'static>>>,
}

impl Led {
    /// Returns the processes dropped by a decision.
    pub(super) fn left_out(&self, name: &str) -> impl Iterator<Item = ProcId> {
        let without = self.without.iter().filter(move |(group, _)| group == name);
        without.map(|(_, place)| *place)
    }

    /// Returns `true` if a group does not need a process.
    pub(super) fn does_without(&self, name: &str, proc: ProcId) -> bool {
        let key = (name.to_owned(), proc);
        self.without.contains(&key) || self.replaced.contains(&key)
    }
}

/// Returns the name of the constructed group in infos, if they concern a construct.
pub(crate) fn constructed(infos: &[Info<'_>]) -> Option<String> {
    let name = infos.iter().find(|info| info.key.is(keys::GROUP_ID))?;
    match &name.value {
        Value::String(Some(name)) => {
            let name = name.as_str()?;
            let is_constructed = name.starts_with("group-") || name.starts_with("added-");
            is_constructed.then(|| name.to_owned())
        }
        _ => None,
    }
}

impl World {
    /// Records a member's decision about a construct.
    pub(crate) fn note_decision(&mut self, event: &Event<'_>, decision: Option<&Decision>) {
        let about = proc_in(&event.infos, keys::EVENT_AFFECTED_PROC);
        let about = about.and_then(|name| self.place_of(&name));
        let (Some(name), Some(about)) = (constructed(&event.infos), about) else {
            return;
        };
        let led = &mut self.oracle.led;
        match decision {
            Some(Decision::Abort) => _ = led.aborted.insert(name),
            Some(Decision::GoOnWithout | Decision::Invite(_)) => {
                _ = led.without.insert((name, about))
            }
            Some(Decision::Lead) => _ = led.replaced.insert((name, about)),
            _ => {}
        }
    }

    /// Checks that all events about a construct name the same successor.
    pub(super) fn led_event_sent(&mut self, who: Who, event: &Event<'_>) {
        let concerns = [Status::GROUP_LEADER_FAILED, Status::GROUP_LEADER_SELECTED];
        let is_of_server = self.place_of(&event.source).is_none();
        let Some(name) =
            constructed(&event.infos).filter(|_| concerns.contains(&event.status) && is_of_server)
        else {
            return;
        };
        let about = proc_in(&event.infos, keys::EVENT_AFFECTED_PROC);
        let about = about.expect("clients do not get events between servers");
        let about = self.place_of(&about).expect("a process");
        let told = (name.clone(), about, who);
        if event.status == Status::GROUP_LEADER_FAILED {
            self.oracle.led.told_lost.insert(told);
            return;
        }
        self.oracle.led.told_chosen.insert(told);
        self.after(SOON, agenda::Event::Replaced(name.clone(), about));
        let new = proc_in(&event.infos, keys::GROUP_LEADER);
        let known = self.oracle.led.chosen.entry((name.clone(), about));
        let known = known.or_insert_with(|| new.clone());
        assert_eq!(*known, new, "leader of {name} for connection {who}");
        let key = (name, about);
        let is_wanted = self.oracle.led.replaced.contains(&key);
        assert!(
            new.is_none() || is_wanted,
            "{about} has a successor that no process requested"
        );
    }

    /// Checks that all callers receive the same members: dropped processes are not included, and no other is missing.
    pub(super) fn check_led_members(
        &mut self,
        name: &str,
        collective: &Collective,
        told: &[Proc<'_>],
    ) {
        let mut named = told.iter();
        if collective.leader().is_none() || named.any(|proc| !proc.rank.is_valid()) {
            return;
        }
        let told = Proc::owned_list(told);
        if !self.oracle.led.members.contains_key(name) {
            let is_smaller = told.len() < collective.members.len();
            NUM_WITHOUT.fetch_add(is_smaller.into(), Ordering::Relaxed);
            let mut chosen = self.oracle.led.chosen.iter();
            let is_led_anew = chosen.any(|((of, _), new)| of == name && new.is_some());
            NUM_REPLACED.fetch_add(is_led_anew.into(), Ordering::Relaxed);
        }
        let known = self.oracle.led.members.entry(name.to_owned());
        let known = known.or_insert_with(|| told.clone());
        assert_eq!(*known, told, "the members of {name}");
        for place in self.oracle.led.left_out(name) {
            let proc = &self.procs[place];
            assert!(
                proc.is_restless || !told.contains(&proc.name()),
                "{name} drops {:?}, but its members are {told:?}",
                proc.name()
            );
        }
    }

    /// Checks that a construct with a leader failed for a valid reason.
    pub(super) fn check_led_end(&mut self, who: Who, name: &str, leader: ProcId, status: Status) {
        if self.is_over {
            return;
        }
        let is_lost = |proc: ProcId| {
            let proc = &self.procs[proc];
            proc.was_lost || proc.client.is_none() || proc.is_restless
        };
        let replaced = self.oracle.led.chosen.iter();
        let mut replaced = replaced.filter(|((group, _), _)| group == name);
        match status {
            Status::GROUP_CONSTRUCT_ABORT => {
                let is_wanted = self.oracle.led.aborted.contains(name);
                assert!(is_wanted, "{name} ends, but no process aborted it");
            }
            Status::GROUP_LEADER_FAILED => {
                let has_reason = is_lost(leader) || replaced.next().is_some();
                assert!(
                    has_reason,
                    "{name} ends for the loss of its leader, which is alive"
                );
                // Its server reports that in the same turn.
                self.after(
                    Duration::ZERO,
                    agenda::Event::Leaderless(who, name.to_owned()),
                );
            }
            _ => {}
        }
    }

    /// Schedules the checks that a process waiting for a lost one in a construct with a leader gets a result within the
    /// decision time; later only after further losses.
    pub(super) fn expect_decision(&mut self, who: Who, tag: Tag, lost: ProcId, after: Duration) {
        let (once, often) = (self.config.leader_time, self.config.leader_time * 4);
        let turn = Duration::from_millis(1);
        self.after(after + once + turn, agenda::Event::Decided(who, tag, lost));
        self.after(
            after + often + turn,
            agenda::Event::DecidedAtLast(who, tag, lost),
        );
    }

    pub(crate) fn check_decided(&mut self, who: Who, tag: Tag, lost: ProcId, is_last: bool) {
        let client = &self.clients[who];
        let Some(asked) = client.asked.get(&tag) else {
            return;
        };
        let (name, members) = self.led_construct(&asked.what).expect("one that is led");
        let is_late = client.held.is_some() || self.plan.has(Fault::Slow);
        let has_gone = |member: &ProcId| {
            let proc = &self.procs[*member];
            *member != lost && (proc.was_lost || proc.client.is_none())
        };
        let is_open = !is_last && members.iter().any(has_gone);
        let is_decided = self.oracle.led.does_without(&name, lost);
        assert!(
            asked.answer.is_some()
                || self.is_led_excused(who, members)
                || is_late
                || is_open
                || is_decided,
            "connection {who} waits for lost process {lost} without a decision: {:?}",
            asked.what
        );
    }

    /// Returns `true` if a client may lack the outcome of a construct, or its server may not know it.
    fn is_led_excused(&self, who: Who, members: &[ProcId]) -> bool {
        let client = &self.clients[who];
        let mut members = members.iter();
        !client.is_known
            || client.is_spoiled
            || client.is_lied_to
            || self.is_over
            || members.any(|member| self.procs[*member].is_restless)
    }

    /// Schedules the check that the server of the lost process applies a decision, at once or after the host delivered
    /// it.
    pub(super) fn expect_result_taken(
        &mut self,
        who: Who,
        name: &str,
        about: ProcId,
        result: HandlerResult,
    ) {
        let is_elsewhere = self.procs[about].node != self.clients[who].node;
        let is_unsure = [Fault::HostLate, Fault::HostSilent, Fault::HostDrops];
        if is_elsewhere && is_unsure.iter().any(|fault| self.plan.has(*fault)) {
            return;
        }
        let time = if is_elsewhere { SOON } else { Duration::ZERO };
        let taken = agenda::Event::ResultTaken(who, name.to_owned(), about, result);
        self.after(time, taken);
    }

    /// Checks that a process's decision about a construct that it waits for was applied.
    pub(crate) fn check_result_taken(
        &self,
        who: Who,
        name: &str,
        about: ProcId,
        result: HandlerResult,
    ) {
        let client = &self.clients[who];
        let waits = client.asked.values().find_map(|asked| {
            let (group, members) = self.led_construct(&asked.what)?;
            (asked.answer.is_none() && group == name).then_some((&asked.what, members))
        });
        // Replies are packed when there is room for them.
        let is_late = client.held.is_some() || self.plan.has(Fault::Slow);
        let Some((what, members)) = waits.filter(|_| !is_late) else {
            return;
        };
        if self.is_led_excused(who, members) {
            return;
        }
        let is_chosen = self
            .oracle
            .led
            .chosen
            .contains_key(&(name.to_owned(), about));
        let is_done = match result {
            // A leader exists already, or the host was called: servers that wait for members end the construct.
            HandlerResult::Abort | HandlerResult::End => {
                is_chosen || self.has_called_host(what, self.procs[about].node)
            }
            HandlerResult::Lead => is_chosen,
            HandlerResult::GoOn | HandlerResult::Follow => true,
        };
        assert!(
            is_done,
            "connection {who} waits for {name}, of which it said {result:?} without process {about}: {what:?}"
        );
    }

    /// Returns the name and the awaited processes of a construct with a leader.
    pub(super) fn led_construct<'w>(&'w self, what: &'w What) -> Option<(String, &'w [ProcId])> {
        match what {
            What::Collective(collective, round) => {
                collective.leader()?;
                Some((collective.group(*round), &collective.members))
            }
            What::AddMembers(number) => {
                let construct = &self.constructs[*number];
                construct.decider?;
                Some((Self::construct_name(*number), construct.leaders()))
            }
            _ => None,
        }
    }

    fn has_called_host(&self, what: &What, node: usize) -> bool {
        let (collective, round) = match what {
            What::Collective(collective, round) => (collective, *round),
            What::AddMembers(number) => {
                return self.oracle.constructs[*number].called_host.contains(&node);
            }
            _ => return false,
        };
        let collective = Collective {
            kind: Kind::Group(round),
            members: collective.members.clone(),
        };
        let rounds = self.host.rounds.get(&collective).into_iter().flatten();
        { rounds }.any(|round| round.has(node))
    }

    /// Checks that a process notified of a lost leader is notified of the outcome of the election.
    pub(crate) fn check_replaced(&self, name: &str, old: ProcId) {
        let led = &self.oracle.led;
        for told in &led.told_lost {
            let (group, lost, who) = told;
            let client = &self.clients[*who];
            let is_there = client.is_live() && client.held.is_none() && !self.plan.has(Fault::Slow);
            assert!(
                group != name || *lost != old || !is_there || led.told_chosen.contains(told),
                "connection {who} did not get the successor of process {old} in {name}"
            );
        }
    }

    /// Checks that a process whose construct ended without a leader knows the failed election of a lost leader on its
    /// node.
    pub(crate) fn check_leaderless(&self, who: Who, name: &str) {
        let (led, client) = (&self.oracle.led, &self.clients[who]);
        let is_there = client.is_live() && client.held.is_none() && !self.plan.has(Fault::Slow);
        for told in &led.told_lost {
            let (group, lost, to) = told;
            let is_own = self.procs[*lost].node == client.node;
            assert!(
                group != name
                    || *to != who
                    || !is_own
                    || !is_there
                    || led.told_chosen.contains(told),
                "connection {who} is not notified that {name} has no successor of process {lost}"
            );
        }
    }
}
