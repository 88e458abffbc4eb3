// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that are connected (`PMIx_Connect`): a failure in one job then terminates the others as well.
//!
//! A connection is identified by the set of its participants. Processes of the same jobs may have several
//! connections, and each is disconnected separately (PMIx Standard, chapter "Process Management", "Connecting and
//! Disconnecting Processes").

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{Nspace, Proc};

/// The largest number of participants of all connections together; failures do not spread over further connections.
const MAX_PARTICIPANTS: usize = 1 << 18;

/// The connections between processes of several jobs.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    /// The connections by their participants, sorted and without duplicates.
    connections: BTreeMap<Vec<Proc<'static>>, Connection>,
    num_participants: usize,
}

#[derive(Debug)]
struct Connection {
    /// The jobs of its participants.
    jobs: BTreeSet<Nspace<'static>>,
    /// The number of connects of the same processes without a disconnect.
    count: u64,
}

impl Connected {
    /// Records a connect of processes of several jobs.
    pub(crate) fn connect(&mut self, procs: &[Proc<'static>]) {
        let jobs: BTreeSet<_> = procs.iter().map(|proc| proc.nspace.clone()).collect();
        // Processes of one job fail together in any case.
        if jobs.len() < 2 {
            return;
        }
        let participants = participants(procs);
        if let Some(known) = self.connections.get_mut(&participants) {
            known.count = known.count.saturating_add(1);
            return;
        }
        let sum = self.num_participants.saturating_add(participants.len());
        if sum > MAX_PARTICIPANTS {
            tracing::debug!(
                "too many processes are connected: a failure will not terminate further connected processes"
            );
            return;
        }
        self.num_participants = sum;
        let connection = Connection { jobs, count: 1 };
        self.connections.insert(participants, connection);
    }

    /// Records a disconnect: the connection ends, or is counted once less.
    pub(crate) fn disconnect(&mut self, procs: &[Proc<'static>]) {
        let participants = participants(procs);
        let Some(known) = self.connections.get_mut(&participants) else {
            return;
        };
        known.count = known.count.saturating_sub(1);
        if known.count == 0 {
            self.connections.remove(&participants);
            self.num_participants = self.num_participants.saturating_sub(participants.len());
        }
    }

    /// Records a fence without data exchange whose participants belong to several jobs. It disconnects the jobs.
    ///
    /// `MPI_Comm_disconnect` of Open MPI 4 and 5 calls such a fence of all processes of both jobs instead of
    /// `PMIx_Disconnect`.
    // DEVIATION: a fence without data of exactly the connected processes disconnects them, since Open MPI calls nothing
    // else; a_fence_of_the_connected_processes_disconnects_their_jobs
    pub(crate) fn fenced(&mut self, procs: &[Proc<'static>]) {
        self.disconnect(procs);
    }

    /// Removes the connections of a job that has ended.
    pub(crate) fn forget(&mut self, nspace: &Nspace<'_>) {
        let num_participants = &mut self.num_participants;
        self.connections.retain(|participants, connection| {
            let stays = !connection.jobs.iter().any(|job| job == nspace);
            if !stays {
                *num_participants = num_participants.saturating_sub(participants.len());
            }
            stays
        });
    }

    /// Returns `true` if processes of the two jobs are connected with each other.
    pub(crate) fn are(&self, one: &Nspace<'_>, other: &Nspace<'_>) -> bool {
        let has =
            |jobs: &BTreeSet<Nspace<'static>>, job: &Nspace<'_>| jobs.iter().any(|j| j == job);
        let mut connections = self.connections.values();
        connections.any(|known| has(&known.jobs, one) && has(&known.jobs, other))
    }
}

/// Returns the participants in the form that identifies a connection.
fn participants(procs: &[Proc<'static>]) -> Vec<Proc<'static>> {
    let mut procs = procs.to_vec();
    procs.sort_unstable();
    procs.dedup();
    procs
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    fn procs(jobs: &[&'static str], rank: Rank) -> Vec<Proc<'static>> {
        let procs = jobs.iter().map(|job| Proc::new(*job, rank));
        procs.collect()
    }

    #[test]
    fn jobs_are_connected_until_they_disconnect_or_are_over() {
        let all = |jobs: &[&'static str]| procs(jobs, Rank::WILDCARD);
        let mut connected = Connected::default();
        connected.connect(&all(&["a"]));
        connected.connect(&all(&["b", "a", "b"]));
        connected.connect(&all(&["c", "b"]));
        let (a, b, c) = ("a".into(), "b".into(), "c".into());
        assert!(connected.are(&a, &b) && connected.are(&b, &c) && !connected.are(&a, &c));
        connected.disconnect(&all(&["a", "b"]));
        assert!(!connected.are(&a, &b));
        connected.forget(&c);
        assert!(connected.connections.is_empty());
        assert_eq!(connected.num_participants, 0);
    }

    #[test]
    fn jobs_stay_connected_until_the_last_of_their_processes_disconnect() {
        let of = |rank| procs(&["a", "b"], Rank::new(rank));
        let (a, b) = ("a".into(), "b".into());
        let mut connected = Connected::default();
        // Ranks 0 connect twice, ranks 1 once.
        for rank in [0, 1, 0] {
            connected.connect(&of(rank));
        }
        for rank in [0, 1, 0] {
            assert!(connected.are(&a, &b));
            connected.disconnect(&of(rank));
        }
        assert!(!connected.are(&a, &b));
        connected.disconnect(&of(0));
        assert_eq!(connected.num_participants, 0);
    }

    #[test]
    fn no_more_participants_are_remembered_than_there_may_be() {
        let mut connected = Connected::default();
        let mut many: Vec<_> = (1u32..)
            .take(MAX_PARTICIPANTS - 1)
            .map(|rank| Proc::new("a", Rank::new(rank)))
            .collect();
        many.push(Proc::new("b", Rank::new(0)));
        connected.connect(&many);
        connected.connect(&procs(&["a", "c"], Rank::new(0)));
        assert!(connected.are(&"a".into(), &"b".into()));
        assert!(!connected.are(&"a".into(), &"c".into()));
    }
}
