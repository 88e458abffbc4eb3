// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine asks of its host: one structure for each slot of `pmix_server_module_t`.
//!
//! Slots of which a later release has a second form (`client_connected2`, `tool_connected2`,
//! `log2`) stand here once. The slot `listener` is not here: connections come from the driver.

use pmix_types::{
    AllocDirective, App, DataRange, FabricOperation, GroupOperation, Info, IofChannel, Proc,
    ResourceBlockDirective, ResourceUnit, Status, Text,
};

use super::HostObject;

macro_rules! upcalls {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            impl From<$name> for Upcall {
                fn from(call: $name) -> Self {
                    Self::$name(call)
                }
            }
        )*

        /// What the engine asks of its host.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Upcall {
            $($(#[$meta])* $name($name),)*
        }

        impl Upcall {
            /// The name of the call, for logs.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }
        }
    };
}

upcalls! {
    /// A client connected (`client_connected2`). The client goes on without waiting for the
    /// answer; an error ends the connection.
    ClientConnected {
        /// The client.
        proc: Proc<'static>,
        /// What the host calls it.
        object: HostObject,
        /// What the client said about itself.
        infos: Vec<Info<'static>>,
    }

    /// A client finalised (`client_finalized`). The client waits for the answer for a short time.
    ClientFinalized {
        /// The client.
        proc: Proc<'static>,
        /// What the host calls it.
        object: HostObject,
    }

    /// A client asks that processes be aborted (`abort`).
    Abort {
        /// The client.
        proc: Proc<'static>,
        /// What the host calls it.
        object: HostObject,
        /// The exit code that it wants the job to have.
        status: Status,
        /// Why.
        message: Option<Text<'static>>,
        /// Which processes; none is the whole job of the client.
        targets: Vec<Proc<'static>>,
    }

    /// All local participants of a fence are there (`fence_nb`): [`Data`](super::Answer::Data)
    /// is what all servers contributed, one behind the other in any order, this one included.
    Fence {
        /// The participants; all servers name them in the same way.
        procs: Vec<Proc<'static>>,
        /// What the participants said about the fence.
        infos: Vec<Info<'static>>,
        /// What this server contributes; opaque, and not empty even where no data are collected.
        data: Vec<u8>,
    }

    /// The data of a process of another node are wanted (`direct_modex`):
    /// [`Data`](super::Answer::Data) is what `dmodex_request` brings on the server there.
    DirectModex {
        /// The process.
        proc: Proc<'static>,
        /// Which key is wanted (`pmix.req.key`), and what else the client said.
        infos: Vec<Info<'static>>,
    }

    /// A process publishes data (`publish`).
    Publish {
        /// The process.
        proc: Proc<'static>,
        /// The data, with range, persistence and the publisher's user among them.
        infos: Vec<Info<'static>>,
    }

    /// A process looks published data up (`lookup`): [`Found`](super::Answer::Found).
    Lookup {
        /// The process.
        proc: Proc<'static>,
        /// What it looks for.
        keys: Vec<Text<'static>>,
        /// Where, and whether it waits for it.
        infos: Vec<Info<'static>>,
    }

    /// A process takes back what it published (`unpublish`).
    Unpublish {
        /// The process.
        proc: Proc<'static>,
        /// Which keys; none is all of them.
        keys: Vec<Text<'static>>,
        /// Where.
        infos: Vec<Info<'static>>,
    }

    /// A process starts a job (`spawn`): [`Spawned`](super::Answer::Spawned).
    Spawn {
        /// The process.
        proc: Proc<'static>,
        /// What is said about the job.
        infos: Vec<Info<'static>>,
        /// Its applications.
        apps: Vec<App<'static>>,
    }

    /// All local participants of a connect are there (`connect`), or it failed on this node.
    Connect {
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// What they said about it.
        infos: Vec<Info<'static>>,
        /// How it failed here, if it did: the participants of this node have been told, and those
        /// of other nodes are to be told the same. Nobody waits for the answer then.
        failed: Option<Status>,
    }

    /// All local participants of a disconnect are there (`disconnect`), or it failed on this node.
    Disconnect {
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// What they said about it.
        infos: Vec<Info<'static>>,
        /// As of a [`Connect`].
        failed: Option<Status>,
    }

    /// Someone here wants to know of events (`register_events`).
    RegisterEvents {
        /// Which ones; none is all.
        codes: Vec<Status>,
        /// What was said about it.
        infos: Vec<Info<'static>>,
    }

    /// Nobody here wants to know of events any longer (`deregister_events`).
    DeregisterEvents {
        /// Which ones; none is all.
        codes: Vec<Status>,
    }

    /// A process reports an event that reaches beyond this server (`notify_event`).
    NotifyEvent {
        /// The event.
        status: Status,
        /// Who reports it.
        source: Proc<'static>,
        /// Who is to know.
        range: DataRange,
        /// More about it.
        infos: Vec<Info<'static>>,
    }

    /// A process asks what this server does not know (`query`): [`Infos`](super::Answer::Infos).
    Query {
        /// The process.
        proc: Proc<'static>,
        /// What it asks.
        queries: Vec<pmix_types::Query<'static>>,
    }

    /// A tool connected (`tool_connected2`): [`Tool`](super::Answer::Tool).
    ToolConnected {
        /// What the tool said about itself: its user and group, the name it has or wants.
        infos: Vec<Info<'static>>,
    }

    /// A process has something to log (`log2`).
    Log {
        /// The process.
        proc: Proc<'static>,
        /// What to log.
        data: Vec<Info<'static>>,
        /// How.
        directives: Vec<Info<'static>>,
    }

    /// A process asks for resources (`allocate`): [`Infos`](super::Answer::Infos).
    Alloc {
        /// The process.
        proc: Proc<'static>,
        /// What is to be done with the allocation.
        directive: AllocDirective,
        /// What the resources are.
        infos: Vec<Info<'static>>,
    }

    /// A process controls others (`job_control`): [`Infos`](super::Answer::Infos).
    JobControl {
        /// The process.
        proc: Proc<'static>,
        /// Whom it controls; none is its own job.
        targets: Vec<Proc<'static>>,
        /// What is to happen.
        directives: Vec<Info<'static>>,
    }

    /// A process wants something watched (`monitor`): [`Infos`](super::Answer::Infos).
    Monitor {
        /// The process.
        proc: Proc<'static>,
        /// What to watch.
        monitor: Info<'static>,
        /// The event to report if it goes wrong.
        error: Status,
        /// How.
        directives: Vec<Info<'static>>,
    }

    /// A process wants a credential (`get_credential`):
    /// [`Credential`](super::Answer::Credential).
    GetCredential {
        /// The process.
        proc: Proc<'static>,
        /// What for.
        directives: Vec<Info<'static>>,
    }

    /// A process has a credential to be checked (`validate_credential`):
    /// [`Infos`](super::Answer::Infos).
    ValidateCredential {
        /// The process.
        proc: Proc<'static>,
        /// The credential.
        credential: Vec<u8>,
        /// How.
        directives: Vec<Info<'static>>,
    }

    /// Someone here wants the output of processes (`iof_pull`), or no longer.
    IofPull {
        /// The processes.
        procs: Vec<Proc<'static>>,
        /// How; with `pmix.iof.stop` it ends.
        directives: Vec<Info<'static>>,
        /// Which streams.
        channels: IofChannel,
    }

    /// Input for processes (`push_stdin`).
    PushStdin {
        /// Who sends it.
        source: Proc<'static>,
        /// Whom it is for.
        targets: Vec<Proc<'static>>,
        /// How.
        directives: Vec<Info<'static>>,
        /// The input; none is its end.
        data: Vec<u8>,
    }

    /// A group is built or taken apart (`group`): [`Infos`](super::Answer::Infos).
    Group {
        /// What happens to it.
        operation: GroupOperation,
        /// Its name.
        id: Text<'static>,
        /// Its members.
        procs: Vec<Proc<'static>>,
        /// How.
        directives: Vec<Info<'static>>,
    }

    /// A process asks about a fabric (`fabric`): [`Infos`](super::Answer::Infos).
    Fabric {
        /// The process.
        proc: Proc<'static>,
        /// What it asks.
        operation: FabricOperation,
        /// Of which fabric.
        directives: Vec<Info<'static>>,
    }

    /// A process controls a session (`session_control`): [`Infos`](super::Answer::Infos).
    SessionControl {
        /// The process.
        proc: Proc<'static>,
        /// The session.
        session: u32,
        /// What is to happen.
        directives: Vec<Info<'static>>,
    }

    /// A process handles a block of resources (`resource_block`).
    ResourceBlock {
        /// The process.
        proc: Proc<'static>,
        /// What is to happen to it.
        directive: ResourceBlockDirective,
        /// Its name.
        block: Text<'static>,
        /// What it consists of.
        units: Vec<ResourceUnit>,
        /// How.
        directives: Vec<Info<'static>>,
    }
}
