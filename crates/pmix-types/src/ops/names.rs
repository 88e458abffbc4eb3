// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nspaces, keys, ranks and processes: truncation to the lengths of C, and matching by the rules of
//! C.
//!
//! Matching is not equality. An empty nspace and the wildcard rank match any, so a request can name
//! many processes at once; `==` compares the names themselves.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `PMIX_CHECK_NSPACE`,
//! `PMIX_CHECK_RANK`, `PMIX_CHECK_PROCID` and their loading counterparts.

use crate::{Bytes, DataArray, Key, Nspace, Proc, Rank, Text, Truth, Value};

/// Truncates a text to its first `limit` bytes.
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

/// Returns `true` if two texts agree in their first `limit` bytes, as with `strncmp`.
fn agree(a: &[u8], b: &[u8], limit: usize) -> bool {
    a.get(..limit).unwrap_or(a) == b.get(..limit).unwrap_or(b)
}

impl<'a> Nspace<'a> {
    /// Creates a name from the first 255 bytes of a text, the capacity in C (`PMIx_Load_nspace`).
    ///
    /// The text may be truncated inside a character. [`Nspace::new`] does not truncate.
    pub fn load(text: impl Into<Text<'a>>) -> Self {
        Self::new(cut(text.into(), Self::MAX_LEN))
    }
}

impl Nspace<'_> {
    /// Returns `true` if the nspace is empty and so names no job (`PMIx_Nspace_invalid`; a null in
    /// C is empty here).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.is_empty()
    }

    /// Returns `true` if both name the same job. An empty nspace matches any (`PMIx_Check_nspace`).
    ///
    /// Bytes beyond the capacity in C, from byte 256 on, are ignored.
    #[must_use]
    pub fn matches(&self, other: &Nspace<'_>) -> bool {
        let same = agree(self.as_bytes(), other.as_bytes(), Self::MAX_LEN);
        self.is_invalid() || other.is_invalid() || same
    }

    /// Returns `true` if both name the same job. An empty nspace names no job and matches none, not
    /// even another empty one (`PMIx_Check_nspace_strict`).
    #[must_use]
    pub fn is_same(&self, other: &Nspace<'_>) -> bool {
        !self.is_invalid() && !other.is_invalid() && self.matches(other)
    }
}

impl<'a> Key<'a> {
    /// Creates a name from the first 511 bytes of a text, the capacity in C (`PMIx_Load_key`).
    pub fn load(text: impl Into<Text<'a>>) -> Self {
        Self::new(cut(text.into(), Self::MAX_LEN))
    }
}

impl Key<'_> {
    /// Returns `true` if the key is `name` (`PMIx_Check_key`). Bytes beyond the capacity in C are
    /// ignored.
    ///
    /// Unlike an empty nspace, an empty key matches only itself.
    #[must_use]
    pub fn is(&self, name: impl AsRef<[u8]>) -> bool {
        agree(self.as_bytes(), name.as_ref(), Self::MAX_LEN)
    }

    /// Returns `true` if the Standard reserves the key: it begins with `pmix`
    /// (`PMIx_Check_reserved_key`).
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.as_bytes().starts_with(b"pmix")
    }
}

impl Rank {
    /// Returns `true` if both name the same process. The wildcard matches any (`PMIx_Check_rank`).
    ///
    /// No other special rank matches another rank, not even the undefined one.
    #[must_use]
    pub fn matches(self, other: Self) -> bool {
        self == other || self == Self::WILDCARD || other == Self::WILDCARD
    }
}

impl<'a> Proc<'a> {
    /// Creates the name of a process from as much of the nspace as C can hold (`PMIx_Load_procid`,
    /// `PMIx_Proc_load`).
    pub fn load(nspace: impl Into<Text<'a>>, rank: Rank) -> Self {
        Self::new(Nspace::load(nspace), rank)
    }
}

impl Proc<'_> {
    /// Returns `true` if no process can have the name: it has no nspace or the invalid rank
    /// (`PMIx_Procid_invalid`).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.nspace.is_invalid() || self.rank == Rank::INVALID
    }

    /// Returns `true` if both can name the same process: nspace and rank match
    /// (`PMIx_Check_procid`).
    #[must_use]
    pub fn matches(&self, other: &Proc<'_>) -> bool {
        self.nspace.matches(&other.nspace) && self.rank.matches(other.rank)
    }

    /// Returns `true` if both are the same name: the nspace is the same and not empty, and the rank
    /// is the same (`PMIx_Check_procid_strict`). A wildcard matches only itself.
    #[must_use]
    pub fn is_same(&self, other: &Proc<'_>) -> bool {
        self.nspace.is_same(&other.nspace) && self.rank == other.rank
    }
}

impl Value<'_> {
    /// Returns `true` if a directive with this value applies to a process. It is for attributes
    /// whose value may name some processes of a job, such as `PMIX_DEBUG_STOP_IN_APP`. The value
    /// may be a rank, a process or an array of either. Any other value applies to all processes,
    /// unless it is false.
    #[must_use]
    pub fn is_for(&self, proc: &Proc<'_>) -> bool {
        match self {
            Self::Rank(rank) => rank.matches(proc.rank),
            Self::Proc(named) => named.matches(proc),
            Self::DataArray(DataArray::Rank(ranks)) => {
                ranks.iter().any(|rank| rank.matches(proc.rank))
            }
            Self::DataArray(DataArray::Proc(procs)) => procs.iter().any(|one| one.matches(proc)),
            _ => self.truth() != Truth::False,
        }
    }
}

// Nspaces of several clusters: `cluster:nspace`.
//
// Source: PMIx Standard, chapter "Data Structures and Types",
// `PMIX_MULTICLUSTER_NSPACE_CONSTRUCT`.

/// The separator between the cluster and its nspace.
const SEPARATOR: u8 = b':';

impl Nspace<'_> {
    /// Joins the name of a cluster and one of its nspaces (`PMIx_Multicluster_nspace_construct`).
    ///
    /// Returns `None` if the result is longer than [`Nspace::MAX_LEN`] bytes. In this case, C
    /// returns an empty nspace. A separator inside the name of the cluster is accepted, but
    /// [`Nspace::split_cluster`] then splits there.
    #[must_use]
    pub fn of_cluster(cluster: &Nspace<'_>, nspace: &Nspace<'_>) -> Option<Nspace<'static>> {
        let (cluster, nspace) = (cluster.as_bytes(), nspace.as_bytes());
        let len = cluster.len().checked_add(nspace.len())?;
        (len < Self::MAX_LEN).then(|| Nspace::new([cluster, nspace].join(&SEPARATOR)))
    }

    /// Splits a name at the first separator into the cluster and its nspace
    /// (`PMIx_Multicluster_nspace_parse`). Without a separator the whole name is the cluster.
    #[must_use]
    pub fn split_cluster(&self) -> (Nspace<'_>, Nspace<'_>) {
        let text = self.as_bytes();
        let mut parts = text.splitn(2, |byte| *byte == SEPARATOR);
        let mut next = || Nspace::new(parts.next().unwrap_or_default());
        (next(), next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_checks_have_no_wildcards() {
        let job = Nspace::new("job");
        for (other, matches, is_same) in [
            ("job", true, true),
            ("job2", false, false),
            ("", true, false),
        ] {
            let other = Nspace::new(other);
            assert_eq!(
                (job.matches(&other), job.is_same(&other)),
                (matches, is_same)
            );
            assert_eq!(other.is_same(&job), is_same);
        }
        assert!(!Nspace::new("").is_same(&Nspace::new("")));
        // The capacity in C bounds the comparison, as for the other check.
        let long = |last: char| Nspace::new(format!("{}{last}", "n".repeat(Nspace::MAX_LEN)));
        assert!(long('a').is_same(&long('b')));
        let rank = |rank| Proc::new("job", rank);
        let all = rank(Rank::WILDCARD);
        assert!(all.is_same(&all) && rank(Rank::new(1)).is_same(&rank(Rank::new(1))));
        assert!(!all.is_same(&rank(Rank::new(1))) && all.matches(&rank(Rank::new(1))));
        assert!(!rank(Rank::new(1)).is_same(&Proc::new("", Rank::new(1))));
    }

    #[test]
    fn a_directive_applies_to_all_or_to_the_named_processes() {
        let proc = |rank| Proc::new("job", Rank::new(rank));
        let second = |value: Value<'_>| [0, 1].map(|rank| value.is_for(&proc(rank)));
        for (value, expected) in [
            (Value::Undef, [true, true]),
            (Value::from(true), [true, true]),
            (Value::from(false), [false, false]),
            (Value::Rank(Rank::WILDCARD), [true, true]),
            (Value::Rank(Rank::new(1)), [false, true]),
            (Value::Proc(proc(1)), [false, true]),
            (Value::Proc(Proc::new("", Rank::WILDCARD)), [true, true]),
            (
                Value::Proc(Proc::new("other", Rank::new(1))),
                [false, false],
            ),
            (
                Value::DataArray(DataArray::Proc(vec![proc(1)])),
                [false, true],
            ),
            (
                Value::DataArray(DataArray::Rank(vec![Rank::new(0)])),
                [true, false],
            ),
            (
                Value::DataArray(DataArray::Proc(Vec::new())),
                [false, false],
            ),
        ] {
            assert_eq!(second(value.clone()), expected, "{value:?}");
        }
    }
}
