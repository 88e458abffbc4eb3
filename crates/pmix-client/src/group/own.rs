// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of this process: who their members are, and whom their names stand for where the server does
//! not resolve them.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups"; OpenPMIx 5, `client/pmix_client_convert.c`, for
//! what servers leave to their clients.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::{IntoOwned as _, Nspace, Proc, Rank, Status, Text};

use super::Group;
use crate::Error;

/// Holds the members of the groups of this process, as far as the server said them.
#[derive(Debug)]
pub(crate) struct OwnGroups {
    resolves: bool,
    members: Mutex<HashMap<Text<'static>, Vec<Proc<'static>>>>,
}

impl OwnGroups {
    /// Creates it for a process that is in no group. `resolves` says whether the server leaves it to its clients
    /// to put members in the place of names.
    pub(crate) fn new(resolves: bool) -> Self {
        Self {
            resolves,
            members: Mutex::default(),
        }
    }

    /// Takes in a group that was formed, and returns it as the program is to see it: where clients resolve
    /// names, the libraries of 5.0 count in the sorted list, and so does this one.
    pub(crate) fn learn(&self, mut group: Group) -> Group {
        if self.resolves {
            group.members.sort_unstable();
        }
        if !group.members.is_empty() {
            let (name, members) = (group.name.clone(), group.members.clone());
            self.lock().insert(name, members);
        }
        group
    }

    /// Returns what is known of the members of a group.
    pub(crate) fn members(&self, name: &Text<'_>) -> Vec<Proc<'static>> {
        let members = self.lock().get(name.as_bytes()).cloned();
        members.unwrap_or_default()
    }

    /// Forgets a group that was left or taken apart.
    pub(crate) fn forget(&self, name: &Text<'_>) {
        self.lock().remove(name.as_bytes());
    }

    /// Forgets all groups: the server was lost.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Puts members in the place of the names of groups. Returns nothing if there is no such name, or if the
    /// server does it. `job_size` says how many processes a job has, if it is known.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` for a rank that no member of the group has.
    pub(crate) fn resolved(
        &self,
        procs: &[Proc<'_>],
        job_size: impl Fn(&Nspace<'_>) -> Option<u32>,
    ) -> Result<Option<Vec<Proc<'static>>>, Error> {
        if !self.resolves {
            return Ok(None);
        }
        let known = self.lock();
        let is_named = |proc: &Proc<'_>| known.contains_key(proc.nspace.as_bytes());
        if !procs.iter().any(is_named) {
            return Ok(None);
        }
        let mut resolved = Vec::with_capacity(procs.len());
        // Whoever names a group often means each member once.
        let mut whole = HashSet::new();
        for proc in procs {
            match known.get(proc.nspace.as_bytes()) {
                None => resolved.push(proc.clone().into_owned()),
                Some(members) if proc.rank == Rank::WILDCARD => {
                    if whole.insert(&proc.nspace) {
                        resolved.extend_from_slice(members);
                    }
                }
                Some(members) => resolved.push(of_rank(proc, members, &job_size)?),
            }
        }
        Ok(Some(resolved))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Text<'static>, Vec<Proc<'static>>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The member that has a rank in its group; whole jobs among the members count as many as they have
/// processes.
fn of_rank(
    proc: &Proc<'_>,
    members: &[Proc<'static>],
    job_size: impl Fn(&Nspace<'_>) -> Option<u32>,
) -> Result<Proc<'static>, Error> {
    let missing = || {
        let message = format!("{} has no rank {}", proc.nspace, proc.rank);
        Error::new(Status::ERR_NOT_FOUND, message)
    };
    let mut left = proc.rank.as_raw();
    for member in members {
        let size = match member.rank {
            Rank::WILDCARD => job_size(&member.nspace).ok_or_else(missing)?,
            _ => 1,
        };
        match left.checked_sub(size) {
            Some(less) => left = less,
            None if member.rank == Rank::WILDCARD => {
                return Ok(Proc::new(member.nspace.clone(), Rank::new(left)));
            }
            None => return Ok(member.clone()),
        }
    }
    Err(missing())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(nspace: &'static str, rank: u32) -> Proc<'static> {
        Proc::new(nspace, Rank::new(rank))
    }

    fn all(nspace: &'static str) -> Proc<'static> {
        Proc::new(nspace, Rank::WILDCARD)
    }

    fn groups(resolves: bool) -> OwnGroups {
        let groups = OwnGroups::new(resolves);
        let members = vec![proc("job", 7), all("other"), proc("job", 2)];
        groups.learn(Group {
            name: "g".into(),
            members,
            context_id: None,
            infos: vec![],
        });
        groups
    }

    fn resolved(
        groups: &OwnGroups,
        procs: &[Proc<'_>],
    ) -> Result<Option<Vec<Proc<'static>>>, Error> {
        groups.resolved(procs, |nspace| (*nspace == "other").then_some(3))
    }

    #[test]
    fn names_stand_for_the_sorted_members_where_clients_resolve_them() {
        let groups = groups(true);
        let whole = resolved(&groups, &[all("g"), proc("x", 1), all("g")]);
        let members = vec![proc("job", 2), proc("job", 7), all("other"), proc("x", 1)];
        assert_eq!(whole, Ok(Some(members)));
        for (rank, of) in [
            (0, proc("job", 2)),
            (1, proc("job", 7)),
            (2, proc("other", 0)),
            (4, proc("other", 2)),
        ] {
            assert_eq!(resolved(&groups, &[proc("g", rank)]), Ok(Some(vec![of])));
        }
        let beyond = resolved(&groups, &[proc("g", 5)]).unwrap_err();
        assert_eq!(beyond.status(), Status::ERR_NOT_FOUND);
        assert_eq!(resolved(&groups, &[all("job")]), Ok(None));
        groups.forget(&"g".into());
        assert_eq!(resolved(&groups, &[all("g")]), Ok(None));
    }

    #[test]
    fn names_go_as_they_are_to_a_server_that_resolves_them() {
        let groups = groups(false);
        assert_eq!(resolved(&groups, &[all("g")]), Ok(None));
        // In the order in which the server lists them.
        let listed = [proc("job", 7), all("other"), proc("job", 2)];
        assert_eq!(groups.members(&"g".into()), listed);
    }
}
