// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node of a job, and the identification of its array.

use super::entry::{Entry, Given, entry, text};
use super::keys;

/// The infos by which a node's array identifies its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Name,
    Id,
    Both,
}

/// A node and its processes in the order of the map.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// The stated number, or else the place in the map.
    pub(super) id: u32,
    pub(super) ranks: Vec<u32>,
    pub(super) aliases: Vec<String>,
    /// The values in the node's array; empty if there is no array.
    pub(super) values: Vec<Entry>,
    pub(super) named: Named,
}

impl Node {
    /// Returns the infos that identify the node.
    fn identity(&self) -> Vec<Entry> {
        let name = text(keys::HOST_NAME, &self.name);
        let id = entry(keys::NODE_ID, Given::Number(self.id));
        match self.named {
            Named::Name => vec![name],
            Named::Id => vec![id],
            Named::Both => vec![id, name],
        }
    }

    pub(super) fn array(&self, values: &[Entry]) -> Entry {
        let mut infos = self.identity();
        infos.extend_from_slice(values);
        entry(keys::NODE_ARRAY, Given::Infos(infos))
    }

    /// Returns `true` if the job has an array for the node.
    pub(super) fn has_array(&self) -> bool {
        !self.values.is_empty() || !self.aliases.is_empty()
    }
}
