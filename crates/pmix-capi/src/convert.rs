// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of functions, checked and in the model; results for C.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_client::Error;
use pmix_types::{App, Info, InfoFlags, IntoOwned, Key, Measure, Proc, Query, Status, Text};

use crate::abi::*;
use crate::memory::{self, Result, slice};
use crate::model::{Model, list, many};
use crate::status::write_to;

/// What C gives for a callback and gets back with it.
#[derive(Clone, Copy)]
pub(crate) struct Data(pub(crate) *mut c_void);

// SAFETY: the library never looks at it.
unsafe impl Send for Data {}

impl Data {
    /// The pointer; a method, so that closures take the whole.
    pub(crate) const fn get(self) -> *mut c_void {
        self.0
    }
}

/// Reads `count` infos from a C array. What only a library of the hardware could read is left out,
/// unless it is required.
///
/// # Safety
/// They are NULL or so many valid ones.
pub(crate) unsafe fn infos_at(at: *const pmix_info_t, count: usize) -> Result<Vec<Info<'static>>> {
    // SAFETY: the caller says so.
    let given = unsafe { slice(at, count)? };
    let mut infos = memory::list_for(given.len())?;
    for one in given {
        // SAFETY: the caller says so.
        match unsafe { Info::from_c(one) } {
            Ok(info) => infos.push(info),
            Err(Status::ERR_NOT_SUPPORTED) if one.flags & InfoFlags::REQD.as_raw() == 0 => {
                tracing::debug!("ignoring an info that describes hardware");
            }
            Err(status) => return Err(status),
        }
    }
    used(infos)
}

/// The copies that a call makes of its arguments after it has read them: what is packed, the message, and what is
/// kept or shown in this process.
const COPIES: usize = 3;

/// Checks that the process has memory for what a call makes of an argument.
fn used<T: IntoOwned>(argument: T) -> Result<T> {
    memory::reserve(argument.measure(Measure::All).saturating_mul(COPIES))?;
    Ok(argument)
}

/// Reads `count` processes from a C array.
///
/// # Safety
/// They are NULL or so many valid ones.
pub(crate) unsafe fn procs_at(at: *const pmix_proc_t, count: usize) -> Result<Vec<Proc<'static>>> {
    // SAFETY: the caller says so.
    unsafe { many(at, count) }.and_then(used)
}

/// Reads `count` queries from a C array.
///
/// # Safety
/// They are NULL or so many valid ones.
pub(crate) unsafe fn queries_at(
    at: *const pmix_query_t,
    count: usize,
) -> Result<Vec<Query<'static>>> {
    // SAFETY: the caller says so.
    unsafe { many(at, count) }.and_then(used)
}

/// Reads `count` applications from a C array.
///
/// # Safety
/// They are NULL or so many valid ones.
pub(crate) unsafe fn apps_at(at: *const pmix_app_t, count: usize) -> Result<Vec<App<'static>>> {
    // SAFETY: the caller says so.
    unsafe { many(at, count) }.and_then(used)
}

/// The keys of a NULL-terminated array.
///
/// # Safety
/// It is NULL or such an array.
pub(crate) unsafe fn keys_at(at: *mut *mut c_char) -> Result<Vec<Key<'static>>> {
    // SAFETY: the caller says so.
    let texts = unsafe { memory::read_texts(at)? };
    let mut keys = memory::list_for(texts.len())?;
    keys.extend(texts.into_iter().map(Key::new));
    used(keys)
}

/// A key, which may not be missing, empty or too long.
///
/// # Safety
/// It is NULL, a string or an array of a key's size.
pub(crate) unsafe fn key_at(at: *const c_char) -> Result<Key<'static>> {
    // SAFETY: the caller says so.
    let bytes = unsafe { memory::text_within(at, Key::MAX_LEN + 1) };
    let bytes = bytes.ok_or(Status::ERR_BAD_PARAM)?;
    match bytes.len() {
        1..=Key::MAX_LEN => Ok(Key::new(Text::new(bytes.to_vec()))),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Text, which may not be missing.
///
/// # Safety
/// It is NULL or a string.
pub(crate) unsafe fn text_at(at: *const c_char) -> Result<Text<'static>> {
    // SAFETY: the caller says so.
    let bytes = unsafe { memory::text(at) }.ok_or(Status::ERR_BAD_PARAM)?;
    memory::copied(bytes).map(Text::new)
}

/// Hands infos out; who does not want them gives no place for them.
///
/// # Safety
/// The pointers are NULL or lead to room for one each.
pub(crate) unsafe fn hand_out<M: Model>(
    made: &[M],
    to: *mut *mut M::C,
    count: *mut usize,
) -> Result<()> {
    if to.is_null() || count.is_null() {
        return Ok(());
    }
    // SAFETY: the caller says so.
    unsafe {
        write_to(to, list(made)?)?;
        write_to(count, made.len())
    }
}

/// Marks places for results as empty, so that they are after an error.
///
/// # Safety
/// The pointers are NULL or lead to room for one each.
pub(crate) unsafe fn clear_out<T>(to: *mut *mut T, count: *mut usize) {
    // SAFETY: the caller says so.
    unsafe {
        // Who gives no place for them does not want them.
        let _ = write_to(to, ptr::null_mut());
        let _ = write_to(count, 0);
    }
}

/// Refuses what is required of a function and not obeyed by this library.
pub(crate) fn check_required(function: &str, infos: &[Info<'_>]) -> Result<()> {
    pmix_client::check_required(function, infos).map_err(|error| fault(&error))
}

/// The status of what a client answers.
pub(crate) fn fault(error: &Error) -> Status {
    tracing::debug!("{error}");
    error.status()
}
