// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subject of a request: the node, process or other object of its result.
//!
//! Source: PMIx Standard, chapter "Reserved Keys".

use pmix_types::{Rank, keys};

use crate::{Error, Job, KnownNode, Request};

/// The session, job, application, node or process of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The session with this number; `None` if the host stated no number.
    Session(Option<u32>),
    /// The job.
    Job,
    /// The application with this number.
    App(u32),
    /// A node.
    Node(KnownNode),
    /// A process.
    Proc(Rank),
}

impl Job {
    /// Returns the subject of a request: the session, the job, or the application, node or process
    /// that it names explicitly or by default.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if it is unknown; `PMIX_ERR_BAD_PARAM` if a qualifier has an invalid
    /// type.
    pub fn subject(&self, request: &Request<'_>) -> Result<Subject, Error> {
        let unknown = |what: &str| Error::not_found(format!("{} has no such {what}", self.nspace));
        Ok(match self.realm(request) {
            Realm::Session => Subject::Session(self.session.id),
            Realm::Job => Subject::Job,
            Realm::Proc => Subject::Proc(request.rank()),
            Realm::App => {
                let app = self.app_asked(request)?;
                Subject::App(app.ok_or_else(|| unknown("application"))?)
            }
            Realm::Node => {
                let slot = self.node_asked(request, &self.nodes)?;
                let slot = slot.ok_or_else(|| unknown("node"))?;
                Subject::Node(KnownNode {
                    name: self.nodes.name(slot),
                    id: self.nodes.id(self.nodes.first(slot)),
                })
            }
        })
    }
}

// Data realms: the default subject of a key.
//
// Source: PMIx Standard, chapter "Reserved Keys", the data realms.

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
