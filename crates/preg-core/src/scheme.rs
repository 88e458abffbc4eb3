// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a scheme.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

use pmix_map::{Limits, NodeList, ProcMap};
use pmix_types::{Regex2, Regex2Ref};

use crate::{Error, Explanation, Extent};

/// An encoder and decoder of node and process maps in one encoding.
///
/// All methods but the first three have a default: [`legacy_len`](Self::legacy_len) treats values
/// as text, the others decline. `Ok(None)` declines, and the next scheme is tried. `Err` means that
/// the value has this scheme's tag but is damaged; no other scheme is tried. Lists are bytes: names
/// separated by commas, or nodes of a process map separated by semicolons; any byte but the
/// separator is allowed. A generator that cannot encode a list exactly must decline.
pub trait Scheme: Send + Sync {
    /// Returns the name of the component.
    fn name(&self) -> &str;

    /// Returns the prefix of every value in string form.
    fn tag(&self) -> &[u8];

    /// Returns the name of the string form for reports: the tag without punctuation.
    fn framing(&self) -> &str;

    /// Returns the regex2 type, or `None` if the scheme neither reads nor writes [`Regex2`] values.
    fn kind(&self) -> Option<&str> {
        None
    }

    /// Encodes a list into the [`Regex2`] form.
    ///
    /// # Errors
    /// The scheme failed, and the next scheme must not be tried.
    fn generate_regex(&self, _list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok(None)
    }

    /// Decodes a [`Regex2`] to list text.
    ///
    /// # Errors
    /// The value has this scheme's type and is damaged, or it exceeds the limits.
    fn parse_regex(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Decodes a [`Regex2`] of a node map to a folded list, without list text in between. Only
    /// schemes with folded encodings need to implement it.
    ///
    /// # Errors
    /// As for [`Scheme::parse_regex`].
    fn regex_nodes(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<NodeList>, Error> {
        Ok(None)
    }

    /// Decodes a [`Regex2`] of a process map to a folded map, without list text in between.
    ///
    /// # Errors
    /// As for [`Scheme::parse_regex`].
    fn regex_procs(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<ProcMap>, Error> {
        Ok(None)
    }

    /// Returns `true` for range notation: another scheme may have encoded text in this scheme's
    /// string form as a [`Regex2`]. The datastore then expands the decoded text in a second step.
    fn expands_text(&self) -> bool {
        false
    }

    /// Returns `false` if every value in string form contains a NUL byte. Callers that need text
    /// skip such a scheme.
    fn writes_text(&self) -> bool {
        true
    }

    /// Encodes a node list into the string form (without a terminating NUL).
    ///
    /// # Errors
    /// As for [`Scheme::generate_regex`].
    fn generate_node_regex(&self, _list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Encodes a process map into the string form (without a terminating NUL).
    ///
    /// # Errors
    /// As for [`Scheme::generate_regex`].
    fn generate_ppn(&self, _list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Decodes a node map in string form. `regex` is the value without a NUL after it.
    ///
    /// # Errors
    /// The value has this scheme's tag and is damaged, or it exceeds the limits.
    fn parse_nodes(&self, _regex: &[u8], _limits: &Limits) -> Result<Option<NodeList>, Error> {
        Ok(None)
    }

    /// Decodes a process map in string form. `regex` is the value without a NUL after it.
    ///
    /// # Errors
    /// As for [`Scheme::parse_nodes`].
    fn parse_procs(&self, _regex: &[u8], _limits: &Limits) -> Result<Option<ProcMap>, Error> {
        Ok(None)
    }

    /// Returns the extent of a value of this scheme at the start of `bytes`.
    /// [`Preg::copy`](crate::Preg::copy), `pack`, `unpack` and `release` call it.
    ///
    /// By default a value is text: it begins with the tag and ends before the first NUL. Only a
    /// scheme whose values may contain a NUL overrides this.
    ///
    /// # Errors
    /// The bytes have this scheme's tag, but their length cannot be determined.
    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        let is_own = !self.tag().is_empty() && bytes.starts_with(self.tag());
        Ok(is_own.then(|| Extent::of_text(bytes)))
    }

    /// Explains a value in string form byte by byte.
    fn explain(&self, _value: &[u8]) -> Option<Explanation> {
        None
    }

    /// Explains a [`Regex2`] byte by byte.
    fn explain_regex(&self, _regex: Regex2Ref<'_>) -> Option<Explanation> {
        None
    }
}
