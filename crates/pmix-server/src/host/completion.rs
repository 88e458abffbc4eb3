// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens by which a host answers, at once or later.

use std::fmt;
use std::sync::Weak;

use pmix_engine::{Answer, CallId};
use pmix_types::{Info, Nspace, Pdata, Proc, Status};

use crate::engine_handle::EngineHandle;

/// What a host answers an upcall with, once, at once or later and from any thread.
///
/// A completion that is dropped answers too: who waits is told that the request failed
/// (`PMIX_ERR_COMM_FAILURE`). The same happens when the method of the host panics.
#[must_use = "dropped without an answer, it tells who waits that the request failed"]
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

    /// It is done, and this is the result; or it failed with a status.
    pub fn complete(self, result: Result<T, Status>) {
        match result {
            Ok(value) => self.succeed(value),
            Err(status) => self.fail(status),
        }
    }

    /// It is done, and this is the result.
    pub fn succeed(self, value: T) {
        self.partly(Status::SUCCESS, value);
    }

    /// It is done as far as a status says, for example `PMIX_ERR_PARTIAL_SUCCESS`, and this is
    /// there of the result. Where there is no room for both, a status that is no success counts.
    pub fn partly(mut self, status: Status, value: T) {
        self.answer(value.answer(status));
    }

    /// It failed.
    pub fn fail(mut self, status: Status) {
        // A failure with the status of success would leave who waits without a result.
        let status = match status {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => Status::ERROR,
            other => other,
        };
        self.answer(Answer::Done(status));
    }

    /// The host does not do that.
    pub fn not_supported(mut self) {
        self.answer(Answer::NotSupported);
    }

    fn answer(&mut self, answer: Answer) {
        // A server that is no more has nobody who waits.
        if let Some(handle) = self.handle.take().and_then(|handle| handle.upgrade()) {
            handle.answer(self.call, answer);
        }
    }
}

impl<T: Reply> Drop for Completion<T> {
    fn drop(&mut self) {
        if self.handle.is_some() {
            tracing::warn!(call = ?self.call, "the host dropped a request without an answer");
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

/// What an upcall can be answered with.
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
    Vec<Pdata<'static>>: |status, found| Answer::Found(status, found);
    Nspace<'static>: |status, nspace| Answer::Spawned(status, nspace);
    Vec<Info<'static>>: |status, infos| Answer::Infos(status, infos);
    Credential: |status, made| Answer::Credential(unless(status, made.credential), made.infos);
    Proc<'static>: |status, tool| Answer::Tool(unless(status, tool));
}

/// A credential that the host made, and what it says about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credential {
    /// The credential.
    pub credential: Vec<u8>,
    /// What there is to say about it.
    pub infos: Vec<Info<'static>>,
}

fn unless<T>(status: Status, value: T) -> Result<T, Status> {
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(value),
        other => Err(other),
    }
}
