// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an encoder is.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

use pmix_map::{Limits, NodeList, ProcMap};
use pmix_types::{Regex2, Regex2Ref};

use crate::{Error, Explanation, Extent};

/// Encodes and decodes node and process maps in one form.
///
/// Every method but the first three has a default: [`legacy_len`](Self::legacy_len) that values are text, the
/// others "not mine". `Ok(None)` declines and the next
/// scheme is asked; `Err` means the value carries this scheme's tag and is damaged, and ends the
/// walk. Lists are bytes: names separated by commas, nodes of a process map by semicolons, each
/// byte but the separator allowed. A generator that cannot carry a list exactly must decline.
pub trait Scheme: Send + Sync {
    /// Returns the name of the component.
    fn name(&self) -> &str;

    /// Returns the bytes that every value of the string form begins with.
    fn tag(&self) -> &[u8];

    /// Returns the name of the string form in reports (the tag as a word).
    fn framing(&self) -> &str;

    /// Returns the type tag of the [`Regex2`] form, if the scheme reads or writes one.
    fn kind(&self) -> Option<&str> {
        None
    }

    /// Encodes a list into the [`Regex2`] form.
    ///
    /// # Errors
    /// The scheme failed in a way that should be reported rather than passed over.
    fn generate_regex(&self, _list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok(None)
    }

    /// Turns a [`Regex2`] back into list text.
    ///
    /// # Errors
    /// The value is of this scheme's type and damaged, or exceeds the limits.
    fn parse_regex(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Turns a [`Regex2`] of a node map into a folded list without passing through text; only
    /// worth implementing where the encoding is itself folded.
    ///
    /// # Errors
    /// As [`Scheme::parse_regex`].
    fn regex_nodes(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<NodeList>, Error> {
        Ok(None)
    }

    /// Turns a [`Regex2`] of a process map into a folded map without passing through text.
    ///
    /// # Errors
    /// As [`Scheme::parse_regex`].
    fn regex_procs(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<ProcMap>, Error> {
        Ok(None)
    }

    /// Whether the string form may also stand inside the text of another scheme's [`Regex2`], as
    /// the range notation does; a datastore then expands it in a second step.
    fn expands_text(&self) -> bool {
        false
    }

    /// Returns `false` for a scheme whose string form is never text: every value has a NUL byte inside. A caller that
    /// needs text does not ask it.
    fn writes_text(&self) -> bool {
        true
    }

    /// Encodes a node list into the string form (without a terminating NUL).
    ///
    /// # Errors
    /// As [`Scheme::generate_regex`].
    fn generate_node_regex(&self, _list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Encodes a process map into the string form (without a terminating NUL).
    ///
    /// # Errors
    /// As [`Scheme::generate_regex`].
    fn generate_ppn(&self, _list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Decodes a node map in the string form; `regex` is exactly the value, with no NUL after it.
    ///
    /// # Errors
    /// The value carries this scheme's tag and is damaged, or exceeds the limits.
    fn parse_nodes(&self, _regex: &[u8], _limits: &Limits) -> Result<Option<NodeList>, Error> {
        Ok(None)
    }

    /// Decodes a process map in the string form; `regex` is exactly the value.
    ///
    /// # Errors
    /// As [`Scheme::parse_nodes`].
    fn parse_procs(&self, _regex: &[u8], _limits: &Limits) -> Result<Option<ProcMap>, Error> {
        Ok(None)
    }

    /// How many of these bytes are a value of this scheme that begins at the first byte; what
    /// copy, pack, unpack and release all need to know.
    ///
    /// By default a value is text: it begins with the tag and ends before the first NUL. Only a scheme whose
    /// values may hold a NUL says it otherwise.
    ///
    /// # Errors
    /// The bytes carry this scheme's tag and no length can be told from them.
    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        let is_own = !self.tag().is_empty() && bytes.starts_with(self.tag());
        Ok(is_own.then(|| Extent::of_text(bytes)))
    }

    /// Explains a value of the string form byte by byte.
    fn explain(&self, _value: &[u8]) -> Option<Explanation> {
        None
    }

    /// Explains a [`Regex2`] byte by byte.
    fn explain_regex(&self, _regex: Regex2Ref<'_>) -> Option<Explanation> {
        None
    }
}
