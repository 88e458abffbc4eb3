// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of the engine for its driver.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", for what the host is to be told;
//! the rest is this project's own.

use pmix_types::{Proc, Status, Text};

use crate::{Cleanup, Collective, DirectModexId, Error, PeerId};

/// Tells the driver what happened, in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineEvent {
    /// A connection is to be closed, after what is queued for it was tried to be written once. The
    /// engine does not know it any longer.
    Close(PeerId),
    /// A peer was refused, or is no longer served for what it sent; [`Close`](Self::Close) follows.
    Refused {
        /// The connection.
        peer: PeerId,
        /// The reason.
        reason: Error,
    },
    /// A request was refused for lack of permission, or because it is beyond the limits of a request; the connection
    /// stays.
    Denied {
        /// The connection.
        peer: PeerId,
        /// The reason.
        reason: Error,
    },
    /// The data of a local process that the host asked for.
    DirectModex {
        /// The name that `dmodex_request` returned.
        request: DirectModexId,
        /// The data, to be handed to the server that wants them.
        result: Result<Vec<u8>, Status>,
    },
    /// The connection of a client or tool closed without a finalize.
    ProcessLost {
        /// The process.
        proc: Proc<'static>,
        /// The incarnation of the process, the first one being 1.
        incarnation: u32,
        /// Whether it is a tool, which nobody registered.
        is_tool: bool,
    },
    /// A cleanup was registered for the end of a process or a job. A host need not act on it: it is handed out with
    /// [`Cleanup`](Self::Cleanup) then. One that may be killed before can have another process do it.
    CleanupRegistered {
        /// The process; with the wildcard rank, the job.
        target: Proc<'static>,
        /// The user id and group id with whose rights files are to be removed.
        user: (u32, u32),
        /// What was not registered before. A directory that is named again is to be removed as this says.
        cleanup: Cleanup,
    },
    /// A tool finalizes. A host is asked about clients alone (`client_finalized`).
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
        cleanup: Cleanup,
    },
    /// A fence, a connect, a disconnect, the construction or destruction of a group ended without
    /// success.
    FenceMissing {
        /// The operation.
        operation: Collective,
        /// The name of the group that it constructs or destructs.
        group: Option<Text<'static>>,
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The local participants that had not arrived, or were lost, in ascending order.
        missing: Vec<Proc<'static>>,
        /// The status that the participants get.
        status: Status,
    },
    /// A group was constructed or destructed, or a member left it.
    Group {
        /// Its name.
        name: Text<'static>,
        /// What became of it.
        change: GroupChange,
    },
}

/// Says what became of a group of which local processes are members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupChange {
    /// It was made, with these members in the order of their ranks in it. A member that is a whole
    /// job has the wildcard rank.
    Formed(Vec<Proc<'static>>),
    /// This member left it.
    Left(Proc<'static>),
    /// It was destructed; these were its members when it was made.
    TakenApart(Vec<Proc<'static>>),
}
