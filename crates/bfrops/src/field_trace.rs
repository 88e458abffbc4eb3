// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields that a decoder unpacked, for tools that explain messages.
//!
//! Source: none outside; offsets are in bytes of the message.

use std::ops::Range;

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedField {
    /// The range of its bytes in the message.
    pub range: Range<usize>,
    /// The path to it, for example `info[0].value.rank`.
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

    /// Appends a part to the path, and returns the length to restore.
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
