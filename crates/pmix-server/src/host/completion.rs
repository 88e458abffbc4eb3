// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of a host to upcalls, at once or later.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", the callbacks of
//! `pmix_server_module_t`.

use std::fmt;
use std::sync::{Arc, Weak};

use pmix_engine::{Answer, CallId};
use pmix_types::{DeviceDistance, Info, Nspace, Pdata, Proc, Status};

use crate::engine_handle::EngineHandle;

/// Answers one upcall, at once or later and from any thread. Dropping it answers with an error.
///
/// A completion that is dropped answers too: the request fails with `PMIX_ERR_COMM_FAILURE`. The
/// same happens when the method of the host panics.
#[must_use = "dropped without an answer, it fails the request"]
pub struct Completion<T: Reply> {
    call: CallId,
    /// None once it has answered.
    handle: Option<Weak<EngineHandle>>,
    answer: std::marker::PhantomData<fn(T)>,
}

impl<T: Reply> Completion<T> {
    pub(crate) fn new(call: CallId, handle: Weak<EngineHandle>) -> Self {
        Self {
            call,
            handle: Some(handle),
            answer: std::marker::PhantomData,
        }
    }

    /// Answers with a result, or with the status of a failure.
    pub fn complete(self, result: Result<T, Status>) {
        match result {
            Ok(value) => self.succeed(value),
            Err(status) => self.fail(status),
        }
    }

    /// Answers with a result.
    pub fn succeed(self, value: T) {
        self.partly(Status::SUCCESS, value);
    }

    /// Answers with a status and what there is of the result, for example
    /// `PMIX_ERR_PARTIAL_SUCCESS`. Where a reply has no room for both, a status that is no success
    /// counts.
    pub fn partly(mut self, status: Status, value: T) {
        self.answer(value.answer(status));
    }

    /// Answers with the status of a failure.
    pub fn fail(mut self, status: Status) {
        // A failure with the status of success would leave who waits without a result.
        let status = match status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Status::ERROR,
            other => other,
        };
        self.answer(Answer::Done(status));
    }

    /// Answers that the host does not support the request (`PMIX_ERR_NOT_SUPPORTED`).
    pub fn not_supported(mut self) {
        self.answer(Answer::NotSupported);
    }

    /// Returns a completion without the type of its result, for a host that gets its answers as
    /// [`Answer`]s, for example from another process ([`Answer::unpack`]).
    pub fn untyped(mut self) -> UntypedCompletion {
        let (call, handle) = (self.call, self.handle.take());
        let answer = std::marker::PhantomData;
        UntypedCompletion(Completion {
            call,
            handle,
            answer,
        })
    }

    fn answer(&mut self, answer: Answer) {
        // No request is pending after the server was dropped.
        if let Some(handle) = self.handle.take().and_then(|handle| handle.upgrade()) {
            handle.answer(self.call, answer);
        }
    }
}

impl Completion<Vec<Pdata<'static>>> {
    /// Answers a lookup as [`partly`](Self::partly) does, with data that the answers to others share:
    /// very many may have waited for the same.
    pub fn shared(mut self, status: Status, found: Vec<Arc<Pdata<'static>>>) {
        self.answer(Answer::Found(status, found));
    }
}

/// Answers one upcall of any kind; dropping it answers with an error, as with a [`Completion`].
#[derive(Debug)]
#[must_use = "dropped without an answer, it fails the request"]
pub struct UntypedCompletion(Completion<()>);

impl UntypedCompletion {
    /// Answers with the decision of another process of the host. If the answer is of another kind than the upcall, only
    /// its status counts.
    pub fn complete(mut self, answer: Answer) {
        self.0.answer(answer);
    }
}

impl<T: Reply> Drop for Completion<T> {
    fn drop(&mut self) {
        if self.handle.is_some() {
            tracing::warn!(call = ?self.call, "the host dropped a request without completing it");
            self.answer(Answer::DROPPED);
        }
    }
}

impl<T: Reply> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completion").field(&self.call).finish()
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Marks the results that an upcall can be answered with.
pub trait Reply: sealed::Sealed {
    #[doc(hidden)]
    fn answer(self, status: Status) -> Answer;
}

macro_rules! replies {
    ($($type:ty: |$status:ident, $value:pat_param| $answer:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}

            impl Reply for $type {
                fn answer(self, $status: Status) -> Answer {
                    let $value = self;
                    $answer
                }
            }
        )*
    };
}

replies! {
    (): |status, ()| Answer::Done(status);
    Vec<u8>: |status, data| Answer::Data(unless(status, data));
    Vec<Pdata<'static>>: |status, found| {
        Answer::Found(status, found.into_iter().map(Arc::new).collect())
    };
    Nspace<'static>: |status, nspace| Answer::Spawned(status, nspace);
    Vec<Info<'static>>: |status, infos| Answer::Infos(status, infos);
    Credential: |status, made| Answer::Credential(unless(status, made.credential), made.infos);
    Vec<DeviceDistance<'static>>: |status, found| Answer::Distances(unless(status, found));
    Proc<'static>: |status, tool| Answer::Tool(unless(status, tool));
}

/// Holds a credential that the host made, and infos about it.
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
