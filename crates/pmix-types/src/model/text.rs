// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text and bytes, either borrowed from a message or owned; nspaces and keys.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", strings and `pmix_byte_object_t`;
//! lengths are in bytes.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{IntoOwned, Measure};

/// Bytes that are borrowed from a message or owned.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// A C string without its terminating NUL: bytes that are usually UTF-8, but need not be.
///
/// C and packed data distinguish a null pointer from an empty string. Where a null pointer is
/// possible, the model has `Option<Text>`.
#[derive(Clone)]
pub struct Text<'a>(Repr<'a>);

/// The bytes of a text, by ownership.
#[derive(Clone)]
enum Repr<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
    /// Bytes that all copies of the text share.
    Shared(Arc<[u8]>),
}

impl<'a> Text<'a> {
    /// Creates text from bytes up to the first NUL, as for a C string.
    pub fn new(bytes: impl Into<Bytes<'a>>) -> Self {
        let mut bytes: Bytes<'a> = bytes.into();
        // `contains` is fast and normally finds no NUL, so the position is rarely needed.
        if bytes.contains(&0)
            && let Some(end) = bytes.iter().position(|b| *b == 0)
        {
            match &mut bytes {
                Cow::Borrowed(slice) => *slice = slice.get(..end).unwrap_or_default(),
                Cow::Owned(vec) => vec.truncate(end),
            }
        }
        Self(match bytes {
            Cow::Borrowed(bytes) => Repr::Borrowed(bytes),
            Cow::Owned(bytes) => Repr::Owned(bytes),
        })
    }

    /// Creates text from bytes without searching for a NUL. The caller knows that there is none.
    #[must_use]
    pub const fn without_nul(bytes: &'a [u8]) -> Self {
        Self(Repr::Borrowed(bytes))
    }

    /// Returns the bytes of the text, without a NUL.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Borrowed(bytes) => bytes,
            Repr::Owned(bytes) => bytes,
            Repr::Shared(bytes) => bytes,
        }
    }

    /// Returns the text with bytes that all its copies share, so that copies do not allocate. This
    /// is for names that occur very often.
    #[must_use]
    pub fn to_shared(&self) -> Text<'static> {
        Text(match &self.0 {
            Repr::Shared(bytes) => Repr::Shared(Arc::clone(bytes)),
            _ if self.is_empty() => Repr::Borrowed(&[]),
            _ => Repr::Shared(self.as_bytes().into()),
        })
    }

    /// Returns the text as a `str`, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// Returns the text with replacement characters for bytes that are not UTF-8.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }

    /// Returns the length in bytes, without the NUL.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Returns `true` if the text has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Returns the bytes of the text. Borrowed bytes stay borrowed.
    #[must_use]
    pub fn into_bytes(self) -> Bytes<'a> {
        match self.0 {
            Repr::Borrowed(bytes) => Cow::Borrowed(bytes),
            Repr::Owned(bytes) => Cow::Owned(bytes),
            Repr::Shared(bytes) => Cow::Owned(bytes.to_vec()),
        }
    }
}

impl Default for Text<'_> {
    fn default() -> Self {
        Self::without_nul(&[])
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// Hashes like the bytes, because maps are searched by bytes.
impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl IntoOwned for Text<'_> {
    type Owned = Text<'static>;

    fn into_owned(self) -> Text<'static> {
        Text(match self.0 {
            Repr::Borrowed(bytes) => Repr::Owned(bytes.to_vec()),
            Repr::Owned(bytes) => Repr::Owned(bytes),
            Repr::Shared(bytes) => Repr::Shared(bytes),
        })
    }

    fn measure(&self, what: Measure) -> usize {
        match &self.0 {
            Repr::Shared(_) if what != Measure::Shown => 0,
            repr => what.of_bytes(self.len(), matches!(repr, Repr::Borrowed(_))),
        }
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
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
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
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

// Nspaces and keys: text with a maximum length.
//
// Source: PMIx Standard, chapter "Data Structures and Types", `pmix_nspace_t` (at most 255 bytes)
// and `pmix_key_t` (at most 511 bytes).

macro_rules! name {
    ($(#[$meta:meta])* $name:ident, $limit:literal) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name<'a>(Text<'a>);

        impl<'a> $name<'a> {
            /// The maximum length in bytes that every peer accepts. In C, the NUL takes one more
            /// byte.
            pub const MAX_LEN: usize = $limit;

            /// Creates a name from text of any length. The text is not truncated, but packing
            /// rejects a text longer than [`Self::MAX_LEN`].
            pub fn new(text: impl Into<Text<'a>>) -> Self {
                Self(text.into())
            }

            /// Returns the name as text.
            #[must_use]
            pub const fn as_text(&self) -> &Text<'a> {
                &self.0
            }

            /// Returns the bytes of the name, without a NUL.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }

            /// Returns the name with bytes that all its copies share ([`Text::to_shared`]).
            #[must_use]
            pub fn to_shared(&self) -> $name<'static> {
                $name(self.0.to_shared())
            }

            /// Returns `true` if the name is empty.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl IntoOwned for $name<'_> {
            type Owned = $name<'static>;

            fn into_owned(self) -> $name<'static> {
                $name(self.0.into_owned())
            }

            fn measure(&self, what: Measure) -> usize {
                self.0.measure(what)
            }
        }

        impl<'a, T: Into<Text<'a>>> From<T> for $name<'a> {
            fn from(text: T) -> Self {
                Self::new(text)
            }
        }

        /// Allows lookups of names by their bytes.
        impl Borrow<[u8]> for $name<'_> {
            fn borrow(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        impl PartialEq<str> for $name<'_> {
            fn eq(&self, other: &str) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<&str> for $name<'_> {
            fn eq(&self, other: &&str) -> bool {
                self.0 == **other
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// The name of a job (`pmix_nspace_t`), common to all its processes.
    Nspace, 255
}

name! {
    /// The name of an attribute or of a datum (`pmix_key_t`), for example `pmix.job.size`.
    Key, 511
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
    fn copies_of_shared_text_share_their_bytes_and_compare_equal() {
        assert_eq!(size_of::<Text<'_>>(), size_of::<Bytes<'_>>());
        let text = Text::from("job");
        let shared = text.to_shared();
        for copy in [
            shared.clone(),
            shared.to_shared(),
            shared.clone().into_owned(),
        ] {
            assert_eq!(copy.as_bytes().as_ptr(), shared.as_bytes().as_ptr());
            assert_eq!(copy, text);
        }
        assert_eq!(shared.into_bytes(), &b"job"[..]);
        assert_eq!(Text::from("").to_shared(), Text::default());
        let known = std::collections::HashMap::from([(text.to_shared(), 1)]);
        assert_eq!(known.get(&b"job"[..]), Some(&1));
        assert_eq!(known.get(&text.into_owned()), Some(&1));
    }

    #[test]
    fn keeps_bytes_that_are_not_utf8() {
        let text = Text::new(&b"n\xff1"[..]);
        assert_eq!(text.as_bytes(), b"n\xff1");
        assert_eq!(text.as_str(), None);
        assert_eq!(text.to_string(), "n\u{fffd}1");
        assert_eq!(format!("{text:?}"), "\"n\\xff1\"");
    }
}
