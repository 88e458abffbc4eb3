// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;

use pmix_types::Status;

/// Reports why the engine does not do what its host or a peer asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fault>);

#[derive(Clone, PartialEq, Eq)]
struct Fault {
    status: Status,
    message: String,
}

impl Error {
    /// Creates an error with the status that the host or peer gets.
    #[cold]
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self(Box::new(Fault {
            status,
            message: message.into(),
        }))
    }

    /// Something that cannot be asked for.
    #[cold]
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message)
    }

    /// Something that is not there.
    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NOT_FOUND, message)
    }

    /// Something that this peer may not do.
    #[cold]
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NO_PERMISSIONS, message)
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<gds_hash::Error> for Error {
    fn from(error: gds_hash::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl From<pmix_proto::Error> for Error {
    fn from(error: pmix_proto::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl From<bfrops::Error> for Error {
    fn from(error: bfrops::Error) -> Self {
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
