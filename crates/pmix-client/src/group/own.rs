// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of this process and the resolution of their names into members, for servers that do not resolve them.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups"; OpenPMIx 5, `client/pmix_client_convert.c`, for the
//! resolution by clients.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::{IntoOwned as _, Nspace, Proc, Rank, Status, Text};

use super::Group;
use crate::Error;

/// The members of the groups of this process, as far as the server sent them.
#[derive(Debug)]
pub(crate) struct OwnGroups {
    resolves: bool,
    members: Mutex<HashMap<Text<'static>, Vec<Proc<'static>>>>,
}

impl OwnGroups {
    /// Creates the groups of a process without any. `resolves` is `true` if the server does not resolve names of
    /// groups.
    pub(crate) fn new(resolves: bool) -> Self {
        Self {
            resolves,
            members: Mutex::default(),
        }
    }

    /// Stores a group that was formed, and returns it in the form for the program. If clients resolve names, the list
    /// is sorted, since the libraries of 5.0 take ranks from the sorted list.
    pub(crate) fn insert(&self, mut group: Group) -> Group {
        if self.resolves {
            group.members.sort_unstable();
        }
        // Servers of 4.2 send no members; they resolve the name themselves.
        if !group.members.is_empty() {
            let (name, members) = (group.name.clone(), group.members.clone());
            self.lock().insert(name, members);
        }
        group
    }

    /// Returns the known members of a group.
    pub(crate) fn members(&self, name: &Text<'_>) -> Vec<Proc<'static>> {
        let members = self.lock().get(name.as_bytes()).cloned();
        members.unwrap_or_default()
    }

    /// Returns `true` if this process is in a group of this name.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.lock().contains_key(name)
    }

    /// Removes a group that this process has left or that was destructed.
    pub(crate) fn forget(&self, name: &Text<'_>) {
        self.lock().remove(name.as_bytes());
    }

    /// Removes all groups after the connection to the server was lost.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Replaces the names of groups by their members. Returns `None` if there are none, or if the server resolves them.
    /// `job_size` returns the number of processes of a job, if it is known.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` for a rank that no member of the group has.
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
        let mut counted = HashMap::new();
        // A program may pass the wildcard of a group several times; each member is listed once.
        let mut whole = HashSet::new();
        for proc in procs {
            match known.get(proc.nspace.as_bytes()) {
                None => resolved.push(proc.clone().into_owned()),
                Some(members) if proc.rank == Rank::WILDCARD => {
                    if whole.insert(&proc.nspace) {
                        resolved.extend_from_slice(members);
                    }
                }
                Some(members) => {
                    let of_group = counted.entry(&proc.nspace);
                    let of_group = of_group.or_insert_with(|| Counted::new(members, &job_size));
                    resolved.push(of_group.of_rank(proc)?);
                }
            }
        }
        Ok(Some(resolved))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Text<'static>, Vec<Proc<'static>>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The members of a group, each with the group rank of its first process. A whole job takes as many ranks as it has
/// processes.
struct Counted<'m> {
    members: Vec<(u64, &'m Proc<'static>)>,
    /// The number of ranks.
    size: u64,
}

impl<'m> Counted<'m> {
    /// Assigns ranks up to the first job of unknown size. Later ranks cannot be known.
    fn new(members: &'m [Proc<'static>], job_size: impl Fn(&Nspace<'_>) -> Option<u32>) -> Self {
        let mut counted = Self {
            members: Vec::with_capacity(members.len()),
            size: 0,
        };
        for member in members {
            let size = match member.rank {
                Rank::WILDCARD => job_size(&member.nspace),
                _ => Some(1),
            };
            let Some(size) = size else { break };
            counted.members.push((counted.size, member));
            counted.size += u64::from(size);
        }
        counted
    }

    /// Returns the process with a rank in the group.
    fn of_rank(&self, proc: &Proc<'_>) -> Result<Proc<'static>, Error> {
        let rank = u64::from(proc.rank.as_raw());
        // If several members begin at the same rank, all but the last are jobs without processes.
        let behind = self.members.partition_point(|(first, _)| *first <= rank);
        let found = behind.checked_sub(1).and_then(|at| self.members.get(at));
        let found = found.filter(|_| rank < self.size);
        let Some((first, member)) = found else {
            let message = format!("{} has no rank {}", proc.nspace, proc.rank);
            return Err(Error::new(Status::ERR_NOT_FOUND, message));
        };
        match (member.rank, u32::try_from(rank - first)) {
            (Rank::WILDCARD, Ok(rank)) => Ok(Proc::new(member.nspace.clone(), Rank::new(rank))),
            _ => Ok((*member).clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
        groups.insert(Group {
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
    fn clients_resolve_a_group_name_to_its_sorted_members() {
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
        // The ranks before a job of unknown size are known.
        let unknown = |rank| groups.resolved(&[proc("g", rank)], |_| None);
        assert_eq!(unknown(1), Ok(Some(vec![proc("job", 7)])));
        assert_eq!(unknown(2).unwrap_err().status(), Status::ERR_NOT_FOUND);
        let none = groups.resolved(&[proc("g", 2)], |_| Some(0));
        assert_eq!(none.unwrap_err().status(), Status::ERR_NOT_FOUND);
        assert_eq!(resolved(&groups, &[all("job")]), Ok(None));
        groups.forget(&"g".into());
        assert_eq!(resolved(&groups, &[all("g")]), Ok(None));
    }

    #[test]
    fn resolving_every_group_rank_asks_for_a_job_size_once() {
        let groups = OwnGroups::new(true);
        let members: Vec<_> = (0..1000)
            .map(|rank| proc("job", rank))
            .chain([all("other")])
            .collect();
        groups.insert(Group {
            name: "g".into(),
            members: members.clone(),
            context_id: None,
            infos: vec![],
        });
        let num_asked = Cell::new(0);
        let each: Vec<_> = (0..1003).map(|rank| proc("g", rank)).collect();
        let resolved = groups.resolved(&each, |_| {
            num_asked.set(num_asked.get() + 1);
            Some(3)
        });
        let others = (0..3).map(|rank| proc("other", rank));
        let expected = members.into_iter().take(1000).chain(others).collect();
        assert_eq!((resolved, num_asked.get()), (Ok(Some(expected)), 1));
    }

    #[test]
    fn group_names_are_sent_unresolved_to_a_server_that_resolves_them() {
        let groups = groups(false);
        assert_eq!(resolved(&groups, &[all("g")]), Ok(None));
        // The members keep the order of the server.
        let listed = [proc("job", 7), all("other"), proc("job", 2)];
        assert_eq!(groups.members(&"g".into()), listed);
    }
}
