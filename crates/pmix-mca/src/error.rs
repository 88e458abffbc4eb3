// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;

use pmix_types::Status;

/// Reports a setting that cannot be obeyed; the message names the source and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            status: Status::ERR_BAD_PARAM,
            message: message.into(),
        }
    }

    pub(crate) fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
