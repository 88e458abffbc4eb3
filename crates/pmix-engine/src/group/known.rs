// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups that local processes are members of, and what their names stand for.

use std::collections::{BTreeMap, HashMap};

use pmix_types::{Nspace, Proc, Rank, Status, Text};

use super::members::Members;
use crate::cx::Cx;
use crate::{Error, Stats};

/// How many bytes the groups may take that processes of one job made.
pub(super) const MAX_BYTES: usize = 1 << 26;

/// Keeps the groups that local processes are members of.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    last: u64,
    pub(super) groups: BTreeMap<u64, Known>,
    by_name: HashMap<Text<'static>, Vec<u64>>,
    /// How many bytes they take, by the job of who made them.
    bytes: HashMap<Nspace<'static>, usize>,
}

/// A group.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: Text<'static>,
    /// The job of the process that made it.
    pub(super) job: Nspace<'static>,
    pub(super) members: Members,
    /// Whether the loss of members is told to the others, who then do without them.
    pub(super) notifies: bool,
}

impl Known {
    /// The process that has a rank in the group.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` for a rank that none of its processes has.
    pub(super) fn of_rank(&self, cx: &Cx, rank: Rank) -> Result<Proc<'static>, Error> {
        let found = self.members.of_rank(cx, rank);
        found.ok_or_else(|| self.no_rank(rank))
    }

    pub(super) fn no_rank(&self, rank: Rank) -> Error {
        Error::not_found(format!("no process has rank {rank} in {}", self.name))
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.members.weight()
    }
}

impl Groups {
    /// Adds the groups to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_groups = self.groups.len();
    }

    /// Whether processes of a job may make one more group of so many bytes.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE`.
    pub(super) fn check_room(&self, job: &Nspace<'_>, more: usize) -> Result<(), Error> {
        let bytes = self.bytes.get(job.as_bytes()).copied().unwrap_or_default();
        match bytes.saturating_add(more) <= MAX_BYTES {
            true => Ok(()),
            false => Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!("groups of {job} take {bytes} bytes of {MAX_BYTES}"),
            )),
        }
    }

    pub(super) fn add(&mut self, group: Known) {
        self.last += 1;
        *self.bytes.entry(group.job.clone()).or_default() += group.weight();
        let ids = self.by_name.entry(group.name.clone()).or_default();
        ids.push(self.last);
        self.groups.insert(self.last, group);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Known> {
        let group = self.groups.remove(&id)?;
        if let Some(ids) = self.by_name.get_mut(&group.name) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_name.remove(&group.name);
            }
        }
        if let Some(bytes) = self.bytes.get_mut(&group.job) {
            *bytes = bytes.saturating_sub(group.weight());
            if *bytes == 0 {
                self.bytes.remove(&group.job);
            }
        }
        Some(group)
    }

    /// The groups of a name, which have no member in common.
    pub(super) fn named(&self, name: &[u8]) -> &[u64] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The group of a name that a process is a member of.
    pub(super) fn of(&self, name: &[u8], member: &Proc<'_>) -> Option<(u64, &Known)> {
        let ids = self.named(name).iter();
        let mut groups = ids.filter_map(|id| Some((*id, self.groups.get(id)?)));
        groups.find(|(_, group)| group.members.has(member))
    }
}
