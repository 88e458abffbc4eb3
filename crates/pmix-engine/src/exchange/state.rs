// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the exchange: gets and direct modexes that wait, and packed job information.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use gds_hash::ModexStore;
use pmix_types::{IntoOwned, Key, Nspace, Proc, Rank, Scope, Status};

use super::by_proc::{ByProc, Wanted};
use super::get_request::GetRequest;
use super::job_info_cache::JobInfoCache;
use super::portions::Portions;
use crate::ids::GetId;
use crate::peers::{PeerId, Ticket};
use crate::recount::Recount;
use crate::timer::Timer;
use crate::{DirectModexId, Stats};

/// Serves job information and the data that processes exchange: REQ, COMMIT, GETNB, direct modex.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Gets that wait for data.
    pub(super) gets: PendingGets,
    /// Gets that can be answered and wait for their peers to read what was answered before.
    pub(super) due: HashMap<PeerId, VecDeque<PendingGet>>,
    /// Direct modex calls that the host has not answered.
    pub(super) outbound: OutboundDmodex,
    /// Direct modex requests of the host that wait for local processes.
    pub(super) inbound: InboundDmodex,
    /// Job information of whole jobs, packed as replies to gets.
    pub(super) job_infos: JobInfoCache,
    /// What clients were told of the processes of their jobs, where they may be brought more than they
    /// ask for.
    pub(super) portions: HashMap<PeerId, Portions>,
}

impl Exchange {
    /// Adds what waits here to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        let num_due: usize = self.due.values().map(VecDeque::len).sum();
        stats.num_gets = self.gets.len() + num_due;
        stats.num_inbound_dmodex = self.inbound.len();
        stats.num_outbound_dmodex = self.outbound.len();
        stats.num_stale_procs = self.outbound.lost.len();
        stats.num_packed_jobs = self.job_infos.len();
        stats.num_readers = self.portions.len();
    }

    /// Adds what waits here to what is found, and compares what is counted with it.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (id, get) in self.gets.iter() {
            recount.request(&get.ticket);
            recount.deadline(get.until.map(|(at, _)| at), Timer::Get(GetId(id)));
        }
        let due = self.due.values().flatten();
        due.for_each(|get| recount.request(&get.ticket));
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

/// Holds the gets that wait for data, by the process they are about.
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

/// Says what a get waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// That the job is registered.
    Job,
    /// That all local processes of the job are registered, so that it is known where this one is.
    Clients,
    /// That the process commits.
    Commit,
    /// That the process, which has committed, commits this key too.
    Key,
    /// What the host brings from another node.
    Host,
}

/// A GETNB or REFRESH_CACHE that waits for data.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) ticket: Ticket,
    pub(super) request: GetRequest,
    pub(super) wait_for: WaitFor,
    /// Whether the host has answered about its key.
    pub(super) was_asked: bool,
    /// When it ends without an answer, and how.
    pub(super) until: Option<(Instant, Status)>,
}

impl PendingGet {
    /// Whether it waits longer than until a time; none is for ever.
    pub(super) fn outlasts(&self, until: Option<Instant>) -> bool {
        let own = self.until.map(|(at, _)| at);
        until.is_some_and(|until| own.is_none_or(|own| own > until))
    }
}

/// Holds the direct modex calls that the host has not answered.
#[derive(Debug, Default)]
pub(super) struct OutboundDmodex {
    pub(super) asked: HashMap<Proc<'static>, DmodexCall>,
    /// How many of them for the sake of which peer first: a host that does not answer is not asked
    /// without end.
    by_peer: HashMap<PeerId, usize>,
    /// Processes of registered jobs that were lost once. What comes of them is not kept: it may be the
    /// last data of an incarnation, and nobody tells this server when the next one begins.
    pub(super) lost: HashSet<Proc<'static>>,
    /// Those of jobs that are not registered here, of which nothing is kept until they are, in the
    /// order in which they were lost.
    lost_before: VecDeque<Proc<'static>>,
}

/// How many lost processes of jobs that are not registered here are remembered.
const MAX_LOST_BEFORE: usize = 4096;

/// A direct modex call for a process.
#[derive(Debug)]
pub(super) struct DmodexCall {
    pub(super) key: Option<Key<'static>>,
    pub(super) peer: PeerId,
    /// When the client stops waiting for whose sake the host was called, if it said so: the host
    /// was told its time.
    pub(super) until: Option<Instant>,
    /// Whether the process was lost since: what comes may be of its previous incarnation.
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

    /// What comes of a process is not to be kept.
    pub(super) fn mark_stale(&mut self, proc: &Proc<'_>, is_registered: bool) {
        match is_registered {
            true => _ = self.lost.insert(proc.clone().into_owned()),
            false if self.lost_before.contains(proc) => {}
            false => {
                self.lost_before.push_back(proc.clone().into_owned());
                if self.lost_before.len() > MAX_LOST_BEFORE {
                    self.lost_before.pop_front();
                }
            }
        }
        if let Some(asked) = self.asked.get_mut(&proc.clone().into_owned()) {
            asked.is_stale = true;
        }
    }

    /// A job is registered: from now on what comes of its processes may be kept.
    pub(super) fn job_registered(&mut self, nspace: &Nspace<'_>) {
        let (lost, others) = std::mem::take(&mut self.lost_before)
            .into_iter()
            .partition(|proc| proc.nspace == *nspace);
        self.lost_before = others;
        self.lost.extend::<VecDeque<_>>(lost);
    }

    /// A job is gone.
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

/// Holds the direct modex requests of the host that wait for local processes.
pub(super) type InboundDmodex = ByProc<PendingDmodex>;

/// A direct modex request of the host that waits for a local process.
#[derive(Debug)]
pub(super) struct PendingDmodex {
    /// The key that is to be there.
    pub(super) key: Option<Key<'static>>,
    /// When it ends, and whether the host said so.
    pub(super) until: Option<(Instant, bool)>,
}

impl PendingDmodex {
    /// Whether what has to be there is, or never will be for processes of other nodes.
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
    fn losses_of_jobs_that_nobody_registers_are_forgotten_in_the_end() {
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
