// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that clients of this project read in memory that they share with their server: what is to be
//! put there and removed (`docs/decisions/0023-shared-data-is-a-sealed-table.md`).
//!
//! Nothing is, until a client of a job says that it reads them. What stands there is what a get would be
//! answered with; it is removed before a reply or an event could tell a client of the change.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use pmix_proto::shared::SharedKey;
use pmix_types::{IntoOwned as _, Nspace, Proc, Rank};

use crate::Stats;

/// Says what to change in the data that the processes of a job on this node share. The keys and values are
/// those of [`pmix_proto::shared`].
///
/// The driver makes the changes in their order, before it writes anything that was to be sent when they
/// came. What it has no room for it leaves out, and says so by
/// [`Engine::shared_left_out`](crate::Engine::shared_left_out); it must not leave out a removal of what it has.
/// When the host deregisters a job, all of its data go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedChange {
    /// A key has this value from now on.
    Put {
        /// The job.
        nspace: Nspace<'static>,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A key has no value any longer.
    Remove {
        /// The job.
        nspace: Nspace<'static>,
        /// The key.
        key: Vec<u8>,
    },
}

/// Holds what is shared of each job, and the changes that the driver has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct SharedData {
    jobs: HashMap<Nspace<'static>, SharedJob>,
    changes: VecDeque<SharedChange>,
}

/// What is shared of a job.
#[derive(Debug, Default)]
struct SharedJob {
    /// The keys of its job info.
    infos: HashSet<Vec<u8>>,
    /// The processes whose data are there.
    puts: BTreeSet<Rank>,
    /// Processes whose data changed since the last fence that collected.
    changed: BTreeSet<Rank>,
    /// Those whose data have a place, which they may take again when there is no other.
    places: BTreeSet<Rank>,
    room: Room,
}

/// Whether more of a job can be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    /// The driver has left nothing out.
    #[default]
    ForAll,
    /// There is no room for the data of processes that have no place.
    ForPlaces,
    /// Nothing is shared of the job.
    None,
}

impl SharedJob {
    /// Whether there may be room for the data of a process.
    fn takes_puts_of(&self, rank: Rank) -> bool {
        match self.room {
            Room::ForAll => true,
            Room::ForPlaces => self.places.contains(&rank),
            Room::None => false,
        }
    }
}

impl SharedData {
    /// Takes the next change.
    pub(crate) fn poll(&mut self) -> Option<SharedChange> {
        self.changes.pop_front()
    }

    /// Adds what is held to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        stats.num_shared_jobs = self.jobs.len();
        stats.num_undelivered += self.changes.len();
    }

    /// A job is gone.
    pub(crate) fn forget(&mut self, nspace: &Nspace<'_>) {
        self.jobs.remove(nspace.as_bytes());
    }

    /// Removes what a process put from the shared data: it has changed.
    pub(crate) fn puts_changed(&mut self, proc: &Proc<'_>) {
        let Some(job) = self.jobs.get_mut(proc.nspace.as_bytes()) else {
            return;
        };
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

    /// Returns whether anything of a job is shared.
    pub(crate) fn has(&self, nspace: &Nspace<'_>) -> bool {
        self.jobs.contains_key(nspace.as_bytes())
    }

    /// Returns whether the job info of a job is to be shared.
    pub(crate) fn takes_infos(&self, nspace: &Nspace<'_>) -> bool {
        let job = self.jobs.get(nspace.as_bytes());
        job.is_some_and(|job| job.room != Room::None)
    }

    /// The driver had no room for a change. What has no room now is not packed in vain again and again: of
    /// processes only those are shared any longer whose data have a place, and without its job info nothing
    /// of a job is.
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
                *job = SharedJob {
                    room: Room::None,
                    ..SharedJob::default()
                };
            }
        }
    }

    /// Returns whether what a process put is shared.
    pub(crate) fn has_puts(&self, proc: &Proc<'_>) -> bool {
        let job = self.jobs.get(proc.nspace.as_bytes());
        job.is_some_and(|job| job.puts.contains(&proc.rank))
    }

    /// From now on a job is shared, of whose processes these have put something.
    pub(crate) fn begin(&mut self, nspace: Nspace<'static>, ranks: BTreeSet<Rank>) {
        let job = SharedJob {
            changed: ranks,
            ..SharedJob::default()
        };
        self.jobs.insert(nspace, job);
    }

    /// The job info of a job that is shared is this, and nothing else.
    pub(crate) fn set_infos<'k>(
        &mut self,
        nspace: &Nspace<'static>,
        infos: impl Iterator<Item = (SharedKey<'k>, Vec<u8>)>,
    ) {
        let Some(job) = self.jobs.get_mut(nspace.as_bytes()) else {
            return;
        };
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

    /// Takes the processes whose data changed since the last fence that collected.
    pub(crate) fn take_changed(&mut self, nspace: &Nspace<'_>) -> BTreeSet<Rank> {
        let Some(job) = self.jobs.get_mut(nspace.as_bytes()) else {
            return BTreeSet::new();
        };
        let mut changed = std::mem::take(&mut job.changed);
        changed.retain(|rank| job.takes_puts_of(*rank));
        changed
    }

    /// What a process put is shared from now on.
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
