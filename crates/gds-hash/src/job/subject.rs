// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subject of a request: the session, job, application, node or process whose value is
//! requested.
//!
//! Source: PMIx Standard, chapter "Reserved Keys".

use pmix_types::Rank;

use crate::{Error, Job, KnownNode, Realm, Request};

/// The object whose value is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The session with this number; `None` if the host registered no number.
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
    /// Returns the subject of a request. This is the session, the job, or the application, node or
    /// process that the request names explicitly or by default.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the subject is unknown; `PMIX_ERR_BAD_PARAM` if a qualifier has an
    /// invalid type.
    pub fn subject(&self, request: &Request<'_>) -> Result<Subject, Error> {
        let unknown = |what: &str| Error::not_found(format!("{} has no such {what}", self.nspace));
        Ok(match self.realm(request) {
            // The store also answers about sessions of other jobs.
            Realm::Session => Subject::Session(request.session().or(self.session.id)),
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
