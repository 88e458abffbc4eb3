// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;
use std::io;

use pmix_types::Status;

/// Reports why a call failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fault>);

#[derive(Clone, PartialEq, Eq)]
struct Fault {
    status: Status,
    message: String,
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Fault { status, message }))
    }

    /// What the server answered a request with.
    #[cold]
    pub(crate) fn answered(status: Status, what: impl fmt::Display) -> Self {
        Self::new(status, format!("{what}: {}", status.text()))
    }

    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NOT_FOUND, message)
    }

    /// The server did not answer in time.
    #[cold]
    pub(crate) fn timeout(what: impl fmt::Display) -> Self {
        Self::new(Status::ERR_TIMEOUT, format!("no answer to {what} in time"))
    }

    /// The server cannot be reached, or can no longer be.
    #[cold]
    pub(crate) fn lost(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(Status::ERR_UNREACH, format!("{what}: {error}"))
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Returns what is wrong, without the status.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<pmix_proto::Error> for Error {
    fn from(error: pmix_proto::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl From<gds_hash::Error> for Error {
    fn from(error: gds_hash::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.status())
    }
}

impl std::error::Error for Error {}
