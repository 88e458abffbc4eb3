// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of C arguments to the model, with checks, and of results to C.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_client::Error;
use pmix_types::{App, Info, InfoFlags, Key, Proc, Query, Status, Text};

use crate::abi::*;
use crate::memory::{self, Result, slice};
use crate::model::{Model, list, many};
use crate::status::write_to;

/// The `cbdata` of a callback.
#[derive(Clone, Copy)]
pub(crate) struct Data(pub(crate) *mut c_void);

// SAFETY: the library only passes the pointer back to the program, and never dereferences it.
unsafe impl Send for Data {}

impl Data {
    /// Returns the pointer. It is a method so that closures capture the whole `Data`, which is `Send`.
    pub(crate) const fn get(self) -> *mut c_void {
        self.0
    }
}

/// Reads `count` infos from a C array. An info whose value only a hardware library can read is skipped, unless it is
/// required.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements.
pub(crate) unsafe fn infos_at(at: *const pmix_info_t, count: usize) -> Result<Vec<Info<'static>>> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    let given = unsafe { slice(at, count)? };
    let mut infos = memory::list_for(given.len())?;
    for one in given {
        // SAFETY: the caller guarantees that each info is valid.
        match unsafe { Info::from_c(one) } {
            Ok(info) => infos.push(info),
            Err(Status::ERR_NOT_SUPPORTED) if one.flags & InfoFlags::REQD.as_raw() == 0 => {
                tracing::debug!("ignoring an info that describes hardware");
            }
            Err(status) => return Err(status),
        }
    }
    Ok(infos)
}

/// Reads `count` processes from a C array.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements.
pub(crate) unsafe fn procs_at(at: *const pmix_proc_t, count: usize) -> Result<Vec<Proc<'static>>> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    unsafe { many(at, count) }
}

/// Reads `count` queries from a C array.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements.
pub(crate) unsafe fn queries_at(
    at: *const pmix_query_t,
    count: usize,
) -> Result<Vec<Query<'static>>> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    unsafe { many(at, count) }
}

/// Reads `count` applications from a C array.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements.
pub(crate) unsafe fn apps_at(at: *const pmix_app_t, count: usize) -> Result<Vec<App<'static>>> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    unsafe { many(at, count) }
}

/// Returns the keys of a NULL-terminated array.
///
/// # Safety
/// `at` is NULL or an array of strings that ends with NULL.
pub(crate) unsafe fn keys_at(at: *mut *mut c_char) -> Result<Vec<Key<'static>>> {
    // SAFETY: the caller guarantees NULL or an array of strings that ends with NULL.
    let texts = unsafe { memory::read_texts(at)? };
    let mut keys = memory::list_for(texts.len())?;
    keys.extend(texts.into_iter().map(Key::new));
    Ok(keys)
}

/// Reads a key. NULL, an empty key and a key that is too long are errors.
///
/// # Safety
/// `at` is NULL, a string, or an array of the size of a key.
pub(crate) unsafe fn key_at(at: *const c_char) -> Result<Key<'static>> {
    // SAFETY: the caller guarantees a string or `Key::MAX_LEN + 1` readable bytes.
    let bytes = unsafe { memory::text_within(at, Key::MAX_LEN + 1) };
    let bytes = bytes.ok_or(Status::ERR_BAD_PARAM)?;
    match bytes.len() {
        1..=Key::MAX_LEN => Ok(Key::new(Text::new(bytes.to_vec()))),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Reads a string. NULL is an error.
///
/// # Safety
/// `at` is NULL or a string.
pub(crate) unsafe fn text_at(at: *const c_char) -> Result<Text<'static>> {
    // SAFETY: the caller guarantees NULL or a string.
    let bytes = unsafe { memory::text(at) }.ok_or(Status::ERR_BAD_PARAM)?;
    memory::copied(bytes).map(Text::new)
}

/// Writes an array of results and its count to the pointers of the caller. Writes nothing if either pointer is NULL.
///
/// # Safety
/// Each pointer is NULL or valid for writes.
pub(crate) unsafe fn hand_out<M: Model>(
    made: &[M],
    to: *mut *mut M::C,
    count: *mut usize,
) -> Result<()> {
    if to.is_null() || count.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees that both pointers, which are not NULL here, are valid for writes.
    unsafe {
        write_to(to, list(made)?)?;
        write_to(count, made.len())
    }
}

/// Sets the pointers for results to an empty array, which the caller sees if the function fails.
///
/// # Safety
/// Each pointer is NULL or valid for writes.
pub(crate) unsafe fn clear_out<T>(to: *mut *mut T, count: *mut usize) {
    // SAFETY: the caller guarantees that each pointer is NULL or valid for writes.
    unsafe {
        // A NULL pointer means that the caller does not want the result.
        let _ = write_to(to, ptr::null_mut());
        let _ = write_to(count, 0);
    }
}

/// Returns an error if a required attribute is not supported for a function.
pub(crate) fn check_required(function: &str, infos: &[Info<'_>]) -> Result<()> {
    pmix_client::check_required(function, infos).map_err(|error| fault(&error))
}

/// Logs an error of the client and returns its status.
pub(crate) fn fault(error: &Error) -> Status {
    tracing::debug!("{error}");
    error.status()
}
