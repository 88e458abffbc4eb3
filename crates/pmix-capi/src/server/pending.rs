// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the host without a reply so far, and the callbacks by which the host replies.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_server::{Completion, Credential, Reply};
use pmix_types::{Info, Nspace, Pdata, Proc, Status};

use crate::abi::*;
use crate::callback::Callback;
use crate::convert::infos_at;
use crate::guard::guard;
use crate::later::later;
use crate::memory::{Result, copied, slice};
use crate::model::{Model, many};
use crate::names::proc_at;
use crate::per_process::PerProcess;

/// A function that receives a status with a result, or the status of a failure.
type Then<T> = Box<dyn FnOnce(Result<(Status, T)>) + Send>;

/// The receiver of a reply of the host.
pub(crate) enum To<T: Reply> {
    /// The server, for a client or tool.
    Server(Completion<T>),
    /// This process.
    Own(Then<T>),
}

impl<T: Reply> To<T> {
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
pub(super) enum Answering {
    Op(To<()>),
    Modex(To<Vec<u8>>),
    Lookup(To<Vec<Pdata<'static>>>),
    Spawn(To<Nspace<'static>>),
    Infos(To<Vec<Info<'static>>>),
    Validated(To<Vec<Info<'static>>>),
    Credential(To<Credential>),
    Tool(To<Proc<'static>>),
}

/// A call: its expected reply, and the arguments that the host may read until then.
struct Pending {
    answering: Answering,
    #[allow(dead_code, reason = "freed with the call")]
    shown: Box<dyn Any + Send>,
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
        pending.answering.at_once(Status::ERR_COMM_FAILURE);
    }
}

/// Calls the host, which completes at once by its status, or later by the callback with the number.
pub(super) fn call(
    answering: Answering,
    shown: Box<dyn Any + Send>,
    host: impl FnOnce(*mut c_void) -> pmix_status_t,
) {
    let number = {
        let mut calls = calls();
        calls.last += 1;
        let number = calls.last;
        calls.open.insert(number, Pending { answering, shown });
        number
    };
    // The call was stored first: the host may call back from another thread before its function returns.
    let status = Status::from_raw(host(ptr::without_provenance_mut(number)));
    if status == Status::SUCCESS {
        return;
    }
    // The host has completed the call, or rejected it: in either case it will not call back.
    if let Some(pending) = take(number) {
        pending.answering.at_once(status);
    }
}

fn take(number: usize) -> Option<Pending> {
    calls().open.remove(&number)
}

impl Answering {
    /// Completes the call with the status that the host's function returned.
    fn at_once(self, status: Status) {
        fn fail<T: Reply>(done: To<T>, status: Status) {
            match status {
                Status::ERR_NOT_SUPPORTED => done.not_supported(),
                other => done.fail(other),
            }
        }
        match self {
            Self::Op(done) if status == Status::OPERATION_SUCCEEDED => done.succeed(()),
            Self::Op(done) => fail(done, status),
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
fn answer(name: &'static str, cbdata: *mut c_void, with: impl FnOnce(Answering)) {
    guard(name, move || match take(cbdata as usize) {
        Some(pending) => with(pending.answering),
        None => tracing::debug!(name, "the host replied to a request that is not pending"),
    });
}

fn finish<T: Reply>(done: To<T>, status: pmix_status_t, read: impl FnOnce() -> Result<T>) {
    let status = Status::from_raw(status);
    match is_some(status) {
        true => match read() {
            Ok(value) => done.partly(status, value),
            Err(fault) => done.fail(fault),
        },
        false => done.fail(status),
    }
}

/// Completes a call without a result (`pmix_op_cbfunc_t`).
pub(super) unsafe extern "C" fn op(status: pmix_status_t, cbdata: *mut c_void) {
    answer("op", cbdata, |answering| {
        if let Answering::Op(done) = answering {
            finish(done, status, || Ok(()));
        }
    });
}

/// Completes a fence or a direct modex (`pmix_modex_cbfunc_t`).
pub(super) unsafe extern "C" fn modex(
    status: pmix_status_t,
    data: *const c_char,
    ndata: usize,
    cbdata: *mut c_void,
    release: pmix_release_cbfunc_t,
    release_cbdata: *mut c_void,
) {
    answer("modex", cbdata, |answering| {
        if let Answering::Modex(done) = answering {
            finish(done, status, || {
                // SAFETY: the host guarantees `ndata` bytes at `data` until its release function is called, below.
                unsafe { slice(data.cast::<u8>(), ndata) }.and_then(copied)
            });
        }
    });
    release_later(release, release_cbdata);
}

/// Calls the release function of the host, after its data have been copied. The host may hold a lock while it replies
/// that the release function takes as well, so another thread calls it.
fn release_later(release: pmix_release_cbfunc_t, cbdata: *mut c_void) {
    let Some(release) = release else { return };
    guard("release", || {
        let callback = Callback::new(release, cbdata);
        // SAFETY: the host passed this function with this `cbdata`, as the header declares it.
        let release = move || callback.call(|release, data| unsafe { release(data) });
        if later(release).is_err() {
            tracing::warn!("cannot release the reply of the host: cannot start a thread");
        }
    });
}

/// Completes a lookup (`pmix_lookup_cbfunc_t`).
pub(super) unsafe extern "C" fn lookup(
    status: pmix_status_t,
    data: *mut pmix_pdata_t,
    ndata: usize,
    cbdata: *mut c_void,
) {
    answer("lookup", cbdata, |answering| {
        if let Answering::Lookup(done) = answering {
            // SAFETY: the header requires `data` to be NULL or to have `ndata` valid elements.
            finish(done, status, || unsafe { many(data, ndata) });
        }
    });
}

/// Completes a spawn (`pmix_spawn_cbfunc_t`).
pub(super) unsafe extern "C" fn spawn(
    status: pmix_status_t,
    nspace: *mut c_char,
    cbdata: *mut c_void,
) {
    answer("spawn", cbdata, |answering| {
        if let Answering::Spawn(done) = answering {
            finish(done, status, || {
                // SAFETY: the header requires `nspace` to be NULL or a string.
                Ok(unsafe { crate::names::nspace_at(nspace) })
            });
        }
    });
}

/// Completes a call with infos (`pmix_info_cbfunc_t`).
pub(super) unsafe extern "C" fn infos(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
    release: pmix_release_cbfunc_t,
    release_cbdata: *mut c_void,
) {
    answer("infos", cbdata, |answering| {
        if let Answering::Infos(done) = answering {
            // SAFETY: the header requires `info` to be NULL or to have `ninfo` valid infos.
            finish(done, status, || unsafe { infos_at(info, ninfo) });
        }
    });
    release_later(release, release_cbdata);
}

/// Completes the validation of a credential (`pmix_validation_cbfunc_t`).
pub(super) unsafe extern "C" fn validated(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
) {
    answer("validated", cbdata, |answering| {
        if let Answering::Validated(done) = answering {
            // SAFETY: the header requires `info` to be NULL or to have `ninfo` valid infos.
            finish(done, status, || unsafe { infos_at(info, ninfo) });
        }
    });
}

/// Completes a request for a credential (`pmix_credential_cbfunc_t`).
pub(super) unsafe extern "C" fn credential(
    status: pmix_status_t,
    made: *mut pmix_byte_object_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbdata: *mut c_void,
) {
    answer("credential", cbdata, |answering| {
        if let Answering::Credential(done) = answering {
            finish(done, status, || {
                // SAFETY: the header requires `made` to be NULL or valid, and `info` to be NULL or to have `ninfo`
                // valid infos.
                unsafe {
                    let object = crate::record::there(made)?;
                    let bytes = pmix_types::Bytes::from_c(object)?;
                    Ok(Credential {
                        credential: bytes.into_owned(),
                        infos: infos_at(info, ninfo)?,
                    })
                }
            });
        }
    });
}

/// Completes the connection of a tool (`pmix_tool_connection_cbfunc_t`).
pub(super) unsafe extern "C" fn tool(
    status: pmix_status_t,
    proc: *mut pmix_proc_t,
    cbdata: *mut c_void,
) {
    answer("tool", cbdata, |answering| {
        if let Answering::Tool(done) = answering {
            finish(done, status, || {
                // SAFETY: the header requires `proc` to be NULL or a valid process.
                unsafe { proc_at(proc) }.ok_or(Status::ERR_BAD_PARAM)
            });
        }
    });
}
