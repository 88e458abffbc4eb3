// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", for the statuses of `PMIx_Get`.

use std::fmt;

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status, ValueError};

pmix_types::error_type! {
    /// The reason for which a registration was rejected, a value was not found, or bytes of a peer
    /// are invalid.
    ///
    /// The offset is in bytes from the start of the message.
    pub struct Error;
    passes on bfrops::Error, pmix_map::Error, ValueError, OutOfMemory;
}

/// The prefix of the path of an entry.
const ENTRY: &str = "entry ";

impl Error {
    /// Creates an error about an entry of a registration.
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates an error for an invalid entry.
    #[cold]
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message)
    }

    /// Creates an error for a value that was not found. The message names the searched data.
    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NOT_FOUND, message)
    }

    /// Adds an enclosing entry to the front of the path, for example `[2] pmix.app.arr`.
    #[cold]
    pub(crate) fn inside(self, place: usize, key: &dyn fmt::Display) -> Self {
        let inner = self.entry();
        let between = if inner.is_empty() { "" } else { " " };
        let entry = format!("{ENTRY}[{place}] {key}{between}{inner}");
        ErrorDetail::from(self).with_place(entry).into()
    }

    /// Sets the offset in a message.
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }

    /// Returns the path of the entry in the registration, outermost array first. It is empty if the
    /// error is not about an entry.
    #[must_use]
    pub fn entry(&self) -> &str {
        let place = self.0.place();
        place.strip_prefix(ENTRY).unwrap_or(place)
    }
}
