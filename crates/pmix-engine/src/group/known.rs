// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups with members on this node.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use pmix_types::{Nspace, Proc, Rank, Status, Text};

use super::hosted::table::HostedInvitations;
use super::index::ByProc;
use super::invitation::table::{Invitations, Key};
use super::members::{self, Members};
use crate::cx::Cx;
use crate::recount::Recount;
use crate::{EngineEvent, Error, GroupChange, Stats};

/// The groups with members on this node, and the invitations that concern it.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    last: u64,
    pub(super) groups: BTreeMap<u64, KnownGroup>,
    by_name: HashMap<Text<'static>, Vec<u64>>,
    by_proc: ByProc,
    pub(super) invitations: Invitations,
    /// The invitations that this server runs for their leaders.
    pub(super) hosted: HostedInvitations,
    /// The invitations whose end arrived before their beginning, with the time of arrival.
    pub(super) overtaken: VecDeque<(Key, Option<Instant>)>,
    /// The most recently ended invitations.
    pub(super) over: VecDeque<Key>,
    /// The groups that most recently lost their last member on this node, with the hash of their members; late replies
    /// may still arrive for them.
    pub(super) deserted: VecDeque<(Text<'static>, u64)>,
    /// The memory of groups and invitations in bytes, by the job of the process that constructed the group or leads the
    /// invitation.
    bytes: HashMap<Nspace<'static>, usize>,
}

/// A group.
#[derive(Debug)]
pub(super) struct KnownGroup {
    pub(super) name: Text<'static>,
    /// The job of the process that constructed it.
    pub(super) job: Nspace<'static>,
    pub(super) members: Members,
    /// `true` if members are notified of lost members, and a destruct does not wait for lost members.
    pub(super) notifies: bool,
    /// `true` if the failure of the destruct was reported to the host.
    pub(super) destruct_failed: bool,
}

impl KnownGroup {
    /// Returns the process with a rank in the group.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` for a rank that is not in the group.
    pub(super) fn of_rank(&self, cx: &Cx, rank: Rank) -> Result<Proc<'static>, Error> {
        let found = self.members.of_rank(cx, rank);
        found.ok_or_else(|| self.no_rank(rank))
    }

    pub(super) fn no_rank(&self, rank: Rank) -> Error {
        Error::not_found(format!("no process has rank {rank} in {}", self.name))
    }

    /// Returns the estimated memory of the group in bytes.
    fn weight(&self) -> usize {
        weight(&self.name, self.members.list())
    }
}

impl Groups {
    /// Returns `true` without groups and invitations.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.invitations.is_empty()
    }

    /// Adds the groups to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_groups = self.groups.len();
        stats.group_bytes = self.bytes.values().sum();
    }

    /// Compares the counters with the groups.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        let named = self.by_name.values().map(Vec::len).sum();
        recount.compare("groups by their names", named, self.groups.len());
        let mut by_proc = ByProc::default();
        for (id, group) in &self.groups {
            by_proc.insert(*id, group.members.list());
        }
        recount.compare("groups by processes", self.by_proc.len(), by_proc.len());
        self.invitations.recount(recount);
        self.hosted.recount(recount);
        let mut found: HashMap<&Nspace<'_>, usize> = HashMap::new();
        for group in self.groups.values() {
            *found.entry(&group.job).or_default() += group.weight();
        }
        let hosted = self.hosted.weights();
        for (job, bytes) in self.invitations.weights().chain(hosted) {
            *found.entry(job).or_default() += bytes;
        }
        recount.compare("jobs that made groups", self.bytes.len(), found.len());
        for (job, bytes) in found {
            let counted = self.bytes.get(job).copied().unwrap_or_default();
            recount.compare("bytes of groups of a job", counted, bytes);
        }
    }

    /// Checks that processes of a job may construct one more group.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` beyond [`Config::group_bytes_per_job`](crate::Config).
    pub(super) fn check_room(
        &self,
        cx: &Cx,
        job: &Nspace<'_>,
        name: &Text<'_>,
        members: &[Proc<'_>],
    ) -> Result<(), Error> {
        let bytes = self.bytes.get(job.as_bytes()).copied().unwrap_or_default();
        let most = cx.config.group_bytes_per_job;
        let more = weight(name, members);
        match bytes.saturating_add(more) <= most {
            true => Ok(()),
            false => Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "{name} needs {more} bytes, but groups of {job} already use {bytes} of {most}"
                ),
            )),
        }
    }

    /// Checks that each of some processes may join one more group.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` beyond [`Config::groups_per_process`](crate::Config).
    pub(super) fn check_memberships(
        &self,
        cx: &Cx,
        members: &[Proc<'static>],
    ) -> Result<(), Error> {
        let most = cx.config.groups_per_process;
        match self.by_proc.find_full(members, most) {
            None => Ok(()),
            Some(proc) => Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "rank {} of {} is already in {most} groups, the limit: destruct or leave some first",
                    proc.rank, proc.nspace
                ),
            )),
        }
    }

    /// Adds a group. The limits are checked again, because other groups may have been added since its members called. A
    /// group without a member on this node is not stored.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE`, as [`check_room`](Self::check_room) and
    /// [`check_memberships`](Self::check_memberships).
    pub(super) fn add(&mut self, cx: &mut Cx, group: KnownGroup) -> Result<(), Error> {
        self.check_room(cx, &group.job, &group.name, group.members.list())?;
        self.check_memberships(cx, group.members.list())?;
        let members = group.members.list().to_vec();
        changed(cx, &group.name, GroupChange::Formed(members));
        // No process of this node could use its name or end it.
        if !group.members.any_local(cx) {
            return Ok(());
        }
        self.last += 1;
        self.add_bytes(&group.job, group.weight());
        let ids = self.by_name.entry(group.name.clone()).or_default();
        ids.push(self.last);
        self.by_proc.insert(self.last, group.members.list());
        self.groups.insert(self.last, group);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<KnownGroup> {
        let group = self.groups.remove(&id)?;
        if let Some(ids) = self.by_name.get_mut(&group.name) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_name.remove(&group.name);
            }
        }
        self.by_proc.remove(id, group.members.list());
        self.take_bytes(&group.job, group.weight());
        Some(group)
    }

    pub(super) fn add_bytes(&mut self, job: &Nspace<'static>, more: usize) {
        *self.bytes.entry(job.clone()).or_default() += more;
    }

    pub(super) fn take_bytes(&mut self, job: &Nspace<'_>, fewer: usize) {
        if let Some(bytes) = self.bytes.get_mut(job.as_bytes()) {
            *bytes = bytes.saturating_sub(fewer);
            if *bytes == 0 {
                self.bytes.remove(job.as_bytes());
            }
        }
    }

    /// Returns the groups that list a process, even if it has left them.
    pub(super) fn naming(&self, proc: &Proc<'static>) -> Vec<u64> {
        self.by_proc.of(proc).into_iter().collect()
    }

    /// Returns the groups that list any process of a job.
    pub(super) fn of_job(&self, nspace: &Nspace<'_>) -> Vec<u64> {
        self.by_proc.of_job(nspace)
    }

    /// Returns the groups with a name, which have no common member.
    pub(super) fn named(&self, name: &[u8]) -> &[u64] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the group with a name that a process is a member of.
    pub(super) fn of(&self, name: &[u8], member: &Proc<'_>) -> Option<(u64, &KnownGroup)> {
        let ids = self.named(name).iter();
        let mut groups = ids.filter_map(|id| Some((*id, self.groups.get(id)?)));
        // Groups of one name have no common member, so the first match is the only one.
        groups.find(|(_, group)| group.members.has(member))
    }
}

/// Reports a change of a group to the driver.
pub(super) fn changed(cx: &mut Cx, name: &Text<'static>, change: GroupChange) {
    let name = name.clone();
    let event = EngineEvent::Group { name, change };
    cx.driver_events.push_back(event);
}

/// Returns the estimated memory of a group in bytes.
pub(super) fn weight(name: &Text<'_>, list: &[Proc<'_>]) -> usize {
    size_of::<KnownGroup>() + name.len() + members::weight(list)
}
