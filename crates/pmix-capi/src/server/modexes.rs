// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct modex requests of the host (`PMIx_server_dmodex_request`) that are not complete.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_types::Status;

use crate::abi::pmix_dmodex_response_fn_t;
use crate::callback::Callback;
use crate::later::later_or_now;
use crate::memory::Result;
use crate::per_process::PerProcess;

type Modex = Callback<pmix_dmodex_response_fn_t>;

#[derive(Default)]
struct Open {
    last: usize,
    modexes: BTreeMap<usize, Modex>,
}

static OPEN: PerProcess<Mutex<Open>> = PerProcess::new(Mutex::new(Open {
    last: 0,
    modexes: BTreeMap::new(),
}));

fn open() -> MutexGuard<'static, Open> {
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a request and returns its number.
pub(super) fn add(callback: Modex) -> usize {
    let mut open = open();
    open.last += 1;
    let number = open.last;
    open.modexes.insert(number, callback);
    number
}

/// Completes a request once. It runs on the thread of the server, so another thread runs the callback.
pub(super) fn complete(number: usize, found: Result<Vec<u8>>) {
    if let Some(callback) = remove(number) {
        later_or_now(move || callback.complete(found));
    }
}

/// Drops a request that the server rejected; the function returns the error instead.
pub(super) fn forget(number: usize) {
    let _ = remove(number);
}

fn remove(number: usize) -> Option<Modex> {
    open().modexes.remove(&number)
}

/// Completes all requests with `PMIX_ERR_COMM_FAILURE`, because the server ends.
pub(super) fn end_all() {
    let left = std::mem::take(&mut open().modexes);
    for callback in left.into_values() {
        later_or_now(move || callback.complete(Err(Status::ERR_COMM_FAILURE)));
    }
}
