// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoded regular expression of the current API generation.

/// An encoded node or process map (`pmix_regex2_t`): a type tag and bytes.
///
/// The bytes are not text: the compress form holds NULs. On the wire the value is the tag as a
/// string, the length as a size, then the bytes (OpenPMIx `regex.rst`, "Wire Format"; frozen:
/// append only).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regex2 {
    /// The encoding tag, for example `raw`; case matters.
    pub kind: String,
    /// The encoded representation.
    pub bytes: Vec<u8>,
}

impl Regex2 {
    /// Builds a value from its tag and bytes.
    pub fn new(kind: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            kind: kind.into(),
            bytes: bytes.into(),
        }
    }

    /// Borrows the value.
    #[must_use]
    pub fn as_view(&self) -> Regex2Ref<'_> {
        Regex2Ref {
            kind: &self.kind,
            bytes: &self.bytes,
        }
    }
}

/// A borrowed [`Regex2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regex2Ref<'a> {
    /// The encoding tag.
    pub kind: &'a str,
    /// The encoded representation.
    pub bytes: &'a [u8],
}
