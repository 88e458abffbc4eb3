// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a construct: its members in their order, and the infos that they share.

use std::collections::HashSet;

use pmix_engine::host::in_final_order;
use pmix_types::{Info, Proc, Rank, Status, keys, memory};

use super::GroupConstruct;
use crate::groups::EndedConstruct;
use crate::groups::call::Leaders;

/// The largest number of members of a group, 160 MiB: a list of members may repeat a job.
const MAX_MEMBERS: u64 = 1 << 22;

impl<T> GroupConstruct<T> {
    /// Returns the success of a complete construct, or its failure if the members are too many.
    pub(in crate::groups) fn succeed(mut self) -> EndedConstruct<T> {
        let members = match self.members() {
            Ok(members) => members,
            Err(status) => {
                return EndedConstruct {
                    wants_context_id: false,
                    tokens: self.take_tokens(),
                    outcome: Err(status),
                };
            }
        };
        let mut infos = vec![Info::new(keys::GROUP_MEMBERSHIP, members)];
        let calls = self.leader_calls.iter_mut();
        for call in calls.chain(&mut self.participant_calls) {
            infos.append(&mut call.shared);
        }
        let calls = || self.leader_calls.iter().chain(&self.participant_calls);
        if calls().any(|call| call.notifies) {
            infos.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
        }
        let wants_context_id = calls().any(|call| call.wants_context_id);
        EndedConstruct {
            wants_context_id,
            tokens: self.take_tokens(),
            outcome: Ok(infos),
        }
    }

    /// Returns the members of a complete construct.
    fn members(&mut self) -> Result<Vec<Proc<'static>>, Status> {
        let mut members = self.in_order()?;
        if !self.lost_leaders.is_empty() {
            members = self.expand_jobs(&members)?;
            members.retain(|proc| !self.lost_leaders.contains(proc));
        }
        let mut added: Vec<_> = self.added.drain().collect();
        // The set has no order, but all servers must assign the same ranks.
        added.sort_unstable();
        members.extend(added);
        if let Some(order) = &self.order {
            members = in_final_order(self.expand_jobs(&members)?, order);
        }
        Ok(members)
    }

    /// Returns the leaders in the order that all calls list, without those that any server leaves out. If the calls
    /// differ, or leaders are counted, they are sorted by name.
    fn in_order(&self) -> Result<Vec<Proc<'static>>, Status> {
        Ok(match &self.leaders {
            Leaders::Listed(procs) => {
                let mut lists = self.leader_calls.iter().map(|call| &call.listed);
                let first = lists.next().unwrap_or(procs);
                if lists.clone().all(|list| list == first) {
                    return Ok(first.clone());
                }
                // A server that leaves a process out lists the others individually; another server may list the whole
                // job.
                let mut both: HashSet<_> = self.expand_jobs(first)?.into_iter().collect();
                for list in lists {
                    let named: HashSet<_> = self.expand_jobs(list)?.into_iter().collect();
                    both.retain(|proc| named.contains(proc));
                }
                let mut both: Vec<_> = both.into_iter().collect();
                both.sort_unstable();
                both
            }
            Leaders::Counted(_) => {
                let procs = self
                    .leader_calls
                    .iter()
                    .filter_map(|call| call.proc.clone());
                let mut procs: Vec<_> = procs.collect();
                procs.sort_unstable();
                procs
            }
        })
    }

    /// Returns a list with whole jobs written out, as far as their sizes are known.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` for more than 4,194,304 processes, and `PMIX_ERR_NOMEM` if the process has no
    /// memory for them.
    fn expand_jobs(&self, list: &[Proc<'static>]) -> Result<Vec<Proc<'static>>, Status> {
        let size = |proc: &Proc<'static>| match self.jobs.get(&proc.nspace) {
            Some(size) if proc.rank == Rank::WILDCARD => *size,
            _ => None,
        };
        let num = list.iter().map(|proc| u64::from(size(proc).unwrap_or(1)));
        let num: u64 = num.sum();
        if num > MAX_MEMBERS {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let each = memory::list(usize::try_from(num).unwrap_or(usize::MAX));
        let mut each = each.map_err(|error| error.status())?;
        for proc in list {
            match size(proc) {
                Some(size) => {
                    let nspace = proc.nspace.to_shared();
                    let of = |rank| Proc::new(nspace.clone(), Rank::new(rank));
                    each.extend((0..size).map(of));
                }
                None => each.push(proc.clone()),
            }
        }
        Ok(each)
    }
}
