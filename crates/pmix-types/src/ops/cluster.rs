// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nspaces of several clusters: `cluster:nspace`.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types",
//! `PMIX_MULTICLUSTER_NSPACE_CONSTRUCT`.

use crate::Nspace;

/// Stands between the cluster and its nspace.
const SEPARATOR: u8 = b':';

impl Nspace<'_> {
    /// Joins a cluster and one of its nspaces (`PMIx_Multicluster_nspace_construct`).
    ///
    /// `None` if they do not fit: with the separator they may have [`Nspace::MAX_LEN`] bytes. C
    /// answers an empty nspace then. A separator inside the cluster is not refused, and
    /// [`Nspace::split_cluster`] then splits elsewhere.
    #[must_use]
    pub fn of_cluster(cluster: &Nspace<'_>, nspace: &Nspace<'_>) -> Option<Nspace<'static>> {
        let (cluster, nspace) = (cluster.as_bytes(), nspace.as_bytes());
        let len = cluster.len().checked_add(nspace.len())?;
        (len < Self::MAX_LEN).then(|| Nspace::new([cluster, nspace].join(&SEPARATOR)))
    }

    /// Returns the cluster and its nspace, split at the first separator
    /// (`PMIx_Multicluster_nspace_parse`); without a separator all of it is the cluster.
    #[must_use]
    pub fn split_cluster(&self) -> (Nspace<'_>, Nspace<'_>) {
        let text = self.as_bytes();
        let mut parts = text.splitn(2, |byte| *byte == SEPARATOR);
        let mut next = || Nspace::new(parts.next().unwrap_or_default());
        (next(), next())
    }
}
