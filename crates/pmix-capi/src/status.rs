// SPDX-License-Identifier: MIT OR Apache-2.0
//! From results to the statuses that functions of C return.

use pmix_types::Status;

use crate::abi::pmix_status_t;
use crate::memory::Result;

/// What a function returns for a result.
pub(crate) fn code(result: Result<()>) -> pmix_status_t {
    result.err().unwrap_or(Status::SUCCESS).as_raw()
}

/// What a function returns that succeeds in several ways.
pub(crate) fn outcome(result: Result<Status>) -> pmix_status_t {
    result.unwrap_or_else(|status| status).as_raw()
}

/// Writes to where a caller wants it.
///
/// # Safety
/// `to` is NULL, which is an error, or points to room for one.
pub(crate) unsafe fn write_to<T>(to: *mut T, what: T) -> Result<()> {
    if to.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller says so.
    unsafe { to.write(what) };
    Ok(())
}

/// Makes what a caller wants and writes it to where it is wanted; nothing is made for nobody, as it would be
/// lost.
///
/// # Safety
/// As [`write_to`].
pub(crate) unsafe fn make_at<T>(to: *mut T, make: impl FnOnce() -> Result<T>) -> Result<()> {
    if to.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller says so.
    unsafe { write_to(to, make()?) }
}
