// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nspaces and keys: text with a maximum length.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_nspace_t` (at most 255 bytes)
//! and `pmix_key_t` (at most 511 bytes).

use std::borrow::Borrow;
use std::fmt;

use crate::{IntoOwned, Measure, Text};

macro_rules! name {
    ($(#[$meta:meta])* $name:ident, $limit:literal) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name<'a>(Text<'a>);

        impl<'a> $name<'a> {
            /// The greatest length in bytes that every peer accepts; C needs one more byte for the
            /// NUL.
            pub const MAX_LEN: usize = $limit;

            /// Creates a name from text of any length. Packing rejects a text longer than
            /// [`Self::MAX_LEN`]; it is not cut here.
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

            /// Returns the name with bytes that all of its copies share ([`Text::to_shared`]).
            #[must_use]
            pub fn to_shared(&self) -> $name<'static> {
                $name(self.0.to_shared())
            }

            /// Returns `true` if the name is empty; an empty name names nothing.
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
    /// The name of a job (`pmix_nspace_t`), common to all of its processes.
    Nspace, 255
}

name! {
    /// The name of an attribute or of a datum (`pmix_key_t`), for example `pmix.job.size`.
    Key, 511
}
