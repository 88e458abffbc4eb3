// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the engine for its driver.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", for the events that the host must receive; the others
//! are this project's own.

use std::time::Instant;

use pmix_types::{Proc, Status, Text};

use crate::{Cleanup, Collective, DirectModexId, Error, PeerId};

/// An event for the driver. The order of events is the order of their causes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineEvent {
    /// A request to close a connection after one attempt to write the bytes queued for it. The engine has already
    /// removed the connection.
    Close(PeerId),
    /// The disconnection of a peer because of an invalid connection attempt or message; [`Close`](Self::Close) follows.
    Refused {
        /// The connection.
        peer: PeerId,
        /// The reason.
        reason: Error,
    },
    /// The refusal of a request without permission or beyond the limits of a request; the connection stays open.
    Denied {
        /// The connection.
        peer: PeerId,
        /// The reason.
        reason: Error,
    },
    /// The first request of a peer of a newer release with parts, or a command, that this server does not know. They are
    /// ignored.
    Ignored {
        /// The connection.
        peer: PeerId,
        /// The peer, its release and the request.
        reason: Error,
    },
    /// The result of a direct modex request of the host.
    DirectModex {
        /// The identifier that `dmodex_request` returned.
        request: DirectModexId,
        /// The data, to be sent to the requesting server.
        result: Result<Vec<u8>, Status>,
    },
    /// The loss of a client or tool, whose connection closed without a finalize.
    ProcessLost {
        /// The process.
        proc: Proc<'static>,
        /// The incarnation of the process, the first one being 1.
        incarnation: u32,
        /// `true` for a tool, which has no registration.
        is_tool: bool,
    },
    /// The registration of a cleanup for the end of a process or a job. A host may ignore it and wait for
    /// [`Cleanup`](Self::Cleanup). A host that may be killed earlier can pass it to another process.
    CleanupRegistered {
        /// The process, or the job if the rank is the wildcard.
        target: Proc<'static>,
        /// The user id and group id to be used for the removal.
        user: (u32, u32),
        /// The newly registered part. A directory that was registered before is removed as this event specifies.
        cleanup: Cleanup,
    },
    /// The finalize of a tool. `client_finalized` of the host is called for clients only.
    ToolFinalized {
        /// The tool.
        proc: Proc<'static>,
    },
    /// The end of a process or a job with a registered cleanup (`PMIX_REGISTER_CLEANUP`).
    Cleanup {
        /// The process, or the job if the rank is the wildcard.
        target: Proc<'static>,
        /// The user id and group id to be used for the removal.
        user: (u32, u32),
        /// The files and directories to remove, and those to keep.
        cleanup: Cleanup,
    },
    /// The failure of a fence, a connect, a disconnect, or a group construct or destruct.
    FenceMissing {
        /// The operation.
        operation: Collective,
        /// The name of the group, for a construct or destruct.
        group: Option<Text<'static>>,
        /// The participants.
        procs: Vec<Proc<'static>>,
        /// The local participants that had not called or were lost, in ascending order.
        missing: Vec<Proc<'static>>,
        /// The status that the participants get.
        status: Status,
    },
    /// The completion of a fence, if the configuration wants it.
    FenceCompleted {
        /// The time of the first call, if the driver's clock was known then.
        began: Option<Instant>,
        /// The number of local participants.
        num_procs: usize,
    },
    /// The completion of a fence without data exchange (`PMIX_COLLECT_DATA`) whose participants belong to several jobs.
    FenceAcrossJobs {
        /// The participants.
        procs: Vec<Proc<'static>>,
    },
    /// The construction or destruction of a group, or the departure of a member.
    Group {
        /// The name of the group.
        name: Text<'static>,
        /// The change.
        change: GroupChange,
    },
}

/// A change of a group with local members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupChange {
    /// The construction with these members in the order of their group ranks. A whole job is listed with the wildcard
    /// rank.
    Formed(Vec<Proc<'static>>),
    /// The departure of this member.
    Left(Proc<'static>),
    /// The destruction of the group that had these members when it was constructed.
    Destructed(Vec<Proc<'static>>),
}
