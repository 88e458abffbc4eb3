// SPDX-License-Identifier: MIT OR Apache-2.0
//! The framework: active schemes in priority order and the ten entry points.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

mod candidate;
mod open;
mod regex2;
mod string_form;

use pmix_map::Limits;
use pmix_mca::{Catalog, Decision, Refusal};
use pmix_types::{Status, memory};

use crate::{Error, Extent, Scheme};

pub use candidate::ComponentStatus;
pub(crate) use candidate::collision_with_linked;
pub use open::parameters;

/// A created scheme, and the decision about its component.
pub struct Module {
    /// The scheme.
    pub scheme: Box<dyn Scheme>,
    /// The effective priority, the reason if the component does not encode, and whether it parses
    /// values.
    pub decision: Decision,
}

/// The framework: encodes and decodes maps with the schemes that parameters select. It is immutable
/// once opened.
pub struct Preg {
    modules: Vec<Module>,
    tags: Vec<(Vec<u8>, String)>,
    limits: Limits,
    components: Vec<ComponentStatus>,
    refused: Vec<Refusal>,
    catalog: Catalog,
}

impl Preg {
    /// Returns the modules, highest priority first, including those that only parse.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Returns the limits of the parsers.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets the limits of the parsers.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The maximum memory in bytes for encoding, for each byte of the list. The test
    /// `encoding_holds_no_more_than_is_asked_for` of `pmix-builtin` measures all schemes.
    const ENCODING_FACTOR: usize = 12;

    /// The memory in bytes that encoding takes in addition, for tables and windows of a compressor.
    const ENCODING_BYTES: usize = 1 << 20;

    /// Checks that the process has the memory for encoding a list. The schemes allocate it without
    /// a check.
    fn check_memory(list: &[u8]) -> Result<(), Error> {
        let bytes = list.len().saturating_mul(Self::ENCODING_FACTOR);
        Ok(memory::check(bytes.saturating_add(Self::ENCODING_BYTES))?)
    }

    fn active(&self) -> impl Iterator<Item = &dyn Scheme> {
        self.modules
            .iter()
            .filter(|m| m.decision.excluded.is_none())
            .map(|m| &*m.scheme)
    }

    fn readers(&self) -> impl Iterator<Item = &dyn Scheme> {
        self.modules
            .iter()
            .filter(|m| m.decision.parse)
            .map(|m| &*m.scheme)
    }

    /// Calls the schemes in order. Returns the first result, with its scheme.
    fn first<'a, T>(
        schemes: impl Iterator<Item = &'a dyn Scheme>,
        ask: impl Fn(&dyn Scheme) -> Result<Option<T>, Error>,
    ) -> Result<Option<(&'a dyn Scheme, T)>, Error> {
        for scheme in schemes {
            if let Some(answer) = ask(scheme).map_err(|e| e.from_scheme(scheme.name()))? {
                return Ok(Some((scheme, answer)));
            }
        }
        Ok(None)
    }

    /// Rejects text that begins with the tag of a scheme. Splitting it as a plain list would give
    /// plausible but wrong names.
    fn refuse_tagged(&self, text: &[u8]) -> Result<(), Error> {
        if let Some(name) = self.tag_owner(text) {
            let why = match self.readers().any(|s| s.name() == name) {
                true => format!("it begins like a value of scheme {name}, but is not one"),
                false => {
                    format!("this is a value of scheme {name}, which is disabled for parsing")
                }
            };
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, why).at(0));
        }
        match memchr::memchr(0, text) {
            Some(nul) => Err(Error::damaged(
                nul,
                "a NUL in text that carries no scheme's tag",
            )),
            None => Ok(()),
        }
    }
}

// Lookups for callers that list or choose schemes.
//
// Source: this project.

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
