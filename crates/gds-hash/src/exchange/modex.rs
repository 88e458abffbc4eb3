// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modex: what servers contribute to a fence that collects data.
//!
//! The host carries the bytes and does not look into them: each server contributes one byte
//! object, and every server gets all of them, one behind the other. Only servers of one
//! implementation and form must agree. Frozen: append only.
//!
//! | part, 4.2 and 5.0 | call | content |
//! | --- | --- | --- |
//! | contribution | `PMIX_BYTE_OBJECT` | flags, keys, processes |
//! | flags | `PMIX_BYTE` | 1: data were collected; 2: keys are numbered |
//! | number of keys | `PMIX_UINT32` | only with flag 2 |
//! | keys | `PMIX_STRING`, so many | only with flag 2 |
//! | process | `PMIX_BYTE_OBJECT` each | rank, data |
//! | rank | `PMIX_PROC_RANK` | behind all ranks of the jobs that stand before its own in the fence |
//! | datum | `PMIX_UINT32`, `PMIX_VALUE` | number of the key and value, with flag 2 |
//! | datum | `PMIX_KVAL` | without flag 2 |
//!
//! | part, 6.1 and later | call | content |
//! | --- | --- | --- |
//! | contribution | `PMIX_BYTE_OBJECT` | the two following |
//! | compressed | `PMIX_BOOL` | whether the next object is |
//! | data | `PMIX_BYTE_OBJECT` | flag, processes |
//! | flag | `PMIX_BYTE` | 0: no data were collected; 1: all data; 2: what changed |
//! | process | `PMIX_BYTE_OBJECT` each | process, data |
//! | process | `PMIX_PROC` | |
//! | datum | `PMIX_KVAL` | a value of no type: the key is removed (since 7.0) |
//!
//! Source: OpenPMIx, `gds/base`; no document describes the contributions, and
//! `docs/decisions/0013-one-owner-for-each-layout.md` says who owns them here.

mod decode;
mod encode;
mod interner;

use pmix_types::{Nspace, Rank};

use super::modex_store::{Entry, ScopeSet};
use crate::{Error, ModexStore};

/// Names the form in which the servers of a fence pack their contributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModexForm {
    /// As OpenPMIx 4.2 and 5.0: processes by number, keys by number where that is shorter.
    Numbered,
    /// As OpenPMIx 6.1 and later: processes by name. The form that can say that a key is removed.
    Named,
}

/// Names a job whose processes take part in a fence. All servers list the jobs in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant<'m> {
    /// The nspace of the job.
    pub nspace: Nspace<'m>,
    /// The number of processes of the job that take part.
    pub num_procs: u32,
}

/// Holds what the servers of a fence contributed, checked as a whole before any of it is stored.
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
    /// Returns the processes whose data are in the modex.
    pub fn procs(&self) -> impl Iterator<Item = (&Nspace<'static>, Rank)> {
        self.parts.iter().map(|part| (&part.nspace, part.rank))
    }

    /// Keeps the data of some processes only: those of a server's own processes are there already,
    /// and may be newer than what it contributed.
    pub fn retain(&mut self, mut keep: impl FnMut(&Nspace<'static>, Rank) -> bool) {
        self.parts.retain(|part| keep(&part.nspace, part.rank));
    }
}

impl ModexStore {
    /// Stores the data of a modex for the processes of this job.
    ///
    /// What the processes put before stays unless it is replaced or said to be removed.
    pub fn absorb(&mut self, nspace: &Nspace<'_>, modex: &Modex) {
        let parts = modex.parts.iter().filter(|part| part.nspace == *nspace);
        for part in parts {
            self.merge(part.rank, ScopeSet::REMOTE, part.entries.clone());
        }
    }
}

/// How many ranks stand before those of a participant.
fn ranks_before(participants: &[Participant<'_>], place: usize) -> u64 {
    let before = participants.iter().take(place);
    before
        .map(|participant| u64::from(participant.num_procs))
        .sum()
}

fn no_member(nspace: &Nspace<'_>) -> Error {
    Error::bad(format!("{nspace} takes no part in the fence"))
}

#[cfg(test)]
mod tests;
