// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: a call of the command, then the fields of the command.
//!
//! The fields of a request stand at its type in the order of the wire, each with the calls it is
//! made of: `One` is a call of one datum, `Many` a call of `PMIX_SIZE` and, if that is not 0, one
//! call of so many data, `Each` a size and so many calls of one, `EachToEnd` calls of one up to
//! the end, `Tail` bytes that are handed on. Layouts are those of 4.2 unless a field says since
//! when it is there. Frozen: append only.

mod data;
mod events;
mod group;
mod iof;
mod job;
mod resources;
mod security;

use bfrops::RegexFramer;

use crate::codec::{Reader, Shape, Writer};
use crate::outline::Part;
use crate::{Command, Error, PeerForm, wire_type};

pub use data::{Commit, Fence, Get, Lookup, Publish, RefreshCache, Unpublish};
pub use events::{DeregisterEvents, Log, Monitor, Notify, RegisterEvents};
pub use group::{GroupConstruct, GroupDestruct, GroupLeave};
pub use iof::{IofDeregister, IofPull, IofPush};
pub use job::{Abort, Connect, Disconnect, GdsFallback, JobControl, Spawn};
pub use resources::{
    Allocate, DeviceDistances, FabricRegister, FabricUpdate, Query, ResolveNodes, ResolvePeers,
    ResourceBlock, SessionControl,
};
pub use security::{GetCredential, ValidateCredential};

macro_rules! requests {
    (
        bare { $($(#[$bare_doc:meta])* $bare:ident = $bare_command:ident;)* }
        $($(#[$doc:meta])* $name:ident($type:ty) = $command:ident;)*
    ) => {
        /// A request of a client.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request<'a> {
            $($(#[$bare_doc])* $bare,)*
            $($(#[$doc])* $name($type),)*
            /// A command that is not known, or known by name only; to be answered with
            /// `PMIX_ERR_NOT_SUPPORTED`.
            Unknown(Command),
        }

        impl<'a> Request<'a> {
            /// The command.
            #[must_use]
            pub const fn command(&self) -> Command {
                match self {
                    $(Self::$bare => Command::$bare_command,)*
                    $(Self::$name(_) => Command::$command,)*
                    Self::Unknown(command) => *command,
                }
            }

            fn read(command: Command, reader: &mut Reader<'a>) -> Result<Self, Error> {
                Ok(match command {
                    $(Command::$bare_command => Self::$bare,)*
                    $(Command::$command => Self::$name(<$type as Shape>::read(reader)?),)*
                    unknown => return Ok(Self::Unknown(unknown)),
                })
            }

            /// What follows the command; none if nobody knows.
            pub(crate) fn outline(command: Command, major: u32) -> Option<Vec<Part>> {
                Some(match command {
                    $(Command::$bare_command => Vec::new(),)*
                    $(Command::$command => <$type as Shape>::outline("", major),)*
                    _ => return None,
                })
            }

            fn write(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
                match self {
                    $(Self::$bare)|* | Self::Unknown(_) => Ok(()),
                    $(Self::$name(request) => <$type as Shape>::write(writer, request),)*
                }
            }
        }
    };
}

requests! {
    bare {
        /// What is known of my job? Answered with [`JobInfo`](crate::reply::JobInfo).
        JobInfo = REQ;
        /// I am about to leave.
        Finalize = FINALIZE;
        /// What is known of this system? Since 6.0.
        SystemInfo = REQ_SYSINFO;
    }
    /// End these processes.
    Abort(Abort<'a>) = ABORT;
    /// This is what I put.
    Commit(Commit<'a>) = COMMIT;
    /// Tell me when all have arrived.
    Fence(Fence<'a>) = FENCENB;
    /// What did that process put, or what is known of it?
    Get(Get<'a>) = GETNB;
    /// Publish this.
    Publish(Publish<'a>) = PUBLISH;
    /// What was published under these keys?
    Lookup(Lookup<'a>) = LOOKUP;
    /// Withdraw these keys.
    Unpublish(Unpublish<'a>) = UNPUBLISH;
    /// Start these applications.
    Spawn(Spawn<'a>) = SPAWN;
    /// Treat us as one job.
    Connect(Connect<'a>) = CONNECT;
    /// Treat us so no longer.
    Disconnect(Disconnect<'a>) = DISCONNECT;
    /// Tell others of this event.
    Notify(Notify<'a>) = NOTIFY;
    /// Tell me of these events.
    RegisterEvents(RegisterEvents<'a>) = REGEVENTS;
    /// Tell me of these no longer; the one request that has no reply.
    DeregisterEvents(DeregisterEvents) = DEREGEVENTS;
    /// What do you know about this?
    Query(Query<'a>) = QUERY;
    /// Log this.
    Log(Log<'a>) = LOG;
    /// Change my allocation.
    Allocate(Allocate<'a>) = ALLOC;
    /// Do this to these processes.
    JobControl(JobControl<'a>) = JOB_CONTROL;
    /// Watch me.
    Monitor(Monitor<'a>) = MONITOR;
    /// Give me a credential.
    GetCredential(GetCredential<'a>) = GET_CREDENTIAL;
    /// Is this credential good?
    ValidateCredential(ValidateCredential<'a>) = VALIDATE_CRED;
    /// Send me the output of these processes.
    IofPull(IofPull<'a>) = IOF_PULL;
    /// Give this to these processes as input.
    IofPush(IofPush<'a>) = IOF_PUSH;
    /// Send me that output no longer.
    IofDeregister(IofDeregister<'a>) = IOF_DEREG;
    /// Make a group of us.
    GroupConstruct(GroupConstruct<'a>) = GROUP_CONSTRUCT;
    /// I leave this group.
    GroupLeave(GroupLeave<'a>) = GROUP_LEAVE;
    /// End this group.
    GroupDestruct(GroupDestruct<'a>) = GROUP_DESTRUCT;
    /// What is known of the fabric?
    FabricRegister(FabricRegister<'a>) = FABRIC_REGISTER;
    /// What of the fabric has changed?
    FabricUpdate(FabricUpdate) = FABRIC_UPDATE;
    /// How far is it from here to the devices?
    DeviceDistances(DeviceDistances<'a>) = DEVICE_DISTANCES;
    /// What does that process have by now?
    RefreshCache(RefreshCache<'a>) = REFRESH_CACHE;
    /// Define or change a block of resources.
    ResourceBlock(ResourceBlock<'a>) = RESBLK;
    /// Do this to a session.
    SessionControl(SessionControl<'a>) = SESSION_CTRL;
    /// Which processes are on that node?
    ResolvePeers(ResolvePeers<'a>) = RESOLVE_PEERS;
    /// Which nodes does that job run on?
    ResolveNodes(ResolveNodes<'a>) = RESOLVE_NODE;
    /// Tell me about my job in the form of this data store.
    GdsFallback(GdsFallback<'a>) = GDS_FALLBACK;
}

impl<'a> Request<'a> {
    /// Reads the payload of a request.
    ///
    /// # Errors
    ///
    /// What is wrong, in which field and at which byte. The connection is not harmed by it: the
    /// request is answered with the status of the error, if its
    /// [command](Self::command_of) is one that is answered.
    pub fn decode(
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
        payload: &'a [u8],
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(form, framer, payload);
        let command = command(&mut reader)?;
        let name = || command.to_string();
        let request = Self::read(command, &mut reader).map_err(|e| e.inside(&name()))?;
        if !matches!(request, Request::Unknown(_)) {
            reader.finish().map_err(|e| e.inside(&name()))?;
        }
        Ok(request)
    }

    /// The command of a request that may be malformed otherwise; none if not even that is there.
    #[must_use]
    pub fn command_of(form: &PeerForm, payload: &[u8]) -> Option<Command> {
        command(&mut Reader::new(form, None, payload)).ok()
    }

    /// The payload of the request for a server that packs so.
    ///
    /// # Errors
    ///
    /// If a field cannot be packed.
    pub fn encode(
        &self,
        form: &PeerForm,
        framer: Option<&dyn RegexFramer>,
    ) -> Result<Vec<u8>, Error> {
        let command = self.command();
        let mut writer = Writer::new(form, framer);
        writer.one::<wire_type::Command>(&command.into())?;
        let written = self.write(&mut writer);
        written.map_err(|error| error.inside(&command.to_string()))?;
        Ok(writer.finish())
    }
}

fn command(reader: &mut Reader<'_>) -> Result<Command, Error> {
    let command = reader.one::<wire_type::Command>();
    command.map(Into::into).map_err(|e| e.inside("command"))
}
