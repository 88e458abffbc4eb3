// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use std::{fmt, io};

use pmix_types::{ErrorDetail, Status, memory::OutOfMemory};

pmix_types::error_type! {
    /// Reports why a PMI command was rejected or the service cannot be offered.
    pub struct Error;
    passes on pmix_client::Error;
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates the error for a command that does not follow the protocol.
    #[cold]
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message)
    }

    /// Creates the error for a failed call of the system.
    #[cold]
    pub(crate) fn system(what: impl fmt::Display, error: io::Error) -> Self {
        ErrorDetail::caused(Status::ERR_SYS_OTHER, what, error).into()
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Self::new(error.status(), error.to_string())
    }
}
