// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data realms: what a key says something of where a request does not name it.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", the data realms.

use pmix_types::keys;

/// Names the realm of a key: what it says something of (PMIx Standard, "Data realms").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Realm {
    /// An allocation and what runs in it.
    Session,
    /// The processes that were started together.
    Job,
    /// Those of them that run the same program.
    App,
    /// A node.
    Node,
    /// A process.
    Proc,
}

impl Realm {
    /// The realm that a key belongs to by default; [`Realm::Job`] or [`Realm::Proc`] keys are told
    /// apart by the rank that is asked.
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

    /// What it is called in a message.
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
