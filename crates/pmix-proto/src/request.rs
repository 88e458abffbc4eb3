// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: a pack call with the command, then the fields of the command.
//!
//! The type of a request lists its fields in packed order, each with its pack calls. `One` is a
//! call with one datum. `Many` is a call of `PMIX_SIZE` and, if the size is not 0, one call with
//! that number of data. `Each` is a size and that number of calls with one datum. `EachToEnd` is
//! calls with one datum up to the end. `Tail` is bytes that are passed on unparsed. Layouts are
//! those of 4.2, unless a field states the release that added it. Frozen: append only.
//!
//! Source: OpenPMIx; `docs/protocol.md` lists every request.

mod data;
mod events;
mod resources;

use bfrops::RegexFramer;

use crate::codec::{Part, Reader, Shape, Writer};
use crate::{Command, Error, ListLimits, PeerForm, wire_type};

pub use data::{Commit, Fence, Get, Lookup, Publish, RefreshCache, Unpublish};
pub use events::{
    DeregisterEvents, GroupConstruct, GroupDestruct, GroupInvite, GroupJoin, GroupLeave,
    IofDeregister, IofPull, IofPush, Log, Monitor, Notify, RegisterEvents,
};
pub use resources::{
    Abort, Allocate, Connect, DeviceDistances, Disconnect, FabricRegister, FabricUpdate,
    GdsFallback, GetCredential, JobControl, Query, ResolveNodes, ResolvePeers, ResourceBlock,
    SessionControl, Spawn, ValidateCredential,
};

/// The directive of a [`Get`] that requests data of the next processes of the job as well, up to a
/// number of bytes (`PMIX_UINT32`). Clients and servers of this project use it. Other servers
/// ignore the directive.
pub const PREFETCH: &str = "pmixrs.get.prefetch";

/// The environment variable with which a server of this project announces support for [`PREFETCH`].
/// Its value is the name of the server, as in the server's address. A client compares the name: the
/// process may have inherited the variable through a server of another implementation.
pub const PREFETCH_VARIABLE: &str = "PMIXRS_PREFETCH_SERVER";

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
            /// A command whose fields are unknown. The reply is `PMIX_ERR_NOT_SUPPORTED`.
            Unknown(Command),
        }

        impl<'a> Request<'a> {
            /// Returns the command of the request.
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

            /// Returns the outline of the fields after the command, or `None` for an unknown
            /// command.
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
        /// Requests the job info of the client's own job (`PMIx_Init`). The reply is
        /// [`JobInfo`](crate::reply::JobInfo).
        JobInfo = REQ;
        /// Announces that the process will disconnect (`PMIx_Finalize`).
        Finalize = FINALIZE;
        /// Requests information about the system that belongs to no job. Since 6.0.
        SystemInfo = REQ_SYSINFO;
    }
    /// Requests that the host abort processes (`PMIx_Abort`).
    Abort(Abort<'a>) = ABORT;
    /// Sends the server the data that the process has put (`PMIx_Commit`).
    Commit(Commit<'a>) = COMMIT;
    /// Joins a fence (`PMIx_Fence`). The reply is sent when all participants have called.
    Fence(Fence<'a>) = FENCENB;
    /// Requests a value that a process put, or job info (`PMIx_Get`).
    Get(Get<'a>) = GETNB;
    /// Publishes data (`PMIx_Publish`).
    Publish(Publish<'a>) = PUBLISH;
    /// Requests published data by keys (`PMIx_Lookup`).
    Lookup(Lookup<'a>) = LOOKUP;
    /// Withdraws published data (`PMIx_Unpublish`).
    Unpublish(Unpublish<'a>) = UNPUBLISH;
    /// Requests that the host start a job (`PMIx_Spawn`).
    Spawn(Spawn<'a>) = SPAWN;
    /// Joins a connect, after which the participants are treated as one job (`PMIx_Connect`).
    Connect(Connect<'a>) = CONNECT;
    /// Joins a disconnect, which ends a connect (`PMIx_Disconnect`).
    Disconnect(Disconnect<'a>) = DISCONNECT;
    /// Generates an event (`PMIx_Notify_event`).
    Notify(Notify<'a>) = NOTIFY;
    /// Registers the peer for events (`PMIx_Register_event_handler`).
    RegisterEvents(RegisterEvents<'a>) = REGEVENTS;
    /// Deregisters the peer from events (`PMIx_Deregister_event_handler`). This is the only request
    /// without a reply.
    DeregisterEvents(DeregisterEvents) = DEREGEVENTS;
    /// Requests information about the system (`PMIx_Query_info`).
    Query(Query<'a>) = QUERY;
    /// Requests that the host log data (`PMIx_Log`).
    Log(Log<'a>) = LOG;
    /// Requests a change of an allocation (`PMIx_Allocation_request`).
    Allocate(Allocate<'a>) = ALLOC;
    /// Requests control of processes, such as a signal or a cleanup (`PMIx_Job_control`).
    JobControl(JobControl<'a>) = JOB_CONTROL;
    /// Requests monitoring of the process (`PMIx_Process_monitor`).
    Monitor(Monitor<'a>) = MONITOR;
    /// Requests a credential from the host (`PMIx_Get_credential`).
    GetCredential(GetCredential<'a>) = GET_CREDENTIAL;
    /// Requests that the host validate a credential (`PMIx_Validate_credential`).
    ValidateCredential(ValidateCredential<'a>) = VALIDATE_CRED;
    /// Requests the output of processes (`PMIx_IOF_pull`).
    IofPull(IofPull<'a>) = IOF_PULL;
    /// Sends input to processes (`PMIx_IOF_push`).
    IofPush(IofPush<'a>) = IOF_PUSH;
    /// Ends a pull of output (`PMIx_IOF_deregister`).
    IofDeregister(IofDeregister<'a>) = IOF_DEREG;
    /// Joins the construction of a group (`PMIx_Group_construct`).
    GroupConstruct(GroupConstruct<'a>) = GROUP_CONSTRUCT;
    /// Answers an invitation to a group (`PMIx_Group_join`). Since 7.0.
    GroupJoin(GroupJoin<'a>) = GROUP_JOIN;
    /// Invites processes to a group (`PMIx_Group_invite`). Since 7.0.
    GroupInvite(GroupInvite<'a>) = GROUP_INVITE;
    /// Leaves a group (`PMIx_Group_leave`).
    GroupLeave(GroupLeave<'a>) = GROUP_LEAVE;
    /// Joins the destruction of a group (`PMIx_Group_destruct`).
    GroupDestruct(GroupDestruct<'a>) = GROUP_DESTRUCT;
    /// Requests a description of the fabric (`PMIx_Fabric_register`).
    FabricRegister(FabricRegister<'a>) = FABRIC_REGISTER;
    /// Requests the current description of a fabric (`PMIx_Fabric_update`).
    FabricUpdate(FabricUpdate) = FABRIC_UPDATE;
    /// Requests the distances of devices from a cpuset (`PMIx_Compute_distances`).
    DeviceDistances(DeviceDistances<'a>) = DEVICE_DISTANCES;
    /// Requests all data that a process has put, regardless of caches. Since 5.0.
    RefreshCache(RefreshCache<'a>) = REFRESH_CACHE;
    /// Defines or changes a block of resources (`PMIx_Resource_block`). Since 6.0.
    ResourceBlock(ResourceBlock<'a>) = RESBLK;
    /// Requests control of a session (`PMIx_Session_control`). Since 6.0.
    SessionControl(SessionControl<'a>) = SESSION_CTRL;
    /// Requests the processes of a job on a node (`PMIx_Resolve_peers`). Since 5.0.
    ResolvePeers(ResolvePeers<'a>) = RESOLVE_PEERS;
    /// Requests the nodes of a job (`PMIx_Resolve_nodes`). Since 5.0.
    ResolveNodes(ResolveNodes<'a>) = RESOLVE_NODE;
    /// Requests the job info in the form of another datastore. Since 7.0.
    GdsFallback(GdsFallback<'a>) = GDS_FALLBACK;
}

/// A parsed request, and what its payload takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<'a> {
    /// The request.
    pub request: Request<'a>,
    /// The bytes of memory that the request takes in addition to the payload.
    pub memory: usize,
    /// The bytes after the known fields, which a [newer](PeerForm::is_newer) peer appended.
    pub num_ignored: usize,
}

impl<'a> Request<'a> {
    /// Parses the payload of a request. Bytes after the known fields are an error, unless the peer
    /// is [newer](PeerForm::is_newer).
    ///
    /// # Errors
    ///
    /// The cause, the field and the offset. The connection remains usable: the server replies with
    /// the status of the error, if the [command](Self::command_of) has a reply.
    pub fn decode(
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
        payload: &'a [u8],
    ) -> Result<Self, Error> {
        let decoded = Self::decode_measured(form, framer, payload, ListLimits::NONE)?;
        Ok(decoded.request)
    }

    /// Parses the payload of a request, and measures it. The memory is at most the length of the
    /// payload plus 16 MiB.
    ///
    /// # Errors
    ///
    /// As for [`decode`](Self::decode); `PMIX_ERR_OUT_OF_RESOURCE` for a request that would take
    /// more, or whose lists exceed the limits.
    pub fn decode_measured(
        form: &PeerForm,
        framer: Option<&'a dyn RegexFramer>,
        payload: &'a [u8],
        limits: ListLimits,
    ) -> Result<Decoded<'a>, Error> {
        let mut reader = Reader::new(form, framer, payload).of_request(limits);
        let command = command(&mut reader)?;
        let name = || command.to_string();
        let request = Self::read(command, &mut reader).map_err(|e| e.inside(&name()))?;
        let num_ignored = match request {
            Request::Unknown(_) => 0,
            _ => reader.finish_request().map_err(|e| e.inside(&name()))?,
        };
        Ok(Decoded {
            memory: reader.memory_taken(),
            request,
            num_ignored,
        })
    }

    /// Returns the command of a payload, even if its other fields are malformed. Returns `None` if
    /// the payload is too short.
    #[must_use]
    pub fn command_of(form: &PeerForm, payload: &[u8]) -> Option<Command> {
        command(&mut Reader::new(form, None, payload)).ok()
    }

    /// Packs the payload of the request in the form that the server expects.
    ///
    /// # Errors
    ///
    /// A field cannot be packed.
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
