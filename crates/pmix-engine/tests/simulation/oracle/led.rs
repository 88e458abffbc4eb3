// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups whose construction one of the members leads: who is done without, and who leads in the place of another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pmix_client::Decision;
use pmix_proto::{Event, Tag};
use pmix_types::{Info, Proc, Status, Value, keys};

use super::groups::proc_in;
use crate::agenda;
use crate::client::{Asked, What, Who};
use crate::fault::Fault;
use crate::process::{Meeting, ProcId};
use crate::world::World;

/// How many groups were formed without one that was lost, and in how many another led in the place of one.
pub(crate) static NUM_WITHOUT: AtomicU64 = AtomicU64::new(0);
pub(crate) static NUM_REPLACED: AtomicU64 = AtomicU64::new(0);

/// What was seen of constructions that are led, by the names of their groups.
#[derive(Debug, Default)]
pub(crate) struct Led {
    /// Those whom somebody decided to do without, or to lead in the place of.
    without: BTreeSet<(String, ProcId)>,
    replaced: BTreeSet<(String, ProcId)>,
    /// The constructions that somebody ended.
    aborted: BTreeSet<String>,
    /// Who was chosen in the place of whom, if anybody was.
    chosen: BTreeMap<(String, ProcId), Option<Proc<'static>>>,
    /// The members that were told first.
    members: BTreeMap<String, Vec<Proc<'static>>>,
}

impl Led {
    /// Whether a process is not needed for a group.
    pub(super) fn does_without(&self, name: &str, proc: ProcId) -> bool {
        let key = (name.to_owned(), proc);
        self.without.contains(&key) || self.replaced.contains(&key)
    }
}

/// The name of the group that is constructed, if infos are about one.
pub(crate) fn constructed(infos: &[Info<'_>]) -> Option<String> {
    let name = infos.iter().find(|info| info.key.is(keys::GROUP_ID))?;
    match &name.value {
        Value::String(Some(name)) if name.as_bytes().starts_with(b"group-") => {
            Some(name.to_string())
        }
        _ => None,
    }
}

impl World {
    /// A member decides what becomes of a construction.
    pub(crate) fn note_decision(&mut self, event: &Event<'_>, decision: Option<&Decision>) {
        let about = proc_in(&event.infos, keys::EVENT_AFFECTED_PROC);
        let about = about.and_then(|name| self.place_of(&name));
        let (Some(name), Some(about)) = (constructed(&event.infos), about) else {
            return;
        };
        let led = &mut self.oracle.led;
        match decision {
            Some(Decision::Abort) => _ = led.aborted.insert(name),
            Some(Decision::GoOnWithout) => _ = led.without.insert((name, about)),
            Some(Decision::Lead) => _ = led.replaced.insert((name, about)),
            _ => {}
        }
    }

    /// A server tells of a construction: in the place of a leader all hear of the same one.
    pub(super) fn led_event_sent(&mut self, who: Who, event: &Event<'_>) {
        let (Some(name), Status::GROUP_LEADER_SELECTED) = (constructed(&event.infos), event.status)
        else {
            return;
        };
        let about = proc_in(&event.infos, keys::EVENT_AFFECTED_PROC);
        let about = about.expect("what servers say to each other is not told to clients");
        let about = self.place_of(&about).expect("a process");
        let new = proc_in(&event.infos, keys::GROUP_LEADER);
        let known = self.oracle.led.chosen.entry((name.clone(), about));
        let known = known.or_insert_with(|| new.clone());
        assert_eq!(*known, new, "connection {who} hears who leads {name}");
        let key = (name, about);
        let is_wanted = self.oracle.led.replaced.contains(&key);
        assert!(
            new.is_none() || is_wanted,
            "nobody leads in the place of {about}"
        );
    }

    /// All hear of the same members. One that is done without is none, and nobody else is missing.
    pub(super) fn check_led_members(&mut self, name: &str, meeting: &Meeting, told: &[Proc<'_>]) {
        let mut named = told.iter();
        if meeting.leader().is_none() || named.any(|proc| !proc.rank.is_valid()) {
            return;
        }
        let told = Proc::owned_list(told);
        if !self.oracle.led.members.contains_key(name) {
            let is_smaller = told.len() < meeting.members.len();
            NUM_WITHOUT.fetch_add(is_smaller.into(), Ordering::Relaxed);
            let mut chosen = self.oracle.led.chosen.iter();
            let is_led_anew = chosen.any(|((of, _), new)| of == name && new.is_some());
            NUM_REPLACED.fetch_add(is_led_anew.into(), Ordering::Relaxed);
        }
        let known = self.oracle.led.members.entry(name.to_owned());
        let known = known.or_insert_with(|| told.clone());
        assert_eq!(*known, told, "the members of {name}");
        for (group, place) in &self.oracle.led.without {
            let proc = &self.procs[*place];
            // What a server ended for itself, others may go on with.
            let is_alone =
                { meeting.members.iter() }.all(|other| self.procs[*other].node == proc.node);
            let has_called = self.oracle.calls.contains_key(&(meeting.clone(), *place));
            let is_left_out = group == name && !proc.is_restless && (is_alone || !has_called);
            assert!(
                !is_left_out || !told.contains(&proc.name()),
                "{name} does without {:?}, but {told:?}",
                proc.name()
            );
        }
    }

    /// A construction that is led ends for a reason that there is.
    pub(super) fn check_led_end(&self, name: &str, meeting: &Meeting, status: Status) {
        let Some(leader) = meeting.leader().filter(|_| !self.is_over) else {
            return;
        };
        let is_lost = |proc: ProcId| {
            let proc = &self.procs[proc];
            proc.was_lost || proc.client.is_none() || proc.is_restless
        };
        let replaced = self.oracle.led.chosen.iter();
        let mut replaced = replaced.filter(|((group, _), _)| group == name);
        match status {
            Status::GROUP_CONSTRUCT_ABORT => {
                let is_wanted = self.oracle.led.aborted.contains(name);
                assert!(is_wanted, "{name} is ended, which nobody wanted");
            }
            Status::GROUP_LEADER_FAILED => {
                let has_reason = is_lost(leader) || replaced.next().is_some();
                assert!(has_reason, "{name} ends without its leader, which is there");
            }
            _ => {}
        }
    }

    /// Who waits, in a construction that is led, for a process that is lost is told soon, or its leader decides.
    pub(super) fn expect_decision(&mut self, who: Who, tag: Tag, lost: ProcId, after: Duration) {
        let time = self.config.leader_time.saturating_mul(4) + after;
        self.after(time, agenda::Event::Decided(who, tag, lost));
    }

    pub(crate) fn check_decided(&mut self, who: Who, tag: Tag, lost: ProcId) {
        let client = &self.clients[who];
        let Some(Asked {
            what: What::Meet(meeting, round),
            answer,
            ..
        }) = client.asked.get(&tag)
        else {
            return;
        };
        let is_excused = !client.is_known || client.is_spoiled || client.is_lied_to;
        let is_late = client.held.is_some() || self.plan.has(Fault::Slow);
        let mut members = meeting.members.iter();
        let is_restless = members.any(|member| self.procs[*member].is_restless);
        let is_decided = self.oracle.led.does_without(&meeting.group(*round), lost);
        assert!(
            answer.is_some() || is_excused || is_late || is_restless || is_decided,
            "connection {who} waits for process {lost}, about whom nobody decides: {meeting:?}"
        );
    }
}
