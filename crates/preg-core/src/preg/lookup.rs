// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions of a caller that shows or chooses schemes: who is there, and whose bytes are these.
//!
//! Source: none outside.

use crate::{Error, Extent, Module, Preg, Scheme};

impl Preg {
    /// Returns the module of that name, whether it is active or only reads.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules().iter().find(|m| m.scheme.name() == name)
    }

    /// Returns the scheme that recognises the value at the front of `bytes`, and the extent of the
    /// value.
    ///
    /// # Errors
    /// As [`Self::legacy_len`].
    pub fn scheme_of(&self, bytes: &[u8]) -> Result<Option<(&dyn Scheme, Extent)>, Error> {
        self.owner(bytes)
    }

    /// Returns the component whose tag `bytes` begin with, even where that component may not read.
    #[must_use]
    pub fn tag_owner(&self, bytes: &[u8]) -> Option<&str> {
        let found = self.tags.iter().find(|(tag, _)| bytes.starts_with(tag));
        found.map(|(_, name)| name.as_str())
    }

    /// Returns the tags of all components, those that may not read included.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tags.iter().map(|(tag, _)| tag.as_slice())
    }
}
