// SPDX-License-Identifier: MIT OR Apache-2.0
//! An index of requests that wait for a process, or for a key of it.
//!
//! Source: this project.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use pmix_types::{Key, Nspace, Proc, Rank};

use crate::by_peer::ByPeer;
use crate::peers::PeerId;
use crate::recount::Recount;

/// A request that waits for a process. Its key does not change while it waits.
pub(super) trait Wanted {
    /// Returns the key that the request waits for; `None` if any commit may suffice.
    fn key(&self) -> Option<&Key<'static>>;

    /// Returns the peer that the request belongs to, if it belongs to one.
    fn peer(&self) -> Option<PeerId> {
        None
    }
}

/// The requests that wait for a process, with identifiers that are never reused.
#[derive(Debug)]
pub(super) struct ByProc<T> {
    last: u64,
    things: HashMap<u64, (Proc<'static>, T)>,
    by_proc: BTreeMap<Proc<'static>, Names>,
    /// The requests of each peer, by the process that they wait for.
    by_peer: ByPeer<(Proc<'static>, u64)>,
}

/// The requests that wait for one process.
#[derive(Debug, Default)]
struct Names {
    all: BTreeSet<u64>,
    /// The requests that wait for a key.
    by_key: HashMap<Key<'static>, BTreeSet<u64>>,
}

impl<T> Default for ByProc<T> {
    fn default() -> Self {
        Self {
            last: 0,
            things: HashMap::new(),
            by_proc: BTreeMap::new(),
            by_peer: ByPeer::default(),
        }
    }
}

impl<T: Wanted> ByProc<T> {
    pub(super) fn add(&mut self, proc: Proc<'static>, thing: T) -> u64 {
        self.last += 1;
        let names = self.by_proc.entry(proc.clone()).or_default();
        names.all.insert(self.last);
        if let Some(key) = thing.key() {
            let same = names.by_key.entry(key.clone()).or_default();
            same.insert(self.last);
        }
        if let Some(peer) = thing.peer() {
            self.by_peer.insert(peer, (proc.clone(), self.last));
        }
        self.things.insert(self.last, (proc, thing));
        self.last
    }

    pub(super) fn take(&mut self, name: u64) -> Option<(Proc<'static>, T)> {
        let (proc, thing) = self.things.remove(&name)?;
        if let Some(peer) = thing.peer() {
            self.by_peer.remove(peer, &(proc.clone(), name));
        }
        let Some(names) = self.by_proc.get_mut(&proc) else {
            return Some((proc, thing));
        };
        names.all.remove(&name);
        if let Some(key) = thing.key()
            && let Some(same) = names.by_key.get_mut(key)
        {
            same.remove(&name);
            if same.is_empty() {
                names.by_key.remove(key);
            }
        }
        if names.all.is_empty() {
            self.by_proc.remove(&proc);
        }
        Some((proc, thing))
    }

    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    /// Compares the indexes with the requests.
    pub(super) fn recount(&self, recount: &mut Recount, [procs, keys]: [&'static str; 2]) {
        let listed = self.by_proc.values().map(|names| names.all.len()).sum();
        recount.compare(procs, listed, self.things.len());
        let of_peers = self.iter().filter(|(_, thing)| thing.peer().is_some());
        recount.compare("what waits for peers", self.by_peer.len(), of_peers.count());
        let by_key = self
            .by_proc
            .values()
            .flat_map(|names| names.by_key.values());
        let listed = by_key.map(BTreeSet::len).sum();
        let with_key = self.iter().filter(|(_, thing)| thing.key().is_some());
        recount.compare(keys, listed, with_key.count());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let things = self.things.iter();
        things.map(|(name, (_, thing))| (*name, thing))
    }

    pub(super) fn get(&self, name: u64) -> Option<&T> {
        self.things.get(&name).map(|(_, thing)| thing)
    }

    pub(super) fn get_mut(&mut self, name: u64) -> Option<&mut T> {
        self.things.get_mut(&name).map(|(_, thing)| thing)
    }

    /// Returns the processes of a job that requests wait for.
    pub(super) fn procs_of(&self, nspace: &Nspace<'static>) -> Vec<Proc<'static>> {
        let procs = self.range(nspace);
        procs.map(|(proc, _)| proc.clone()).collect()
    }

    /// Returns the requests that wait for a process, in order of arrival.
    pub(super) fn of_proc(&self, proc: &Proc<'static>) -> Vec<u64> {
        let names = self.by_proc.get(proc).into_iter();
        names.flat_map(|names| names.all.iter().copied()).collect()
    }

    /// Returns the identifier of the last request.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the requests that wait for a process and arrived after the one with an identifier, in order of arrival.
    pub(super) fn of_proc_after<'t>(
        &'t self,
        proc: &Proc<'static>,
        last: u64,
    ) -> impl Iterator<Item = u64> + use<'t, T> {
        let names = self.by_proc.get(proc).into_iter();
        names.flat_map(move |names| names.all.range((Excluded(last), Unbounded)).copied())
    }

    /// Returns the requests that wait for a key of a process, in order of arrival.
    pub(super) fn of_key<'t>(
        &'t self,
        proc: &Proc<'static>,
        key: &Key<'static>,
    ) -> impl Iterator<Item = u64> + use<'t, T> {
        let names = self.by_proc.get(proc);
        let same = names.and_then(|names| names.by_key.get(key));
        same.into_iter().flatten().copied()
    }

    /// Returns the requests that wait for any process of a job.
    pub(super) fn of_job(&self, nspace: &Nspace<'static>) -> Vec<u64> {
        let procs = self.range(nspace);
        procs
            .flat_map(|(_, names)| names.all.iter().copied())
            .collect()
    }

    fn range(&self, nspace: &Nspace<'static>) -> impl Iterator<Item = (&Proc<'static>, &Names)> {
        // Processes are ordered by nspace, then by rank, so the processes of a job are consecutive.
        let first = Proc::new(nspace.clone(), Rank::new(0));
        let procs = self.by_proc.range(first..);
        procs.take_while(move |(proc, _)| proc.nspace == *nspace)
    }

    /// Returns the requests of a peer.
    pub(super) fn of_peer(&self, peer: PeerId) -> impl Iterator<Item = u64> {
        let own = self.by_peer.of(peer).into_iter().flatten();
        own.map(|(_, name)| *name)
    }

    /// Returns `true` if a request of a peer waits for a process.
    pub(super) fn waits(&self, peer: PeerId, proc: &Proc<'static>) -> bool {
        let (first, last) = ((proc.clone(), 0), (proc.clone(), u64::MAX));
        let own = self.by_peer.of(peer);
        own.is_some_and(|own| own.range(first..=last).next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A request with or without a key.
    #[derive(Debug, PartialEq)]
    struct Thing(Option<Key<'static>>);

    thread_local! {
        /// The number of calls of [`Wanted::peer`].
        static LOOKED_AT: Cell<u32> = const { Cell::new(0) };
    }

    impl Wanted for Thing {
        fn key(&self) -> Option<&Key<'static>> {
            self.0.as_ref()
        }

        /// Returns a peer that the length of the key selects.
        fn peer(&self) -> Option<PeerId> {
            LOOKED_AT.set(LOOKED_AT.get() + 1);
            let key = self.0.as_ref()?;
            Some(PeerId::of(u64::try_from(key.as_bytes().len()).ok()?))
        }
    }

    #[test]
    fn requests_of_a_peer_are_found_without_visiting_others() {
        let mut table = ByProc::default();
        let proc = |rank| Proc::new("a", Rank::new(rank));
        for rank in 0..1_000 {
            table.add(proc(rank), Thing(Some(Key::new("other"))));
        }
        let own = [1, 3].map(|rank| table.add(proc(rank), Thing(Some(Key::new("own")))));
        let before = LOOKED_AT.get();
        let found: Vec<_> = table.of_peer(PeerId::of(3)).collect();
        assert_eq!(found, own);
        assert!(table.waits(PeerId::of(3), &proc(1)) && !table.waits(PeerId::of(3), &proc(2)));
        assert_eq!(LOOKED_AT.get(), before);
        for name in own {
            table.take(name);
        }
        assert_eq!(table.of_peer(PeerId::of(3)).count(), 0);
        assert_eq!(table.by_peer.len(), 1_000);
    }

    #[test]
    fn entries_are_found_by_process_key_and_job_until_removed() {
        let mut table = ByProc::default();
        let proc = |nspace: &'static str, rank| Proc::new(nspace, Rank::new(rank));
        let (x, y) = (Key::new("x"), Key::new("y"));
        let of = |key: &Key<'static>| Thing(Some(key.clone()));
        let a = table.add(proc("a", 0), of(&x));
        let b = table.add(proc("a", 0), of(&y));
        let c = table.add(proc("a", 7), of(&x));
        let d = table.add(Proc::new("ab", Rank::WILDCARD), Thing(None));
        let e = table.add(proc("a", 0), of(&x));
        let f = table.add(proc("a", 0), Thing(None));
        assert_eq!(table.of_proc(&proc("a", 0)), [a, b, e, f]);
        assert_eq!(table.of_job(&"a".into()), [a, b, e, f, c]);
        assert_eq!(table.of_job(&"ab".into()), [d]);
        let found = |table: &ByProc<_>, rank, key| -> Vec<_> {
            table.of_key(&proc("a", rank), key).collect()
        };
        assert_eq!(found(&table, 0, &x), [a, e]);
        assert_eq!(found(&table, 7, &x), [c]);
        assert_eq!(found(&table, 7, &y), []);
        assert_eq!(table.take(a), Some((proc("a", 0), of(&x))));
        assert_eq!(table.take(a), None);
        assert_eq!(found(&table, 0, &x), [e]);
        assert_eq!(table.of_job(&"a".into()), [b, e, f, c]);
        for name in [e, b] {
            table.take(name);
        }
        assert!(table.by_proc[&proc("a", 0)].by_key.is_empty());
        for name in [c, d, f] {
            table.take(name);
        }
        assert!(table.by_proc.is_empty() && table.things.is_empty());
    }
}
