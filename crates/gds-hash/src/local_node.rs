// SPDX-License-Identifier: MIT OR Apache-2.0
//! The node this server runs on.

/// The node this server runs on, which is the one meant where none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalNode {
    name: Vec<u8>,
    aliases: Vec<Vec<u8>>,
}

impl LocalNode {
    /// A node with a name.
    pub fn new(name: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            aliases: Vec::new(),
        }
    }

    /// The same with another name by which it is known.
    #[must_use]
    pub fn alias(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// All its names, the first one in front.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.name)
            .chain(&self.aliases)
            .map(Vec::as_slice)
    }
}
