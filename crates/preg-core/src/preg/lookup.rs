// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups for callers that list or choose schemes.
//!
//! Source: none outside.

use crate::{Error, Extent, Module, Preg, Scheme};

impl Preg {
    /// Returns the module with this name, even if it only parses.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules().iter().find(|m| m.scheme.name() == name)
    }

    /// Returns the scheme that recognizes the value at the start of `bytes`, and the extent of the
    /// value.
    ///
    /// # Errors
    /// As for [`Self::legacy_len`].
    pub fn scheme_of(&self, bytes: &[u8]) -> Result<Option<(&dyn Scheme, Extent)>, Error> {
        self.owner(bytes)
    }

    /// Returns the component whose tag is a prefix of `bytes`, even if that component is disabled
    /// for parsing.
    #[must_use]
    pub fn tag_owner(&self, bytes: &[u8]) -> Option<&str> {
        let found = self.tags.iter().find(|(tag, _)| bytes.starts_with(tag));
        found.map(|(_, name)| name.as_str())
    }

    /// Returns the tags of all components, including those that are disabled for parsing.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tags.iter().map(|(tag, _)| tag.as_slice())
    }
}
