// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses; offsets are in
//! bytes of the message.

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// Reports why bytes cannot be read as a message or a message cannot be packed, and at which byte.
    ///
    /// The offset is one in the payload of the message that was read, or in the stream for what
    /// [`Inbox`](crate::Inbox) refuses; there is none where something was written.
    pub struct Error;
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Bytes that are not what they should be.
    #[cold]
    pub(crate) fn malformed(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_UNPACK_FAILURE, message).at(offset)
    }

    /// Bytes that end too early.
    #[cold]
    pub(crate) fn past_end(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER, message).at(offset)
    }

    /// Something that no peer could read.
    #[cold]
    pub(crate) fn unpackable(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_PACK_FAILURE, message)
    }

    /// The same fault at a byte.
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }

    /// The same fault in bytes that begin so far into the message.
    #[cold]
    pub(crate) fn behind(self, start: usize) -> Self {
        ErrorDetail::from(self).behind(start).into()
    }

    /// The same fault in a part of something larger.
    #[cold]
    pub(crate) fn inside(self, part: &str) -> Self {
        ErrorDetail::from(self).inside(part).into()
    }

    /// Returns the part of the message that is at fault, for example `FENCENB procs`; empty where
    /// no part is meant.
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
    /// The same fault: its offset may be moved by what stands in front of the datum.
    fn from(error: bfrops::Error) -> Self {
        ErrorDetail::from(error).into()
    }
}
