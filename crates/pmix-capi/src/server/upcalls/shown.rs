// SPDX-License-Identifier: MIT OR Apache-2.0
//! C copies of arguments that the host may read until it replies.

use std::ffi::c_char;

use pmix_types::{Bytes, Proc, Text};

use crate::abi::*;
use crate::memory::{Result, argv, maybe_string, release, release_argv};
use crate::model::{Model, counted};
use crate::record::{Record, empty_list};

/// An array that the host may read until it replies.
pub(super) struct Shown<T: Record>(pub(super) *mut T, pub(super) usize);

// SAFETY: `Shown` owns the memory of the array, and no other pointer leads to it.
unsafe impl<T: Record> Send for Shown<T> {}

impl<T: Record> Shown<T> {
    /// Copies the elements to a C array.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_NOMEM` if there is not enough memory.
    pub(super) fn of<M: Model<C = T>>(from: &[M]) -> Result<Self> {
        counted(from).map(|(at, count)| Self(at, count))
    }
}

impl<T: Record> Drop for Shown<T> {
    fn drop(&mut self) {
        // SAFETY: `of` made the array with this number of elements, and nothing else frees it.
        unsafe { empty_list(&mut self.0, &mut self.1) };
    }
}

/// A string that the host may read until it replies, or NULL.
pub(super) struct ShownText(pub(super) *mut c_char);

// SAFETY: `ShownText` owns the string, and no other pointer leads to it.
unsafe impl Send for ShownText {}

impl Drop for ShownText {
    fn drop(&mut self) {
        // SAFETY: `shown_text` allocated the string, and nothing else frees it.
        unsafe { release(self.0) };
    }
}

/// Strings that the host may read until it replies.
pub(super) struct ShownStrings(pub(super) *mut *mut c_char);

// SAFETY: `ShownStrings` owns the array and its strings, and no other pointer leads to them.
unsafe impl Send for ShownStrings {}

impl Drop for ShownStrings {
    fn drop(&mut self) {
        // SAFETY: `shown_keys` allocated the array and its strings, and nothing else frees them.
        unsafe { release_argv(self.0) };
    }
}

/// Copies a text; NULL for `None`.
pub(super) fn shown_text(from: Option<&Text<'_>>) -> Result<ShownText> {
    maybe_string(from).map(ShownText)
}

/// Copies keys to a NULL-terminated array.
pub(super) fn shown_keys(from: &[Text<'_>]) -> Result<ShownStrings> {
    argv(from).map(ShownStrings)
}

/// Copies bytes to a byte object.
pub(super) fn shown_bytes(from: &[u8]) -> Result<Shown<pmix_byte_object_t>> {
    Shown::of(&[Bytes::from(from)])
}

/// Copies the name of a process.
pub(super) fn one(proc: &Proc<'_>) -> Result<Shown<pmix_proc_t>> {
    Shown::of(std::slice::from_ref(proc))
}

/// Unwraps the copies for a call of the host. If one cannot be made, the call fails: a call with fewer processes or
/// without data would be a different request.
macro_rules! shown {
    ($done:ident, $($copy:expr),+ $(,)?) => {
        ($(match $copy {
            Ok(copy) => copy,
            Err(status) => return $done.fail(status),
        }),+)
    };
}

pub(super) use shown;
