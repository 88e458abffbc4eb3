// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text and bytes that are borrowed from a message or owned.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", strings and `pmix_byte_object_t`;
//! lengths are in bytes.

use std::borrow::{Borrow, Cow};
use std::fmt;

use crate::IntoOwned;

/// Holds bytes that are borrowed from a message or owned.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// Holds a C string without its terminating NUL: bytes, in practice UTF-8, by contract not even
/// that.
///
/// C tells a null pointer from an empty string, and so does the wire; where a null is possible the
/// model has `Option<Text>`.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<'a>(Bytes<'a>);

impl<'a> Text<'a> {
    /// Creates text from bytes; they end before the first NUL, as a C string does.
    pub fn new(bytes: impl Into<Bytes<'a>>) -> Self {
        let mut bytes = bytes.into();
        // Looking for any is fast, and there is none.
        if bytes.contains(&0)
            && let Some(end) = bytes.iter().position(|b| *b == 0)
        {
            match &mut bytes {
                Cow::Borrowed(slice) => *slice = slice.get(..end).unwrap_or_default(),
                Cow::Owned(vec) => vec.truncate(end),
            }
        }
        Self(bytes)
    }

    /// Creates text from bytes that are known to hold no NUL, without looking at them again.
    #[must_use]
    pub const fn without_nul(bytes: &'a [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }

    /// Returns the bytes of the text, without a NUL.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the text with replacement characters for what is not UTF-8.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Returns the length in bytes, the NUL not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the text has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes of the text, borrowed if they were.
    #[must_use]
    pub fn into_bytes(self) -> Bytes<'a> {
        self.0
    }
}

impl IntoOwned for Text<'_> {
    type Owned = Text<'static>;

    fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::new(text.into_bytes())
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes)
    }
}

impl From<Vec<u8>> for Text<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl Borrow<[u8]> for Text<'_> {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str_lossy())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_before_the_first_nul() {
        assert_eq!(Text::new(&b"ab\0cd"[..]), "ab");
        assert_eq!(Text::new(b"ab\0cd".to_vec()), "ab");
        assert_eq!(Text::from(""), "");
    }

    #[test]
    fn bytes_that_are_no_utf8_stay_as_they_are() {
        let text = Text::new(&b"n\xff1"[..]);
        assert_eq!(text.as_bytes(), b"n\xff1");
        assert_eq!(text.as_str(), None);
        assert_eq!(text.to_string(), "n\u{fffd}1");
        assert_eq!(format!("{text:?}"), "\"n\\xff1\"");
    }
}
