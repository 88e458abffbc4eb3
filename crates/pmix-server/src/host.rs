// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of the host: what a server asks it, and what it answers.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_module_t`.

mod completion;
mod dispatch;
mod gateway;

use pmix_engine::host::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DirectModex,
    Disconnect, Fabric, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup, Monitor,
    NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl, Spawn,
    ToolConnected, Unpublish, ValidateCredential,
};
use pmix_types::{Info, Nspace, Pdata, Proc, Status, Text};

pub use completion::{Completion, Credential, Reply, UntypedCompletion};
pub(crate) use dispatch::{OwnUpcalls, call, guarded, server_event};

macro_rules! host {
    ($($(#[$doc:meta])* $name:ident($call:ident) -> $answer:ty;)*) => {
        /// Answers the upcalls of a server: a resource manager or launcher implements it, with one
        /// method for each slot of `pmix_server_module_t` (PMIx Standard, chapter "Server", "Server
        /// function pointers").
        ///
        /// Each method gets the request and a [`Completion`], which it completes immediately or later, from
        /// any thread. The default implementation completes with "not supported". Methods are called on the
        /// progress thread, or by the caller of [`Server::drive`](crate::Server::drive), one at a time and
        /// with no lock held: they can call the server. A method that takes long blocks all peers, so it
        /// should pass the completion to another thread. A method that panics fails only its request.
        pub trait Host: Send + Sync {
            $(
                $(#[$doc])*
                fn $name(&self, call: $call, done: Completion<$answer>) {
                    let _ = call;
                    done.not_supported();
                }
            )*

            /// Reports an event of the server. The host does not reply.
            fn server_event(&self, event: ServerEvent) {
                let _ = event;
            }
        }
    };
}

// `name(Call) -> T` declares `fn name(&self, call: Call, done: Completion<T>)`.
host! {
    /// A client connected (`client_connected2`). The handshake completes when this method returns, and the
    /// client continues without waiting for the completion; an error closes the connection.
    client_connected(ClientConnected) -> ();

    /// A client finalizes (`client_finalized`). The client waits a short time for the answer. A tool that finalizes is
    /// [`ServerEvent::ToolFinalized`].
    client_finalized(ClientFinalized) -> ();

    /// A client requests the termination of processes (`abort`). The completion is a status.
    ///
    /// The server itself does not terminate processes, so a host must implement this method for aborts to end
    /// its jobs. The host terminates the named processes, or the whole job if none is named, then completes
    /// the request, and uses the status of the call as the exit code of the job. Without this method clients
    /// get "not supported", which OpenPMIx 4.2 does not return to the program: the process that calls
    /// `PMIx_Abort` or `MPI_Abort` exits, and the others continue to run. Processes that wait for it in a
    /// fence get an error; processes that wait in an MPI call wait forever. So a host without it should end
    /// the job when a process is lost ([`ServerEvent::ProcessLost`]) or ends with an exit code that is not 0.
    abort(Abort) -> ();

    /// All local participants of a fence have arrived, and others are remote (`fence_nb`). The result is the
    /// concatenation of the contributions of all servers, including this one, in any order.
    fence(Fence) -> Vec<u8>;

    /// A client asks for data of a process on another node (`direct_modex`). The answer is what
    /// [`dmodex_request`](crate::Server::dmodex_request) returns on the server of that node.
    direct_modex(DirectModex) -> Vec<u8>;

    /// A process publishes data (`publish`). The answer is a status.
    publish(Publish) -> ();

    /// A process looks up published data (`lookup`). The answer is the data that were found, each
    /// with its publisher.
    lookup(Lookup) -> Vec<Pdata<'static>>;

    /// A process withdraws what it published (`unpublish`). The answer is a status.
    unpublish(Unpublish) -> ();

    /// A process asks the host to start a job (`spawn`). The answer is the nspace of the new job.
    spawn(Spawn) -> Nspace<'static>;

    /// All local participants of a connect have arrived, or it failed on this node (`connect`). The
    /// answer is a status, the same on all servers.
    connect(Connect) -> ();

    /// All local participants of a disconnect have arrived, or it failed on this node
    /// (`disconnect`). The answer is a status, the same on all servers.
    disconnect(Disconnect) -> ();

    /// A peer registered for events that only the host can report (`register_events`). The answer
    /// is a status.
    register_events(RegisterEvents) -> ();

    /// No peer is registered any more for some events (`deregister_events`).
    deregister_events(DeregisterEvents) -> ();

    /// A process reports an event whose range reaches beyond this server (`notify_event`). The
    /// answer is a status.
    notify_event(NotifyEvent) -> ();

    /// A process asks for information that this server does not have (`query`). The answer is the
    /// values, under the keys of the query.
    query(Query) -> Vec<Info<'static>>;

    /// A tool connected (`tool_connected2`). The answer is the name of the tool from now on; an
    /// error refuses it.
    tool_connected(ToolConnected) -> Proc<'static>;

    /// A process has data to log (`log2`). The answer is a status.
    log(Log) -> ();

    /// A process asks for a change of an allocation (`allocate`). The answer describes the
    /// allocation.
    allocate(Alloc) -> Vec<Info<'static>>;

    /// A process asks for control of processes (`job_control`). The answer is infos that the
    /// request asked for.
    job_control(JobControl) -> Vec<Info<'static>>;

    /// A process asks for monitoring (`monitor`). The answer is infos about the monitor.
    monitor(Monitor) -> Vec<Info<'static>>;

    /// A process asks for a credential (`get_credential`). The answer is the credential and infos
    /// about it.
    get_credential(GetCredential) -> Credential;

    /// A process asks whether a credential is valid (`validate_credential`). The answer is infos
    /// about its owner; an error says that it is not valid.
    validate_credential(ValidateCredential) -> Vec<Info<'static>>;

    /// A peer pulls output of processes, or no longer does (`iof_pull`). The answer is a status;
    /// the output comes through [`iof_deliver`](crate::Server::iof_deliver).
    iof_pull(IofPull) -> ();

    /// A peer sends input to processes (`push_stdin`). The answer is a status.
    push_stdin(PushStdin) -> ();

    /// All local members construct or destruct a group (`group`). The answer is infos about the group.
    group(Group) -> Vec<Info<'static>>;

    /// A process asks for a description of a fabric (`fabric`). The answer is infos about it.
    fabric(Fabric) -> Vec<Info<'static>>;

    /// A process asks for control of a session (`session_control`). The answer is infos that the
    /// request asked for.
    session_control(SessionControl) -> Vec<Info<'static>>;

    /// A process defines or changes a block of resources (`resource_block`). The answer is a
    /// status.
    resource_block(ResourceBlock) -> ();
}

/// Declines every upcall: clients get only what the server knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// Tells the host what happened in its server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A connection was refused, or closed for what its peer sent.
    Refused {
        /// The reason.
        reason: crate::Error,
    },
    /// The connection of a client or tool closed without a finalize.
    ProcessLost {
        /// The process.
        proc: Proc<'static>,
        /// The incarnation of the process, the first one being 1.
        incarnation: u32,
        /// `true` for a tool, which is not registered by the host.
        is_tool: bool,
    },
    /// A cleanup was registered for the end of a process or a job. A host can ignore this event, because
    /// [`Cleanup`](Self::Cleanup) delivers the cleanup at that time. A host that may be killed before can
    /// pass it to another process.
    CleanupRegistered {
        /// The process; with the wildcard rank, the job.
        target: Proc<'static>,
        /// The user id and group id with whose rights files are to be removed.
        user: (u32, u32),
        /// The newly registered paths. For a directory that is registered again, these options replace the
        /// earlier ones.
        cleanup: pmix_engine::Cleanup,
    },
    /// A tool finalizes ([`Host::client_finalized`] is about clients alone).
    ToolFinalized {
        /// The tool.
        proc: Proc<'static>,
    },
    /// A process or a job has ended for which a cleanup was registered (`PMIX_REGISTER_CLEANUP`).
    Cleanup {
        /// The process; with the wildcard rank, the job.
        target: Proc<'static>,
        /// The user id and group id with whose rights files are to be removed.
        user: (u32, u32),
        /// The files and directories to remove, and those to keep.
        cleanup: pmix_engine::Cleanup,
    },
    /// A fence, a connect, a disconnect, the construction or destruction of a group ended without
    /// success.
    FenceMissing {
        /// The operation.
        operation: crate::Collective,
        /// The name of the group that it makes or takes apart.
        group: Option<Text<'static>>,
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The local participants that had not arrived, or were lost, in ascending order.
        missing: Vec<Proc<'static>>,
        /// The status that the participants get.
        status: Status,
    },
    /// A group was made or taken apart, or a member left it.
    Group {
        /// Its name.
        name: Text<'static>,
        /// The change of the group.
        change: crate::GroupChange,
    },
}
