// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node of a job, and how an array says which one it is about.

use super::entry::{Entry, Given, entry, text};
use super::keys;

/// How the array of a node says which node it is about.
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
    /// Its number: the one that is stated, or else its place in the map.
    pub(super) id: u32,
    pub(super) ranks: Vec<u32>,
    pub(super) aliases: Vec<String>,
    /// What an array states about it; no array if there is nothing.
    pub(super) values: Vec<Entry>,
    pub(super) named: Named,
}

impl Node {
    /// The infos that say which node this is.
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

    /// Whether an array is about it.
    pub(super) fn has_array(&self) -> bool {
        !self.values.is_empty() || !self.aliases.is_empty()
    }
}
