// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", for the statuses of `PMIx_Get`.

use std::fmt;

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status, ValueError};

pmix_types::error_type! {
    /// Reports why a registration was refused, a value is not there, or bytes of a peer cannot be read.
    ///
    /// The offset is one in the message that was read.
    pub struct Error;
    passes on bfrops::Error, pmix_map::Error, ValueError, OutOfMemory;
}

/// What stands in front of the entry that is at fault.
const ENTRY: &str = "entry ";

impl Error {
    /// A fault in an entry of a registration.
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// An entry that is not as it should be.
    #[cold]
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message)
    }

    /// A value that is not there, and where it was looked for.
    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NOT_FOUND, message)
    }

    /// The same fault inside an entry, for example `[2] pmix.app.arr`.
    #[cold]
    pub(crate) fn inside(self, place: usize, key: &dyn fmt::Display) -> Self {
        let inner = self.entry();
        let between = if inner.is_empty() { "" } else { " " };
        let entry = format!("{ENTRY}[{place}] {key}{between}{inner}");
        ErrorDetail::from(self).with_place(entry).into()
    }

    /// The same fault at a byte of a message.
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }

    /// Returns the entry of the registration, from the outermost array inwards; empty where none is
    /// meant.
    #[must_use]
    pub fn entry(&self) -> &str {
        let place = self.0.place();
        place.strip_prefix(ENTRY).unwrap_or(place)
    }
}
