// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launcher as the host of its server.
//!
//! Upcalls come while the watched job lets its server go on, and are about that job. So each is put
//! into its channel, together with the completion that answers it, and read when the server has gone
//! on; no state is shared and no lock is held.

mod channel;

use pmix_server::upcall::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DirectModex,
    Disconnect, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup, Monitor,
    NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl, Spawn,
    Unpublish, ValidateCredential,
};
use pmix_server::{
    Cleanup, Collective, Completion, Credential, GroupChange, Host, ServerEvent, is_about_support,
};
use pmix_types::{GroupOperation, Info, Nspace, Pdata, Proc, Status, Text, keys};

use crate::process_dirs::ProcessDirs;
pub(crate) use channel::{HostReceiver, HostSender, host_channel};

/// The launcher as the host of its server: a host of one node.
///
/// What it leaves out or refuses is answered "not supported": it allocates nothing, and has no fabric.
pub(crate) struct LocalHost {
    messages: HostSender,
    /// Whether output and input pass through the launcher.
    forwards: bool,
    dirs: ProcessDirs,
}

/// An upcall that the watched job answers, or something it is to know.
pub(crate) enum HostMessage {
    Connected(Proc<'static>),
    Finalized(Proc<'static>),
    /// A tool has finalized, or its connection was closed.
    ToolLeft(Proc<'static>),
    Abort(Abort, Completion<()>),
    Fence(Fence, Completion<Vec<u8>>),
    Connect(Connect, Completion<()>),
    Disconnect(Disconnect, Completion<()>),
    Group(Group, Completion<Vec<Info<'static>>>),
    Spawn(Spawn, Completion<Nspace<'static>>),
    Publish(Publish, Completion<()>),
    Lookup(Lookup, Completion<Vec<Pdata<'static>>>),
    Unpublish(Unpublish, Completion<()>),
    Query(Query, Completion<Vec<Info<'static>>>),
    JobControl(JobControl, Completion<Vec<Info<'static>>>),
    SessionControl(SessionControl, Completion<Vec<Info<'static>>>),
    Log(Log, Completion<()>),
    Monitor(Monitor, Completion<Vec<Info<'static>>>),
    GetCredential(GetCredential, Completion<Credential>),
    ValidateCredential(ValidateCredential, Completion<Vec<Info<'static>>>),
    IofPull(IofPull, Completion<()>),
    PushStdin(PushStdin, Completion<()>),
    /// A process waits for a debugger, or is released by one.
    Debugger(NotifyEvent),
    /// What processes do together ended without success, and who did not come.
    Missing(Failed),
    /// What became of a group.
    GroupChanged(Text<'static>, GroupChange),
    /// What a user wants removed at the end of a process or a job.
    CleanupRegistered(Proc<'static>, u32, Cleanup),
    /// What a user wants removed, as that process or job has ended.
    Cleanup(Proc<'static>, u32, Cleanup),
    /// A process asked for something that no launcher of one node does.
    Refused(Proc<'static>, &'static str),
}

impl HostMessage {
    /// Returns the function that a process called and the directives that it gave, where the launcher looks for those
    /// that are required before it serves the call.
    pub(crate) fn directives(&self) -> Option<(&'static str, Vec<&[Info<'static>]>)> {
        Some(match self {
            Self::Fence(call, _) => ("PMIx_Fence", vec![&call.infos]),
            Self::Connect(call, _) => ("PMIx_Connect", vec![&call.infos]),
            Self::Disconnect(call, _) => ("PMIx_Disconnect", vec![&call.infos]),
            Self::Group(call, _) if call.operation == GroupOperation::CONSTRUCT => {
                ("PMIx_Group_construct", vec![&call.directives])
            }
            Self::Group(call, _) => ("PMIx_Group_destruct", vec![&call.directives]),
            Self::Lookup(call, _) => ("PMIx_Lookup", vec![&call.infos]),
            Self::Unpublish(call, _) => ("PMIx_Unpublish", vec![&call.infos]),
            Self::Query(call, _) => {
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

    /// Answers the call with an error, if it is one that is answered.
    pub(crate) fn fail(self, status: Status) {
        match self {
            Self::Fence(_, done) => done.fail(status),
            Self::Connect(_, done) => done.fail(status),
            Self::Disconnect(_, done) => done.fail(status),
            Self::Group(_, done) => done.fail(status),
            Self::Lookup(_, done) => done.fail(status),
            Self::Unpublish(_, done) => done.fail(status),
            Self::Query(_, done) => done.fail(status),
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

/// What processes do together, and that it ended without success.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) operation: Collective,
    /// The group that they make or take apart.
    pub(crate) group: Option<Text<'static>>,
    pub(crate) procs: Vec<Proc<'static>>,
    pub(crate) status: Status,
    /// Those that did not come.
    pub(crate) missing: Vec<Proc<'static>>,
}

impl LocalHost {
    pub(crate) fn new(messages: HostSender, forwards: bool, dirs: ProcessDirs) -> Self {
        Self {
            messages,
            forwards,
            dirs,
        }
    }

    fn refuse(&self, proc: Proc<'static>, what: &'static str) {
        self.messages.send(HostMessage::Refused(proc, what));
    }
}

impl Host for LocalHost {
    /// The client is told that it is connected when this has returned, so its directory is there.
    fn client_connected(&self, call: ClientConnected, done: Completion<()>) {
        self.dirs.make(call.object);
        self.messages.send(HostMessage::Connected(call.proc));
        done.succeed(());
    }

    fn client_finalized(&self, call: ClientFinalized, done: Completion<()>) {
        // The message is under way before the client is told, so that when the process ends it is
        // known that it did not end without finalising.
        self.messages.send(HostMessage::Finalized(call.proc));
        done.succeed(());
    }

    fn abort(&self, call: Abort, done: Completion<()>) {
        self.messages.send(HostMessage::Abort(call, done));
    }

    /// Participants on other nodes are only described ([`Layout::of_maps`](crate::Layout)): they
    /// count as arrived, with nothing to say.
    fn fence(&self, call: Fence, done: Completion<Vec<u8>>) {
        self.messages.send(HostMessage::Fence(call, done));
    }

    /// Processes on other nodes are only described: they never put anything.
    fn direct_modex(&self, call: DirectModex, done: Completion<Vec<u8>>) {
        tracing::debug!(
            "{:?} does not run on this node, so its data is not available",
            call.proc
        );
        done.fail(Status::ERR_NOT_FOUND);
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
        self.messages.send(HostMessage::Connect(call, done));
    }

    fn disconnect(&self, call: Disconnect, done: Completion<()>) {
        self.messages.send(HostMessage::Disconnect(call, done));
    }

    fn group(&self, call: Group, done: Completion<Vec<Info<'static>>>) {
        self.messages.send(HostMessage::Group(call, done));
    }

    /// All who could cause an event are on this node.
    fn register_events(&self, _: RegisterEvents, done: Completion<()>) {
        done.succeed(());
    }

    fn deregister_events(&self, _: DeregisterEvents, done: Completion<()>) {
        done.succeed(());
    }

    /// All whom an event could reach are on this node, and were told.
    fn notify_event(&self, call: NotifyEvent, done: Completion<()>) {
        if [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE].contains(&call.status) {
            self.messages.send(HostMessage::Debugger(call));
        }
        done.succeed(());
    }

    fn query(&self, call: Query, done: Completion<Vec<Info<'static>>>) {
        self.messages.send(HostMessage::Query(call, done));
    }

    fn log(&self, call: Log, done: Completion<()>) {
        self.messages.send(HostMessage::Log(call, done));
    }

    fn job_control(&self, call: JobControl, done: Completion<Vec<Info<'static>>>) {
        self.messages.send(HostMessage::JobControl(call, done));
    }

    /// The server is given all output that passes through the launcher, whether or not a peer pulls it, and the output
    /// goes where it went before as well. The server and the tool serve all else that a pull may ask for, so the session
    /// only checks that there are such processes.
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
            ServerEvent::ToolFinalized { proc }
            | ServerEvent::ProcessLost {
                proc,
                is_tool: true,
                ..
            } => self.messages.send(HostMessage::ToolLeft(proc)),
            ServerEvent::Group { name, change } => {
                self.messages.send(HostMessage::GroupChanged(name, change));
            }
            other => tracing::debug!("{other:?}"),
        }
    }
}
