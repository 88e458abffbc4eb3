// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of the results of gets without qualifiers, for readers that do not have the job.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", the rules of retrieval for each realm.

use std::collections::BTreeSet;

use pmix_types::{IntoOwned as _, Key, Kval, Rank, Value, keys};

use super::get::{Request, owned_answer};
use super::list::{OF_APP, OF_JOB, OF_NODE, OF_PROC, OF_SESSION};
use crate::{Job, Realm};

/// The maximum number of processes of a job for which the table contains the lists of all nodes and
/// processes.
const MOST_LISTED: u64 = 16_384;

/// The keys of these lists.
const LISTS: [&str; 4] = [
    keys::NODE_LIST,
    keys::NODE_MAP_RAW,
    keys::PROC_MAP_RAW,
    keys::ANL_MAP,
];

/// The value of a key of a job or of one of its processes.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownAnswer {
    /// The rank of the process; [`Rank::WILDCARD`] for the job.
    pub rank: Rank,
    /// The key and its value.
    pub kval: Kval<'static>,
    /// `true` if a get by any process of the job, on any node, returns this value as well.
    pub is_for_all: bool,
}

/// The table of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownAnswers {
    /// The job-level values, then the values of processes of this node that differ from these.
    pub answers: Vec<KnownAnswer>,
    /// The processes of this node. A key without an entry for one of them has the job-level value.
    pub described: Vec<Rank>,
}

impl Job {
    /// Returns the results of gets without qualifiers by processes of this node, about their job or
    /// a process of their node. If a process has no entry for a key, the result is the job-level
    /// value.
    ///
    /// For a job of more than 16,384 processes, lists of all processes or nodes are omitted.
    #[must_use]
    pub fn answers(&self) -> KnownAnswers {
        let of_procs = self.proc_keys();
        let mut all = KnownAnswers::default();
        for key in self.job_keys() {
            let Some(value) = self.answer(Rank::WILDCARD, &key) else {
                continue;
            };
            let of_any = matches!(Realm::of(key.as_bytes()), None | Some(Realm::Session));
            let is_for_all = of_any && !of_procs.contains(key.as_bytes());
            all.answers.push(KnownAnswer {
                rank: Rank::WILDCARD,
                kval: Kval { key, value },
                is_for_all,
            });
        }
        let of_job = all.answers.len();
        let own = self.own_node();
        for rank in self.local_procs().into_iter().map(|proc| proc.rank) {
            if self.node_of(rank).map(|slot| self.nodes.first(slot)) != own {
                continue;
            }
            all.described.push(rank);
            let keys = of_procs.iter().map(|key| Key::from(key.to_vec()));
            for key in keys.chain(self.app_keys()) {
                let Some(value) = self.answer(rank, &key) else {
                    continue;
                };
                // The job-level values are sorted by key.
                let of_job = all.answers.get(..of_job).unwrap_or_default();
                let found = of_job.binary_search_by(|known| known.kval.key.cmp(&key));
                let found = found.ok().and_then(|place| of_job.get(place));
                if found.is_some_and(|known| known.kval.value == value) {
                    continue;
                }
                all.answers.push(KnownAnswer {
                    rank,
                    kval: Kval { key, value },
                    is_for_all: false,
                });
            }
        }
        all
    }

    fn answer(&self, rank: Rank, key: &Key<'_>) -> Option<Value<'static>> {
        let name = key.as_text().as_str()?;
        if self.num_ranks() > MOST_LISTED && LISTS.contains(&name) {
            return None;
        }
        let answer = self.get(&Request::new(rank, name)).ok()?;
        // Without memory for it, the peer asks for the value when it needs it.
        owned_answer(answer).ok()
    }

    /// Returns the keys for which processes may have values.
    fn proc_keys(&self) -> BTreeSet<Vec<u8>> {
        let stated = self.procs.keys().map(|key| key.as_bytes().to_vec());
        let derived = OF_PROC.iter().map(|key| key.as_bytes().to_vec());
        stated.chain(derived).collect()
    }

    /// Returns the keys for which applications may have values, if there are several applications.
    fn app_keys(&self) -> impl Iterator<Item = Key<'static>> {
        let apps = (self.apps.len() > 1).then_some(&self.apps);
        let stated = apps.into_iter().flat_map(|apps| apps.values());
        let stated = stated.flat_map(|app| app.values.iter().map(|(key, _)| key.clone()));
        let derived = apps.map_or(&[][..], |_| OF_APP).iter().copied();
        let all: BTreeSet<Key<'static>> = stated.chain(derived.map(Key::from)).collect();
        let of_apps = |key: &Key<'_>| Realm::of(key.as_bytes()) == Some(Realm::App);
        all.into_iter().filter(of_apps)
    }

    /// Returns the keys for which the job as a whole may have values.
    fn job_keys(&self) -> BTreeSet<Key<'static>> {
        let tables = [&self.job, &self.session.values].into_iter();
        let tables = tables.chain(self.apps.values().map(|app| &app.values));
        let stated = tables.flat_map(|table| table.iter().map(|(key, _)| key.clone()));
        let own = self.own_node().into_iter();
        let of_node = own.flat_map(|slot| self.nodes.all(slot).map(|info| info.key.into_owned()));
        let derived = [OF_JOB, OF_SESSION, OF_APP, OF_NODE].concat();
        let more = [keys::NSPACE, keys::NODE_MAP_RAW, keys::LOCAL_PROCS];
        let derived = derived.into_iter().chain(more).map(Key::from);
        stated.chain(of_node).chain(derived).collect()
    }
}
