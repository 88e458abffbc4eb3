// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies for C that the host may read until it has answered.

use std::ffi::c_char;

use pmix_types::{Bytes, Proc, Text};

use crate::abi::*;
use crate::memory::{Result, argv, maybe_string, release, release_argv};
use crate::model::{Model, counted};
use crate::record::{Record, empty_list};

/// A list that the host may read until it has answered.
pub(super) struct Shown<T: Record>(pub(super) *mut T, pub(super) usize);

// SAFETY: no other pointer leads to the memory of the list.
unsafe impl<T: Record> Send for Shown<T> {}

impl<T: Record> Shown<T> {
    /// Copies a list.
    ///
    /// # Errors
    /// `PMIX_ERR_NOMEM` if there is no memory for the copy.
    pub(super) fn of<M: Model<C = T>>(from: &[M]) -> Result<Self> {
        counted(from).map(|(at, count)| Self(at, count))
    }
}

impl<T: Record> Drop for Shown<T> {
    fn drop(&mut self) {
        // SAFETY: `of` made the list, with that many members.
        unsafe { empty_list(&mut self.0, &mut self.1) };
    }
}

/// A string that the host may read until it has answered, or NULL.
pub(super) struct ShownText(pub(super) *mut c_char);

// SAFETY: no other pointer leads to the memory of the string.
unsafe impl Send for ShownText {}

impl Drop for ShownText {
    fn drop(&mut self) {
        // SAFETY: `shown_text` allocated the string.
        unsafe { release(self.0) };
    }
}

/// Strings that the host may read until it has answered.
pub(super) struct ShownStrings(pub(super) *mut *mut c_char);

// SAFETY: no other pointer leads to the memory of the strings.
unsafe impl Send for ShownStrings {}

impl Drop for ShownStrings {
    fn drop(&mut self) {
        // SAFETY: `shown_keys` allocated the array and its strings.
        unsafe { release_argv(self.0) };
    }
}

/// Copies a text; NULL without one.
pub(super) fn shown_text(from: Option<&Text<'_>>) -> Result<ShownText> {
    maybe_string(from).map(ShownText)
}

/// Copies keys into an array that NULL ends.
pub(super) fn shown_keys(from: &[Text<'_>]) -> Result<ShownStrings> {
    argv(from).map(ShownStrings)
}

/// Copies bytes into a byte object.
pub(super) fn shown_bytes(from: &[u8]) -> Result<Shown<pmix_byte_object_t>> {
    Shown::of(&[Bytes::from(from)])
}

/// Copies the name of a process.
pub(super) fn one(proc: &Proc<'_>) -> Result<Shown<pmix_proc_t>> {
    Shown::of(std::slice::from_ref(proc))
}

/// Unwraps the copies that the host is shown. The call fails where one cannot be made: a host that is called with fewer
/// processes or no data would answer another question.
macro_rules! shown {
    ($done:ident, $($copy:expr),+ $(,)?) => {
        ($(match $copy {
            Ok(copy) => copy,
            Err(status) => return $done.fail(status),
        }),+)
    };
}

pub(super) use shown;
