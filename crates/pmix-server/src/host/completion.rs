// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replies of a host to upcalls, immediate or later.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", the callbacks of
//! `pmix_server_module_t`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pmix_engine::{CallId, HostReply};
use pmix_types::{DeviceDistance, Info, Nspace, Pdata, Proc, Status};

use super::guard::guarded;
use crate::engine_handle::EngineHandle;

/// The completion of one upcall, immediate or later, from any thread.
///
/// If it is dropped, the request fails with `PMIX_ERR_COMM_FAILURE`. The same applies if the method of the host panics.
#[must_use = "dropped without a reply, it fails the request"]
pub struct Completion<T: Reply> {
    /// `None` after the completion.
    target: Option<ReplyTarget>,
    result: std::marker::PhantomData<fn(T)>,
}

/// The recipient of the reply to an upcall.
pub(crate) enum ReplyTarget {
    /// The server that made the upcall.
    Server(CallId, Weak<EngineHandle>),
    /// The host's code for an upcall that another process made.
    Callback(Box<Callback>),
}

/// A function that gets the reply. The lock is never contended: it lets hosts share a completion between threads.
pub(crate) struct Callback(Mutex<Box<dyn FnOnce(HostReply) + Send>>);

impl Callback {
    pub(crate) fn new(callback: impl FnOnce(HostReply) + Send + 'static) -> Box<Self> {
        Box::new(Self(Mutex::new(Box::new(callback))))
    }
}

impl ReplyTarget {
    fn send(self, reply: HostReply) {
        match self {
            Self::Server(call, handle) => {
                // No request is pending after the server was dropped.
                if let Some(handle) = handle.upgrade() {
                    handle.reply(call, reply);
                }
            }
            // The reply may be sent while a panic of the host unwinds, and a second panic would end the process.
            Self::Callback(callback) => guarded("reply", || {
                let callback = callback.0.into_inner();
                callback.unwrap_or_else(PoisonError::into_inner)(reply);
            }),
        }
    }
}

impl fmt::Debug for ReplyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(call, _) => call.fmt(f),
            Self::Callback(_) => f.write_str("callback"),
        }
    }
}

impl<T: Reply> Completion<T> {
    pub(crate) fn new(target: ReplyTarget) -> Self {
        Self {
            target: Some(target),
            result: std::marker::PhantomData,
        }
    }

    /// Creates the completion of an upcall that no server of this process made, for example one that another node of
    /// the host packed. The function is called exactly once, with the reply, or with [`HostReply::DROPPED`] if the
    /// completion is dropped. It runs in the thread that completes the upcall; a panic in it is logged.
    ///
    /// ```
    /// use pmix_server::Completion;
    /// use pmix_server::upcall::HostReply;
    /// use pmix_types::Status;
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, replies) = channel();
    /// let link = sender.clone();
    /// let done = Completion::<Vec<u8>>::from_fn(move |reply| link.send(reply).unwrap_or_default());
    /// done.succeed(b"data".to_vec());
    /// assert_eq!(replies.recv(), Ok(HostReply::Data(Ok(b"data".to_vec()))));
    ///
    /// drop(Completion::<()>::from_fn(move |reply| sender.send(reply).unwrap_or_default()));
    /// assert_eq!(replies.recv(), Ok(HostReply::DROPPED));
    /// # assert_eq!(HostReply::DROPPED, HostReply::Done(Status::ERR_COMM_FAILURE));
    /// ```
    pub fn from_fn(callback: impl FnOnce(HostReply) + Send + 'static) -> Self {
        Self::new(ReplyTarget::Callback(Callback::new(callback)))
    }

    /// Completes with a result or with the status of a failure.
    pub fn complete(self, result: Result<T, Status>) {
        match result {
            Ok(value) => self.succeed(value),
            Err(status) => self.fail(status),
        }
    }

    /// Completes with a result.
    pub fn succeed(self, value: T) {
        self.partly(Status::SUCCESS, value);
    }

    /// Completes with a status and a partial result, for example `PMIX_ERR_PARTIAL_SUCCESS`. If the reply has no room
    /// for both, a status that is not a success takes precedence.
    pub fn partly(mut self, status: Status, value: T) {
        self.reply(value.into_reply(status));
    }

    /// Completes with the status of a failure.
    pub fn fail(mut self, status: Status) {
        // A failure with a success status would make the client expect a result.
        let status = match status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Status::ERROR,
            other => other,
        };
        self.reply(HostReply::Done(status));
    }

    /// Completes with `PMIX_ERR_NOT_SUPPORTED`.
    pub fn not_supported(mut self) {
        self.reply(HostReply::NotSupported);
    }

    /// Converts to a completion without the type of its result. It is for a host that gets results as [`HostReply`]s, for
    /// example from another process ([`HostReply::unpack`]).
    pub fn untyped(mut self) -> UntypedCompletion {
        // Without a target, dropping `self` does not complete the upcall.
        UntypedCompletion(Completion {
            target: self.target.take(),
            result: std::marker::PhantomData,
        })
    }

    fn reply(&mut self, reply: HostReply) {
        if let Some(target) = self.target.take() {
            target.send(reply);
        }
    }
}

impl Completion<Vec<Pdata<'static>>> {
    /// Completes a lookup as [`partly`](Self::partly), with data shared between replies. Many clients may wait for the
    /// same data.
    pub fn shared(mut self, status: Status, found: Vec<Arc<Pdata<'static>>>) {
        self.reply(HostReply::Found(status, found));
    }
}

/// The completion of an upcall of any kind. If it is dropped, the request fails, as with a [`Completion`].
#[derive(Debug)]
#[must_use = "dropped without a reply, it fails the request"]
pub struct UntypedCompletion(Completion<()>);

impl UntypedCompletion {
    /// Completes with the reply of another process of the host. If its kind differs from that of the upcall, only its
    /// status is used.
    pub fn complete(mut self, reply: HostReply) {
        self.0.reply(reply);
    }
}

impl<T: Reply> Drop for Completion<T> {
    fn drop(&mut self) {
        if let Some(target) = &self.target {
            tracing::warn!(call = ?target, "the host dropped a request without completing it");
            self.reply(HostReply::DROPPED);
        }
    }
}

impl<T: Reply> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Completion");
        match &self.target {
            Some(target) => tuple.field(target).finish(),
            None => tuple.finish(),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The types that an upcall can be completed with.
pub trait Reply: sealed::Sealed {
    #[doc(hidden)]
    fn into_reply(self, status: Status) -> HostReply;
}

macro_rules! replies {
    ($($type:ty: |$status:ident, $value:pat_param| $reply:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}

            impl Reply for $type {
                fn into_reply(self, $status: Status) -> HostReply {
                    let $value = self;
                    $reply
                }
            }
        )*
    };
}

replies! {
    (): |status, ()| HostReply::Done(status);
    Vec<u8>: |status, data| HostReply::Data(unless(status, data));
    Vec<Pdata<'static>>: |status, found| {
        HostReply::Found(status, found.into_iter().map(Arc::new).collect())
    };
    Nspace<'static>: |status, nspace| HostReply::Spawned(status, nspace);
    Vec<Info<'static>>: |status, infos| HostReply::Infos(status, infos);
    Credential: |status, made| HostReply::Credential(unless(status, made.credential), made.infos);
    Vec<DeviceDistance<'static>>: |status, found| HostReply::Distances(unless(status, found));
    Proc<'static>: |status, tool| HostReply::Tool(unless(status, tool));
}

/// A credential that the host made, and infos about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credential {
    /// The credential.
    pub credential: Vec<u8>,
    /// Infos about the credential.
    pub infos: Vec<Info<'static>>,
}

fn unless<T>(status: Status, value: T) -> Result<T, Status> {
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(value),
        other => Err(other),
    }
}
