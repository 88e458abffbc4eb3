// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of the framework and its schemes.

use std::fmt;

use pmix_types::Status;

/// Reports why a request failed: what, at which byte of the value, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    scheme: Option<String>,
    offset: Option<usize>,
    message: String,
}

impl Error {
    /// Creates an error with a status and a message: a lower-case fragment that says what to do.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            scheme: None,
            offset: None,
            message: message.into(),
        }
    }

    /// Creates an error about a value that is recognised but malformed at a byte offset
    /// (`PMIX_ERR_BAD_PARAM`).
    pub fn damaged(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message).at(offset)
    }

    /// Sets the byte offset of the fault in the value.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Moves the offset by the bytes that precede the part it came from.
    #[must_use]
    pub fn shifted(mut self, by: usize) -> Self {
        self.offset = self.offset.map(|o| o + by);
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Sets the scheme that found the fault.
    #[must_use]
    pub fn from_scheme(mut self, scheme: &str) -> Self {
        self.scheme.get_or_insert_with(|| scheme.to_owned());
        self
    }

    /// Returns the PMIx status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the byte offset in the value, if the fault has a place.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.offset
    }

    /// Returns the scheme that found the fault.
    #[must_use]
    pub fn scheme(&self) -> Option<&str> {
        self.scheme.as_deref()
    }

    /// Returns the message alone.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<pmix_map::Error> for Error {
    fn from(error: pmix_map::Error) -> Self {
        let converted = match error.exceeded() {
            Some(limit) => {
                let what = error.message();
                let message = format!("{what}; raise preg_base_{limit} if this is meant");
                Self::new(error.status(), message)
            }
            None => Self::new(error.status(), error.message()),
        };
        match error.offset() {
            Some(offset) => converted.at(offset),
            None => converted,
        }
    }
}

impl From<pmix_mca::Error> for Error {
    fn from(error: pmix_mca::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}
