// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct modex requests of the host (`PMIx_server_dmodex_request`) that are not complete.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::Status;

use crate::abi::*;
use crate::callback::Callback;
use crate::later::later_or_now;
use crate::memory::{Result, bytes, release};
use crate::per_process::PerProcess;

type Function = unsafe extern "C" fn(pmix_status_t, *mut std::ffi::c_char, usize, *mut c_void);

/// The callback of a direct modex, which receives the data.
struct Waiting(Callback<Function>);

#[derive(Default)]
struct Open {
    last: usize,
    waiting: BTreeMap<usize, Waiting>,
}

static OPEN: PerProcess<Mutex<Open>> = PerProcess::new(Mutex::new(Open {
    last: 0,
    waiting: BTreeMap::new(),
}));

fn open() -> MutexGuard<'static, Open> {
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a request and returns its number.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if there is no callback.
pub(super) fn added(callback: pmix_dmodex_response_fn_t, cbdata: *mut c_void) -> Result<usize> {
    let waiting = Waiting(Callback::new(
        callback.ok_or(Status::ERR_BAD_PARAM)?,
        cbdata,
    ));
    let mut open = open();
    open.last += 1;
    let number = open.last;
    open.waiting.insert(number, waiting);
    Ok(number)
}

/// Completes a request once. It runs on the thread of the server, so another thread runs the callback.
pub(super) fn answer(number: usize, found: std::result::Result<Vec<u8>, Status>) {
    if let Some(waiting) = removed(number) {
        later_or_now(move || waiting.answer(found));
    }
}

/// Drops a request that the server rejected; the function returns the error instead.
pub(super) fn forget(number: usize) {
    let _ = removed(number);
}

fn removed(number: usize) -> Option<Waiting> {
    open().waiting.remove(&number)
}

/// Completes all requests with `PMIX_ERR_COMM_FAILURE`, because the server ends.
pub(super) fn end_all() {
    let left = std::mem::take(&mut open().waiting);
    for waiting in left.into_values() {
        later_or_now(move || waiting.answer(Err(Status::ERR_COMM_FAILURE)));
    }
}

impl Waiting {
    fn answer(self, found: std::result::Result<Vec<u8>, Status>) {
        let (status, found) = match found {
            Ok(found) => (Status::SUCCESS, found),
            Err(status) => (status, Vec::new()),
        };
        self.0.call(move |callback, data| {
            let (status, at, len) = match bytes(&found) {
                Ok(at) => (status, at, found.len()),
                Err(fault) => (fault, std::ptr::null_mut(), 0),
            };
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `at` has `len`
            // bytes, which were allocated here.
            unsafe {
                callback(status.as_raw(), at, len, data);
                release(at);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_char;

    use super::*;
    use crate::memory::shortage;

    /// The last status and length passed to the callback, and `true` if the pointer was NULL.
    static SEEN: Mutex<(Status, bool, usize)> = Mutex::new((Status::ERROR, false, 0));

    unsafe extern "C" fn note(status: pmix_status_t, at: *mut c_char, len: usize, _: *mut c_void) {
        *SEEN.lock().unwrap() = (Status::from_raw(status), at.is_null(), len);
    }

    #[test]
    fn the_host_gets_an_error_and_no_length_if_there_is_no_memory_for_the_data() {
        let answer = |most| {
            let waiting = Waiting(Callback::new(note as Function, std::ptr::null_mut()));
            shortage::with_most(most, || waiting.answer(Ok(vec![7; 1000])));
            *SEEN.lock().unwrap()
        };
        assert_eq!(answer(1000), (Status::SUCCESS, false, 1000));
        assert_eq!(answer(999), (Status::ERR_NOMEM, true, 0));
    }
}
