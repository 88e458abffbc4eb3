// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of parsers for maps, as text or encoded, for crates that need only the maps.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex` and
//! `PMIx_generate_ppn`.

use pmix_types::Regex2Ref;

use crate::{Error, Limits, NodeList, ProcMap};

/// A parser of node maps and process maps in any encoding.
///
/// `preg_core::Preg` implements it. So crates that store or serve maps depend only on this crate,
/// not on schemes, plugins and parameters.
pub trait MapParser: Send + Sync {
    /// Returns the limits of all parsed maps.
    fn limits(&self) -> &Limits;

    /// Parses a node map in string form: encoded, or names separated by commas
    /// (`pmix_preg.parse_nodes`).
    ///
    /// # Errors
    /// The value has the tag of a scheme, but is damaged, or the scheme is disabled for parsing. A
    /// limit is exceeded.
    fn parse_nodes(&self, text: &[u8]) -> Result<NodeList, Error>;

    /// Parses a process map in string form: encoded, or ranks separated by commas and nodes by
    /// semicolons (`pmix_preg.parse_procs`).
    ///
    /// # Errors
    /// As for [`Self::parse_nodes`], and for text that is not a rank.
    fn parse_procs(&self, text: &[u8]) -> Result<ProcMap, Error>;

    /// Parses a node map with a type (`pmix_regex2_t`).
    ///
    /// # Errors
    /// The type is unknown, the value is damaged, or a limit is exceeded.
    fn resolve_nodes(&self, regex: Regex2Ref<'_>) -> Result<NodeList, Error>;

    /// Parses a process map with a type (`pmix_regex2_t`).
    ///
    /// # Errors
    /// As for [`Self::resolve_nodes`].
    fn resolve_procs(&self, regex: Regex2Ref<'_>) -> Result<ProcMap, Error>;
}
