// SPDX-License-Identifier: MIT OR Apache-2.0
//! The upcalls of the engine to its host: one structure for each function of `pmix_server_module_t`, and one for the
//! hardware of the node, which the driver answers.
//!
//! A function with a second form in a later release (`client_connected2`, `tool_connected2`, `log2`) has one structure.
//! `listener` has none, because the driver accepts connections.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_module_t`.

use bfrops::Decoder;
use pmix_types::{
    AllocDirective, App, DataRange, FabricOperation, GroupOperation, Info, IofChannel, Proc,
    ResourceBlockDirective, ResourceUnit, Status, Text,
};

use super::HostObject;
use super::pack::{self, Field};
use crate::Error;

macro_rules! upcalls {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq)]
            #[non_exhaustive]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            impl $name {
                /// Creates the upcall from its fields, in their order.
                #[must_use]
                pub const fn new($($field: $type),*) -> Self {
                    Self { $($field),* }
                }

                fn unpack_fields(decoder: &mut Decoder<'_>) -> Result<Self, bfrops::Error> {
                    // Struct fields are evaluated in the written order, which is the packed order.
                    Ok(Self { $($field: Field::unpack(decoder)?),* })
                }
            }

            impl From<$name> for Upcall {
                fn from(call: $name) -> Self {
                    Self::$name(call)
                }
            }
        )*

        /// An upcall: one variant for each function of `pmix_server_module_t`, and [`DeviceDistances`], which the
        /// driver of the engine answers.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Upcall {
            $($(#[$meta])* $name($name),)*
        }

        impl Upcall {
            /// Returns the name of the call, for logs.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }

            /// Packs the upcall for another process of the host.
            ///
            /// # Errors
            ///
            /// Returns `PMIX_ERR_BAD_PARAM` for values that cannot be packed.
            pub fn pack(&self) -> Result<Vec<u8>, Error> {
                match self {
                    $(Self::$name(call) => pack::pack(stringify!($name), |encoder| {
                        $(call.$field.pack(encoder)?;)*
                        Ok(())
                    }),)*
                }
            }

            /// Unpacks an upcall packed by [`pack`](Self::pack).
            ///
            /// # Errors
            ///
            /// Returns `PMIX_ERR_BAD_PARAM` for another version or name, and the status of the decoder for damaged
            /// bytes.
            pub fn unpack(bytes: &[u8]) -> Result<Self, Error> {
                pack::unpack(bytes, "an upcall", |name, decoder| {
                    $(if name == stringify!($name).as_bytes() {
                        return Some($name::unpack_fields(decoder).map(Self::$name));
                    })*
                    None
                })
            }
        }
    };
}

upcalls! {
    /// A client connected (`client_connected2`). The client does not wait for the reply; an error disconnects it.
    ClientConnected {
        /// The client.
        proc: Proc<'static>,
        /// The object that the host registered with the client.
        object: HostObject,
        /// Infos of the client about itself.
        infos: Vec<Info<'static>>,
    }

    /// A client finalizes (`client_finalized`). The client waits a short time for the reply.
    ClientFinalized {
        /// The client.
        proc: Proc<'static>,
        /// The object that the host registered with the client.
        object: HostObject,
        /// `false` if other programs of the process are connected ([`ClonePolicy::Accept`](crate::ClonePolicy)).
        is_last: bool,
    }

    /// A client requests the termination of processes (`abort`).
    Abort {
        /// The client.
        proc: Proc<'static>,
        /// The object that the host registered with the client.
        object: HostObject,
        /// The requested exit status.
        status: Status,
        /// The message of the client.
        message: Option<Text<'static>>,
        /// The processes to terminate; empty for the whole job of the client.
        targets: Vec<Proc<'static>>,
    }

    /// All local participants of a fence have called (`fence_nb`). [`Data`](super::HostReply::Data) returns the
    /// concatenated contributions of all servers, including this one, in any order.
    Fence {
        /// The participants, identical on all servers.
        procs: Vec<Proc<'static>>,
        /// The infos of the participants.
        infos: Vec<Info<'static>>,
        /// The opaque contribution of this server, which is not empty even if no data are collected.
        data: Vec<u8>,
    }

    /// A client requests data of a process on another node (`direct_modex`). [`Data`](super::HostReply::Data) returns the
    /// result of `dmodex_request` on the server of that node.
    DirectModex {
        /// The requesting process.
        proc: Proc<'static>,
        /// The requested key (`pmix.req.key`), and the infos of the client.
        infos: Vec<Info<'static>>,
    }

    /// A process publishes data (`publish`).
    Publish {
        /// The requesting process.
        proc: Proc<'static>,
        /// The data, with their range and persistence, and the verified user of the publisher.
        infos: Vec<Info<'static>>,
    }

    /// A process looks up published data (`lookup`): [`Found`](super::HostReply::Found).
    Lookup {
        /// The requesting process.
        proc: Proc<'static>,
        /// The keys.
        keys: Vec<Text<'static>>,
        /// The directives: the range, and whether to wait.
        infos: Vec<Info<'static>>,
    }

    /// A process removes published data (`unpublish`).
    Unpublish {
        /// The requesting process.
        proc: Proc<'static>,
        /// The keys; empty for all.
        keys: Vec<Text<'static>>,
        /// The directives: the range.
        infos: Vec<Info<'static>>,
    }

    /// A process requests the start of a job (`spawn`): [`Spawned`](super::HostReply::Spawned).
    Spawn {
        /// The requesting process.
        proc: Proc<'static>,
        /// The infos about the job.
        infos: Vec<Info<'static>>,
        /// The applications of the job.
        apps: Vec<App<'static>>,
    }

    /// All local participants of a connect have called (`connect`), or it failed on this node.
    Connect {
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The infos of the participants.
        infos: Vec<Info<'static>>,
        /// The status of a failure on this node. The local participants have received it, and the host should send it
        /// to those of other nodes. The reply is ignored then.
        failed: Option<Status>,
    }

    /// All local participants of a disconnect have called (`disconnect`), or it failed on this node.
    Disconnect {
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The infos of the participants.
        infos: Vec<Info<'static>>,
        /// The status of a failure, as in [`Connect`].
        failed: Option<Status>,
    }

    /// A peer registered for events that only the host can report (`register_events`).
    RegisterEvents {
        /// The codes; empty for all.
        codes: Vec<Status>,
        /// The infos of the registration.
        infos: Vec<Info<'static>>,
    }

    /// The last registration for some events was removed (`deregister_events`).
    DeregisterEvents {
        /// The codes; empty for all.
        codes: Vec<Status>,
    }

    /// A process reports an event whose range extends beyond this server (`notify_event`).
    NotifyEvent {
        /// The event.
        status: Status,
        /// The reporting process.
        source: Proc<'static>,
        /// The range of the event.
        range: DataRange,
        /// The infos of the event.
        infos: Vec<Info<'static>>,
    }

    /// A process requests information that this server does not have (`query`): [`Infos`](super::HostReply::Infos).
    Query {
        /// The requesting process.
        proc: Proc<'static>,
        /// The queries.
        queries: Vec<pmix_types::Query<'static>>,
    }

    /// A tool connected (`tool_connected2`): [`Tool`](super::HostReply::Tool).
    ToolConnected {
        /// Infos of the tool about itself: its user and group, its current or requested name.
        infos: Vec<Info<'static>>,
    }

    /// A process has data to log (`log2`).
    Log {
        /// The requesting process.
        proc: Proc<'static>,
        /// The data to log; the keys name the channels.
        data: Vec<Info<'static>>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process requests a change of an allocation (`allocate`): [`Infos`](super::HostReply::Infos).
    Alloc {
        /// The requesting process.
        proc: Proc<'static>,
        /// The change of the allocation.
        directive: AllocDirective,
        /// The description of the resources.
        infos: Vec<Info<'static>>,
    }

    /// A process requests control of processes (`job_control`): [`Infos`](super::HostReply::Infos).
    JobControl {
        /// The requesting process.
        proc: Proc<'static>,
        /// The processes to control; empty for its own job.
        targets: Vec<Proc<'static>>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process requests monitoring (`monitor`): [`Infos`](super::HostReply::Infos).
    Monitor {
        /// The requesting process.
        proc: Proc<'static>,
        /// The monitor: a heartbeat or a file.
        monitor: Info<'static>,
        /// The code of the event to raise when the monitor expires.
        error: Status,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process requests a credential (`get_credential`): [`Credential`](super::HostReply::Credential).
    GetCredential {
        /// The requesting process.
        proc: Proc<'static>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process requests the validation of a credential (`validate_credential`): [`Infos`](super::HostReply::Infos).
    ValidateCredential {
        /// The requesting process.
        proc: Proc<'static>,
        /// The credential.
        credential: Vec<u8>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A peer starts or stops a pull of output (`iof_pull`).
    IofPull {
        /// The processes.
        procs: Vec<Proc<'static>>,
        /// The directives; `pmix.iof.stop` ends the pull.
        directives: Vec<Info<'static>>,
        /// The streams.
        channels: IofChannel,
    }

    /// A peer sends input to processes (`push_stdin`).
    PushStdin {
        /// The sending process.
        source: Proc<'static>,
        /// The receiving processes.
        targets: Vec<Proc<'static>>,
        /// The directives.
        directives: Vec<Info<'static>>,
        /// The input; empty input ends the stream.
        data: Vec<u8>,
    }

    /// All local members of a group have called its construct or destruct, or that failed here (`group`):
    /// [`Infos`](super::HostReply::Infos). The reply to a construct has infos, each merged from all servers: the context
    /// id (`pmix.grp.ctxid`) if one is requested, the ordered members (`pmix.grp.mbrs`), their shared infos
    /// (`pmix.grp.info`), and the termination notification (`pmix.grp.notterm`) if any server requests it.
    ///
    /// A destruct names all members of the construct, including those lost or departed since. A server without
    /// remaining local members makes this call itself, without a time limit: it joins the calls of the other servers.
    /// The host may drop it when those servers have deregistered the jobs of their members.
    Group {
        /// The operation.
        operation: GroupOperation,
        /// The name of the group.
        id: Text<'static>,
        /// The members, identical on all servers.
        procs: Vec<Proc<'static>>,
        /// The directives of the members. A construct has the ordered members without dropped local ones
        /// (`pmix.grp.mbrs`), and an info for each member with shared infos, which begins with its name
        /// (`pmix.grp.info`). `pmix.loc.col.st` is the status of a failure here: the local members have received it,
        /// and the host should send it to those of other nodes.
        directives: Vec<Info<'static>>,
    }

    /// A process requests the description of a fabric (`fabric`): [`Infos`](super::HostReply::Infos).
    Fabric {
        /// The requesting process.
        proc: Proc<'static>,
        /// The requested operation.
        operation: FabricOperation,
        /// The infos that name the fabric.
        directives: Vec<Info<'static>>,
    }

    /// A process requests control of a session (`session_control`): [`Infos`](super::HostReply::Infos).
    SessionControl {
        /// The requesting process.
        proc: Proc<'static>,
        /// The session.
        session: u32,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process defines or changes a block of resources (`resource_block`).
    ResourceBlock {
        /// The requesting process.
        proc: Proc<'static>,
        /// The operation.
        directive: ResourceBlockDirective,
        /// The name of the block.
        block: Text<'static>,
        /// The resources of the block.
        units: Vec<ResourceUnit>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process requests the distances of devices of this node from some CPUs (`PMIx_Compute_distances`):
    /// [`Distances`](super::HostReply::Distances). The host has no function for it; the driver of the engine has access to
    /// the hardware and replies.
    DeviceDistances {
        /// The requesting process.
        proc: Proc<'static>,
        /// The CPUs as a list such as `0,2-3`: those in the request, or else those to which the host bound the process.
        /// `None` for all of the node.
        cpus: Option<Text<'static>>,
        /// The selected devices: `PMIX_DEVICE_TYPE` and `PMIX_DEVICE_ID`; all devices without either.
        infos: Vec<Info<'static>>,
    }
}
