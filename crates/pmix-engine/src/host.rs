// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls to the host, and its replies.
//!
//! An [`Upcall`] is owned data and corresponds to one function of `pmix_server_module_t`; only [`DeviceDistances`] has
//! no function there, and the driver replies to it. The host replies at once or later, in any order, with the
//! [`CallId`] of the upcall. A reply to an unknown upcall is dropped.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `pmix_server_module_t` and its callbacks.

mod pack;
mod upcall;

use std::collections::HashMap;
use std::sync::Arc;

use pmix_types::{DeviceDistance, Info, Nspace, Pdata, Proc, Rank, Status};

pub use upcall::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DeviceDistances,
    DirectModex, Disconnect, Fabric, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup,
    Monitor, NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl,
    Spawn, ToolConnected, Unpublish, Upcall, ValidateCredential,
};

/// The identifier of an upcall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

/// An upcall for the driver to make.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostCall {
    /// The identifier for the reply.
    pub id: CallId,
    /// The upcall.
    pub upcall: Upcall,
}

/// The object that the host registered with a client; the engine passes it back unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostObject(pub u64);

/// The host's reply to an [`Upcall`].
///
/// Every upcall accepts [`Done`](Self::Done) with an error and [`NotSupported`](Self::NotSupported); each upcall names
/// the other replies that it accepts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostReply {
    /// Success, or the status of a failure.
    Done(Status),
    /// The host does not support the request.
    NotSupported,
    /// The contributions of a fence, or the data of a direct modex.
    Data(Result<Vec<u8>, Status>),
    /// The published data that were found, possibly shared with other replies.
    Found(Status, Vec<Arc<Pdata<'static>>>),
    /// The spawned job.
    Spawned(Status, Nspace<'static>),
    /// Values, in no particular order.
    Infos(Status, Vec<Info<'static>>),
    /// A credential and information about it.
    Credential(Result<Vec<u8>, Status>, Vec<Info<'static>>),
    /// The distances of devices.
    Distances(Result<Vec<DeviceDistance<'static>>, Status>),
    /// The assigned name of a tool.
    Tool(Result<Proc<'static>, Status>),
}

impl HostReply {
    /// The reply for a host that dropped its completion handle and will never reply.
    pub const DROPPED: Self = Self::Done(Status::ERR_COMM_FAILURE);

    /// Returns the outcome as one status. Immediate completion (`PMIX_OPERATION_SUCCEEDED`) counts as success.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = match self {
            Self::NotSupported => Status::ERR_NOT_SUPPORTED,
            Self::Done(status)
            | Self::Found(status, _)
            | Self::Spawned(status, _)
            | Self::Infos(status, _) => *status,
            Self::Data(reply) => failure(reply),
            Self::Credential(reply, _) => failure(reply),
            Self::Distances(reply) => failure(reply),
            Self::Tool(reply) => failure(reply),
        };
        match status {
            // A host in C returns it for a request that it completed within the call (PMIx Standard, "Server-Specific
            // Interfaces").
            Status::OPERATION_SUCCEEDED => Status::SUCCESS,
            other => other,
        }
    }
}

fn failure<T>(reply: &Result<T, Status>) -> Status {
    reply.as_ref().err().copied().unwrap_or(Status::SUCCESS)
}

/// The user id and group id of a process on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
}

impl Credentials {
    /// Creates credentials from a user id and a group id.
    #[must_use]
    pub const fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid }
    }
}

/// Returns members in the order of `PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`: first the listed ones, a whole job by rank,
/// then the others in their previous order. The members are single processes.
#[must_use]
pub fn in_final_order(members: Vec<Proc<'static>>, order: &[Proc<'static>]) -> Vec<Proc<'static>> {
    let mut places: HashMap<(&Nspace<'_>, Rank), usize> = HashMap::new();
    for (place, proc) in order.iter().enumerate() {
        // A caller may list a process twice; every server must then use the same position, the first one.
        places.entry((&proc.nspace, proc.rank)).or_insert(place);
    }
    let place = |proc: &Proc<'static>| {
        let named = |rank| places.get(&(&proc.nspace, rank)).copied();
        match named(proc.rank) {
            Some(place) => (place, Rank::new(0)),
            None => match named(Rank::WILDCARD) {
                Some(place) => (place, proc.rank),
                None => (usize::MAX, Rank::new(0)),
            },
        }
    };
    let mut placed: Vec<_> = members
        .into_iter()
        .map(|proc| (place(&proc), proc))
        .collect();
    // The sort is stable, so members that are not listed keep their order.
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, proc)| proc).collect()
}
