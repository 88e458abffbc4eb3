// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values that gets without qualifiers find in job info, as a table for readers that do not hold the
//! job.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", the rules of retrieval for each realm.

use std::collections::BTreeSet;

use pmix_types::{IntoOwned as _, Key, Kval, Rank, Value, keys};

use super::get::Request;
use super::list::{OF_APP, OF_JOB, OF_NODE, OF_PROC, OF_SESSION};
use crate::{Job, Realm};

/// The largest job, in processes, whose lists of all nodes and of all processes are among its answers.
const MOST_LISTED: u64 = 16_384;

/// The keys of such texts.
const LISTS: [&str; 4] = [
    keys::NODE_LIST,
    keys::NODE_MAP_RAW,
    keys::PROC_MAP_RAW,
    keys::ANL_MAP,
];

/// Says what a job, or a process of it, answers for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownAnswer {
    /// The process; [`Rank::WILDCARD`] for the job.
    pub rank: Rank,
    /// The key and its value.
    pub kval: Kval<'static>,
    /// Whether a get of any process of the job, on this node or another, is answered with this value, too.
    pub is_for_all: bool,
}

/// Holds the answers of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownAnswers {
    /// Those of the job, then those of processes of this node that differ from them.
    pub answers: Vec<KnownAnswer>,
    /// The processes of this node: for what is not answered for one of them, the answer of the job holds.
    pub described: Vec<Rank>,
}

impl Job {
    /// Returns what processes of this node are answered that ask without qualifiers, about their job or a
    /// process of their node: a process that has no answer of its own has that of the job.
    ///
    /// Left out are texts that name all processes or nodes of a job of more than 16,384 processes.
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
                // Those of the job stand in the order of their keys.
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
        Some(answer.into_owned())
    }

    /// What processes may have values of their own for.
    fn proc_keys(&self) -> BTreeSet<Vec<u8>> {
        let stated = self.procs.keys().map(|key| key.as_bytes().to_vec());
        let derived = OF_PROC.iter().map(|key| key.as_bytes().to_vec());
        stated.chain(derived).collect()
    }

    /// What an application may have values for, if there are several.
    fn app_keys(&self) -> impl Iterator<Item = Key<'static>> {
        let apps = (self.apps.len() > 1).then_some(&self.apps);
        let stated = apps.into_iter().flat_map(|apps| apps.values());
        let stated = stated.flat_map(|app| app.values.iter().map(|(key, _)| key.clone()));
        let derived = apps.map_or(&[][..], |_| OF_APP).iter().copied();
        let all: BTreeSet<Key<'static>> = stated.chain(derived.map(Key::from)).collect();
        let of_apps = |key: &Key<'_>| Realm::of(key.as_bytes()) == Some(Realm::App);
        all.into_iter().filter(of_apps)
    }

    /// What the job as a whole may be asked for.
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
