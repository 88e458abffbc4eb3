// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of unpacked fields for tools that explain messages, and the interface for the length
//! of encoded maps.
//!
//! Source: this project; offsets are in bytes of the message.

use std::ops::Range;

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedField {
    /// The range of the field's bytes in the message.
    pub range: Range<usize>,
    /// The path to the field, for example `info[0].value.rank`.
    pub path: String,
    /// The value as text.
    pub meaning: String,
}

/// The fields of a message in the order of their bytes.
#[derive(Clone, Debug, Default)]
pub struct FieldTrace {
    notes: Vec<TracedField>,
    path: String,
}

impl FieldTrace {
    /// Returns the fields.
    #[must_use]
    pub fn as_slice(&self) -> &[TracedField] {
        &self.notes
    }

    pub(crate) fn add(&mut self, range: Range<usize>, meaning: String) {
        let path = self.path.clone();
        self.notes.push(TracedField {
            range,
            path,
            meaning,
        });
    }

    /// Appends a component to the path, and returns the length of the path before.
    pub(crate) fn enter(&mut self, part: &str) -> usize {
        let len = self.path.len();
        if len > 0 && !part.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(part);
        len
    }

    pub(crate) fn leave(&mut self, len: usize) {
        self.path.truncate(len);
    }
}

// The interface for the length of encoded maps in string form, which a higher crate implements.
//
// Source: OpenPMIx `regex.rst`, "Wire Format", for the deprecated form without a length.

/// The length of an encoded map in string form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegexExtent {
    /// The length in bytes, without a terminating NUL.
    pub len: usize,
    /// `true` if a NUL follows the bytes on the wire.
    pub terminated: bool,
}

/// A function that determines the length of encoded maps in string form; `preg-core` implements it.
///
/// A datum of type `PMIX_REGEX` has no length on the wire: only the scheme that encoded it can
/// determine its end. In OpenPMIx the frameworks bfrops and preg call each other. Here the lower
/// crate defines this trait, and the upper one implements it.
pub trait RegexFramer {
    /// Returns the extent of the encoded map at the start of `bytes`, or `None` if no scheme
    /// recognizes it: then the datum is a string.
    ///
    /// # Errors
    ///
    /// A scheme recognizes the map, but the map is damaged.
    fn regex_extent(&self, bytes: &[u8]) -> Result<Option<RegexExtent>, String>;
}
