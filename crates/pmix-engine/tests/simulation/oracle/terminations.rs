// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups with termination notification (`PMIX_GROUP_NOTIFY_TERMINATION`): all remaining members are notified once of
//! each terminated member, and never of a connected one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_proto::{Event, Request, request};
use pmix_types::{Status, Value, keys};

use super::groups::{UNCLEAR_GROUPS, proc_in};
use crate::agenda;
use crate::client::{What, Who};
use crate::fault::Fault;
use crate::process::{Collective, FIRST_ADD_MEMBERS, Kind, ProcId};
use crate::world::World;

/// The number of notifications of terminated members.
pub(crate) static NUM_TOLD: AtomicU64 = AtomicU64::new(0);

/// The time in which a server learns of a group and reports its lost members.
const SOON: Duration = Duration::from_secs(8);

/// The observations of such groups, by name.
#[derive(Debug, Default)]
pub(crate) struct Terminations {
    /// The members that each connection received.
    groups: BTreeMap<(String, Who), Vec<ProcId>>,
    /// The notifications: group, connection, terminated process.
    told: BTreeSet<(String, Who, ProcId)>,
}

impl World {
    /// Registers a process, once, for the event of a terminated member.
    pub(crate) fn hear_of_terminations(&mut self, who: Who) {
        if !self.clients[who].hears_terminations {
            let (codes, soon) = ([Status::GROUP_MEMBER_FAILED], Some(Duration::ZERO));
            self.ask_for(
                who,
                Request::RegisterEvents(request::RegisterEvents {
                    codes: codes.to_vec(),
                    infos: vec![],
                }),
                What::HearTerminations,
                soon,
            );
        }
    }

    /// Records the membership of a process in a group, some of whose members may have terminated.
    pub(super) fn in_group_that_notifies(&mut self, who: Who, name: &str, members: Vec<ProcId>) {
        for place in &members {
            if self.procs[*place].was_lost {
                self.after(SOON, agenda::Event::Terminated(name.to_owned(), *place));
            }
        }
        let groups = &mut self.oracle.terminations.groups;
        groups.insert((name.to_owned(), who), members);
    }

    /// Schedules the checks that the other members are notified of a loss.
    pub(super) fn expect_news_of_termination(&mut self, lost: ProcId) {
        let groups = self.oracle.terminations.groups.iter();
        let groups = groups.filter(|(_, members)| members.contains(&lost));
        let names: BTreeSet<_> = groups.map(|((name, _), _)| name.clone()).collect();
        for name in names {
            self.after(SOON, agenda::Event::Terminated(name, lost));
        }
    }

    /// Checks a server's notification of a terminated member.
    pub(super) fn termination_told(&mut self, who: Who, event: &Event<'_>) {
        let info = event.infos.iter().find(|info| info.key.is(keys::GROUP_ID));
        let name = match info.map(|info| &info.value) {
            Some(Value::String(Some(name))) => name.to_string(),
            _ => panic!("a member of a group without a name has ended"),
        };
        let about = proc_in(&event.infos, keys::EVENT_AFFECTED_PROC);
        let about = about.and_then(|name| self.place_of(&name));
        let about = about.expect("a member");
        assert!(
            self.notifies(&name),
            "connection {who} got the loss of {about} in {name}, which no member requested"
        );
        let proc = &self.procs[about];
        let leaves = proc.client.is_some_and(|who| self.finalizes(who));
        let is_cut = (proc.client).is_some_and(|who| !self.clients[who].is_known);
        let is_ended = self.jobs[proc.job].is_gone || proc.client.is_none();
        assert!(
            leaves || is_cut || is_ended || proc.is_restless || self.is_over,
            "connection {who} got the loss of {about} in {name}, which is alive"
        );
        let is_restless = proc.is_restless;
        self.say(|| format!("connection {who} got the loss of {about} in {name}"));
        let is_news = self
            .oracle
            .terminations
            .told
            .insert((name.clone(), who, about));
        assert!(
            is_news || is_restless,
            "connection {who} got the loss of {about} in {name} twice"
        );
        NUM_TOLD.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that all members of a group were notified of a lost member, unless it left before.
    pub(crate) fn check_terminated(&self, name: &str, lost: ProcId) {
        let seen = &self.oracle.terminations;
        let groups = seen.groups.iter();
        for ((_, who), members) in groups.filter(|((group, _), _)| group == name) {
            let is_told = seen.told.contains(&(name.to_owned(), *who, lost));
            let is_other = members.contains(&lost) && self.clients[*who].proc != Some(lost);
            assert!(
                is_told || !is_other || self.is_unsure(*who, name, members, lost),
                "connection {who} in {name} of {members:?} did not get the loss of {lost}"
            );
        }
    }

    /// Returns `true` if the members of a group are notified of terminations.
    fn notifies(&self, name: &str) -> bool {
        match (construct_in(name), invitation_in(name)) {
            (Some(number), _) => self.constructs[number].notifies,
            (_, Some(number)) => self.oracle.invitations[number].notifies,
            _ => false,
        }
    }

    /// Returns `true` for the destruct of a group with termination notification.
    pub(super) fn destruct_notifies(&self, collective: &Collective, round: usize) -> bool {
        let number = round.checked_sub(FIRST_ADD_MEMBERS);
        let construct = number.and_then(|number| self.constructs.get(number));
        matches!(collective.kind, Kind::Destruct(_)) && construct.is_some_and(|it| it.notifies)
    }

    fn finalizes(&self, who: Who) -> bool {
        let mut asked = self.clients[who].asked.values();
        asked.any(|asked| asked.what == What::Finalize)
    }

    /// Returns `true` if a member may lack the notification of a loss: one of them is not a member any more, or servers
    /// may know different groups after a fault.
    fn is_unsure(&self, who: Who, name: &str, members: &[ProcId], lost: ProcId) -> bool {
        let is_unsure = self.is_over
            || !self.oracle.jumped.is_empty()
            || self.has_any(UNCLEAR_GROUPS)
            || self.has_any(&[Fault::Slow, Fault::Lie]);
        let client = &self.clients[who];
        let hears = client.is_live() && client.hears_terminations && !self.finalizes(who);
        if is_unsure || !hears {
            return true;
        }
        let Some(number) = construct_in(name) else {
            return false;
        };
        let round = FIRST_ADD_MEMBERS + number;
        let mut all = members.to_vec();
        all.sort_unstable();
        let left = self.oracle.left.contains(&(all.clone(), round, lost));
        let destruct = Collective {
            kind: Kind::Destruct(0),
            members: all,
        };
        let calls = self.oracle.calls.get(&(destruct, lost));
        let has_called = calls.is_some_and(|calls| *calls > round);
        let is_in = client.groups.iter().any(|(_, known)| *known == round);
        let is_excused = !self.oracle.constructs[number].excused.is_empty();
        left || has_called || !is_in || is_excused
    }
}

/// Returns the number of the construct, or of the invitation, that formed a group.
fn construct_in(name: &str) -> Option<usize> {
    let round = name.strip_prefix("added-")?.parse::<usize>().ok()?;
    round.checked_sub(FIRST_ADD_MEMBERS)
}

fn invitation_in(name: &str) -> Option<usize> {
    name.strip_prefix("invited-")?.parse().ok()
}
