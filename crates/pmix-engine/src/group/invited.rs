// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of invitations until they end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pmix_types::{Nspace, Proc, Text};

use super::index::ByProc;
use super::members;
use crate::procs::Procs;

/// Names an invitation: the group, and who leads.
pub(super) type Key = (Text<'static>, Proc<'static>);

/// The invitations that have not ended.
#[derive(Debug, Default)]
pub(super) struct Invitations {
    last: u64,
    open: BTreeMap<u64, Invitation>,
    /// The number of invitations that each process leads.
    num_led: HashMap<Proc<'static>, usize>,
    by_key: HashMap<Key, u64>,
    /// Who was invited, and who leads.
    by_proc: ByProc,
}

/// Who was invited to a group.
#[derive(Debug)]
pub(super) struct Invitation {
    pub(super) key: Key,
    pub(super) list: Vec<Proc<'static>>,
    /// How much the list takes, about, with what is found by it: counted as it grows, since each answer to a
    /// long invitation is counted anew.
    list_bytes: usize,
    /// The same, to look one up.
    pub(super) set: Procs,
    /// Those of whom the leader was told that they are gone.
    pub(super) gone: Procs,
    /// Those who accepted.
    pub(super) joined: HashSet<Proc<'static>>,
    /// Those who declined, or gave up what they had accepted.
    pub(super) declined: HashSet<Proc<'static>>,
    /// Those who said whether they lead, since the leader is lost, and those who do, the first one first.
    pub(super) answered: HashSet<Proc<'static>>,
    pub(super) leads: Vec<Proc<'static>>,
    /// In whose place its leader was chosen, if that has not invited yet.
    pub(super) in_place_of: Option<Proc<'static>>,
    /// How much it takes, about, as it was counted last.
    pub(super) bytes: usize,
}

impl Invitation {
    /// How much it takes, about.
    pub(super) fn weight(&self) -> usize {
        let (name, leader) = &self.key;
        let of_one = size_of::<Proc<'_>>() + leader.nspace.as_bytes().len();
        let more = [&self.joined, &self.declined, &self.answered].map(HashSet::len);
        let more = more.into_iter().sum::<usize>() + self.leads.len() + self.gone.len();
        size_of::<Self>() + name.len() + self.list_bytes + more * of_one
    }
}

impl Invitations {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Invitation> {
        self.open.values()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Invitation> {
        self.open.get(self.by_key.get(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Invitation> {
        self.open.get_mut(self.by_key.get(key)?)
    }

    /// Returns how many invitations a process leads.
    pub(super) fn num_led(&self, leader: &Proc<'static>) -> usize {
        self.num_led.get(leader).copied().unwrap_or_default()
    }

    /// Invites more processes to what there is, or to something new.
    pub(super) fn invite(&mut self, key: &Key, fresh: &[Proc<'static>]) {
        let id = match self.by_key.get(key) {
            Some(id) => *id,
            None => {
                self.last += 1;
                self.by_key.insert(key.clone(), self.last);
                self.by_proc.insert(self.last, [&key.1]);
                *self.num_led.entry(key.1.clone()).or_default() += 1;
                let invitation = Invitation {
                    key: key.clone(),
                    list: Vec::new(),
                    list_bytes: 0,
                    set: Procs::default(),
                    gone: Procs::default(),
                    joined: HashSet::new(),
                    declined: HashSet::new(),
                    answered: HashSet::new(),
                    leads: Vec::new(),
                    in_place_of: None,
                    bytes: 0,
                };
                self.open.insert(self.last, invitation);
                self.last
            }
        };
        self.by_proc.insert(id, fresh);
        if let Some(invitation) = self.open.get_mut(&id) {
            invitation.list.extend(fresh.iter().cloned());
            invitation.set.extend(fresh);
            invitation.list_bytes += members::weight(fresh);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Invitation> {
        let id = self.by_key.remove(key)?;
        let invitation = self.open.remove(&id)?;
        self.by_proc.remove(id, &invitation.list);
        self.by_proc.remove(id, [&key.1]);
        if let Some(count) = self.num_led.get_mut(&key.1) {
            *count -= 1;
            if *count == 0 {
                self.num_led.remove(&key.1);
            }
        }
        Some(invitation)
    }

    /// The invitations that a process leads or was invited by.
    pub(super) fn concerning(&self, proc: &Proc<'static>) -> Vec<Key> {
        self.keys(self.by_proc.of(proc))
    }

    /// The invitations in which any process of a job has a part.
    pub(super) fn of_job(&self, nspace: &Nspace<'_>) -> Vec<Key> {
        self.keys(self.by_proc.of_job(nspace).into_iter().collect())
    }

    fn keys(&self, ids: BTreeSet<u64>) -> Vec<Key> {
        let open = ids.into_iter().filter_map(|id| self.open.get(&id));
        open.map(|invitation| invitation.key.clone()).collect()
    }

    /// How many entries its indexes have, and how many they should have.
    pub(super) fn recount(&self) -> (usize, usize) {
        let mut expected = ByProc::default();
        for (id, invitation) in &self.open {
            expected.insert(*id, &invitation.list);
            expected.insert(*id, [&invitation.key.1]);
        }
        let num_led: usize = self.num_led.values().sum();
        let named = self.by_key.len() + self.by_proc.len() + num_led;
        (named, 2 * self.open.len() + expected.len())
    }
}
