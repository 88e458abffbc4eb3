// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of results to the statuses that C functions return.

use pmix_types::Status;

use crate::abi::pmix_status_t;
use crate::memory::Result;

/// Returns the status of a result.
pub(crate) fn code(result: Result<()>) -> pmix_status_t {
    result.err().unwrap_or(Status::SUCCESS).as_raw()
}

/// Returns the status of a result with several successful statuses.
pub(crate) fn outcome(result: Result<Status>) -> pmix_status_t {
    result.unwrap_or_else(|status| status).as_raw()
}

/// Writes a value to the pointer of a caller.
///
/// # Safety
/// `to` is NULL, which is an error, or valid for writes.
pub(crate) unsafe fn write_to<T>(to: *mut T, what: T) -> Result<()> {
    if to.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees that `to`, which is not NULL, is valid for writes.
    unsafe { to.write(what) };
    Ok(())
}

/// Makes a value and writes it to the pointer of a caller. For NULL, nothing is made, because it would leak.
///
/// # Safety
/// The conditions of [`write_to`].
pub(crate) unsafe fn make_at<T>(to: *mut T, make: impl FnOnce() -> Result<T>) -> Result<()> {
    if to.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees that `to`, which is not NULL, is valid for writes.
    unsafe { write_to(to, make()?) }
}
