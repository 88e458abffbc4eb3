// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the host without a reply so far, and the callbacks by which the host replies.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_server::{Completion, Credential, Reply};
use pmix_types::{Bytes, Info, Nspace, Pdata, Proc, Status};

use crate::abi::*;
use crate::callback::Callback;
use crate::convert::{Data, infos_of, nspace_at};
use crate::guard::guard;
use crate::later::later;
use crate::memory::{Result, copied, slice};
use crate::model::{Model, many};
use crate::per_process::PerProcess;
use crate::valid::Valid;

/// A function that receives a status with a result, or the status of a failure.
type Then<T> = Box<dyn FnOnce(Result<(Status, T)>) + Send>;

/// The receiver of a reply of the host.
pub(crate) enum ReplyTo<T: Reply> {
    /// The server, for a client or tool.
    Server(Completion<T>),
    /// This process.
    Own(Then<T>),
}

impl<T: Reply> ReplyTo<T> {
    pub(super) fn succeed(self, value: T) {
        self.partly(Status::SUCCESS, value);
    }

    pub(super) fn partly(self, status: Status, value: T) {
        match self {
            Self::Server(done) => done.partly(status, value),
            Self::Own(then) => then(Ok((status, value))),
        }
    }

    pub(super) fn fail(self, status: Status) {
        match self {
            Self::Server(done) => done.fail(status),
            Self::Own(then) => then(Err(status)),
        }
    }

    pub(super) fn not_supported(self) {
        match self {
            Self::Server(done) => done.not_supported(),
            Self::Own(then) => then(Err(Status::ERR_NOT_SUPPORTED)),
        }
    }
}

/// The reply that a call expects.
pub(super) enum Expected {
    Op(ReplyTo<()>),
    Modex(ReplyTo<Vec<u8>>),
    Lookup(ReplyTo<Vec<Pdata<'static>>>),
    Spawn(ReplyTo<Nspace<'static>>),
    Infos(ReplyTo<Vec<Info<'static>>>),
    Validated(ReplyTo<Vec<Info<'static>>>),
    Credential(ReplyTo<Credential>),
    Tool(ReplyTo<Proc<'static>>),
}

/// A call: its expected reply, and the arguments that the host may read until then.
struct Pending {
    expected: Expected,
    #[allow(dead_code, reason = "freed with the call")]
    arguments: Box<dyn Any + Send>,
}

#[derive(Default)]
struct Calls {
    last: usize,
    open: BTreeMap<usize, Pending>,
}

/// The open calls by number. The number makes a second or late reply of the host harmless.
static CALLS: PerProcess<Mutex<Calls>> = PerProcess::new(Mutex::new(Calls {
    last: 0,
    open: BTreeMap::new(),
}));

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Completes all calls with an error, because the server ends.
pub(super) fn end_all() {
    let open = std::mem::take(&mut calls().open);
    for pending in open.into_values() {
        pending.expected.at_once(Status::ERR_COMM_FAILURE);
    }
}

/// Calls the host, which completes at once by its status, or later by the callback with the number.
pub(super) fn call(
    expected: Expected,
    arguments: Box<dyn Any + Send>,
    host: impl FnOnce(*mut c_void) -> pmix_status_t,
) {
    let number = {
        let mut calls = calls();
        calls.last += 1;
        let number = calls.last;
        calls.open.insert(
            number,
            Pending {
                expected,
                arguments,
            },
        );
        number
    };
    // The call was stored first: the host may call back from another thread before its function returns.
    let status = Status::from_raw(host(ptr::without_provenance_mut(number)));
    if status == Status::SUCCESS {
        return;
    }
    // The host has completed the call, or rejected it: in either case it will not call back.
    if let Some(pending) = take(number) {
        pending.expected.at_once(status);
    }
}

fn take(number: usize) -> Option<Pending> {
    calls().open.remove(&number)
}

impl Expected {
    /// Completes the call with the status that the host's function returned.
    fn at_once(self, status: Status) {
        fn fail<T: Reply>(done: ReplyTo<T>, status: Status) {
            match status {
                Status::ERR_NOT_SUPPORTED => done.not_supported(),
                other => done.fail(other),
            }
        }
        match self {
            Self::Op(done) if status == Status::OPERATION_SUCCEEDED => done.succeed(()),
            Self::Op(done) => fail(done, status),
            // OpenPBS completes a fence in this way, without the data of other nodes.
            Self::Modex(done) if status == Status::OPERATION_SUCCEEDED => done.succeed(Vec::new()),
            Self::Modex(done) => fail(done, status),
            Self::Lookup(done) => fail(done, status),
            Self::Spawn(done) => fail(done, status),
            Self::Infos(done) | Self::Validated(done) if status == Status::OPERATION_SUCCEEDED => {
                done.succeed(Vec::new());
            }
            Self::Infos(done) | Self::Validated(done) => fail(done, status),
            Self::Credential(done) => fail(done, status),
            Self::Tool(done) => fail(done, status),
        }
    }
}

/// Returns `true` if a status comes with a result.
const fn is_some(status: Status) -> bool {
    matches!(
        status,
        Status::SUCCESS
            | Status::OPERATION_SUCCEEDED
            | Status::ERR_PARTIAL_SUCCESS
            | Status::QUERY_PARTIAL_SUCCESS
    )
}

/// Completes the call with a number. All data of the host are read before this returns.
fn answer(name: &'static str, cbdata: *mut c_void, with: impl FnOnce(Expected)) {
    guard::<(), _>(name, move || {
        match take(cbdata as usize) {
            Some(pending) => with(pending.expected),
            None => tracing::debug!(name, "the host replied to a request that is not pending"),
        }
        Ok(())
    });
}

fn finish<T: Reply>(done: ReplyTo<T>, status: pmix_status_t, read: impl FnOnce() -> Result<T>) {
    let status = Status::from_raw(status);
    match is_some(status) {
        true => match read() {
            Ok(value) => done.partly(status, value),
            Err(fault) => done.fail(fault),
        },
        false => done.fail(status),
    }
}

/// Calls the release function of the host, after its data have been copied. The host may hold a lock while it replies
/// that the release function takes as well, so another thread calls it.
fn release_later(release: pmix_release_cbfunc_t, cbdata: *mut c_void) {
    guard::<(), _>("release", || {
        // SAFETY: the host passed this function with this `cbdata`, as the header declares it.
        let callback = unsafe { Callback::new(release, Data(cbdata)) };
        if !callback.is_null() && later(move || callback.complete(())).is_err() {
            tracing::warn!("cannot release the reply of the host: cannot start a thread");
        }
        Ok(())
    });
}

/// Defines the callbacks by which the host replies: `name(argument: type, ...) => Expected { result }`. `releases` marks
/// those with a release function for the data of the host.
macro_rules! callbacks {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) $(releases $release:ident)? => $expected:ident {
        $($read:tt)*
    })*) => {
        $($(#[$meta])*
        pub(super) unsafe extern "C" fn $name(
            status: pmix_status_t,
            $($arg: $type,)*
            cbdata: *mut c_void,
            $($release: pmix_release_cbfunc_t, release_cbdata: *mut c_void,)?
        ) {
            answer(stringify!($name), cbdata, |expected| {
                if let Expected::$expected(done) = expected {
                    #[allow(unused_unsafe, reason = "not every callback has pointers")]
                    // SAFETY: the host passes NULL or valid data, and as many as their counts say (header contract).
                    let read = || unsafe { $($read)* };
                    finish(done, status, read);
                }
            });
            $(release_later($release, release_cbdata);)?
        })*
    };
}

callbacks! {
    /// Completes a call without a result (`pmix_op_cbfunc_t`).
    op() => Op {
        Ok(())
    }

    /// Completes a fence or a direct modex (`pmix_modex_cbfunc_t`).
    modex(data: *const c_char, ndata: usize) releases release => Modex {
        slice(data.cast::<u8>(), ndata).and_then(copied)
    }

    /// Completes a lookup (`pmix_lookup_cbfunc_t`).
    lookup(data: *mut pmix_pdata_t, ndata: usize) => Lookup {
        many(Valid::slice(data, ndata)?)
    }

    /// Completes a spawn (`pmix_spawn_cbfunc_t`).
    spawn(nspace: *mut c_char) => Spawn {
        Ok(nspace_at(nspace))
    }

    /// Completes a call with infos (`pmix_info_cbfunc_t`).
    infos(info: *mut pmix_info_t, ninfo: usize) releases release => Infos {
        infos_of(Valid::slice(info, ninfo)?)
    }

    /// Completes the validation of a credential (`pmix_validation_cbfunc_t`).
    validated(info: *mut pmix_info_t, ninfo: usize) => Validated {
        infos_of(Valid::slice(info, ninfo)?)
    }

    /// Completes a request for a credential (`pmix_credential_cbfunc_t`).
    credential(made: *mut pmix_byte_object_t, info: *mut pmix_info_t, ninfo: usize) => Credential {
        let made = Valid::slice(made, 1)?.iter().next().ok_or(Status::ERR_BAD_PARAM)?;
        Ok(Credential {
            credential: Bytes::from_c(made)?.into_owned(),
            infos: infos_of(Valid::slice(info, ninfo)?)?,
        })
    }

    /// Completes the connection of a tool (`pmix_tool_connection_cbfunc_t`).
    tool(proc: *mut pmix_proc_t) => Tool {
        Proc::from_c(Valid::slice(proc, 1)?.iter().next().ok_or(Status::ERR_BAD_PARAM)?)
    }
}
