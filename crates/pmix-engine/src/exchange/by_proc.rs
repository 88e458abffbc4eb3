// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things that wait for a process, each with a name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pmix_types::{Nspace, Proc, Rank};

/// Things that wait for a process; no name is used twice.
#[derive(Debug)]
pub(crate) struct ByProc<T> {
    last: u64,
    things: HashMap<u64, (Proc<'static>, T)>,
    by_proc: BTreeMap<Proc<'static>, BTreeSet<u64>>,
}

impl<T> Default for ByProc<T> {
    fn default() -> Self {
        Self {
            last: 0,
            things: HashMap::new(),
            by_proc: BTreeMap::new(),
        }
    }
}

impl<T> ByProc<T> {
    pub(super) fn add(&mut self, proc: Proc<'static>, thing: T) -> u64 {
        self.last += 1;
        self.by_proc
            .entry(proc.clone())
            .or_default()
            .insert(self.last);
        self.things.insert(self.last, (proc, thing));
        self.last
    }

    pub(super) fn take(&mut self, name: u64) -> Option<(Proc<'static>, T)> {
        let (proc, thing) = self.things.remove(&name)?;
        if let Some(names) = self.by_proc.get_mut(&proc) {
            names.remove(&name);
            if names.is_empty() {
                self.by_proc.remove(&proc);
            }
        }
        Some((proc, thing))
    }

    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }

    pub(super) fn get(&self, name: u64) -> Option<&T> {
        self.things.get(&name).map(|(_, thing)| thing)
    }

    pub(super) fn get_mut(&mut self, name: u64) -> Option<&mut T> {
        self.things.get_mut(&name).map(|(_, thing)| thing)
    }

    /// The processes of a job for which something waits.
    pub(super) fn procs_of(&self, nspace: &Nspace<'static>) -> Vec<Proc<'static>> {
        let procs = self.range(nspace);
        procs.map(|(proc, _)| proc.clone()).collect()
    }

    /// Those that wait for a process, in the order in which they came.
    pub(super) fn of_proc(&self, proc: &Proc<'static>) -> Vec<u64> {
        let names = self.by_proc.get(proc).into_iter().flatten();
        names.copied().collect()
    }

    /// Those that wait for any process of a job.
    pub(super) fn of_job(&self, nspace: &Nspace<'static>) -> Vec<u64> {
        let procs = self.range(nspace);
        procs.flat_map(|(_, names)| names.iter().copied()).collect()
    }

    fn range(
        &self,
        nspace: &Nspace<'static>,
    ) -> impl Iterator<Item = (&Proc<'static>, &BTreeSet<u64>)> {
        let first = Proc::new(nspace.clone(), Rank::new(0));
        let procs = self.by_proc.range(first..);
        procs.take_while(move |(proc, _)| proc.nspace == *nspace)
    }

    /// Those for which something is so.
    pub(super) fn which(&self, is_so: impl Fn(&T) -> bool) -> Vec<u64> {
        let things = self.things.iter();
        let found = things.filter(|(_, (_, thing))| is_so(thing));
        found.map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_by_process_and_job_until_they_are_taken() {
        let mut table = ByProc::default();
        let proc = |nspace: &'static str, rank| Proc::new(nspace, Rank::new(rank));
        let a = table.add(proc("a", 0), 'x');
        let b = table.add(proc("a", 0), 'y');
        let c = table.add(proc("a", 7), 'z');
        let d = table.add(Proc::new("ab", Rank::WILDCARD), 'w');
        assert_eq!(table.of_proc(&proc("a", 0)), [a, b]);
        assert_eq!(table.of_job(&"a".into()), [a, b, c]);
        assert_eq!(table.of_job(&"ab".into()), [d]);
        assert_eq!(table.which(|thing| *thing == 'z'), [c]);
        assert_eq!(table.take(a), Some((proc("a", 0), 'x')));
        assert_eq!(table.take(a), None);
        assert_eq!(table.of_job(&"a".into()), [b, c]);
        for name in [b, c, d] {
            table.take(name);
        }
        assert!(table.by_proc.is_empty() && table.things.is_empty());
    }
}
