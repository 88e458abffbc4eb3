// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with members that did not all know each other: all members receive the same group, and no caller waits for
//! processes that will not call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_proto::reply;
use pmix_types::{DataArray, Info, Proc, Status, Value, keys};

use crate::add_members::AddMembersConstruct;
use crate::agenda::Event;
use crate::client::{What, Who};
use crate::fault::Fault;
use crate::process::{FIRST_ADD_MEMBERS, ProcId, group_name};
use crate::world::World;

/// The number of formed groups, and of those without an intended member.
pub(crate) static NUM_CONSTRUCTED: AtomicU64 = AtomicU64::new(0);
pub(crate) static NUM_SMALLER: AtomicU64 = AtomicU64::new(0);

/// The time limit for reports: late packets, a late reply, and the grace period for the host.
const SOON: Duration = Duration::from_secs(16);

/// The observations of one such construct.
#[derive(Debug, Default)]
pub(crate) struct SeenConstruct {
    called: BTreeSet<ProcId>,
    /// The time of the first call, and that of the last call or loss.
    began_at: Option<Duration>,
    changed_at: Duration,
    /// The status that each member received.
    told: BTreeMap<ProcId, Status>,
    /// The ordered members, and the context id.
    formed: Option<(Vec<ProcId>, Option<u64>)>,
    /// The servers that called the host for leaders.
    pub(crate) called_host: BTreeSet<usize>,
    /// The servers that did not get the host's result in time or unchanged.
    pub(crate) excused: BTreeSet<usize>,
}

impl SeenConstruct {
    pub(super) fn has_called(&self, place: ProcId) -> bool {
        self.called.contains(&place)
    }
}

impl World {
    /// Records the call of a process.
    pub(crate) fn construct_called(&mut self, number: usize, place: ProcId) {
        let seen = &mut self.oracle.constructs[number];
        seen.called.insert(place);
        seen.began_at.get_or_insert(self.now);
        self.construct_changed(number);
    }

    /// Records the termination of a process.
    pub(crate) fn constructs_lose(&mut self, place: ProcId) {
        for number in 0..self.constructs.len() {
            if self.constructs[number].members.contains(&place) {
                self.construct_changed(number);
            }
        }
    }

    fn construct_changed(&mut self, number: usize) {
        self.oracle.constructs[number].changed_at = self.now;
        let time = self.construct_due_within(number);
        self.after(time, Event::ConstructDue(number));
    }

    /// Returns the time limit for reports and decisions.
    fn construct_due_within(&self, number: usize) -> Duration {
        match self.constructs[number].decider {
            Some(_) => SOON + self.config.leader_time * 4,
            None => SOON,
        }
    }

    /// Records the members that the host has determined.
    pub(crate) fn host_formed(&mut self, number: usize, infos: &[Info<'_>]) {
        let members = infos
            .iter()
            .find(|info| info.key.is(keys::GROUP_MEMBERSHIP));
        let Some(Value::DataArray(DataArray::Proc(members))) = members.map(|info| &info.value)
        else {
            panic!("the host returns the members");
        };
        let mut members = self.places_of(members);
        members.sort_unstable();
        let name = group_name(&[], FIRST_ADD_MEMBERS + number);
        self.host.groups.insert(name, members);
    }

    fn places_of(&self, names: &[Proc<'_>]) -> Vec<ProcId> {
        let places = names.iter().map(|name| self.place_of(name));
        places.map(|place| place.expect("a process")).collect()
    }

    /// Returns `true` after a fault with which members may have different information.
    fn is_unclear(&self, construct: &AddMembersConstruct) -> bool {
        let mut members = construct.members.iter();
        self.is_over
            || members.any(|member| {
                let proc = &self.procs[*member];
                proc.is_restless || self.jobs[proc.job].is_gone
            })
    }

    /// Checks the result of a construct for a caller.
    pub(super) fn check_construct(
        &mut self,
        who: Who,
        number: usize,
        status: Status,
        payload: &[u8],
    ) {
        let construct = self.constructs[number].clone();
        let node = self.clients[who].node;
        let place = self.clients[who].proc.expect("a process");
        if self.is_unclear(&construct) {
            return;
        }
        let is_excused = self.oracle.constructs[number].excused.contains(&node);
        let is_excused = is_excused || self.oracle.jumped.contains(&node);
        if !is_excused {
            self.oracle.constructs[number].told.insert(place, status);
        }
        if status.is_success() {
            self.check_formed_of(who, number, &construct, payload);
        } else if !is_excused {
            self.check_construct_end(number, &construct, place, status);
            if status == Status::ERR_LOST_CONNECTION {
                // The server sends the status before it reports the loss.
                self.after(Duration::ZERO, Event::ConstructLost(number));
            }
        }
        // All members received success, and no other process did.
        let seen = &self.oracle.constructs[number];
        let Some((members, _)) = &seen.formed else {
            return;
        };
        for (place, told) in &seen.told {
            let is_in = members.contains(place);
            assert_eq!(
                told.is_success(),
                is_in,
                "process {place} got {told} for the group of {members:?}: {construct:?}"
            );
        }
    }

    /// Checks that all members receive the same group of callers, in order.
    fn check_formed_of(
        &mut self,
        who: Who,
        number: usize,
        construct: &AddMembersConstruct,
        payload: &[u8],
    ) {
        let form = self.clients[who].form.as_ref().unwrap();
        let group = reply::Group::decode(form, None, payload).unwrap();
        let told = (self.places_of(&group.members), group.context_id);
        if construct.notifies {
            self.in_group_that_notifies(who, &Self::construct_name(number), told.0.clone());
        }
        assert!(told.1.is_some(), "a group without a context id");
        let seen = &mut self.oracle.constructs[number];
        if let Some(known) = &seen.formed {
            return assert_eq!(*known, told, "the group of {construct:?}");
        }
        seen.formed = Some(told.clone());
        let (members, _) = told;
        NUM_CONSTRUCTED.fetch_add(1, Ordering::Relaxed);
        let is_smaller = members.len() < construct.members.len();
        NUM_SMALLER.fetch_add(is_smaller.into(), Ordering::Relaxed);
        for named in &members {
            let is_planned = construct.members.contains(named) && seen.called.contains(named);
            assert!(is_planned, "process {named} did not call for {construct:?}");
        }
        let name = Self::construct_name(number);
        let mut left_out = self.oracle.led.left_out(&name);
        assert!(
            left_out.all(|place| self.procs[place].is_restless || !members.contains(&place)),
            "a dropped process is in {members:?}: {construct:?}"
        );
        let missing = construct.members.iter();
        for missing in missing.filter(|member| !members.contains(member)) {
            // Members are not added if their leader did not call.
            let adder = construct.adder(*missing);
            let is_added = adder.is_none_or(|adder| members.contains(&adder));
            let is_done_without = construct.may_lack_members() && self.has_ended(*missing)
                || self.oracle.led.does_without(&name, *missing);
            assert!(
                is_done_without || !is_added,
                "process {missing} is missing in {members:?}: {construct:?}"
            );
        }
        let leads = |place: &ProcId| construct.leaders().contains(place);
        let other = construct.contradictor();
        let other = other.filter(|other| members.contains(other));
        let is_alone = members.iter().filter(|place| leads(place)).count() == 1;
        assert!(
            other.is_none() || is_alone,
            "{construct:?} is formed, though its leaders want different orders"
        );
        if other.is_some() {
            return;
        }
        if let Some(expected) = self.expected_order(construct, &members) {
            assert_eq!(members, expected, "the order of {construct:?}");
        }
    }

    /// Returns the expected order of the members, if it is determined.
    fn expected_order(
        &self,
        construct: &AddMembersConstruct,
        members: &[ProcId],
    ) -> Option<Vec<ProcId>> {
        let is_in = |place: &ProcId| members.contains(place);
        let by_name = |places: &[ProcId]| {
            let mut places: Vec<_> = places.iter().copied().filter(is_in).collect();
            places.sort_by_key(|place| self.procs[*place].name());
            places
        };
        if let Some(order) = &construct.order {
            // Replacements added by leaders are not listed there.
            let others = construct.members.iter().copied();
            let others: Vec<_> = others.filter(|place| !order.contains(place)).collect();
            let order: Vec<_> = order.iter().copied().filter(is_in).collect();
            return Some([order, by_name(&others)].concat());
        }
        let (leaders, added) = construct.members.split_at(construct.leaders().len());
        let leaders = match construct.is_counted {
            true => by_name(leaders),
            false if leaders.iter().all(is_in) => leaders.to_vec(),
            false => return None,
        };
        Some([leaders, by_name(added)].concat())
    }

    /// Checks that a construct failed for a valid reason.
    fn check_construct_end(
        &self,
        number: usize,
        construct: &AddMembersConstruct,
        place: ProcId,
        status: Status,
    ) {
        let is_known = match status {
            Status::ERR_LOST_CONNECTION => true,
            Status::ERR_TIMEOUT => {
                let began_at = self.oracle.constructs[number].began_at;
                let is_time = |began| began + Duration::from_secs(1) <= self.now;
                !self.oracle.jumped.is_empty() || began_at.is_some_and(is_time)
            }
            Status::ERR_BAD_PARAM => construct.is_contradicted,
            Status::ERR_OUT_OF_RESOURCE => {
                self.plan.has(Fault::HostError) || self.plan.has(Fault::Flood)
            }
            Status::ERR_NOT_FOUND => self.plan.has(Fault::LateJob),
            // The rules for constructs with a leader check these reasons.
            Status::GROUP_CONSTRUCT_ABORT | Status::GROUP_LEADER_FAILED => {
                construct.decider.is_some()
            }
            _ => false,
        };
        assert!(is_known, "{construct:?} ends with {status} for {place}");
    }

    /// Checks that a construct that failed because of a loss has a lost member.
    pub(crate) fn check_construct_lost(&self, number: usize) {
        let construct = &self.constructs[number];
        let is_lost = |place: &ProcId| {
            let proc = &self.procs[*place];
            let client = proc.client.map(|who| &self.clients[who]);
            let is_cut = client.is_some_and(|client| !client.is_known);
            is_cut || proc.was_lost || self.has_ended(*place)
        };
        assert!(
            self.is_unclear(construct) || construct.members.iter().any(is_lost),
            "{construct:?} ends, but no process is lost"
        );
    }

    /// Checks that no caller waits that needs no other process, or a process that will not call.
    pub(crate) fn check_waits_of_construct(&mut self, number: usize) {
        let construct = self.constructs[number].clone();
        let seen = &self.oracle.constructs[number];
        // No server observes the loss of a process that was never admitted.
        let mut members = construct.members.iter();
        let is_unseen = |place: &ProcId| self.has_ended(*place) && self.procs[*place].admitted == 0;
        if members.any(is_unseen) {
            return;
        }
        let has_changed = seen.changed_at + self.construct_due_within(number) > self.now;
        if has_changed || self.is_unclear(&construct) || !seen.excused.is_empty() {
            return;
        }
        // A process that failed before it was added does not call again.
        let gave_up = |(place, status): (&ProcId, &Status)| {
            !status.is_success() && !construct.leaders().contains(place)
        };
        if seen.told.iter().any(gave_up) {
            return;
        }
        for client in &self.clients {
            let is_late = client.held.is_some() || client.is_spoiled || client.is_lied_to;
            let Some(place) = client.proc.filter(|_| client.is_live() && !is_late) else {
                continue;
            };
            let waits = client
                .asked
                .values()
                .any(|asked| asked.what == What::AddMembers(number) && asked.answer.is_none());
            assert!(
                !waits || !self.is_construct_over(number, place),
                "process {place} waits for {construct:?}: {seen:?}"
            );
        }
    }

    /// Returns `true` if a caller must have the result of a construct now.
    fn is_construct_over(&self, number: usize, caller: ProcId) -> bool {
        let construct = &self.constructs[number];
        let called = &self.oracle.constructs[number].called;
        let leads = |place: &ProcId| construct.leaders().contains(place);
        let is_added = |place: &ProcId| {
            construct
                .adder(*place)
                .is_some_and(|by| called.contains(&by))
        };
        let members = || construct.members.iter();
        let never = || members().filter(|place| self.has_ended(**place) && !called.contains(place));
        let is_part = leads(&caller) || is_added(&caller);
        let have_all_called =
            members().all(|place| called.contains(place) || self.has_ended(*place));
        let are_leaders_known = !construct.is_counted || !never().any(leads);
        let lacks_one =
            never().any(|place| is_added(place) || leads(place) && !construct.is_counted);
        is_part
            && (have_all_called && are_leaders_known || lacks_one && !construct.may_lack_members())
    }
}
