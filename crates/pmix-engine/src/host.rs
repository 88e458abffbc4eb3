// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls to the host, and its answers.
//!
//! An [`Upcall`] is owned data and stands for one slot of `pmix_server_module_t`; one has no slot, and
//! the driver answers it ([`DeviceDistances`]). The host answers
//! it at once or later, in any order, with the [`CallId`] it came under. An answer that nobody
//! waits for any longer is dropped.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_module_t` and its
//! callbacks.

mod order;
mod pack;
mod upcall;

use std::sync::Arc;

use pmix_types::{DeviceDistance, Info, Nspace, Pdata, Proc, Status};

pub use order::in_final_order;
pub use upcall::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DeviceDistances,
    DirectModex, Disconnect, Fabric, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup,
    Monitor, NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl,
    Spawn, ToolConnected, Unpublish, Upcall, ValidateCredential,
};

/// Names an upcall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

/// Holds an upcall that the driver is to make.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostCall {
    /// The name that the answer carries.
    pub id: CallId,
    /// The upcall.
    pub upcall: Upcall,
}

/// Holds the object that the host registered with a client; the engine only returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostObject(pub u64);

/// Holds the answer of the host to an [`Upcall`].
///
/// Any upcall may be answered with [`Done`](Self::Done) and an error, or with
/// [`NotSupported`](Self::NotSupported); what else fits is said at the upcall.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// Success, or the status of a failure.
    Done(Status),
    /// The host does not support the request.
    NotSupported,
    /// Bytes for a fence or a direct modex.
    Data(Result<Vec<u8>, Status>),
    /// The published data that were found; the answers to others may share them.
    Found(Status, Vec<Arc<Pdata<'static>>>),
    /// The job that was started.
    Spawned(Status, Nspace<'static>),
    /// Values, in no particular order.
    Infos(Status, Vec<Info<'static>>),
    /// A credential, and what is said about it.
    Credential(Result<Vec<u8>, Status>, Vec<Info<'static>>),
    /// How far devices are.
    Distances(Result<Vec<DeviceDistance<'static>>, Status>),
    /// The name that a tool has from now on.
    Tool(Result<Proc<'static>, Status>),
}

impl Answer {
    /// Answers for a host that dropped its completion and so never will.
    pub const DROPPED: Self = Self::Done(Status::ERR_COMM_FAILURE);

    /// Returns the outcome as one status. That something was done at once
    /// (`PMIX_OPERATION_SUCCEEDED`) is success.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = match self {
            Self::NotSupported => Status::ERR_NOT_SUPPORTED,
            Self::Done(status)
            | Self::Found(status, _)
            | Self::Spawned(status, _)
            | Self::Infos(status, _) => *status,
            Self::Data(answer) => failure(answer),
            Self::Credential(answer, _) => failure(answer),
            Self::Distances(answer) => failure(answer),
            Self::Tool(answer) => failure(answer),
        };
        match status {
            Status::OPERATION_SUCCEEDED => Status::SUCCESS,
            other => other,
        }
    }
}

fn failure<T>(answer: &Result<T, Status>) -> Status {
    answer.as_ref().err().copied().unwrap_or(Status::SUCCESS)
}

/// Holds the user id and group id of a process, as the node of the server numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
}

impl Credentials {
    /// Names a user and a group.
    #[must_use]
    pub const fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid }
    }
}
