// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;

use pmix_types::Status;

/// Reports why a registration was refused, a value is not there, or bytes of a peer cannot be read.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fault>);

#[derive(Clone, PartialEq, Eq)]
struct Fault {
    status: Status,
    entry: String,
    offset: Option<usize>,
    message: String,
}

impl Error {
    /// A fault in an entry of a registration.
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self(Box::new(Fault {
            status,
            entry: String::new(),
            offset: None,
            message: message.into(),
        }))
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

    /// The same fault inside an entry, for example `[2].pmix.app.arr`.
    #[cold]
    pub(crate) fn inside(mut self, place: usize, key: &dyn fmt::Display) -> Self {
        self.0.entry = format!(
            "[{place}] {key}{}{}",
            if self.0.entry.is_empty() { "" } else { " " },
            self.0.entry
        );
        self
    }

    /// The same fault at a byte of a message.
    #[cold]
    pub(crate) fn at(mut self, offset: usize) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Returns the entry of the registration, from the outermost array inwards; empty where none is
    /// meant.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.0.entry
    }

    /// Returns the offset of the fault in the message that was read; none where none was.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// Returns what is wrong, without the entry and the offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.entry.is_empty() {
            write!(f, "entry {}: ", self.0.entry)?;
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
