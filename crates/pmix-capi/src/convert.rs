// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions that are more than one structure for one value, and errors of the client.

use std::ffi::{c_char, c_void};

use pmix_client::Error;
use pmix_types::{Info, InfoFlags, Key, Nspace, Status, Text};

use crate::abi::*;
use crate::memory::{self, Result};
use crate::model::Model;
use crate::valid::Valid;

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

/// Converts infos. An info whose value only a hardware library can read is skipped, unless it is required.
pub(crate) fn infos_of(given: Valid<'_, [pmix_info_t]>) -> Result<Vec<Info<'static>>> {
    let mut infos = memory::list_for(given.len())?;
    for info in given.iter() {
        match Info::from_c(info) {
            Ok(info) => infos.push(info),
            Err(Status::ERR_NOT_SUPPORTED) if info.flags & InfoFlags::REQD.as_raw() == 0 => {
                tracing::debug!("ignoring an info that describes hardware");
            }
            Err(status) => return Err(status),
        }
    }
    Ok(infos)
}

/// Converts a key. An empty key and a key that is too long are errors.
pub(crate) fn key_of(bytes: &[u8]) -> Result<Key<'static>> {
    match bytes.len() {
        1..=Key::MAX_LEN => Ok(Key::new(Text::new(bytes.to_vec()))),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Returns a namespace from a string; an empty one for NULL.
///
/// # Safety
/// `at` is NULL, a string, or an array of the size of a namespace.
pub(crate) unsafe fn nspace_at(at: *const c_char) -> Nspace<'static> {
    // SAFETY: the caller guarantees a string or 256 readable bytes.
    let bytes = unsafe { memory::text_within(at, 256) }.unwrap_or_default();
    Nspace::new(Text::new(bytes.to_vec()))
}

/// Returns an error if a required attribute is not supported for a function.
pub(crate) fn check_required(function: &str, infos: &[Info<'_>]) -> Result<()> {
    pmix_client::driver::check_required(function, infos).map_err(|error| fault(&error))
}

/// Logs an error of the client and returns its status.
pub(crate) fn fault(error: &Error) -> Status {
    tracing::debug!("{error}");
    error.status()
}
