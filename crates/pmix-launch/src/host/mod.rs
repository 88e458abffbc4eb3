// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launcher as the host of its server.
//!
//! The server calls the host only while the session drives it, on the same thread. Each upcall is put into a channel
//! together with its completion, and the session reads the channel after the server has made progress. So no state is
//! shared and no lock is held.

mod mailbox;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use pmix_server::upcall::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DirectModex,
    Disconnect, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup, Monitor,
    NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl, Spawn,
    Unpublish, Upcall, ValidateCredential,
};
use pmix_server::{
    Cleanup, Collective, Completion, Credential, GroupChange, Host, ServerEvent, UntypedCompletion,
    is_about_support,
};
use pmix_types::{GroupOperation, Info, Nspace, Pdata, Proc, Status, Text, keys};

use crate::process_dirs::ProcessDirs;
pub(crate) use mailbox::{HostSender, Mailbox, host_channel};

/// The number of another node, or `None` for that of the controller.
pub(crate) type AtNode = Option<usize>;

/// The host of the server of a node.
///
/// Upcalls that it does not implement complete with `PMIX_ERR_NOT_SUPPORTED`: it allocates nothing and has no fabric.
pub(crate) struct LocalHost {
    messages: HostSender,
    /// The node whose server makes the upcalls.
    node: AtNode,
    /// `true` if output and input pass through the launcher.
    forwards: bool,
    /// The directories of processes on this node.
    dirs: Option<ProcessDirs>,
    /// Number of connections of other users that were rejected.
    num_rejected: AtomicU32,
}

/// The maximum number of messages about rejected connections. Any user of the node can cause them.
const MAX_REJECTED: u32 = 8;

/// An upcall that the session completes, or a notification for it.
pub(crate) enum HostMessage {
    Connected(Proc<'static>),
    Finalized(Proc<'static>),
    /// A tool that finalized or whose connection was closed.
    ToolLeft(Proc<'static>),
    Abort(Abort, Completion<()>),
    Fence(AtNode, Fence, Completion<Vec<u8>>),
    Connect(AtNode, Connect, Completion<()>),
    Disconnect(AtNode, Disconnect, Completion<()>),
    Group(AtNode, Group, Completion<Vec<Info<'static>>>),
    DirectModex(DirectModex, Completion<Vec<u8>>),
    /// An event for the clients and tools of other nodes.
    Event(AtNode, NotifyEvent),
    /// Another node was lost.
    NodeLost(usize),
    Spawn(Spawn, Completion<Nspace<'static>>),
    Publish(Publish, Completion<()>),
    Lookup(Lookup, Completion<Vec<Pdata<'static>>>),
    Unpublish(Unpublish, Completion<()>),
    Query(AtNode, Query, Completion<Vec<Info<'static>>>),
    JobControl(JobControl, Completion<Vec<Info<'static>>>),
    SessionControl(SessionControl, Completion<Vec<Info<'static>>>),
    Log(Log, Completion<()>),
    Monitor(Monitor, Completion<Vec<Info<'static>>>),
    GetCredential(GetCredential, Completion<Credential>),
    ValidateCredential(ValidateCredential, Completion<Vec<Info<'static>>>),
    IofPull(IofPull, Completion<()>),
    PushStdin(PushStdin, Completion<()>),
    /// An event by which a process waits for a debugger, or by which a debugger releases it.
    Debugger(NotifyEvent),
    /// A fence that has completed: the times of its first call and of its end, and the number of its processes.
    FenceCompleted(Instant, Instant, usize),
    /// A completed fence without data exchange (`PMIX_COLLECT_DATA`) whose participants belong to several jobs.
    FenceAcrossJobs(Vec<Proc<'static>>),
    /// A collective that failed, with the processes that did not call.
    Missing(Failed),
    /// A change of a group: constructed, destructed, or left by members.
    GroupChanged(Text<'static>, GroupChange),
    /// Files that a user registered for removal at the end of a process or a job.
    CleanupRegistered(Proc<'static>, u32, Cleanup),
    /// Files to remove on behalf of a user, because that process or job has ended.
    Cleanup(Proc<'static>, u32, Cleanup),
    /// A request of a process that a launcher for one node cannot serve.
    Refused(Proc<'static>, &'static str),
}

impl HostMessage {
    /// Returns the name of the called function and its directives, for calls whose required directives the launcher
    /// checks before it serves them.
    pub(crate) fn directives(&self) -> Option<(&'static str, Vec<&[Info<'static>]>)> {
        Some(match self {
            Self::Fence(_, call, _) => ("PMIx_Fence", vec![&call.infos]),
            Self::Connect(_, call, _) => ("PMIx_Connect", vec![&call.infos]),
            Self::Disconnect(_, call, _) => ("PMIx_Disconnect", vec![&call.infos]),
            Self::Group(_, call, _) if call.operation == GroupOperation::CONSTRUCT => {
                ("PMIx_Group_construct", vec![&call.directives])
            }
            Self::Group(_, call, _) => ("PMIx_Group_destruct", vec![&call.directives]),
            Self::Lookup(call, _) => ("PMIx_Lookup", vec![&call.infos]),
            Self::Unpublish(call, _) => ("PMIx_Unpublish", vec![&call.infos]),
            Self::Query(_, call, _) => {
                let queries = call.queries.iter().filter(|query| !is_about_support(query));
                let qualifiers = queries.map(|query| &query.qualifiers[..]);
                ("PMIx_Query_info", qualifiers.collect())
            }
            Self::JobControl(call, _) => ("PMIx_Job_control", vec![&call.directives]),
            Self::SessionControl(call, _) => ("PMIx_Session_control", vec![&call.directives]),
            Self::Log(call, _) => ("PMIx_Log", vec![&call.data, &call.directives]),
            Self::GetCredential(call, _) => ("PMIx_Get_credential", vec![&call.directives]),
            Self::ValidateCredential(call, _) => {
                ("PMIx_Validate_credential", vec![&call.directives])
            }
            Self::PushStdin(call, _) => ("PMIx_IOF_push", vec![&call.directives]),
            _ => return None,
        })
    }

    /// Returns the process or tool that made the call, or about which the notification is.
    pub(crate) fn source(&self) -> Option<&Proc<'static>> {
        Some(match self {
            Self::Connected(proc) | Self::Finalized(proc) => proc,
            Self::Abort(call, _) => &call.proc,
            Self::Spawn(call, _) => &call.proc,
            Self::Publish(call, _) => &call.proc,
            Self::Lookup(call, _) => &call.proc,
            Self::Unpublish(call, _) => &call.proc,
            Self::Query(_, call, _) => &call.proc,
            Self::JobControl(call, _) => &call.proc,
            Self::SessionControl(call, _) => &call.proc,
            Self::Log(call, _) => &call.proc,
            Self::Monitor(call, _) => &call.proc,
            Self::Debugger(call) => &call.source,
            _ => return None,
        })
    }

    /// Returns the upcall for a controller on another node, or the message itself if it is not for the controller in this
    /// form.
    pub(crate) fn into_upcall(self) -> Result<(Upcall, UntypedCompletion), Box<Self>> {
        Ok(match self {
            Self::Abort(call, done) => (call.into(), done.untyped()),
            Self::Fence(_, call, done) => (call.into(), done.untyped()),
            Self::Connect(_, call, done) => (call.into(), done.untyped()),
            Self::Disconnect(_, call, done) => (call.into(), done.untyped()),
            Self::Group(_, call, done) => (call.into(), done.untyped()),
            Self::DirectModex(call, done) => (call.into(), done.untyped()),
            Self::Spawn(call, done) => (call.into(), done.untyped()),
            Self::Publish(call, done) => (call.into(), done.untyped()),
            Self::Lookup(call, done) => (call.into(), done.untyped()),
            Self::Unpublish(call, done) => (call.into(), done.untyped()),
            Self::Query(_, call, done) => (call.into(), done.untyped()),
            Self::JobControl(call, done) => (call.into(), done.untyped()),
            Self::SessionControl(call, done) => (call.into(), done.untyped()),
            Self::Log(call, done) => (call.into(), done.untyped()),
            Self::GetCredential(call, done) => (call.into(), done.untyped()),
            Self::ValidateCredential(call, done) => (call.into(), done.untyped()),
            Self::IofPull(call, done) => (call.into(), done.untyped()),
            Self::PushStdin(call, done) => (call.into(), done.untyped()),
            other => return Err(Box::new(other)),
        })
    }

    /// Completes the call with an error, if it has a completion of such a call.
    pub(crate) fn fail(self, status: Status) {
        match self {
            Self::Fence(_, _, done) | Self::DirectModex(_, done) => done.fail(status),
            Self::Connect(_, _, done) | Self::Disconnect(_, _, done) => done.fail(status),
            Self::Group(_, _, done) => done.fail(status),
            Self::Lookup(_, done) => done.fail(status),
            Self::Unpublish(_, done) => done.fail(status),
            Self::Query(_, _, done) => done.fail(status),
            Self::JobControl(_, done) => done.fail(status),
            Self::SessionControl(_, done) => done.fail(status),
            Self::Log(_, done) => done.fail(status),
            Self::GetCredential(_, done) => done.fail(status),
            Self::ValidateCredential(_, done) => done.fail(status),
            Self::IofPull(_, done) => done.fail(status),
            Self::PushStdin(_, done) => done.fail(status),
            _ => {}
        }
    }
}

/// A collective that ended with an error.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) operation: Collective,
    /// The group that was to be constructed or destructed.
    pub(crate) group: Option<Text<'static>>,
    pub(crate) procs: Vec<Proc<'static>>,
    pub(crate) status: Status,
    /// The participants that did not call.
    pub(crate) missing: Vec<Proc<'static>>,
}

/// The maker of hosts for the servers of other nodes.
pub(crate) struct RemoteHost {
    messages: HostSender,
}

impl RemoteHost {
    /// Creates the maker. Its hosts send to the same channel as that of this node.
    pub(crate) fn new(messages: &HostSender) -> Self {
        Self {
            messages: messages.clone(),
        }
    }

    /// Returns the host for the server of another node.
    pub(crate) fn at(&self, node: usize) -> LocalHost {
        LocalHost {
            messages: self.messages.clone(),
            node: Some(node),
            // The output of all nodes comes to the launcher, so only tools at its node can pull it.
            forwards: false,
            dirs: None,
            num_rejected: AtomicU32::new(0),
        }
    }
}

impl LocalHost {
    pub(crate) fn new(messages: HostSender, forwards: bool, dirs: ProcessDirs) -> Self {
        Self {
            messages,
            node: None,
            forwards,
            dirs: Some(dirs),
            num_rejected: AtomicU32::new(0),
        }
    }

    /// Warns about a connection that was rejected because of its user.
    fn report_rejected(&self, reason: &pmix_server::Error) {
        let num_before = self.num_rejected.fetch_add(1, Ordering::Relaxed);
        match num_before {
            0..MAX_REJECTED => tracing::warn!("a connection was rejected: {reason}"),
            MAX_REJECTED => tracing::warn!("further rejected connections are not reported"),
            // The count must not wrap around to another report.
            _ => self.num_rejected.store(MAX_REJECTED + 1, Ordering::Relaxed),
        }
    }

    fn refuse(&self, proc: Proc<'static>, what: &'static str) {
        self.messages.send(HostMessage::Refused(proc, what));
    }
}

impl Host for LocalHost {
    /// Creates the directory of the process before the reply: the client is connected once this has returned.
    fn client_connected(&self, call: ClientConnected, done: Completion<()>) {
        if let Some(dirs) = &self.dirs {
            dirs.make(call.object);
        }
        self.messages.send(HostMessage::Connected(call.proc));
        done.succeed(());
    }

    fn client_finalized(&self, call: ClientFinalized, done: Completion<()>) {
        // The message is sent before the client gets its reply. When the process exits, the session has then already
        // recorded that it finalized.
        if call.is_last {
            self.messages.send(HostMessage::Finalized(call.proc));
        }
        done.succeed(());
    }

    fn abort(&self, call: Abort, done: Completion<()>) {
        self.messages.send(HostMessage::Abort(call, done));
    }

    fn fence(&self, call: Fence, done: Completion<Vec<u8>>) {
        let message = HostMessage::Fence(self.node, call, done);
        self.messages.send(message);
    }

    fn direct_modex(&self, call: DirectModex, done: Completion<Vec<u8>>) {
        self.messages.send(HostMessage::DirectModex(call, done));
    }

    fn publish(&self, call: Publish, done: Completion<()>) {
        self.messages.send(HostMessage::Publish(call, done));
    }

    fn lookup(&self, call: Lookup, done: Completion<Vec<Pdata<'static>>>) {
        self.messages.send(HostMessage::Lookup(call, done));
    }

    fn unpublish(&self, call: Unpublish, done: Completion<()>) {
        self.messages.send(HostMessage::Unpublish(call, done));
    }

    fn connect(&self, call: Connect, done: Completion<()>) {
        let message = HostMessage::Connect(self.node, call, done);
        self.messages.send(message);
    }

    fn disconnect(&self, call: Disconnect, done: Completion<()>) {
        let message = HostMessage::Disconnect(self.node, call, done);
        self.messages.send(message);
    }

    fn group(&self, call: Group, done: Completion<Vec<Info<'static>>>) {
        let message = HostMessage::Group(self.node, call, done);
        self.messages.send(message);
    }

    /// Succeeds at once: events of other nodes reach this one in any case.
    fn register_events(&self, _: RegisterEvents, done: Completion<()>) {
        done.succeed(());
    }

    fn deregister_events(&self, _: DeregisterEvents, done: Completion<()>) {
        done.succeed(());
    }

    /// Succeeds at once: the server has notified the processes of its node, and the controller passes the event on.
    fn notify_event(&self, call: NotifyEvent, done: Completion<()>) {
        let message = HostMessage::Event(self.node, call.clone());
        self.messages.send(message);
        if [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE].contains(&call.status) {
            self.messages.send(HostMessage::Debugger(call));
        }
        done.succeed(());
    }

    fn query(&self, call: Query, done: Completion<Vec<Info<'static>>>) {
        self.messages
            .send(HostMessage::Query(self.node, call, done));
    }

    fn log(&self, call: Log, done: Completion<()>) {
        self.messages.send(HostMessage::Log(call, done));
    }

    fn job_control(&self, call: JobControl, done: Completion<Vec<Info<'static>>>) {
        self.messages.send(HostMessage::JobControl(call, done));
    }

    /// The server receives all output that passes through the launcher even if no peer pulls it, and the output goes
    /// to its usual destination as well. The server and the tool handle the other directives, so the session only
    /// checks that the named processes exist.
    fn iof_pull(&self, call: IofPull, done: Completion<()>) {
        let is_refused = |info: &Info<'_>| info.must_be_obeyed() && !info.key.is(keys::IOF_COPY);
        match self.forwards && !call.directives.iter().any(is_refused) {
            true => self.messages.send(HostMessage::IofPull(call, done)),
            false => done.not_supported(),
        }
    }

    fn push_stdin(&self, call: PushStdin, done: Completion<()>) {
        self.messages.send(HostMessage::PushStdin(call, done));
    }

    fn spawn(&self, call: Spawn, done: Completion<Nspace<'static>>) {
        self.messages.send(HostMessage::Spawn(call, done));
    }

    fn allocate(&self, call: Alloc, done: Completion<Vec<Info<'static>>>) {
        self.refuse(call.proc, "allocate resources (PMIx_Allocation_request)");
        done.not_supported();
    }

    fn session_control(&self, call: SessionControl, done: Completion<Vec<Info<'static>>>) {
        self.messages.send(HostMessage::SessionControl(call, done));
    }

    fn resource_block(&self, call: ResourceBlock, done: Completion<()>) {
        self.refuse(call.proc, "name a block of resources (PMIx_Resource_block)");
        done.not_supported();
    }

    fn monitor(&self, call: Monitor, done: Completion<Vec<Info<'static>>>) {
        self.messages.send(HostMessage::Monitor(call, done));
    }

    fn get_credential(&self, call: GetCredential, done: Completion<Credential>) {
        self.messages.send(HostMessage::GetCredential(call, done));
    }

    fn validate_credential(&self, call: ValidateCredential, done: Completion<Vec<Info<'static>>>) {
        self.messages
            .send(HostMessage::ValidateCredential(call, done));
    }

    fn server_event(&self, event: ServerEvent) {
        match event {
            ServerEvent::CleanupRegistered {
                target,
                user,
                cleanup,
            } => {
                let message = HostMessage::CleanupRegistered(target, user.0, cleanup);
                self.messages.send(message);
            }
            ServerEvent::Cleanup {
                target,
                user,
                cleanup,
            } => {
                let message = HostMessage::Cleanup(target, user.0, cleanup);
                self.messages.send(message);
            }
            ServerEvent::FenceMissing {
                operation,
                group,
                procs,
                missing,
                status,
            } => self.messages.send(HostMessage::Missing(Failed {
                operation,
                group,
                procs,
                status,
                missing,
            })),
            ServerEvent::FenceCompleted { began, num_procs } => {
                let now = Instant::now();
                let message = HostMessage::FenceCompleted(began.unwrap_or(now), now, num_procs);
                self.messages.send(message);
            }
            ServerEvent::FenceAcrossJobs { procs } => {
                self.messages.send(HostMessage::FenceAcrossJobs(procs));
            }
            ServerEvent::ToolFinalized { proc }
            | ServerEvent::ProcessLost {
                proc,
                is_tool: true,
                ..
            } => self.messages.send(HostMessage::ToolLeft(proc)),
            ServerEvent::Group { name, change } => {
                self.messages.send(HostMessage::GroupChanged(name, change));
            }
            ServerEvent::Refused { reason } if reason.status() == Status::ERR_NO_PERMISSIONS => {
                self.report_rejected(&reason);
            }
            other => tracing::debug!("{other:?}"),
        }
    }
}
