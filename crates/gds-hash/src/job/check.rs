// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for contradictions in a registration.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_register_nspace`.

use pmix_map::{NodeList, NodeRun, duplicate_names};
use pmix_types::{Rank, keys};

use crate::{Error, Job};

/// The most names of a node map that are compared with each other.
const MOST_NAMES: usize = 1 << 16;

impl Job {
    /// Returns the contradictions in the stated values, each with its key: a job size that is not a
    /// number, a job size other than that of the process map, a node that occurs twice in the node
    /// map.
    ///
    /// Nodes are compared in maps of up to 65,536 names, and in longer maps that are one run.
    #[must_use]
    pub fn contradictions(&self) -> Vec<Error> {
        let mut found = Vec::new();
        let maps = self.nodes.maps.as_ref();
        if let Some(size) = self.job.get(keys::JOB_SIZE.as_bytes(), &[]) {
            let key = keys::JOB_SIZE;
            match (size.to_number::<u64>(), maps) {
                (Err(_), _) => found.push(Error::bad(format!(
                    "{key} is of type {}, and has to be a number of processes",
                    size.data_type()
                ))),
                (Ok(size), Some(maps)) if size != maps.procs.num_ranks() => {
                    let ranks = maps.procs.num_ranks();
                    found.push(Error::bad(format!(
                        "{key} says {size} processes, and the process map has {ranks}"
                    )));
                }
                _ => {}
            }
        }
        if let Some(maps) = maps.filter(|maps| may_repeat(&maps.nodes))
            && let Some(name) = duplicate_names(&maps.nodes).first()
        {
            let (first, again) = (name.node, name.again);
            let name = maps.nodes.nth(first).unwrap_or_default();
            found.push(Error::bad(format!(
                "{} names the node {} twice, as number {first} and {again}",
                keys::NODE_MAP,
                name.escape_ascii()
            )));
        }
        found
    }

    /// Returns `true` if the job or one of its applications has a node map and a process map.
    #[must_use]
    pub fn has_maps(&self) -> bool {
        let mut apps = self.apps.values();
        self.nodes.maps.is_some() || apps.any(|app| app.nodes.maps.is_some())
    }

    /// Returns the name of the node on which the maps place a process, if that is not the node of
    /// this server and the latter belongs to the job.
    #[must_use]
    pub fn other_node(&self, rank: Rank) -> Option<Vec<u8>> {
        let own = self.own_node()?;
        let slot = self.nodes.of_rank(rank).filter(|slot| *slot != own)?;
        self.nodes.name(slot)
    }
}

/// Returns `true` if a node map may name a node twice. The names of a run are distinct, and maps of
/// more than [`MOST_NAMES`] names are not compared.
fn may_repeat(nodes: &NodeList) -> bool {
    let (mut runs, mut all_differ) = (0_usize, true);
    if nodes.len() > MOST_NAMES {
        return false;
    }
    nodes.for_each_run(|run| {
        runs += 1;
        all_differ &= matches!(run, NodeRun::Progression(run) if run.step != 0);
    });
    runs > 1 || (runs == 1 && nodes.len() > 1 && !all_differ)
}
