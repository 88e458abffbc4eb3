// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of the host: the upcalls of a server, and their replies.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_module_t`.

mod completion;
mod dispatch;
mod guard;

use std::time::Instant;

use pmix_engine::PeerId;
use pmix_engine::host::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DirectModex,
    Disconnect, Fabric, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup, Monitor,
    NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl, Spawn,
    ToolConnected, Unpublish, Upcall, ValidateCredential,
};
use pmix_types::{Info, Nspace, Pdata, Proc, Status, Text};

pub use completion::{Completion, Credential, Reply, UntypedCompletion};
pub use dispatch::call_host;
pub(crate) use dispatch::{Devices, OwnUpcalls, call, server_event};
pub(crate) use guard::guarded;

macro_rules! host {
    ($($(#[$doc:meta])* $name:ident($call:ident) -> $result:ty;)*) => {
        /// The host of a server, that is, a resource manager or launcher. It has one method for each function of
        /// `pmix_server_module_t` (PMIx Standard, chapter "Server", "Server function pointers").
        ///
        /// Each method gets the request and a [`Completion`], which it completes immediately or later, from
        /// any thread. The default implementation completes with "not supported". Methods are called on the
        /// progress thread, or by the caller of [`Server::drive`](crate::Server::drive), one at a time and
        /// with no lock held: they can call the server. A method that takes long blocks all peers, so it
        /// should pass the completion to another thread. A method that panics fails only its request.
        pub trait Host: Send + Sync {
            $(
                $(#[$doc])*
                fn $name(&self, call: $call, done: Completion<$result>) {
                    let _ = call;
                    done.not_supported();
                }
            )*

            /// Reports an event of the server. The host does not reply.
            fn server_event(&self, event: ServerEvent) {
                let _ = event;
            }
        }

        impl<U, E> Host for UpcallHost<U, E>
        where
            U: Fn(Upcall, UntypedCompletion) + Send + Sync,
            E: Fn(ServerEvent) + Send + Sync,
        {
            $(
                fn $name(&self, call: $call, done: Completion<$result>) {
                    (self.upcalls)(call.into(), done.untyped());
                }
            )*

            fn server_event(&self, event: ServerEvent) {
                (self.events)(event);
            }
        }
    };
}

/// A host that passes every upcall to one function, for example to send it to another process of the host
/// ([`Upcall::pack`]). [`call_host`] is the inverse: it calls the method of a host for an upcall.
///
/// ```
/// use pmix_server::upcall::Upcall;
/// use pmix_server::{Server, UntypedCompletion, UpcallHost};
/// use std::sync::mpsc::channel;
///
/// let (sender, upcalls) = channel::<(Upcall, UntypedCompletion)>();
/// // Without a receiver the completion is dropped, which fails the request.
/// let host = UpcallHost::new(move |upcall, done| drop(sender.send((upcall, done))), |_event| ());
/// let server = Server::builder().host(host).hostname("n00").build()?;
/// # server.finalize()?;
/// # drop(upcalls);
/// # Ok::<(), pmix_server::Error>(())
/// ```
pub struct UpcallHost<U, E> {
    upcalls: U,
    events: E,
}

impl<U, E> UpcallHost<U, E>
where
    U: Fn(Upcall, UntypedCompletion) + Send + Sync,
    E: Fn(ServerEvent) + Send + Sync,
{
    /// Creates a host from a function for upcalls and one for [events](Host::server_event). Both are called as methods
    /// of a [`Host`].
    pub const fn new(upcalls: U, events: E) -> Self {
        Self { upcalls, events }
    }
}

// `name(Call) -> T` declares `fn name(&self, call: Call, done: Completion<T>)`.
host! {
    /// A client connected (`client_connected2`). The handshake completes when this method returns, and the
    /// client continues without waiting for the completion; an error closes the connection.
    client_connected(ClientConnected) -> ();

    /// A client finalizes (`client_finalized`). The client waits a short time for the completion. For tools the event
    /// is [`ServerEvent::ToolFinalized`].
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

    /// A client requests data of a process on another node (`direct_modex`). The result is that of
    /// [`dmodex_request`](crate::Server::dmodex_request) on the server of that node.
    direct_modex(DirectModex) -> Vec<u8>;

    /// A process publishes data (`publish`). The completion is a status.
    publish(Publish) -> ();

    /// A process looks up published data (`lookup`). The result is the data found, each with its publisher.
    lookup(Lookup) -> Vec<Pdata<'static>>;

    /// A process unpublishes data (`unpublish`). The completion is a status.
    unpublish(Unpublish) -> ();

    /// A process requests the start of a job (`spawn`). The result is the nspace of the new job.
    spawn(Spawn) -> Nspace<'static>;

    /// All local participants of a connect have arrived, or it failed on this node (`connect`). The completion is a
    /// status, the same on all servers.
    connect(Connect) -> ();

    /// All local participants of a disconnect have arrived, or it failed on this node (`disconnect`). The completion is
    /// a status, the same on all servers.
    disconnect(Disconnect) -> ();

    /// A peer registered for events that only the host can report (`register_events`). The completion is a status.
    register_events(RegisterEvents) -> ();

    /// No peer is registered for some events now (`deregister_events`).
    deregister_events(DeregisterEvents) -> ();

    /// A process notifies of an event whose range extends beyond this server (`notify_event`). The completion is a
    /// status.
    notify_event(NotifyEvent) -> ();

    /// A process queries information that this server does not have (`query`). The result is the values, under the keys
    /// of the query.
    query(Query) -> Vec<Info<'static>>;

    /// A tool connected (`tool_connected2`). The result becomes the name of the tool; an error rejects it.
    tool_connected(ToolConnected) -> Proc<'static>;

    /// A process logs data (`log2`). The completion is a status.
    log(Log) -> ();

    /// A process requests a change of an allocation (`allocate`). The result describes the allocation.
    allocate(Alloc) -> Vec<Info<'static>>;

    /// A process requests control of processes (`job_control`). The result is the requested infos.
    job_control(JobControl) -> Vec<Info<'static>>;

    /// A process requests monitoring (`monitor`). The result is infos about the monitor.
    monitor(Monitor) -> Vec<Info<'static>>;

    /// A process requests a credential (`get_credential`). The result is the credential and infos about it.
    get_credential(GetCredential) -> Credential;

    /// A process requests the validation of a credential (`validate_credential`). The result is infos about its owner;
    /// an error means that it is not valid.
    validate_credential(ValidateCredential) -> Vec<Info<'static>>;

    /// A peer pulls output of processes, or deregisters the pull (`iof_pull`). The completion is a status; the output
    /// is passed to [`iof_deliver`](crate::Server::iof_deliver).
    iof_pull(IofPull) -> ();

    /// A peer forwards input to processes (`push_stdin`). The completion is a status.
    push_stdin(PushStdin) -> ();

    /// All local members construct or destruct a group (`group`). The result is infos about the group.
    group(Group) -> Vec<Info<'static>>;

    /// A process requests the description of a fabric (`fabric`). The result is infos about it.
    fabric(Fabric) -> Vec<Info<'static>>;

    /// A process requests control of a session (`session_control`). The result is the requested infos.
    session_control(SessionControl) -> Vec<Info<'static>>;

    /// A process defines or changes a block of resources (`resource_block`). The completion is a status.
    resource_block(ResourceBlock) -> ();
}

/// A host that supports no upcall: clients get only the data of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// An event of the server for its host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A connection was rejected, or was closed because of invalid input.
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
        /// The user id and group id for the removal of files.
        user: (u32, u32),
        /// The newly registered paths. For a directory that is registered again, these options replace the
        /// earlier ones.
        cleanup: pmix_engine::Cleanup,
    },
    /// A tool finalizes. ([`Host::client_finalized`] is for clients only.)
    ToolFinalized {
        /// The tool.
        proc: Proc<'static>,
    },
    /// A process or job with a registered cleanup has terminated (`PMIX_REGISTER_CLEANUP`).
    Cleanup {
        /// The process; with the wildcard rank, the job.
        target: Proc<'static>,
        /// The user id and group id for the removal of files.
        user: (u32, u32),
        /// The files and directories to remove, and those to keep.
        cleanup: pmix_engine::Cleanup,
    },
    /// A fence, a connect, a disconnect, or the construct or destruct of a group failed.
    FenceMissing {
        /// The operation.
        operation: crate::Collective,
        /// The name of the group of a construct or destruct.
        group: Option<Text<'static>>,
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The local participants that had not arrived or were lost, in ascending order.
        missing: Vec<Proc<'static>>,
        /// The status that the participants get.
        status: Status,
    },
    /// A fence completed. The server reports this only with
    /// [`report_fences`](crate::Builder::report_fences).
    FenceCompleted {
        /// The time of the first call, if it is known.
        began: Option<Instant>,
        /// The number of participants on this node.
        num_procs: usize,
    },
    /// A fence without data exchange (`PMIX_COLLECT_DATA`) has completed whose participants belong to several jobs. MPI
    /// libraries call such a fence to disconnect the jobs.
    FenceAcrossJobs {
        /// The participants.
        procs: Vec<Proc<'static>>,
    },
    /// A group was constructed or destructed, or a member left it.
    Group {
        /// The name of the group.
        name: Text<'static>,
        /// The change of the group.
        change: crate::GroupChange,
    },
}

// An observer on the connections, for traces.
//
// Source: this project.

/// An observer of all messages between a server and its peers.
///
/// The thread that drives the server calls it before it processes a message. An observer that takes long
/// blocks all peers.
pub trait WireObserver: Send {
    /// Observes bytes of a peer as received. They are a piece of its stream and may end within a message.
    fn received(&mut self, peer: PeerId, bytes: &[u8]);

    /// Observes a message to a peer, as its header and its payload. The handshake reply has no header.
    fn sent(&mut self, peer: PeerId, header: &[u8], payload: &[u8]);

    /// Observes the end of a connection.
    fn closed(&mut self, peer: PeerId);
}
