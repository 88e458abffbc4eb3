// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine asks of its host, and what the host answers.
//!
//! An [`Upcall`] is owned data and stands for one slot of `pmix_server_module_t`. The host answers
//! it at once or later, in any order, with the [`CallId`] it came under. An answer that nobody
//! waits for any longer is dropped.

mod answer;
mod calls;
mod upcall;

pub use answer::Answer;
pub(crate) use calls::Calls;
pub use calls::{CallId, HostCall};
pub use upcall::{
    Abort, Alloc, ClientConnected, ClientFinalized, Connect, DeregisterEvents, DirectModex,
    Disconnect, Fabric, Fence, GetCredential, Group, IofPull, JobControl, Log, Lookup, Monitor,
    NotifyEvent, Publish, PushStdin, Query, RegisterEvents, ResourceBlock, SessionControl, Spawn,
    ToolConnected, Unpublish, Upcall, ValidateCredential,
};

/// What the host calls a client by in its own books; the engine only hands it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostObject(pub u64);
