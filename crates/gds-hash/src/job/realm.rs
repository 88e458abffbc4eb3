// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data realms: the default subject of a key.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", the data realms.

use pmix_types::keys;

/// The realm of a key (PMIx Standard, "Data realms").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Realm {
    /// An allocation and the jobs in it.
    Session,
    /// The processes that were started together.
    Job,
    /// The processes of a job that run the same program.
    App,
    /// A node.
    Node,
    /// A process.
    Proc,
}

impl Realm {
    /// Returns the default realm of a key. The rank of the request decides between [`Realm::Job`]
    /// and [`Realm::Proc`].
    #[must_use]
    pub fn of(key: &[u8]) -> Option<Self> {
        let key = std::str::from_utf8(key).ok()?;
        Some(match key {
            keys::SESSION_ID
            | keys::CLUSTER_ID
            | keys::UNIV_SIZE
            | keys::TMPDIR
            | keys::TDIR_RMCLEAN
            | keys::HOSTNAME_KEEP_FQDN
            | keys::RM_NAME
            | keys::RM_VERSION => Self::Session,
            keys::APP_SIZE
            | keys::APPLDR
            | keys::APP_ARGV
            | keys::WDIR
            | keys::PSET_NAMES
            | keys::APP_MAP_TYPE
            | keys::APP_MAP_REGEX => Self::App,
            keys::HOSTNAME
            | keys::HOSTNAME_ALIASES
            | keys::NODEID
            | keys::NODE_SIZE
            | keys::AVAIL_PHYS_MEMORY
            | keys::LOCAL_PEERS
            | keys::LOCAL_PROCS
            | keys::LOCAL_CPUSETS
            | keys::LOCALLDR
            | keys::LOCAL_SIZE
            | keys::NODE_OVERSUBSCRIBED => Self::Node,
            _ => return None,
        })
    }

    /// Returns the name of the realm for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Job => "job",
            Self::App => "application",
            Self::Node => "node",
            Self::Proc => "process",
        }
    }
}
