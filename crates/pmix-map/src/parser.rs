// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who reads maps that are text or encoded, as those see it who only need the maps.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex` and
//! `PMIx_generate_ppn`.

use pmix_types::Regex2Ref;

use crate::{Error, Limits, NodeList, ProcMap};

/// Reads node maps and process maps, whatever they are encoded with.
///
/// The framework of encoders (`preg_core::Preg`) implements it, so that who stores or serves maps
/// depends on this crate alone, not on encoders, plugins and their parameters.
pub trait MapParser: Send + Sync {
    /// The limits that the maps obey.
    fn limits(&self) -> &Limits;

    /// Reads a node map of the string form: encoded, or names separated by commas
    /// (`pmix_preg.parse_nodes`).
    ///
    /// # Errors
    /// A value that carries the tag of an encoder and is damaged, or whose encoder may not read; a
    /// limit that is exceeded.
    fn parse_nodes(&self, text: &[u8]) -> Result<NodeList, Error>;

    /// Reads a process map of the string form: encoded, or ranks separated by commas and nodes by
    /// semicolons (`pmix_preg.parse_procs`).
    ///
    /// # Errors
    /// As [`Self::parse_nodes`], and text that is no rank.
    fn parse_procs(&self, text: &[u8]) -> Result<ProcMap, Error>;

    /// Reads a node map that has a type (`pmix_regex2_t`).
    ///
    /// # Errors
    /// A type that is not known here, a damaged value, a limit that is exceeded.
    fn resolve_nodes(&self, regex: Regex2Ref<'_>) -> Result<NodeList, Error>;

    /// Reads a process map that has a type (`pmix_regex2_t`).
    ///
    /// # Errors
    /// As [`Self::resolve_nodes`].
    fn resolve_procs(&self, regex: Regex2Ref<'_>) -> Result<ProcMap, Error>;
}
