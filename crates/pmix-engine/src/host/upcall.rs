// SPDX-License-Identifier: MIT OR Apache-2.0
//! The upcalls of the engine to its host: one structure for each slot of `pmix_server_module_t`, and one for the
//! hardware of the node, which the driver knows.
//!
//! A slot with a second form in a later release (`client_connected2`, `tool_connected2`, `log2`) has one structure. The
//! slot `listener` has none: the driver accepts connections.
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
                    // The fields are unpacked in the order in which they are written here.
                    Ok(Self { $($field: Field::unpack(decoder)?),* })
                }
            }

            impl From<$name> for Upcall {
                fn from(call: $name) -> Self {
                    Self::$name(call)
                }
            }
        )*

        /// An upcall: one variant for each slot of `pmix_server_module_t`, and [`DeviceDistances`], which the driver of
        /// the engine answers.
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

            /// Packs the upcall, for another process of the host.
            ///
            /// # Errors
            ///
            /// `PMIX_ERR_BAD_PARAM` for values that cannot be packed.
            pub fn pack(&self) -> Result<Vec<u8>, Error> {
                match self {
                    $(Self::$name(call) => pack::pack(stringify!($name), |encoder| {
                        $(call.$field.pack(encoder)?;)*
                        Ok(())
                    }),)*
                }
            }

            /// Unpacks an upcall that [`pack`](Self::pack) has packed.
            ///
            /// # Errors
            ///
            /// `PMIX_ERR_BAD_PARAM` for another version or name, and a status of unpacking for damaged bytes.
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
    /// A client connected (`client_connected2`). The client goes on without waiting for the answer;
    /// an error ends the connection.
    ClientConnected {
        /// The client.
        proc: Proc<'static>,
        /// The object that the host registered with it.
        object: HostObject,
        /// Infos of the client about itself.
        infos: Vec<Info<'static>>,
    }

    /// A client finalizes (`client_finalized`). The client waits a short time for the answer.
    ClientFinalized {
        /// The client.
        proc: Proc<'static>,
        /// The object that the host registered with it.
        object: HostObject,
    }

    /// A client asks the host to end processes (`abort`).
    Abort {
        /// The client.
        proc: Proc<'static>,
        /// The object that the host registered with it.
        object: HostObject,
        /// The exit code that it wants the job to have.
        status: Status,
        /// The message of the client.
        message: Option<Text<'static>>,
        /// The processes to end; none is the whole job of the client.
        targets: Vec<Proc<'static>>,
    }

    /// All local participants of a fence have arrived (`fence_nb`). [`Data`](super::Answer::Data)
    /// is the contributions of all servers, this one included, one behind the other in any order.
    Fence {
        /// The participants; all servers name them in the same way.
        procs: Vec<Proc<'static>>,
        /// The infos of the participants.
        infos: Vec<Info<'static>>,
        /// The contribution of this server; opaque, and not empty even where no data are collected.
        data: Vec<u8>,
    }

    /// A client asks for data of a process on another node (`direct_modex`).
    /// [`Data`](super::Answer::Data) is what `dmodex_request` returns on the server of that node.
    DirectModex {
        /// The process.
        proc: Proc<'static>,
        /// The key that is wanted (`pmix.req.key`), and the infos of the client.
        infos: Vec<Info<'static>>,
    }

    /// A process publishes data (`publish`).
    Publish {
        /// The process.
        proc: Proc<'static>,
        /// The data, with range, persistence and the publisher's user among them.
        infos: Vec<Info<'static>>,
    }

    /// A process looks up published data (`lookup`): [`Found`](super::Answer::Found).
    Lookup {
        /// The process.
        proc: Proc<'static>,
        /// The keys.
        keys: Vec<Text<'static>>,
        /// The directives: the range, and whether to wait.
        infos: Vec<Info<'static>>,
    }

    /// A process withdraws what it published (`unpublish`).
    Unpublish {
        /// The process.
        proc: Proc<'static>,
        /// The keys; none is all of them.
        keys: Vec<Text<'static>>,
        /// The directives: the range.
        infos: Vec<Info<'static>>,
    }

    /// A process asks the host to start a job (`spawn`): [`Spawned`](super::Answer::Spawned).
    Spawn {
        /// The process.
        proc: Proc<'static>,
        /// The infos about the job.
        infos: Vec<Info<'static>>,
        /// Its applications.
        apps: Vec<App<'static>>,
    }

    /// All local participants of a connect have arrived (`connect`), or it failed on this node.
    Connect {
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The infos of the participants.
        infos: Vec<Info<'static>>,
        /// The status with which it failed here, if it did. The local participants have been told;
        /// the host is to tell those of other nodes the same. Nothing waits for the answer then.
        failed: Option<Status>,
    }

    /// All local participants of a disconnect have arrived (`disconnect`), or it failed on this
    /// node.
    Disconnect {
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The infos of the participants.
        infos: Vec<Info<'static>>,
        /// As of a [`Connect`].
        failed: Option<Status>,
    }

    /// A peer registered for events that only the host can report (`register_events`).
    RegisterEvents {
        /// The codes; none is all.
        codes: Vec<Status>,
        /// The infos of the registration.
        infos: Vec<Info<'static>>,
    }

    /// No peer is registered for some events any longer (`deregister_events`).
    DeregisterEvents {
        /// The codes; none is all.
        codes: Vec<Status>,
    }

    /// A process reports an event whose range reaches beyond this server (`notify_event`).
    NotifyEvent {
        /// The event.
        status: Status,
        /// The process that reports it.
        source: Proc<'static>,
        /// The range of the event.
        range: DataRange,
        /// The infos of the event.
        infos: Vec<Info<'static>>,
    }

    /// A process asks for information that this server does not have (`query`):
    /// [`Infos`](super::Answer::Infos).
    Query {
        /// The process.
        proc: Proc<'static>,
        /// The queries.
        queries: Vec<pmix_types::Query<'static>>,
    }

    /// A tool connected (`tool_connected2`): [`Tool`](super::Answer::Tool).
    ToolConnected {
        /// Infos of the tool about itself: its user and group, the name it has or wants.
        infos: Vec<Info<'static>>,
    }

    /// A process has data to log (`log2`).
    Log {
        /// The process.
        proc: Proc<'static>,
        /// The data to log; the keys name the channels.
        data: Vec<Info<'static>>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process asks for a change of an allocation (`allocate`): [`Infos`](super::Answer::Infos).
    Alloc {
        /// The process.
        proc: Proc<'static>,
        /// The change of the allocation.
        directive: AllocDirective,
        /// The description of the resources.
        infos: Vec<Info<'static>>,
    }

    /// A process asks for control of processes (`job_control`): [`Infos`](super::Answer::Infos).
    JobControl {
        /// The process.
        proc: Proc<'static>,
        /// The processes to control; none is its own job.
        targets: Vec<Proc<'static>>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process asks for monitoring (`monitor`): [`Infos`](super::Answer::Infos).
    Monitor {
        /// The process.
        proc: Proc<'static>,
        /// The monitor: a heartbeat or a file.
        monitor: Info<'static>,
        /// The code of the event that reports a missing sign of life.
        error: Status,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process asks for a credential (`get_credential`):
    /// [`Credential`](super::Answer::Credential).
    GetCredential {
        /// The process.
        proc: Proc<'static>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process asks whether a credential is valid (`validate_credential`):
    /// [`Infos`](super::Answer::Infos).
    ValidateCredential {
        /// The process.
        proc: Proc<'static>,
        /// The credential.
        credential: Vec<u8>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A peer pulls output of processes, or no longer does (`iof_pull`).
    IofPull {
        /// The processes.
        procs: Vec<Proc<'static>>,
        /// The directives; with `pmix.iof.stop` the pull ends.
        directives: Vec<Info<'static>>,
        /// The streams.
        channels: IofChannel,
    }

    /// A peer sends input to processes (`push_stdin`).
    PushStdin {
        /// The process that sends it.
        source: Proc<'static>,
        /// The processes that it is for.
        targets: Vec<Proc<'static>>,
        /// The directives.
        directives: Vec<Info<'static>>,
        /// The input; empty input ends the stream.
        data: Vec<u8>,
    }

    /// All local members of a group have called to construct or destruct it, or that failed here
    /// (`group`): [`Infos`](super::Answer::Infos), for a construction the context id
    /// (`pmix.grp.ctxid`) if one is asked for, the members in their order (`pmix.grp.mbrs`), what
    /// they share (`pmix.grp.info`), each as the servers said it together, and whether the members
    /// are told of those that are lost (`pmix.grp.notterm`), if any server says so.
    ///
    /// A destruct is for all members with which the group was constructed, also those that are lost
    /// or have left it. A server calls by itself, without a time, when none of its members is there any
    /// longer: that call waits for those of the other servers, and may be given up when they have
    /// deregistered the jobs of the other members.
    Group {
        /// The operation.
        operation: GroupOperation,
        /// Its name.
        id: Text<'static>,
        /// Its members; all servers name them in the same way.
        procs: Vec<Proc<'static>>,
        /// The directives of the members; for a construction their order, without local ones that
        /// are done without (`pmix.grp.mbrs`), and an info for each that shares something, which
        /// begins with its name (`pmix.grp.info`). With `pmix.loc.col.st` it failed here with that
        /// status: the local members have been told, and those of other nodes are to be told.
        directives: Vec<Info<'static>>,
    }

    /// A process asks for a description of a fabric (`fabric`): [`Infos`](super::Answer::Infos).
    Fabric {
        /// The process.
        proc: Proc<'static>,
        /// What it asks.
        operation: FabricOperation,
        /// The infos that name the fabric.
        directives: Vec<Info<'static>>,
    }

    /// A process asks for control of a session (`session_control`):
    /// [`Infos`](super::Answer::Infos).
    SessionControl {
        /// The process.
        proc: Proc<'static>,
        /// The session.
        session: u32,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process defines or changes a block of resources (`resource_block`).
    ResourceBlock {
        /// The process.
        proc: Proc<'static>,
        /// The operation.
        directive: ResourceBlockDirective,
        /// Its name.
        block: Text<'static>,
        /// The resources it consists of.
        units: Vec<ResourceUnit>,
        /// The directives.
        directives: Vec<Info<'static>>,
    }

    /// A process asks how far devices of this node are from some of its processors
    /// (`PMIx_Compute_distances`): [`Distances`](super::Answer::Distances). No slot is for it: the
    /// driver of the engine answers it, which sees the hardware.
    DeviceDistances {
        /// The process.
        proc: Proc<'static>,
        /// The processors, as a list such as `0,2-3`: those that it names, otherwise those to which the
        /// host said that it is bound; none is all of the node.
        cpus: Option<Text<'static>>,
        /// Which devices: `PMIX_DEVICE_TYPE` and `PMIX_DEVICE_ID`; all if neither is there.
        infos: Vec<Info<'static>>,
    }
}
