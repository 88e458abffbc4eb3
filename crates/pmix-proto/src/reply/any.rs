// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reply to a request of which only the command is known.
//!
//! Source: OpenPMIx; `docs/protocol.md` lists every reply.

use bfrops::RegexFramer;
use pmix_types::Status;

use super::{
    Credential, Distances, Done, Found, Group, Infos, JobInfo, Kvals, Nodes, Objects, Peers,
    Pulled, Spawned,
};
use crate::codec::Shape;
use crate::part::Part;
use crate::{Command, Error, PeerForm};

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $($command:ident)|*;)*) => {
        /// Holds a reply to any request.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Reply<'a> {
            $($(#[$doc])* $name($type),)*
            /// A status alone; the reply to all other requests.
            Done(Done),
        }

        impl<'a> Reply<'a> {
            /// Reads the payload of the reply to a command. What a newer server appends is
            /// ignored.
            ///
            /// # Errors
            ///
            /// What is wrong, in which field and at which byte.
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

            /// What the reply to a command is made of.
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
            /// If a field cannot be packed.
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
    /// What processes put, or what is known of jobs that were connected.
    Objects(Objects<'a>) = GETNB | CONNECT;
    /// All that a process has put, or what is known of the system.
    Kvals(Kvals<'a>) = REFRESH_CACHE | REQ_SYSINFO;
    /// The published data that was found.
    Found(Found<'a>) = LOOKUP;
    /// The job that was started.
    Spawned(Spawned<'a>) = SPAWN;
    /// The answer as infos.
    Infos(Infos<'a>) = QUERY | ALLOC | JOB_CONTROL | MONITOR | VALIDATE_CRED | FABRIC_REGISTER
        | FABRIC_UPDATE | SESSION_CTRL;
    /// A credential.
    Credential(Credential<'a>) = GET_CREDENTIAL;
    /// The number of a pull; output comes later.
    Pulled(Pulled) = IOF_PULL;
    /// The group that was constructed.
    Group(Group<'a>) = GROUP_CONSTRUCT;
    /// The distances of devices.
    Distances(Distances<'a>) = DEVICE_DISTANCES;
    /// The processes on a node.
    Peers(Peers<'a>) = RESOLVE_PEERS;
    /// The nodes that a job runs on.
    Nodes(Nodes<'a>) = RESOLVE_NODE;
}

impl Reply<'_> {
    /// Returns the status; job information has none and is a success.
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
