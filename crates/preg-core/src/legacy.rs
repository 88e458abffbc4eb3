// SPDX-License-Identifier: MIT OR Apache-2.0
//! The string form: a value without a length, whose extent only its scheme can tell.
//!
//! Source: OpenPMIx `regex.rst`, "Wire Format", the deprecated string form.

/// Holds a value of the string form (`char *` in C, data type `PMIX_REGEX`).
///
/// The bytes hold no terminating NUL; some schemes have NULs inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyRegex {
    /// The name of the form: a scheme's [`crate::Scheme::framing`], or `plain`.
    pub framing: String,
    /// The value.
    pub bytes: Vec<u8>,
}

impl LegacyRegex {
    /// Names the form that is the list itself.
    pub const PLAIN: &'static str = "plain";
}

/// Says whether a NUL follows the last byte of a value, in memory and on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// One NUL: the form is text.
    Nul,
    /// Nothing: the form knows its own length.
    None,
}

/// Says how many bytes a value has and what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes, without a terminator.
    pub len: usize,
    /// What ends the value.
    pub terminator: Terminator,
}

impl Extent {
    /// Returns the extent of a text form: up to the first NUL, or all of the bytes.
    #[must_use]
    pub fn of_text(bytes: &[u8]) -> Self {
        let len = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        Self {
            len,
            terminator: Terminator::Nul,
        }
    }

    /// Returns the bytes of the value and its terminator together.
    #[must_use]
    pub fn wire_len(self) -> usize {
        self.len + usize::from(self.terminator == Terminator::Nul)
    }
}

/// Holds what is packed for a value of data type `PMIX_REGEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packed {
    /// The framed bytes, copied as they are.
    Framed(Vec<u8>),
    /// No scheme owns the value: the packer writes it as a `PMIX_STRING`.
    Text(Vec<u8>),
}

/// Holds what [`crate::Preg::unpack`] found at the front of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// A framed value and how many bytes of the buffer it used.
    Framed(LegacyRegex, usize),
    /// No scheme owns it: the caller unpacks a `PMIX_STRING`.
    Text,
}
