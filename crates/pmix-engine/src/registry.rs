// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs and local processes that the host registered.

mod client;

pub(crate) use client::{Client, ClientState};

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pmix_types::{IntoOwned, Nspace, Proc, Rank, Text};

use crate::host::HostObject;
use crate::ids::ClientId;
use crate::peers::{Member, PeerId};
use crate::recount::Recount;
use crate::timer::Timer;
use crate::{Error, Stats};

/// The registered jobs and their local processes.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    last: u64,
    jobs: HashMap<Nspace<'static>, LocalJob>,
    clients: HashMap<ClientId, Client>,
    /// The sum of [`LocalJob::num_procs`].
    num_procs: u64,
}

impl Registry {
    /// Adds a job, or updates the number of its local processes and of all its processes.
    pub(crate) fn add_job(&mut self, nspace: Nspace<'static>, num_local: u32, num_procs: u64) {
        let job = self.jobs.entry(nspace).or_default();
        job.num_local = Some(num_local);
        // An update replaces the number of an earlier registration.
        self.num_procs = self.num_procs - job.num_procs + num_procs;
        job.num_procs = num_procs;
    }

    /// Returns the number of processes of all registered jobs on all nodes.
    pub(crate) fn num_procs(&self) -> u64 {
        self.num_procs
    }

    /// Removes a job and returns its clients.
    pub(crate) fn remove_job(&mut self, nspace: &Nspace<'_>) -> Vec<(ClientId, Client)> {
        let job = self.jobs.remove(nspace.as_bytes()).unwrap_or_default();
        self.num_procs -= job.num_procs;
        let ids = job.clients.into_values();
        ids.filter_map(|id| Some((id, self.clients.remove(&id)?)))
            .collect()
    }

    pub(crate) fn job(&self, nspace: &Nspace<'_>) -> Option<&LocalJob> {
        self.jobs.get(nspace.as_bytes())
    }

    /// Returns the registered jobs, in no order.
    pub(crate) fn jobs(&self) -> impl ExactSizeIterator<Item = (&Nspace<'static>, &LocalJob)> {
        self.jobs.iter()
    }

    pub(crate) fn job_mut(&mut self, nspace: &Nspace<'_>) -> Option<&mut LocalJob> {
        self.jobs.get_mut(nspace.as_bytes())
    }

    /// Registers a local process, or updates its registration. A lost process may connect again after an update.
    pub(crate) fn add_client(
        &mut self,
        proc: &Proc<'_>,
        user: (u32, u32),
        object: HostObject,
    ) -> Result<ClientId, Error> {
        let len = proc.nspace.as_bytes().len();
        if len == 0 || len > Nspace::MAX_LEN {
            let most = Nspace::MAX_LEN;
            return Err(Error::bad(format!(
                "an nspace has 1 to {most} bytes, not {len}"
            )));
        }
        if !proc.rank.is_valid() {
            return Err(Error::bad(format!("{:?} is not a process", proc.rank)));
        }
        // Some hosts register the processes of a job before the job.
        let nspace = proc.nspace.clone().into_owned();
        let job = self.jobs.entry(nspace).or_default();
        job.owner.get_or_insert(user.0);
        job.pids.remove(&proc.rank);
        let was_here = job.deregistered.remove(&proc.rank);
        if let Some(id) = job.clients.get(&proc.rank).copied()
            && let Some(client) = self.clients.get_mut(&id)
        {
            client.user = user;
            client.object = object;
            client.revive();
            return Ok(id);
        }
        self.last += 1;
        let id = ClientId(self.last);
        job.clients.insert(proc.rank, id);
        let proc = proc.clone().into_owned();
        let mut client = Client::new(proc, user, object);
        // Data of a deregistered process of this name do not belong to the new process.
        client.is_orphaned = was_here;
        self.clients.insert(id, client);
        Ok(id)
    }

    /// Removes a local process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the process is not registered.
    pub(crate) fn remove_client(&mut self, proc: &Proc<'_>) -> Result<(ClientId, Client), Error> {
        let (rank, nspace) = (proc.rank, &proc.nspace);
        let job = self.jobs.get_mut(nspace.as_bytes());
        let removed = job.and_then(|job| {
            let id = job.clients.remove(&rank)?;
            // The rank stays known as local: its data keep their scope, and later reports are not those of a remote
            // process.
            job.deregistered.insert(rank);
            Some((id, self.clients.remove(&id)?))
        });
        removed
            .ok_or_else(|| Error::not_found(format!("rank {rank} of {nspace} is not registered")))
    }

    /// Records the end of a connection. Returns `true` if its process is lost with it.
    pub(crate) fn disconnect(&mut self, peer: PeerId, member: &Member) -> bool {
        let client = member.client.and_then(|id| self.client_mut(id));
        match client {
            Some(client) => client.disconnect(peer),
            // A tool has no registration; only its finalize distinguishes an orderly end from a loss.
            None => !member.is_finalized,
        }
    }

    /// Adds the registrations to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_jobs = self.jobs.len();
        stats.num_clients = self.clients.len();
    }

    /// Adds the deadlines for returning processes to a recount, and compares the counters of jobs.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (id, client) in &self.clients {
            recount.deadline(client.until, Timer::Return(*id));
        }
        let of_jobs = self.jobs.values().map(|job| job.clients.len()).sum();
        recount.compare("processes of jobs", of_jobs, self.clients.len());
        let num_procs: u64 = self.jobs.values().map(|job| job.num_procs).sum();
        let counted = [num_procs, self.num_procs].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        recount.compare("processes on all nodes", counted[0], counted[1]);
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    pub(crate) fn client_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(&id)
    }

    /// Returns `true` if all local processes of a job are registered.
    pub(crate) fn is_complete(&self, nspace: &Nspace<'_>) -> bool {
        self.job(nspace).is_some_and(LocalJob::is_complete)
    }

    /// Returns `true` if a process is or was registered here.
    pub(crate) fn was_here(&self, proc: &Proc<'_>) -> bool {
        let job = self.job(&proc.nspace);
        job.is_some_and(|job| {
            job.clients.contains_key(&proc.rank) || job.deregistered.contains(&proc.rank)
        })
    }

    /// Records that a local process received its job info. Returns `true` if all local processes have received it, so
    /// that no further request is expected.
    pub(crate) fn record_job_info_sent(&mut self, nspace: &Nspace<'_>) -> bool {
        let Some(job) = self.jobs.get_mut(nspace.as_bytes()) else {
            return false;
        };
        job.num_job_info_sent += 1;
        let is_last = job
            .num_local
            .is_some_and(|all| job.num_job_info_sent >= all);
        if is_last {
            // Restarted processes request the job info again, which is another round.
            job.num_job_info_sent = 0;
        }
        is_last
    }

    /// Returns the local process with a name.
    pub(crate) fn client_of(&self, proc: &Proc<'_>) -> Option<&Client> {
        self.client(self.find(&proc.nspace, proc.rank)?)
    }

    /// Returns the identifier of the local process with a name.
    pub(crate) fn find(&self, nspace: &Nspace<'_>, rank: Rank) -> Option<ClientId> {
        self.job(nspace)?.clients.get(&rank).copied()
    }
}

/// The local part of a job.
#[derive(Debug, Default)]
pub(crate) struct LocalJob {
    /// The number of local processes that the host stated; `None` before it did.
    pub(crate) num_local: Option<u32>,
    /// The number of processes on all nodes; 0 before the job is registered.
    num_procs: u64,
    /// The registered local processes.
    pub(crate) clients: BTreeMap<Rank, ClientId>,
    /// The process ids of local processes that have started, also of those that were deregistered since.
    pub(crate) pids: BTreeMap<Rank, i32>,
    /// The deregistered local processes.
    pub(crate) deregistered: BTreeSet<Rank>,
    /// The owner of the job: the user of the first registered process.
    pub(crate) owner: Option<u32>,
    /// An upper limit of the bytes that the local processes put; removed values may still count.
    pub(crate) put_bytes: usize,
    /// The number of processes that received the job info since all had received it.
    num_job_info_sent: u32,
}

impl LocalJob {
    /// Returns `true` if all local processes are registered, so that all others are known to be remote. Deregistered
    /// ones count, because the host does not change the stated number.
    pub(crate) fn is_complete(&self) -> bool {
        let known = self.clients.len() + self.deregistered.len();
        let known = u32::try_from(known).unwrap_or(u32::MAX);
        self.num_local.is_some_and(|expected| known >= expected)
    }
}

/// The process sets by name (PMIx Standard, chapter "Process Sets and Groups").
#[derive(Debug, Default)]
pub(crate) struct ProcessSets(BTreeMap<Text<'static>, Vec<Proc<'static>>>);

impl ProcessSets {
    /// Defines or redefines a set.
    pub(crate) fn define(
        &mut self,
        name: Text<'static>,
        members: Vec<Proc<'static>>,
    ) -> Result<(), Error> {
        if name.is_empty() || members.is_empty() {
            return Err(Error::bad("a process set requires a name and members"));
        }
        self.0.insert(name, members);
        Ok(())
    }

    /// Deletes a set and returns its members.
    pub(crate) fn delete(&mut self, name: &Text<'_>) -> Result<Vec<Proc<'static>>, Error> {
        let members = self.0.remove(name.as_bytes());
        members.ok_or_else(|| Error::not_found(format!("process set {name} is not defined")))
    }

    /// Returns all sets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text<'static>, &[Proc<'static>])> {
        self.0
            .iter()
            .map(|(name, members)| (name, members.as_slice()))
    }

    /// Returns the names of the sets that contain a process.
    pub(crate) fn of<'s>(&'s self, proc: &'s Proc<'_>) -> impl Iterator<Item = &'s Text<'static>> {
        let has = |member: &&Proc<'_>| {
            member.nspace == proc.nspace
                && (member.rank == proc.rank || member.rank == Rank::WILDCARD)
        };
        let sets = self.0.iter();
        sets.filter(move |(_, members)| members.iter().any(|member| has(&member)))
            .map(|(name, _)| name)
    }
}
