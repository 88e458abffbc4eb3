// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nspaces, keys, ranks and processes: cut to what C holds, and matched as C matches.
//!
//! Matching is not equality. An empty nspace and the wildcard rank stand for any, so a request can
//! name many processes at once; `==` tells whether two names are the same.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_CHECK_NSPACE`,
//! `PMIX_CHECK_RANK`, `PMIX_CHECK_PROCID` and their loading counterparts.

use crate::{Bytes, Key, Nspace, Proc, Rank, Text};

/// The first `limit` bytes.
fn cut(text: Text<'_>, limit: usize) -> Text<'_> {
    if text.len() <= limit {
        return text;
    }
    Text::new(match text.into_bytes() {
        Bytes::Borrowed(bytes) => Bytes::Borrowed(bytes.get(..limit).unwrap_or(bytes)),
        Bytes::Owned(mut bytes) => {
            bytes.truncate(limit);
            Bytes::Owned(bytes)
        }
    })
}

/// Whether two texts agree in their first `limit` bytes, as `strncmp` sees it.
fn agree(a: &[u8], b: &[u8], limit: usize) -> bool {
    a.get(..limit).unwrap_or(a) == b.get(..limit).unwrap_or(b)
}

impl<'a> Nspace<'a> {
    /// Creates a name from as much of the text as C holds, 255 bytes (`PMIx_Load_nspace`).
    ///
    /// The cut is made between bytes, so it may split a character. [`Nspace::new`] cuts nothing.
    pub fn load(text: impl Into<Text<'a>>) -> Self {
        Self::new(cut(text.into(), Self::MAX_LEN))
    }
}

impl Nspace<'_> {
    /// Returns whether the nspace names no job: it is empty (`PMIx_Nspace_invalid`; a null in C is
    /// empty here).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.is_empty()
    }

    /// Returns whether both name one job, an empty one naming any (`PMIx_Check_nspace`).
    ///
    /// What C does not hold, from byte 256 on, does not count.
    #[must_use]
    pub fn matches(&self, other: &Nspace<'_>) -> bool {
        let same = agree(self.as_bytes(), other.as_bytes(), Self::MAX_LEN);
        self.is_invalid() || other.is_invalid() || same
    }
}

impl<'a> Key<'a> {
    /// Creates a name from as much of the text as C holds, 511 bytes (`PMIx_Load_key`).
    pub fn load(text: impl Into<Text<'a>>) -> Self {
        Self::new(cut(text.into(), Self::MAX_LEN))
    }
}

impl Key<'_> {
    /// Returns whether the key is `name` (`PMIx_Check_key`); what C does not hold does not count.
    ///
    /// Unlike an empty nspace an empty key matches nothing but itself.
    #[must_use]
    pub fn is(&self, name: impl AsRef<[u8]>) -> bool {
        agree(self.as_bytes(), name.as_ref(), Self::MAX_LEN)
    }

    /// Returns whether the Standard keeps the key for itself: it begins with `pmix`
    /// (`PMIx_Check_reserved_key`).
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.as_bytes().starts_with(b"pmix")
    }
}

impl Rank {
    /// Returns whether both name one process, the wildcard naming any (`PMIx_Check_rank`).
    ///
    /// No other special rank stands for another, not even the undefined one.
    #[must_use]
    pub fn matches(self, other: Self) -> bool {
        self == other || self == Self::WILDCARD || other == Self::WILDCARD
    }
}

impl<'a> Proc<'a> {
    /// Names a process with as much of the nspace as C holds (`PMIx_Load_procid`,
    /// `PMIx_Proc_load`).
    pub fn load(nspace: impl Into<Text<'a>>, rank: Rank) -> Self {
        Self::new(Nspace::load(nspace), rank)
    }
}

impl Proc<'_> {
    /// Returns whether no process has the name: no nspace, or the invalid rank
    /// (`PMIx_Procid_invalid`).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.nspace.is_invalid() || self.rank == Rank::INVALID
    }

    /// Returns whether both can name one process: nspace and rank match (`PMIx_Check_procid`).
    #[must_use]
    pub fn matches(&self, other: &Proc<'_>) -> bool {
        self.nspace.matches(&other.nspace) && self.rank.matches(other.rank)
    }
}
