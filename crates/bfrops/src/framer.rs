// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait that tells the length of old encoded maps, implemented by a crate above.
//!
//! Source: OpenPMIx `regex.rst`, "Wire Format", for the old form that has no length.

/// Says how many bytes an old encoded map has on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegexExtent {
    /// The length in bytes, without a terminating NUL.
    pub len: usize,
    /// Whether a NUL follows them on the wire.
    pub terminated: bool,
}

/// Tells the length of old encoded maps, which have none on the wire; `preg-core` implements it.
///
/// A datum of type `PMIX_REGEX` has no length on the wire: only the encoder that wrote it knows
/// where it ends. In C the two frameworks call each other; here this trait is owned by the lower
/// one and implemented by the upper one.
pub trait RegexFramer {
    /// How far the encoded map at the front of `bytes` reaches; none if no encoder owns it, and
    /// then it is a string.
    ///
    /// # Errors
    ///
    /// What is wrong with a map that an encoder recognises as its own.
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String>;
}
