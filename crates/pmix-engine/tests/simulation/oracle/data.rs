// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of gets and lookups.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pmix_proto::{PeerForm, reply};
use pmix_types::{Proc, Scope, Status};

use super::Seen;
use crate::client::Who;
use crate::fault::Fault;
use crate::process::{Collective, KEYS, ProcId, Stamp};
use crate::tool::STRANGER;
use crate::world::World;

/// The number of processes, in all runs, whose data clients received without a request.
pub(crate) static NUM_UNASKED: AtomicUsize = AtomicUsize::new(0);

/// The contents of a get that determine valid replies.
pub(super) struct Wanted<'g> {
    pub(super) of: ProcId,
    pub(super) key: &'g str,
    /// The data guaranteed to the requesting process.
    pub(super) floor: Option<Stamp>,
    /// The first incarnation whose data are valid.
    pub(super) first_life: u16,
}

impl World {
    /// Returns the data guaranteed to a process that sends a get now.
    pub(crate) fn floor(&self, who: Who, of: ProcId) -> Option<Stamp> {
        let (proc, node) = (&self.procs[of], self.clients[who].node);
        // A server stores nothing for unknown jobs.
        let is_known = self.jobs[proc.job].ranks_on(node).next().is_some();
        match proc.node == node {
            true => proc.shared,
            false if is_known => self.clients[who].learned.get(&of).copied(),
            false => None,
        }
    }

    /// Returns the first incarnation whose data a get may return now.
    pub(crate) fn first_life(&self, who: Who, of: ProcId) -> u16 {
        let (proc, node) = (&self.procs[of], self.clients[who].node);
        let heard = proc.settled.get(&node).copied().unwrap_or_default();
        // Until it returns, its last data are valid; they may be in transit then.
        let is_slow = self.plan.has(Fault::HostLate) || self.plan.has(Fault::HostTwice);
        let is_back =
            proc.admitted > heard && self.now > proc.admitted_at + Duration::from_millis(300);
        if proc.node != node && is_back && !is_slow {
            heard + 1
        } else {
            0
        }
    }

    /// Records that a node learned of the loss of an incarnation. Its data in an open fence may still arrive.
    pub(crate) fn heard_of_loss(&mut self, node: usize, of: ProcId, life: u16) {
        let mut rounds = self.oracle.rounds.iter();
        let has_said = |((collective, _), seen): (&(Collective, usize), &Seen)| {
            let is_open = !seen.told.contains_key(&node);
            collective.members.contains(&of) && is_open && seen.callers.contains_key(&of)
        };
        let is_open = rounds.any(has_said);
        let proc = &mut self.procs[of];
        proc.heard.insert(node, life);
        if !is_open {
            proc.settled.insert(node, life);
        }
    }

    pub(super) fn check_get(&self, who: Who, wanted: &Wanted<'_>, status: Status, payload: &[u8]) {
        let Wanted { of, key, floor, .. } = *wanted;
        let is_registered =
            self.procs[of].node == self.clients[who].node && !self.jobs[self.procs[of].job].is_gone;
        if self.user_of(who) == STRANGER {
            assert!(
                !status.is_success() || !is_registered,
                "connection {who} of another user got {key} of process {of}"
            );
            return;
        }
        let is_local = self.procs[of].node == self.clients[who].node;
        if !status.is_success() {
            let proc = &self.procs[of];
            let heard = proc.heard.get(&self.clients[who].node);
            let was_lost = heard.is_some_and(|life| floor.is_some_and(|f| f.life <= *life));
            let is_changed = is_local && proc.shared != floor;
            let is_gone = self.jobs[proc.job].is_gone || is_changed || was_lost;
            let is_refused = status == Status::ERR_OUT_OF_RESOURCE;
            assert!(
                !is_there(key, is_local, floor) || is_gone || is_refused,
                "connection {who}: {key} of process {of} exists, but the get ended with {status}"
            );
            return;
        }
        let form = self.clients[who].form.as_ref().unwrap();
        let values = values(form, payload, &self.procs[of].name());
        for (name, owner, stamp) in &values {
            assert_eq!(*owner, of, "{name} of another process");
            let was_put = self.procs[of].committed.contains(stamp) && stamp.has(name);
            assert!(
                was_put || self.plan.has(Fault::HostNonsense),
                "{name}: {stamp:?} was never put"
            );
        }
        let found = values.iter().find(|(name, ..)| name == key);
        if found.is_none() && self.plan.has(Fault::HostNonsense) {
            // Invalid bytes of the host may replace the value.
            return;
        }
        let (_, _, stamp) = found.expect("success, but the reply has no data");
        self.check_age(wanted, *stamp, is_local);
        self.check_prefetch(who, of, payload);
    }

    /// Checks the data of other processes: they belong to the client's own job, are for the client, and are of no
    /// incarnation that its server knows to be lost.
    fn check_prefetch(&self, who: Who, asked: ProcId, payload: &[u8]) {
        let client = &self.clients[who];
        let form = client.form.as_ref().unwrap();
        let objects = reply::Objects::decode(form, None, payload).unwrap();
        let objects = objects.procs(form, None).map(Result::unwrap);
        let of_procs = objects.filter(|object| object.of.rank.is_valid());
        for object in of_procs.filter(|object| object.of != self.procs[asked].name()) {
            let of = self.procs.iter().position(|proc| proc.name() == object.of);
            let of = of.expect("a process of the simulation");
            let proc = &self.procs[of];
            let own = client.proc.or(client.claims).map(|own| self.procs[own].job);
            assert_eq!(Some(proc.job), own, "of another job");
            let is_local = proc.node == client.node;
            for (name, owner, stamp) in values(form, payload, &object.of) {
                assert_eq!(owner, of, "{name} of another process");
                assert!(
                    proc.committed.contains(&stamp) || self.plan.has(Fault::HostNonsense),
                    "{name}: {stamp:?} was never put"
                );
                assert!(
                    is_there(&name, is_local, Some(stamp)),
                    "{name} is not for us"
                );
                assert!(!is_local || stamp.life >= proc.floor, "{name} is stale");
            }
        }
    }

    /// Checks that a client without a stated limit gets the data of each process once. None of them may belong to an
    /// incarnation that its server knew to be lost at the time of the request.
    pub(super) fn check_unasked(&mut self, who: Who, asked: ProcId, lives: &[u16], payload: &[u8]) {
        let client = &self.clients[who];
        let form = client.form.as_ref().unwrap();
        let own = client.proc.or(client.claims).map(|own| self.procs[own].job);
        let mut told = Vec::new();
        for (place, proc) in self.procs.iter().enumerate() {
            let values = values(form, payload, &proc.name());
            if Some(proc.job) != own || values.is_empty() {
                continue;
            }
            told.push(place);
            if place == asked {
                continue;
            }
            assert!(
                !client.brought.contains(&place),
                "process {place} is in the reply twice"
            );
            for (name, _, stamp) in values {
                let is_new = stamp.life >= lives[place] || self.plan.has(Fault::HostNonsense);
                assert!(
                    is_new,
                    "{name} of process {place} is from a lost incarnation"
                );
            }
        }
        let others = told.iter().filter(|place| **place != asked).count();
        NUM_UNASKED.fetch_add(others, Ordering::Relaxed);
        self.clients[who].brought.extend(told);
    }

    /// Checks that a value is the last one on its own node, and at least that of a fence elsewhere.
    fn check_age(&self, wanted: &Wanted<'_>, stamp: Stamp, is_local: bool) {
        let Wanted { of, key, floor, .. } = *wanted;
        let proc = &self.procs[of];
        let life = stamp.life;
        assert!(
            life >= wanted.first_life,
            "{key} is from a lost incarnation"
        );
        if !is_local {
            let is_new = floor.is_none_or(|floor| stamp >= floor);
            assert!(is_new, "{key}: {stamp:?}, but a fence brought {floor:?}");
            return;
        }
        assert!(life >= proc.floor, "{key} of incarnation {life} is stale");
        if let Some(shared) = proc.shared.filter(|shared| shared.has(key)) {
            assert_eq!(stamp, shared, "{key} is not the last committed value");
        }
    }

    pub(super) fn check_lookup(&self, who: Who, of: ProcId, status: Status, payload: &[u8]) {
        if !status.is_success() {
            return;
        }
        let form = self.clients[who].form.unwrap();
        let found = reply::Found::decode(&form, None, payload).unwrap();
        for data in found.data.into_iter().flatten() {
            let (owner, _) = Stamp::of(&data.value).expect("published data can be read");
            assert_eq!((owner, data.proc), (of, self.procs[of].name()));
        }
    }
}

/// Returns `true` if a process with these guarantees must find a key.
fn is_there(key: &str, is_local: bool, floor: Option<Stamp>) -> bool {
    let known = KEYS.iter().find(|(known, _)| *known == key);
    let is_for_us = known.is_some_and(|(_, scope)| match *scope {
        Scope::LOCAL => is_local,
        Scope::REMOTE => !is_local,
        _ => true,
    });
    is_for_us && floor.is_some_and(|stamp| stamp.has(key))
}

/// Returns the values of a process in the reply to a get: keys, with the process and stamp in each value.
pub(super) fn values(
    form: &PeerForm,
    payload: &[u8],
    of: &Proc<'_>,
) -> Vec<(String, ProcId, Stamp)> {
    let objects = reply::Objects::decode(form, None, payload).unwrap();
    let mut values = Vec::new();
    for object in objects.procs(form, None).map(Result::unwrap) {
        if object.of != *of {
            continue;
        }
        for kval in object.kvals(form, None).unwrap() {
            if let Some((owner, stamp)) = Stamp::of(&kval.value) {
                values.push((kval.key.to_string(), owner, stamp));
            }
        }
    }
    values
}
