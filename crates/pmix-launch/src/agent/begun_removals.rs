// SPDX-License-Identifier: MIT OR Apache-2.0
//! The removals of registered paths that are in progress. Their processes are restarted only afterwards, and the
//! watcher keeps registrations that are made meanwhile.

use std::collections::BTreeMap;

use pmix_server::Cleanup;
use pmix_types::{Nspace, Proc, Rank};

use super::removals::Registered;

/// The removals of registered paths that are in progress.
#[derive(Debug, Default)]
pub(crate) struct BegunRemovals {
    begun: BTreeMap<Registered, Begun>,
}

/// The removals for one process or job and one user.
#[derive(Debug, Default)]
struct Begun {
    count: usize,
    /// The registrations since the last removal began.
    later: Vec<Cleanup>,
}

impl BegunRemovals {
    /// Records the start of a removal of all paths that are registered so far.
    pub(crate) fn begin(&mut self, target: &Proc<'static>, user: u32) {
        let begun = self.begun.entry((target.clone(), user)).or_default();
        begun.count += 1;
        // This removal includes the registrations that came before it.
        begun.later.clear();
    }

    /// Records a registration, if a removal for the same target and user is in progress.
    pub(crate) fn register(&mut self, target: &Proc<'static>, user: u32, cleanup: &Cleanup) {
        if let Some(begun) = self.begun.get_mut(&(target.clone(), user)) {
            begun.later.push(cleanup.clone());
        }
    }

    /// Records the completion of a removal. Returns the later registrations once no other removal for the same target
    /// and user is in progress.
    pub(crate) fn end(&mut self, registered: &Registered) -> Option<Vec<Cleanup>> {
        let begun = self.begun.get_mut(registered)?;
        begun.count = begun.count.saturating_sub(1);
        if begun.count > 0 {
            return None;
        }
        self.begun.remove(registered).map(|begun| begun.later)
    }

    /// Returns `true` if a removal for a process or for its job is in progress.
    pub(crate) fn concerns(&self, proc: &Proc<'static>) -> bool {
        let nspace: Nspace<'static> = proc.nspace.clone();
        let has = |proc: &Proc<'static>| {
            let users = (proc.clone(), u32::MIN)..=(proc.clone(), u32::MAX);
            self.begun.range(users).next().is_some()
        };
        has(proc) || has(&Proc::new(nspace, Rank::WILDCARD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("job", Rank::new(rank))
    }

    #[test]
    fn processes_are_concerned_until_the_last_removal_for_them_or_their_job_has_ended() {
        let mut removals = BegunRemovals::default();
        removals.begin(&proc(1), 7);
        removals.begin(&proc(1), 8);
        removals.begin(&proc(1), 8);
        assert!(removals.concerns(&proc(1)) && !removals.concerns(&proc(2)));
        assert!(!removals.concerns(&Proc::new("other", Rank::new(1))));
        assert_eq!(removals.end(&(proc(1), 7)), Some(Vec::new()));
        assert_eq!(removals.end(&(proc(1), 8)), None);
        assert!(removals.concerns(&proc(1)));
        assert_eq!(removals.end(&(proc(1), 8)), Some(Vec::new()));
        assert!(!removals.concerns(&proc(1)));
        let job = Proc::new("job", Rank::WILDCARD);
        removals.begin(&job, 7);
        assert!(removals.concerns(&proc(1)) && removals.concerns(&proc(2)));
        assert_eq!(removals.end(&(job, 7)), Some(Vec::new()));
        assert!(!removals.concerns(&proc(1)));
    }

    #[test]
    fn registrations_that_follow_a_removal_are_returned_at_its_end() {
        let cleanup = |path: &'static str| Cleanup {
            files: vec![path.into()],
            ..Cleanup::default()
        };
        let mut removals = BegunRemovals::default();
        removals.register(&proc(1), 7, &cleanup("/before"));
        removals.begin(&proc(1), 7);
        removals.register(&proc(1), 7, &cleanup("/between"));
        removals.begin(&proc(1), 7);
        removals.register(&proc(1), 7, &cleanup("/after"));
        removals.register(&proc(2), 7, &cleanup("/other"));
        assert_eq!(removals.end(&(proc(1), 7)), None);
        assert_eq!(removals.end(&(proc(1), 7)), Some(vec![cleanup("/after")]));
    }
}
