// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of collectives.

use std::time::Duration;

use pmix_proto::reply;
use pmix_types::{Proc, Status};

use super::Seen;
use crate::client::Who;
use crate::fault::Fault;
use crate::process::{Collective, Kind, ProcId};
use crate::world::World;

/// The time in which all servers learn of a finalized process that does not return, and the host of the consequences.
const SOON: Duration = Duration::from_secs(6);

impl World {
    /// Checks that all local participants get the same result, as do those of other nodes unless the host withheld it
    /// from their server. Success requires the calls of all participants.
    pub(super) fn check_collective(
        &mut self,
        who: Who,
        collective: &Collective,
        place: usize,
        status: Status,
    ) {
        let mut members = collective.members.iter();
        let is_gone = |proc: ProcId| self.jobs[self.procs[proc].job].is_gone;
        if members.any(|proc| self.procs[*proc].is_restless || is_gone(*proc)) {
            return;
        }
        let node = self.clients[who].node;
        let id = (collective.clone(), place);
        if self.oracle.spoiled.contains(&id) {
            return;
        }
        let round = self.oracle.rounds.get_mut(&id);
        let round = round.expect("a process called this collective");
        // Participants that call before the job is registered may get the result at another time, with another reason.
        let is_early = self.plan.has(Fault::LateJob);
        // A group whose destruct failed is removed for the processes that received the failure: a later caller gets the
        // reason why it is impossible now.
        let is_early = is_early || matches!(collective.kind, Kind::Destruct(_));
        // Later callers get the same result.
        let is_first = round.told.is_empty();
        if let Some(before) = round.told.insert(node, status) {
            let agree =
                before == status || (is_early && before.is_success() == status.is_success());
            assert!(agree, "participants of one node got {before} and {status}");
        }
        // Such a destruct continues without terminated members, of which the others are notified.
        let is_cut_off = [Fault::CrashServer, Fault::Deregister].map(|fault| self.plan.has(fault));
        assert!(
            status != Status::ERR_LOST_CONNECTION
                || !self.destruct_notifies(collective, place)
                || is_cut_off.contains(&true),
            "connection {who} got {status} from the destruct of a group that drops lost members"
        );
        let round = &self.oracle.rounds[&id];
        assert!(
            status != Status::ERR_TIMEOUT
                || !is_first
                || self.may_be_late(collective, place, round),
            "connection {who} waits for a destruct that no process can call"
        );
        self.compare_nodes(node, &id, round);
        if status.is_success() {
            self.check_attendance(collective, place, round);
            self.learn(who, &id);
        }
    }

    /// Checks that a group has its members except those lost during its construct, and the host's context id.
    pub(super) fn check_group(
        &mut self,
        who: Who,
        collective: &Collective,
        place: usize,
        payload: &[u8],
    ) {
        let form = self.clients[who].form.as_ref().unwrap();
        let group = reply::Group::decode(form, None, payload).unwrap();
        let jobs = collective.members.iter().map(|proc| self.procs[*proc].job);
        let are_known = { jobs }.all(|job| !self.jobs[job].is_gone);
        let mut members = group.members;
        members.sort_unstable();
        members.dedup();
        // A job unknown to its server is listed as a whole.
        let names = |named: &Proc<'_>, proc: ProcId| {
            let name = self.procs[proc].name();
            named.nspace == name.nspace && name.rank.matches(named.rank)
        };
        let is_member =
            |named: &Proc<'_>| collective.members.iter().any(|proc| names(named, *proc));
        let name = collective.group(place);
        let is_out = |proc: ProcId| self.oracle.led.does_without(&name, proc);
        let is_there =
            |proc: ProcId| is_out(proc) || members.iter().any(|named| names(named, proc));
        let mut stayed =
            { collective.members.iter() }.filter(|proc| !self.procs[**proc].is_restless);
        assert!(
            !are_known || (members.iter().all(is_member) && stayed.all(|proc| is_there(*proc))),
            "{collective:?} has the members {members:?}"
        );
        self.check_led_members(&name, collective, &members);
        let context = u64::try_from(place).unwrap() + 1;
        assert_eq!(
            group.context_id,
            Some(context),
            "the group of {collective:?}"
        );
    }

    /// Compares the result of a node with the others, as far as the host sent it to all of them.
    fn compare_nodes(&self, node: usize, id: &(Collective, usize), round: &Seen) {
        let is_excused = |node: usize| {
            let (collective, place) = id.clone();
            let jumped = &self.oracle.jumped;
            jumped.contains(&node) || self.oracle.excused.contains(&(collective, place, node))
        };
        if is_excused(node) {
            return;
        }
        let status = round.told[&node];
        let others = round.told.iter();
        for (other, told) in others.filter(|(other, _)| !is_excused(**other)) {
            assert_eq!(
                told.is_success(),
                status.is_success(),
                "{id:?}: node {other} told {told}, node {node} told {status}"
            );
        }
    }

    /// Returns `true` if a collective may time out: it is no destruct, a member has not called, or the host or a server
    /// may lack information.
    fn may_be_late(&self, collective: &Collective, place: usize, round: &Seen) -> bool {
        let faults = [
            Fault::CrashServer,
            Fault::Deregister,
            Fault::Dismiss,
            Fault::LateJob,
            Fault::Again,
            Fault::HostLate,
            Fault::HostSilent,
            Fault::HostDrops,
            Fault::HostTwice,
            Fault::Jump,
            Fault::Slow,
            Fault::Delay,
            Fault::Lie,
            Fault::Haste,
            Fault::Duplicate,
            Fault::Garbage,
        ];
        let is_destruct = matches!(collective.kind, Kind::Destruct(_));
        let mut members = collective.members.iter();
        let is_waited_for = |proc: &ProcId| {
            let process = &self.procs[*proc];
            let is_gone = self.has_ended(*proc) && process.ended_at + SOON < self.now;
            let has_called = round.callers.contains_key(proc);
            !is_gone && !has_called && !self.oracle.has_left(collective, place, *proc)
        };
        !is_destruct
            || self.has_any(&faults)
            || round.last_called + SOON > self.now
            || members.any(is_waited_for)
    }

    /// Checks that all participants have called, in case of success.
    fn check_attendance(&self, collective: &Collective, place: usize, round: &Seen) {
        for member in &collective.members {
            let has_come = round.callers.contains_key(member)
                || self.oracle.has_left(collective, place, *member);
            let is_out = self
                .oracle
                .led
                .does_without(&collective.group(place), *member);
            let is_told_of = self.destruct_notifies(collective, place) && self.has_ended(*member);
            let has_come = has_come || is_out || is_told_of;
            assert!(has_come, "process {member} did not come");
        }
    }

    /// Records the data that a fence guarantees.
    fn learn(&mut self, who: Who, id: &(Collective, usize)) {
        let round = &self.oracle.rounds[id];
        if !round.collects || id.0.kind != Kind::Fence {
            return;
        }
        let learned = &mut self.clients[who].learned;
        for (proc, stamp) in &round.callers {
            if let Some(stamp) = stamp {
                let known = learned.entry(*proc).or_default();
                *known = (*known).max(*stamp);
            }
        }
    }
}
