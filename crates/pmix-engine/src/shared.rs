// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that clients of this project read from memory shared with their server
//! (`docs/decisions/0023-shared-data-is-a-sealed-table.md`).
//!
//! The data of a job are shared once one of its clients states that it reads them. They equal the reply to a get.
//! Outdated data are removed before any reply or event can inform a client of the change.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use pmix_proto::shared::SharedKey;
use pmix_types::{IntoOwned as _, Nspace, Proc, Rank};

use crate::Stats;

/// A change of the data that the local processes of a job share. The keys and values are those of
/// [`pmix_proto::shared`].
///
/// The driver applies the changes in order, before it writes the bytes queued at the same time. It omits a value
/// without room and reports it by [`Engine::shared_left_out`](crate::Engine::shared_left_out); it must not omit the
/// removal of an existing value. When the host deregisters a job, the driver removes all data of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedChange {
    /// Sets the value of a key.
    Put {
        /// The job.
        nspace: Nspace<'static>,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a key.
    Remove {
        /// The job.
        nspace: Nspace<'static>,
        /// The key.
        key: Vec<u8>,
    },
}

/// The shared data of each job, and the changes that the driver has not taken.
#[derive(Debug, Default)]
pub(crate) struct SharedData {
    jobs: HashMap<Nspace<'static>, SharedJob>,
    changes: VecDeque<SharedChange>,
}

/// The shared data of a job.
#[derive(Debug, Default)]
struct SharedJob {
    /// The keys of the job info.
    infos: HashSet<Vec<u8>>,
    /// The processes with shared data.
    puts: BTreeSet<Rank>,
    /// The processes whose data changed since the last fence that collected data.
    changed: BTreeSet<Rank>,
    /// The processes that have room reserved in the shared memory and can use it again when it is full.
    places: BTreeSet<Rank>,
    room: Room,
}

/// The room for more data of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    /// The driver has omitted nothing.
    #[default]
    ForAll,
    /// There is no room for processes without reserved room.
    ForPlaces,
    /// No data of the job are shared.
    None,
}

impl SharedJob {
    /// Returns `true` if there may be room for the data of a process.
    fn takes_puts_of(&self, rank: Rank) -> bool {
        match self.room {
            Room::ForAll => true,
            Room::ForPlaces => self.places.contains(&rank),
            Room::None => false,
        }
    }
}

impl SharedData {
    /// Returns the next change.
    pub(crate) fn poll(&mut self) -> Option<SharedChange> {
        self.changes.pop_front()
    }

    /// Adds the shared jobs to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_shared_jobs = self.jobs.len();
        stats.num_undelivered += self.changes.len();
    }

    /// Forgets a deregistered job.
    pub(crate) fn forget(&mut self, nspace: &Nspace<'_>) {
        self.jobs.remove(nspace.as_bytes());
    }

    /// Removes the changed data of a process. They are shared again after the next fence.
    pub(crate) fn puts_changed(&mut self, proc: &Proc<'_>) {
        let Some(job) = self.jobs.get_mut(proc.nspace.as_bytes()) else {
            return;
        };
        // Data without room would be packed after each fence, only to be left out again.
        if job.takes_puts_of(proc.rank) {
            job.changed.insert(proc.rank);
        }
        if job.puts.remove(&proc.rank) {
            self.changes.push_back(SharedChange::Remove {
                nspace: proc.nspace.clone().into_owned(),
                key: SharedKey::Puts(proc.rank).to_bytes(),
            });
        }
    }

    /// Returns `true` if the data of a job are shared.
    pub(crate) fn has(&self, nspace: &Nspace<'_>) -> bool {
        self.jobs.contains_key(nspace.as_bytes())
    }

    /// Returns `true` if the job info of a job should be shared.
    pub(crate) fn takes_infos(&self, nspace: &Nspace<'_>) -> bool {
        let job = self.jobs.get(nspace.as_bytes());
        job.is_some_and(|job| job.room != Room::None)
    }

    /// Records that the driver had no room for a value, so that similar values are not packed in vain. Afterwards only
    /// processes with reserved room are shared. If the value was job info, nothing of the job is shared.
    pub(crate) fn left_out(&mut self, nspace: &Nspace<'_>, key: &[u8]) {
        let Some(job) = self.jobs.get_mut(nspace.as_bytes()) else {
            return;
        };
        match SharedKey::rank_of_puts(key) {
            Some(rank) => {
                job.room = job.room.max(Room::ForPlaces);
                job.puts.remove(&rank);
                job.places.remove(&rank);
            }
            None => {
                // Without room for the job info, the driver removes the whole table (docs/decisions/0023).
                *job = SharedJob {
                    room: Room::None,
                    ..SharedJob::default()
                };
            }
        }
    }

    /// Returns `true` if the data of a process are shared.
    pub(crate) fn has_puts(&self, proc: &Proc<'_>) -> bool {
        let job = self.jobs.get(proc.nspace.as_bytes());
        job.is_some_and(|job| job.puts.contains(&proc.rank))
    }

    /// Starts to share a job. `ranks` are the processes that have put data.
    pub(crate) fn begin(&mut self, nspace: Nspace<'static>, ranks: BTreeSet<Rank>) {
        let job = SharedJob {
            changed: ranks,
            ..SharedJob::default()
        };
        self.jobs.insert(nspace, job);
    }

    /// Replaces the shared job info of a job.
    pub(crate) fn set_infos<'k>(
        &mut self,
        nspace: &Nspace<'static>,
        infos: impl Iterator<Item = (SharedKey<'k>, Vec<u8>)>,
    ) {
        let Some(job) = self.jobs.get_mut(nspace.as_bytes()) else {
            return;
        };
        // An updated job may lack earlier keys, which clients must not find any more.
        let mut outdated = std::mem::take(&mut job.infos);
        for (key, value) in infos {
            let (nspace, key) = (nspace.clone(), key.to_bytes());
            outdated.remove(&key);
            job.infos.insert(key.clone());
            let put = SharedChange::Put { nspace, key, value };
            self.changes.push_back(put);
        }
        for key in outdated {
            let nspace = nspace.clone();
            let removed = SharedChange::Remove { nspace, key };
            self.changes.push_back(removed);
        }
    }

    /// Removes and returns the processes whose data changed since the last fence that collected data.
    pub(crate) fn take_changed(&mut self, nspace: &Nspace<'_>) -> BTreeSet<Rank> {
        let Some(job) = self.jobs.get_mut(nspace.as_bytes()) else {
            return BTreeSet::new();
        };
        let mut changed = std::mem::take(&mut job.changed);
        changed.retain(|rank| job.takes_puts_of(*rank));
        changed
    }

    /// Shares the data of a process.
    pub(crate) fn set_puts(&mut self, proc: Proc<'static>, value: Vec<u8>) {
        let Proc { nspace, rank } = proc;
        if let Some(job) = self.jobs.get_mut(nspace.as_bytes()) {
            job.puts.insert(rank);
            job.places.insert(rank);
            let key = SharedKey::Puts(rank).to_bytes();
            let put = SharedChange::Put { nspace, key, value };
            self.changes.push_back(put);
        }
    }
}
