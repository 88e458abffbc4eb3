// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies: the messages with the tag of a request.
//!
//! Every reply except [`JobInfo`] begins with a status. The fields after it are present on success
//! and optional on failure, so they are `Option`s. A server that does not support a request sends
//! [`status`] alone, with `PMIX_ERR_NOT_SUPPORTED`.
//!
//! | request | reply |
//! | --- | --- |
//! | REQ, GDS_FALLBACK | [`JobInfo`] |
//! | GETNB, CONNECT | [`Objects`] |
//! | REFRESH_CACHE, REQ_SYSINFO | [`Kvals`] |
//! | LOOKUP | [`Found`] |
//! | SPAWN | [`Spawned`] |
//! | QUERY, ALLOC, JOB_CONTROL, MONITOR, VALIDATE_CRED, FABRIC_REGISTER, FABRIC_UPDATE, SESSION_CTRL | [`Infos`] |
//! | GET_CREDENTIAL | [`Credential`] |
//! | IOF_PULL | [`Pulled`] |
//! | GROUP_CONSTRUCT | [`Group`] |
//! | DEVICE_DISTANCES | [`Distances`] |
//! | RESOLVE_PEERS | [`Peers`] |
//! | RESOLVE_NODE | [`Nodes`] |
//! | all others | [`Done`], the status alone |
//! | DEREGEVENTS | none |
//!
//! Source: OpenPMIx; `docs/protocol.md` lists every reply.

mod group;
mod objects;

use bfrops::RegexFramer;
use pmix_types::Status;

use crate::codec::{Part, Shape, Writer};
use crate::{Command, Error, PeerForm, wire_type};

pub use group::Group;
pub(crate) use objects::jobs_outline;
pub use objects::{
    Credential, Distances, Done, Found, Infos, JobInfo, Kvals, Nodes, Object, ObjectIter, Objects,
    Peers, Pulled, Spawned, pack_job_object, pack_kvals,
};

/// Packs a reply that is a status alone: the reply to most requests on success, and to every
/// request on failure.
///
/// # Errors
///
/// None in practice: every module packs a status.
pub fn status(form: &PeerForm, status: Status) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(form, None);
    writer.one::<wire_type::Status>(&status)?;
    Ok(writer.finish())
}

// Replies of which only the command is known.
//
// Source: OpenPMIx; `docs/protocol.md` lists every reply.

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $($command:ident)|*;)*) => {
        /// A reply to any request.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Reply<'a> {
            $($(#[$doc])* $name($type),)*
            /// A status alone, the reply to all other requests.
            Done(Done),
        }

        impl<'a> Reply<'a> {
            /// Parses the payload of the reply to a command. Fields that a newer server appends are
            /// ignored.
            ///
            /// # Errors
            ///
            /// The cause, the field and the offset.
            pub fn decode(
                command: Command,
                form: &PeerForm,
                framer: Option<&'a dyn RegexFramer>,
                payload: &'a [u8],
            ) -> Result<Self, Error> {
                Ok(match command {
                    $($(Command::$command)|* => {
                        Self::$name(<$type>::decode(form, framer, payload)?)
                    })*
                    _ => Self::Done(Done::decode(form, framer, payload)?),
                })
            }

            /// Returns the outline of the reply to a command.
            pub(crate) fn outline(command: Command, major: u32) -> Vec<Part> {
                match command {
                    $($(Command::$command)|* => <$type as Shape>::outline("", major),)*
                    _ => <Done as Shape>::outline("", major),
                }
            }

            /// Packs the payload in the form of a client.
            ///
            /// # Errors
            ///
            /// A field cannot be packed.
            pub fn encode(
                &self,
                form: &PeerForm,
                framer: Option<&dyn RegexFramer>,
            ) -> Result<Vec<u8>, Error> {
                match self {
                    $(Self::$name(reply) => reply.encode(form, framer),)*
                    Self::Done(reply) => reply.encode(form, framer),
                }
            }
        }
    };
}

replies! {
    /// The job info of a job.
    JobInfo(JobInfo<'a>) = REQ | GDS_FALLBACK;
    /// The data that processes put, or the job info of connected jobs.
    Objects(Objects<'a>) = GETNB | CONNECT;
    /// All data that a process has put, or information about the system.
    Kvals(Kvals<'a>) = REFRESH_CACHE | REQ_SYSINFO;
    /// The published data that was found.
    Found(Found<'a>) = LOOKUP;
    /// The job that was started.
    Spawned(Spawned<'a>) = SPAWN;
    /// Results in the form of infos.
    Infos(Infos<'a>) = QUERY | ALLOC | JOB_CONTROL | MONITOR | VALIDATE_CRED | FABRIC_REGISTER
        | FABRIC_UPDATE | SESSION_CTRL;
    /// A credential.
    Credential(Credential<'a>) = GET_CREDENTIAL;
    /// The number of a pull. The output follows later.
    Pulled(Pulled) = IOF_PULL;
    /// The group that was constructed.
    Group(Group<'a>) = GROUP_CONSTRUCT;
    /// The distances of devices.
    Distances(Distances<'a>) = DEVICE_DISTANCES;
    /// The processes on a node.
    Peers(Peers<'a>) = RESOLVE_PEERS;
    /// The nodes of a job.
    Nodes(Nodes<'a>) = RESOLVE_NODE;
}

impl Reply<'_> {
    /// Returns the status. Job info has none and counts as success.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::JobInfo(_) => Status::SUCCESS,
            Self::Objects(reply) => reply.status,
            Self::Kvals(reply) => reply.status,
            Self::Found(reply) => reply.status,
            Self::Spawned(reply) => reply.status,
            Self::Infos(reply) => reply.status,
            Self::Credential(reply) => reply.status,
            Self::Pulled(reply) => reply.status,
            Self::Group(reply) => reply.status,
            Self::Distances(reply) => reply.status,
            Self::Peers(reply) => reply.status,
            Self::Nodes(reply) => reply.status,
            Self::Done(reply) => reply.status,
        }
    }
}
