// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;

use pmix_types::Status;

/// Reports why bytes cannot be read as a message or a message cannot be packed, and at which byte.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fault>);

#[derive(Clone, PartialEq, Eq)]
struct Fault {
    status: Status,
    /// The part of the message, from the outermost inwards.
    part: String,
    offset: Option<usize>,
    message: String,
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self(Box::new(Fault {
            status,
            part: String::new(),
            offset: None,
            message: message.into(),
        }))
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
    pub(crate) fn at(mut self, offset: usize) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// The same fault in bytes that begin so far into the message.
    #[cold]
    pub(crate) fn behind(mut self, start: usize) -> Self {
        self.0.offset = self.0.offset.map(|offset| start + offset);
        self
    }

    /// The same fault in a part of something larger.
    #[cold]
    pub(crate) fn inside(mut self, part: &str) -> Self {
        let inner = std::mem::take(&mut self.0.part);
        self.0.part = match inner.is_empty() {
            true => part.to_owned(),
            false => format!("{part} {inner}"),
        };
        self
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Returns the offset of the fault: in the payload of the message that was read, or in the
    /// stream for what [`Inbox`](crate::Inbox) refuses; none where something was written.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// Returns the part of the message that is at fault, for example `FENCENB procs`; empty where
    /// no part is meant.
    #[must_use]
    pub fn part(&self) -> &str {
        &self.0.part
    }

    /// Returns what is wrong, without the part and the offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<bfrops::Error> for Error {
    fn from(error: bfrops::Error) -> Self {
        let own = Self::new(error.status(), error.message());
        match error.offset() {
            Some(offset) => own.at(offset),
            None => own,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.part.is_empty() {
            write!(f, "{}: ", self.0.part)?;
        }
        f.write_str(&self.0.message)?;
        match self.0.offset {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.status())
    }
}

impl std::error::Error for Error {}
