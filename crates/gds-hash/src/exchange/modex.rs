// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modex: the contributions of servers to a fence that collects data.
//!
//! The host transfers the bytes without examining them. Each server contributes one byte object,
//! and every server receives the concatenation of all. All servers of a fence must use the same
//! form. Frozen: append only.
//!
//! | part, 4.2 and 5.0 | call | content |
//! | --- | --- | --- |
//! | contribution | `PMIX_BYTE_OBJECT` | flags, keys, processes |
//! | flags | `PMIX_BYTE` | 1: data were collected; 2: keys are numbered |
//! | number of keys | `PMIX_UINT32` | only with flag 2 |
//! | keys | `PMIX_STRING` each | only with flag 2 |
//! | process | `PMIX_BYTE_OBJECT` each | rank, data |
//! | rank | `PMIX_PROC_RANK` | rank in the fence: counted after the ranks of all jobs before its own |
//! | datum | `PMIX_UINT32`, `PMIX_VALUE` | number of the key and value, with flag 2 |
//! | datum | `PMIX_KVAL` | without flag 2 |
//!
//! | part, 6.1 and later | call | content |
//! | --- | --- | --- |
//! | contribution | `PMIX_BYTE_OBJECT` | the following two calls |
//! | compressed | `PMIX_BOOL` | `true` if the next object is compressed |
//! | data | `PMIX_BYTE_OBJECT` | flag, processes |
//! | flag | `PMIX_BYTE` | 0: no data were collected; 1: all data; 2: changes only |
//! | process | `PMIX_BYTE_OBJECT` each | process, data |
//! | process | `PMIX_PROC` | |
//! | datum | `PMIX_KVAL` | a value of no type: the key is removed (since 7.0) |
//!
//! Source: OpenPMIx, `gds/base`; no document describes the contributions.
//! `docs/decisions/0013-one-owner-for-each-layout.md` assigns them to this crate.

mod decode;
mod encode;

use pmix_types::{Key, Nspace, Rank};

use super::modex_store::{Entry, ScopeSet};
use crate::{Error, ModexStore};

/// The form of the contributions to a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModexForm {
    /// The form of OpenPMIx 4.2 and 5.0, which numbers processes, and also keys if that is shorter.
    Numbered,
    /// The form of OpenPMIx 6.1 and later, which names processes. Only this form can have removed
    /// keys.
    Named,
}

/// A job whose processes participate in a fence. All servers list the jobs in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant<'m> {
    /// The nspace of the job.
    pub nspace: Nspace<'m>,
    /// The number of participating processes of the job.
    pub num_procs: u32,
}

/// The decoded contributions of all servers to a fence. They are validated as a whole before any is
/// stored.
#[derive(Clone, Debug, Default)]
pub struct Modex {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    nspace: Nspace<'static>,
    rank: Rank,
    entries: Vec<Entry>,
}

impl Modex {
    /// Returns the processes with data in the modex.
    pub fn procs(&self) -> impl Iterator<Item = (&Nspace<'static>, Rank)> {
        self.parts.iter().map(|part| (&part.nspace, part.rank))
    }

    /// Keeps only the data of processes for which `keep` returns `true`. A server excludes its own
    /// processes, whose stored data may be newer than its contribution.
    pub fn retain(&mut self, mut keep: impl FnMut(&Nspace<'static>, Rank) -> bool) {
        self.parts.retain(|part| keep(&part.nspace, part.rank));
    }
}

impl ModexStore {
    /// Stores the data of a modex for the processes of this job, and calls `removed` for each key
    /// that had a value and that the modex removes.
    ///
    /// Earlier data of the processes are kept, unless the modex replaces or removes them.
    pub fn absorb(
        &mut self,
        nspace: &Nspace<'_>,
        modex: &Modex,
        mut removed: impl FnMut(Rank, &Key<'static>),
    ) {
        let parts = modex.parts.iter().filter(|part| part.nspace == *nspace);
        for part in parts {
            let deletions = part.entries.iter().filter(|entry| entry.is_deletion());
            for key in deletions.map(Entry::key) {
                if self.holds(part.rank, key) {
                    removed(part.rank, key);
                }
            }
            self.merge(part.rank, ScopeSet::REMOTE, part.entries.clone());
        }
    }
}

/// Returns the number of processes of the participants before this one.
fn ranks_before(participants: &[Participant<'_>], place: usize) -> u64 {
    let before = participants.iter().take(place);
    before
        .map(|participant| u64::from(participant.num_procs))
        .sum()
}

fn no_member(nspace: &Nspace<'_>) -> Error {
    Error::bad(format!("{nspace} does not participate in the fence"))
}

#[cfg(test)]
mod tests;
