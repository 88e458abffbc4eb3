// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job info of a registered job, and the node of this server.
//!
//! Source: PMIx Standard, chapter "Reserved Keys";
//! `docs/decisions/0008-a-job-is-two-maps-and-columns.md` describes the storage.

mod anl;
mod answers;
mod columns;
mod derive;
mod get;
mod list;
mod nodes;
mod qualified;
mod register;
mod registration;
mod subject;

use std::collections::BTreeMap;

use pmix_types::{Nspace, Rank};

use self::columns::Columns;
use self::qualified::Table;

pub use self::answers::{KnownAnswer, KnownAnswers};
pub(crate) use self::columns::Reader;
pub(crate) use self::derive::ranks;
pub use self::get::{Answer, Realm, Request, owned_answer};
pub use self::list::KnownNode;
pub(crate) use self::nodes::{Maps, Nodes};
pub(crate) use self::register::other_jobs;
pub use self::registration::Registration;
pub use self::subject::Subject;

/// The job info of a job: the values that the host registered, and the folded maps from which other
/// values are derived.
///
/// A job is immutable: an update creates a new one. All reads take `&self` and may run on any
/// number of threads at once.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) nspace: Nspace<'static>,
    pub(crate) host: LocalNode,
    pub(crate) job: Table,
    /// The session of the job.
    pub(crate) session: Session,
    pub(crate) apps: BTreeMap<u32, App>,
    pub(crate) nodes: Nodes,
    pub(crate) procs: Columns,
}

/// The values of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    /// The session number, if the host registered one.
    pub(crate) id: Option<u32>,
    pub(crate) values: Table,
    pub(crate) nodes: Nodes,
}

/// The values of an application.
#[derive(Clone, Debug, Default)]
pub(crate) struct App {
    pub(crate) values: Table,
    pub(crate) nodes: Nodes,
}

impl Job {
    /// Returns the name of the job.
    #[must_use]
    pub const fn nspace(&self) -> &Nspace<'static> {
        &self.nspace
    }

    /// Returns `true` if the job has a rank: the map contains it, or the host described it.
    #[must_use]
    pub fn has_rank(&self, rank: Rank) -> bool {
        self.nodes.of_rank(rank).is_some() || self.procs.all(rank.as_raw()).next().is_some()
    }

    /// Returns the number of processes in the process map of the job.
    #[must_use]
    pub fn num_ranks(&self) -> u64 {
        let maps = self.nodes.maps.as_ref();
        maps.map_or(0, |maps| maps.procs.num_ranks())
    }

    /// Returns `true` if the maps place a process on the node of this server.
    #[must_use]
    pub fn is_here(&self, rank: Rank) -> bool {
        self.own_node()
            .is_some_and(|own| self.nodes.of_rank(rank) == Some(own))
    }

    /// Returns the bytes of heap memory of the job.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
            + self.procs.memory_bytes()
            + self.session.nodes.memory_bytes()
            + (self.apps.values())
                .map(|app| app.nodes.memory_bytes())
                .sum::<usize>()
    }
}

// The node of this server.
//
// Source: PMIx Standard, chapter "Reserved Keys", `PMIX_HOSTNAME`, `PMIX_HOSTNAME_ALIASES` and
// `PMIX_NODEID`.

/// The node of this server. Requests that name no node are about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalNode {
    name: Vec<u8>,
    aliases: Vec<Vec<u8>>,
}

impl LocalNode {
    /// Creates a node with a name.
    pub fn new(name: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
        }
    }

    /// Adds an alias of the node.
    #[must_use]
    pub fn alias(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// Returns the name of the node.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns all names of the node, starting with the primary one.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.name)
            .chain(&self.aliases)
            .map(Vec::as_slice)
    }
}
