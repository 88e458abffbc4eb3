// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses; offsets are in
//! bytes of the message.

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason that bytes are not a valid message or that a message cannot be packed, with the
    /// offset.
    ///
    /// The offset is relative to the payload of the message, or to the stream for errors of
    /// [`Inbox`](crate::Inbox). Errors of packing have no offset.
    pub struct Error;
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates an error for invalid bytes.
    #[cold]
    pub(crate) fn malformed(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_UNPACK_FAILURE, message).at(offset)
    }

    /// Creates an error for truncated bytes.
    #[cold]
    pub(crate) fn past_end(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER, message).at(offset)
    }

    /// Creates an error for data that no peer could read.
    #[cold]
    pub(crate) fn unpackable(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_PACK_FAILURE, message)
    }

    /// Sets the offset.
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }

    /// Moves the offset, for bytes that begin at `start` in the message.
    #[cold]
    pub(crate) fn shifted_by(self, start: usize) -> Self {
        ErrorDetail::from(self).shifted_by(start).into()
    }

    /// Prefixes the place with the enclosing part.
    #[cold]
    pub(crate) fn inside(self, part: &str) -> Self {
        ErrorDetail::from(self).inside(part).into()
    }

    /// Returns the part of the message that is at fault, for example `FENCENB procs`; empty if none
    /// is known.
    #[must_use]
    pub fn part(&self) -> &str {
        self.0.place()
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        ErrorDetail::passed_on(error.status(), error).into()
    }
}

impl From<bfrops::Error> for Error {
    /// Keeps the offset; the caller moves it by the start of the datum in the message.
    fn from(error: bfrops::Error) -> Self {
        ErrorDetail::from(error).into()
    }
}
