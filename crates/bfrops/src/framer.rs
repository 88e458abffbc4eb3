// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface for the length of encoded maps of the string form, which a higher crate
//! implements.
//!
//! Source: OpenPMIx `regex.rst`, "Wire Format", for the deprecated form without a length.

/// The length of an encoded map of the string form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegexExtent {
    /// The length in bytes, without a terminating NUL.
    pub len: usize,
    /// `true` if a NUL follows the bytes on the wire.
    pub terminated: bool,
}

/// A source of the lengths of encoded maps of the string form; `preg-core` implements it.
///
/// A datum of type `PMIX_REGEX` has no length on the wire: only the encoder that wrote it can
/// determine its end. In C the two frameworks call each other; here the lower crate defines this
/// trait, and the upper one implements it.
pub trait RegexFramer {
    /// Returns the extent of the encoded map at the start of `bytes`, or `None` if it belongs to no
    /// encoder and so is a string.
    ///
    /// # Errors
    ///
    /// An encoder recognizes the map, but it is damaged.
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String>;
}
