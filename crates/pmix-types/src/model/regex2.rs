// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encoded regular expression of the current API generation.
//!
//! Source: OpenPMIx `regex.rst`, "Wire Format", and `pmix_regex2_t` of its headers.

use crate::{Bytes, IntoOwned, Measure, Text};

/// An encoded node or process map (`pmix_regex2_t`): a type tag and bytes.
///
/// The bytes are not text: the compress form contains NULs. The wire form is the tag as a string,
/// the length as a size, then the bytes (OpenPMIx `regex.rst`, "Wire Format"; frozen: append only).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regex2 {
    /// The encoding tag, for example `raw`. Case matters.
    pub kind: String,
    /// The encoded representation.
    pub bytes: Vec<u8>,
}

impl Regex2 {
    /// Creates a value from its tag and bytes.
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

/// A [`Regex2`] as in C and on the wire. Its tag may be a null pointer and need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireRegex2<'a> {
    /// The encoding tag.
    pub kind: Option<Text<'a>>,
    /// The encoded representation.
    pub bytes: Bytes<'a>,
}

impl WireRegex2<'_> {
    /// Returns the value if its tag is UTF-8. Otherwise no scheme has the tag.
    #[must_use]
    pub fn as_view(&self) -> Option<Regex2Ref<'_>> {
        let kind = self.kind.as_ref()?.as_str()?;
        Some(Regex2Ref {
            kind,
            bytes: &self.bytes,
        })
    }
}

impl From<Regex2> for WireRegex2<'_> {
    fn from(regex: Regex2) -> Self {
        Self {
            kind: Some(regex.kind.into()),
            bytes: regex.bytes.into(),
        }
    }
}

impl IntoOwned for WireRegex2<'_> {
    type Owned = WireRegex2<'static>;

    fn into_owned(self) -> WireRegex2<'static> {
        WireRegex2 {
            kind: self.kind.into_owned(),
            bytes: IntoOwned::into_owned(self.bytes),
        }
    }

    fn measure(&self, what: Measure) -> usize {
        self.kind.measure(what) + self.bytes.measure(what)
    }
}

/// An encoded map in string form (`PMIX_REGEX`). Only its scheme can determine its length on the
/// wire. The bytes do not include the final NUL of maps that are text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegexBytes<'a>(pub Bytes<'a>);

impl IntoOwned for RegexBytes<'_> {
    type Owned = RegexBytes<'static>;

    fn into_owned(self) -> RegexBytes<'static> {
        RegexBytes(IntoOwned::into_owned(self.0))
    }

    fn measure(&self, what: Measure) -> usize {
        self.0.measure(what)
    }
}
