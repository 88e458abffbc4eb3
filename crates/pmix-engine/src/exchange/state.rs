// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the exchange: pending gets and direct modexes, and packed job info.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use gds_hash::ModexStore;
use pmix_types::{IntoOwned, Key, Nspace, Proc, Rank, Scope, Status};

use super::by_proc::{ByProc, Wanted};
use super::get_request::GetRequest;
use super::job_info_cache::JobInfoCache;
use super::portions::Portions;
use super::unfinished::UnfinishedCommits;
use crate::ids::GetId;
use crate::peers::{PeerId, Ticket};
use crate::recount::Recount;
use crate::timer::Timer;
use crate::{DirectModexId, Stats};

/// The exchange of job info and of the data of processes: REQ, COMMIT, GETNB, direct modex.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Gets that wait for data.
    pub(super) gets: PendingGets,
    /// Gets with available data that wait for their peers to read earlier replies.
    pub(super) due: HashMap<PeerId, VecDeque<PendingGet>>,
    /// Direct modex calls without a reply of the host.
    pub(super) outbound: OutboundDmodex,
    /// Direct modex requests of the host that wait for local processes.
    pub(super) inbound: InboundDmodex,
    /// The info of whole jobs, packed as replies to gets.
    pub(super) job_infos: JobInfoCache,
    /// The data sent to clients that may receive data without a request.
    pub(super) portions: HashMap<PeerId, Portions>,
    /// Commits that are stored in more than one part.
    pub(super) commits: UnfinishedCommits,
}

impl Exchange {
    /// Adds the pending requests to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        let num_due: usize = self.due.values().map(VecDeque::len).sum();
        stats.num_gets = self.gets.len() + num_due;
        stats.num_inbound_dmodex = self.inbound.len();
        stats.num_outbound_dmodex = self.outbound.len();
        stats.num_stale_procs = self.outbound.lost.len();
        stats.num_packed_jobs = self.job_infos.len();
        stats.num_readers = self.portions.len();
        stats.num_commits = self.commits.len();
    }

    /// Adds the pending requests to a recount, and compares the counters of requests.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (id, get) in self.gets.iter() {
            recount.request(&get.ticket);
            recount.deadline(get.until.map(|(at, _)| at), Timer::Get(GetId(id)));
        }
        let due = self.due.values().flatten();
        due.for_each(|get| recount.request(&get.ticket));
        self.commits.recount(recount);
        for (id, dmodex) in self.inbound.iter() {
            let timer = Timer::InboundDmodex(DirectModexId(id));
            recount.deadline(dmodex.until.map(|(at, _)| at), timer);
        }
        let of_peers = self.outbound.by_peer.values().sum();
        recount.compare("direct modex calls of peers", of_peers, self.outbound.len());
        self.gets
            .recount(recount, ["gets of processes", "gets of keys"]);
        let names = [
            "direct modex requests of processes",
            "direct modex requests of keys",
        ];
        self.inbound.recount(recount, names);
    }
}

/// The gets that wait for data, by process.
pub(super) type PendingGets = ByProc<PendingGet>;

impl Wanted for PendingGet {
    fn key(&self) -> Option<&Key<'static>> {
        self.request.key.as_ref()
    }

    fn peer(&self) -> Option<PeerId> {
        Some(self.ticket.peer())
    }
}

impl Wanted for PendingDmodex {
    fn key(&self) -> Option<&Key<'static>> {
        self.key.as_ref()
    }
}

/// The condition that a get waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// The registration of the job.
    Job,
    /// The registration of all local clients of the job. Until then, the process may prove to be local.
    Clients,
    /// The first commit of the process.
    Commit,
    /// A further commit of the process with this key.
    Key,
    /// The data of another node, from the host.
    Host,
}

/// A GETNB or REFRESH_CACHE that waits for data.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) ticket: Ticket,
    pub(super) request: GetRequest,
    pub(super) wait_for: WaitFor,
    /// The time of the call.
    pub(super) began: Option<Instant>,
    /// `true` once the host has replied about the key.
    pub(super) was_asked: bool,
    /// The time limit, and the status if it expires.
    pub(super) until: Option<(Instant, Status)>,
}

impl PendingGet {
    /// Returns `true` if the get waits beyond `until`; `None` means no limit.
    pub(super) fn outlasts(&self, until: Option<Instant>) -> bool {
        let own = self.until.map(|(at, _)| at);
        until.is_some_and(|until| own.is_none_or(|own| own > until))
    }
}

/// The direct modex calls without a reply of the host.
#[derive(Debug, Default)]
pub(super) struct OutboundDmodex {
    pub(super) asked: HashMap<Proc<'static>, DmodexCall>,
    /// The number of calls made for each peer; a limit protects a host that does not reply.
    by_peer: HashMap<PeerId, usize>,
    /// The lost processes of registered jobs. Their data are not stored, because they may belong to the lost
    /// incarnation and this server does not learn when the next one begins.
    pub(super) lost: HashSet<Proc<'static>>,
    /// The lost processes of unregistered jobs, in order of loss. No data of these jobs are stored before their
    /// registration.
    lost_before: VecDeque<Proc<'static>>,
}

/// The limit of stored lost processes of unregistered jobs.
const MAX_LOST_BEFORE: usize = 4096;

/// A direct modex call for a process.
#[derive(Debug)]
pub(super) struct DmodexCall {
    pub(super) key: Option<Key<'static>>,
    pub(super) peer: PeerId,
    /// The time limit of the client that caused the call, if it set one; the call carries it.
    pub(super) until: Option<Instant>,
    /// `true` if the process was lost since: the data may belong to its previous incarnation.
    pub(super) is_stale: bool,
}

impl OutboundDmodex {
    pub(super) fn add(&mut self, proc: Proc<'static>, asked: DmodexCall) {
        *self.by_peer.entry(asked.peer).or_default() += 1;
        self.asked.insert(proc, asked);
    }

    pub(super) fn take(&mut self, proc: &Proc<'static>) -> Option<DmodexCall> {
        let asked = self.asked.remove(proc)?;
        if let Some(count) = self.by_peer.get_mut(&asked.peer) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_peer.remove(&asked.peer);
            }
        }
        Some(asked)
    }

    /// Marks the data of a process as not to be stored.
    pub(super) fn mark_stale(&mut self, proc: &Proc<'_>, is_registered: bool) {
        match is_registered {
            true => _ = self.lost.insert(proc.clone().into_owned()),
            false if self.lost_before.contains(proc) => {}
            false => {
                self.lost_before.push_back(proc.clone().into_owned());
                if self.lost_before.len() > MAX_LOST_BEFORE {
                    // The host may report losses in jobs that it never registers here.
                    self.lost_before.pop_front();
                }
            }
        }
        // The reply in flight may have data of the lost incarnation.
        if let Some(asked) = self.asked.get_mut(&proc.clone().into_owned()) {
            asked.is_stale = true;
        }
    }

    /// Records the registration of a job, whose data may be stored from now on.
    pub(super) fn job_registered(&mut self, nspace: &Nspace<'_>) {
        let (lost, others) = std::mem::take(&mut self.lost_before)
            .into_iter()
            .partition(|proc| proc.nspace == *nspace);
        self.lost_before = others;
        self.lost.extend::<VecDeque<_>>(lost);
    }

    /// Removes a deregistered job.
    pub(super) fn forget_job(&mut self, nspace: &Nspace<'_>) {
        self.lost.retain(|proc| proc.nspace != *nspace);
    }

    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn num_of(&self, peer: PeerId) -> usize {
        self.by_peer.get(&peer).copied().unwrap_or_default()
    }
}

/// The direct modex requests of the host that wait for local processes.
pub(super) type InboundDmodex = ByProc<PendingDmodex>;

/// A direct modex request of the host that waits for a local process.
#[derive(Debug)]
pub(super) struct PendingDmodex {
    /// The key that must have a value.
    pub(super) key: Option<Key<'static>>,
    /// The time limit, and `true` if the host set it.
    pub(super) until: Option<(Instant, bool)>,
}

impl PendingDmodex {
    /// Returns `true` if the key has a value, or never will for processes of other nodes.
    pub(super) fn is_there(&self, puts: &ModexStore, rank: Rank) -> bool {
        let Some(key) = self.key.as_ref().and_then(|key| key.as_text().as_str()) else {
            return true;
        };
        match puts.check(rank, Scope::REMOTE, key, &[]) {
            Ok(()) => true,
            Err(error) => error.status() == Status::ERR_EXISTS_OUTSIDE_SCOPE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_unregistered_jobs_are_bounded() {
        let mut outbound = OutboundDmodex::default();
        let count = u32::try_from(MAX_LOST_BEFORE).unwrap();
        for _ in 0..2 {
            for rank in 0..=count {
                outbound.mark_stale(&Proc::new("far", Rank::new(rank)), false);
            }
        }
        assert_eq!(outbound.lost_before.len(), MAX_LOST_BEFORE);
        assert!(outbound.lost.is_empty());
        outbound.mark_stale(&Proc::new("late", Rank::new(3)), false);
        outbound.job_registered(&"late".into());
        assert!(outbound.lost.contains(&Proc::new("late", Rank::new(3))));
        assert_eq!(outbound.lost_before.len(), MAX_LOST_BEFORE - 1);
        outbound.forget_job(&"late".into());
        assert!(outbound.lost.is_empty());
    }
}
