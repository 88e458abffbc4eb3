// SPDX-License-Identifier: MIT OR Apache-2.0
//! The string form: a value without a length, whose extent only its scheme can determine.
//!
//! Source: OpenPMIx `regex.rst`, "Wire Format", the deprecated string form.

/// A value in string form (`char *` in C, data type `PMIX_REGEX`).
///
/// The bytes do not include a terminating NUL; some schemes have NULs inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyRegex {
    /// The name of the value's format: the [`crate::Scheme::framing`] of its scheme, or `plain`.
    pub framing: String,
    /// The value.
    pub bytes: Vec<u8>,
}

impl LegacyRegex {
    /// The `framing` of plain lists.
    pub const PLAIN: &'static str = "plain";
}

/// The terminator after the last byte of a value, in memory and in packed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// One NUL: the value is text.
    Nul,
    /// No terminator: the value contains its length.
    None,
}

/// The length of a value and its terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes, without a terminator.
    pub len: usize,
    /// The terminator of the value.
    pub terminator: Terminator,
}

impl Extent {
    /// Returns the extent of a value that is text: up to the first NUL, or all bytes.
    #[must_use]
    pub fn of_text(bytes: &[u8]) -> Self {
        let len = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        Self {
            len,
            terminator: Terminator::Nul,
        }
    }

    /// Returns the length of the value including its terminator.
    #[must_use]
    pub fn wire_len(self) -> usize {
        self.len + usize::from(self.terminator == Terminator::Nul)
    }
}

/// The data to pack for a value of data type `PMIX_REGEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packed {
    /// The value of a scheme. The caller copies the bytes unchanged.
    Framed(Vec<u8>),
    /// A value that no scheme recognizes. The caller packs it as a `PMIX_STRING`.
    Text(Vec<u8>),
}

/// The result of [`crate::Preg::unpack`] for the value at the start of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// The value of a scheme, and the number of bytes that it takes in the buffer.
    Framed(LegacyRegex, usize),
    /// A value that no scheme recognizes. The caller unpacks a `PMIX_STRING`.
    Text,
}
