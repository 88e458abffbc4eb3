// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine tells its driver.

use pmix_types::{Proc, Status};

use crate::{Cleanup, Collective, Error, PeerId};

/// What the engine tells its driver, in the order in which it happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineEvent {
    /// A connection is to be closed, after what is queued for it was tried to be written once. The
    /// engine does not know it any longer.
    Close(PeerId),
    /// A peer was not let in, or not any longer; [`Close`](Self::Close) follows.
    Refused {
        /// The connection.
        peer: PeerId,
        /// Why.
        reason: Error,
    },
    /// A request was refused because of who asked; the connection stays.
    Denied {
        /// The connection.
        peer: PeerId,
        /// Why.
        reason: Error,
    },
    /// The data of a local process that the host asked for.
    DirectModex {
        /// What `dmodex_request` returned.
        request: DirectModexId,
        /// The data, to be handed to the server that wants them.
        result: Result<Vec<u8>, Status>,
    },
    /// A process went away without saying so.
    ProcessLost {
        /// The process.
        proc: Proc<'static>,
        /// Which incarnation of the process it was, the first one being 1.
        incarnation: u32,
    },
    /// A process or a job has ended that wanted something removed then.
    Cleanup {
        /// Which; with the wildcard for a rank the job.
        target: Proc<'static>,
        /// The user and group that asked for it, with whose rights it is to be removed.
        user: (u32, u32),
        /// What is to be removed, and what is not.
        cleanup: Cleanup,
    },
    /// A fence, a connect or a disconnect ended without success.
    FenceMissing {
        /// Which of them.
        operation: Collective,
        /// Whose it was.
        procs: Vec<Proc<'static>>,
        /// The local participants that were not there, or are not there any longer, in ascending
        /// order.
        missing: Vec<Proc<'static>>,
        /// What the others are told.
        status: Status,
    },
}

/// The name of a request of the host for the data of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectModexId(pub(crate) u64);
