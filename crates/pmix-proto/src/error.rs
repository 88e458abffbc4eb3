// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses; offsets are in
//! bytes of the message.

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason for which bytes are not a valid message, or a message cannot be packed.
    ///
    /// The offset is in bytes from the start of the payload, or, for errors of
    /// [`Inbox`](crate::Inbox), from the start of the stream. Errors of packing have no offset.
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

    /// Creates an error for data that are not packed, because no peer could unpack them.
    #[cold]
    pub(crate) fn unpackable(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_PACK_FAILURE, message)
    }

    /// Sets the offset.
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }

    /// Adds `start` to the offset: the error is about bytes that begin at `start` in the message.
    #[cold]
    pub(crate) fn shifted_by(self, start: usize) -> Self {
        ErrorDetail::from(self).shifted_by(start).into()
    }

    /// Prefixes the path of the field with an enclosing part.
    #[cold]
    pub(crate) fn inside(self, part: &str) -> Self {
        ErrorDetail::from(self).inside(part).into()
    }

    /// Returns the command and field that are invalid, for example `FENCENB procs`. It is empty if
    /// they are unknown.
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
    /// Keeps the offset. The caller adds the offset of the datum in the message.
    fn from(error: bfrops::Error) -> Self {
        ErrorDetail::from(error).into()
    }
}
