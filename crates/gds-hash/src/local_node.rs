// SPDX-License-Identifier: MIT OR Apache-2.0
//! The node of this server.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", `PMIX_HOSTNAME`, `PMIX_HOSTNAME_ALIASES` and
//! `PMIX_NODEID`.

/// The node of this server, which is the default node of requests.
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
