// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nspaces of several clusters: `cluster:nspace`.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types",
//! `PMIX_MULTICLUSTER_NSPACE_CONSTRUCT`.

use crate::Nspace;

/// The separator between the cluster and its nspace.
const SEPARATOR: u8 = b':';

impl Nspace<'_> {
    /// Joins the name of a cluster and one of its nspaces (`PMIx_Multicluster_nspace_construct`).
    ///
    /// Returns `None` if the result is longer than [`Nspace::MAX_LEN`] bytes; C returns an empty
    /// nspace then. A separator inside the name of the cluster is accepted, but
    /// [`Nspace::split_cluster`] then splits at that one.
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
