// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server asks of its host.

mod completion;
mod dispatch;
mod gateway;

use pmix_engine::host::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DirectModex,
    Disconnect, Fabric, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup, Monitor,
    NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl, Spawn,
    ToolConnected, Unpublish, ValidateCredential,
};
use pmix_types::{Info, Nspace, Pdata, Proc, Status};

pub use completion::{Completion, Credential, Reply};
pub(crate) use dispatch::{call, guarded, server_event};

macro_rules! host {
    ($($(#[$doc:meta])* $name:ident($call:ident) -> $answer:ty;)*) => {
        /// What a server asks of its host, for example a resource manager: one method for each slot of
        /// `pmix_server_module_t` (PMIx Standard, chapter "Server", "Server function pointers").
        ///
        /// Each method gets the request and a [`Completion`] to answer it with, at once or later,
        /// from any thread. A method that is left out answers "not supported". Methods are called
        /// on the progress thread, or by the caller of [`Server::drive`](crate::Server::drive), one
        /// at a time and with no lock held: they may call the server. One that takes long holds up
        /// everybody; it should hand the completion to another thread. One that panics has failed
        /// that one request.
        pub trait Host: Send + Sync {
            $(
                $(#[$doc])*
                fn $name(&self, call: $call, done: Completion<$answer>) {
                    let _ = call;
                    done.not_supported();
                }
            )*

            /// Something happened that the host may want to know; nobody waits for it.
            fn server_event(&self, event: ServerEvent) {
                let _ = event;
            }
        }
    };
}

host! {
    /// A client connected (`client_connected2`). The client goes on without waiting for the
    /// answer; an error ends the connection.
    client_connected(ClientConnected) -> ();

    /// A client finalised (`client_finalized`). The client waits for the answer for a short time.
    client_finalized(ClientFinalized) -> ();

    /// A client asks that processes be aborted (`abort`).
    abort(Abort) -> ();

    /// All local participants of a fence are there, and others are not local (`fence_nb`). The
    /// answer is what all servers contributed, one behind the other in any order, this one included.
    fence(Fence) -> Vec<u8>;

    /// The data of a process of another node are wanted (`direct_modex`). The answer is what
    /// [`dmodex_request`](crate::Server::dmodex_request) brings on the server there.
    direct_modex(DirectModex) -> Vec<u8>;

    /// A process publishes data (`publish`).
    publish(Publish) -> ();

    /// A process looks published data up (`lookup`).
    lookup(Lookup) -> Vec<Pdata<'static>>;

    /// A process takes back what it published (`unpublish`).
    unpublish(Unpublish) -> ();

    /// A process starts a job (`spawn`). The answer is the name of the job.
    spawn(Spawn) -> Nspace<'static>;

    /// All local participants of a connect are there (`connect`), or it failed on this node.
    connect(Connect) -> ();

    /// All local participants of a disconnect are there (`disconnect`), or it failed on this node.
    disconnect(Disconnect) -> ();

    /// Someone here wants to know of events (`register_events`).
    register_events(RegisterEvents) -> ();

    /// Nobody here wants to know of events any longer (`deregister_events`).
    deregister_events(DeregisterEvents) -> ();

    /// A process reports an event that reaches beyond this server (`notify_event`).
    notify_event(NotifyEvent) -> ();

    /// A process asks what this server does not know (`query`).
    query(Query) -> Vec<Info<'static>>;

    /// A tool connected (`tool_connected2`). The answer is the name it has from now on.
    tool_connected(ToolConnected) -> Proc<'static>;

    /// A process has something to log (`log2`).
    log(Log) -> ();

    /// A process asks for resources (`allocate`).
    allocate(Alloc) -> Vec<Info<'static>>;

    /// A process controls others (`job_control`).
    job_control(JobControl) -> Vec<Info<'static>>;

    /// A process wants something watched (`monitor`).
    monitor(Monitor) -> Vec<Info<'static>>;

    /// A process wants a credential (`get_credential`).
    get_credential(GetCredential) -> Credential;

    /// A process has a credential to be checked (`validate_credential`).
    validate_credential(ValidateCredential) -> Vec<Info<'static>>;

    /// Someone here wants the output of processes, or no longer (`iof_pull`).
    iof_pull(IofPull) -> ();

    /// Input for processes (`push_stdin`).
    push_stdin(PushStdin) -> ();

    /// A group is built or taken apart (`group`).
    group(Group) -> Vec<Info<'static>>;

    /// A process asks about a fabric (`fabric`).
    fabric(Fabric) -> Vec<Info<'static>>;

    /// A process controls a session (`session_control`).
    session_control(SessionControl) -> Vec<Info<'static>>;

    /// A process handles a block of resources (`resource_block`).
    resource_block(ResourceBlock) -> ();
}

/// A host that does nothing: clients get what the server knows by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// What a host is told without being asked anything.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A connection was not let in, or not any longer.
    Refused {
        /// Why.
        reason: crate::Error,
    },
    /// A process went away without saying so.
    ProcessLost {
        /// The process.
        proc: Proc<'static>,
        /// Which life of the process it was, the first one being 1.
        incarnation: u32,
    },
    /// A process or a job has ended that wanted something removed then.
    Cleanup {
        /// Which; with the wildcard for a rank the job.
        target: Proc<'static>,
        /// The user and group that asked for it, with whose rights it is to be removed.
        user: (u32, u32),
        /// What is to be removed, and what is not.
        cleanup: pmix_engine::Cleanup,
    },
    /// A fence, a connect or a disconnect ended without success.
    FenceMissing {
        /// Which of them.
        operation: crate::Collective,
        /// Whose it was.
        procs: Vec<Proc<'static>>,
        /// The local participants that were not there, or are not there any longer, in ascending
        /// order.
        missing: Vec<Proc<'static>>,
        /// What the others are told.
        status: Status,
    },
}
