// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use std::fmt;
use std::io;

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason why a call failed.
    pub struct Error;
    passes on gds_hash::Error, pmix_proto::Error, OutOfMemory;
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates the error for a status in the reply of the server.
    #[cold]
    pub(crate) fn answered(status: Status, what: impl fmt::Display) -> Self {
        Self::new(status, format!("{what}: {}", status.text()))
    }

    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NOT_FOUND, message)
    }

    /// Creates the error of a call before init has completed.
    #[cold]
    pub(crate) fn not_begun() -> Self {
        let message = "the server has not sent the job info yet";
        Self::new(Status::ERR_NOT_AVAILABLE, message)
    }

    /// Creates the error of a call that needs a server in a singleton.
    #[cold]
    pub(crate) fn no_server() -> Self {
        let message = "this process was not started by a PMIx launcher and has no server: start it with `pmix run`";
        Self::new(Status::ERR_UNREACH, message)
    }

    /// Creates the error of a request without a reply in time.
    #[cold]
    pub(crate) fn timeout(what: impl fmt::Display) -> Self {
        Self::new(
            Status::ERR_TIMEOUT,
            format!("no reply to {what} within the time limit"),
        )
    }

    /// Creates the error of a server that cannot be reached or whose connection was lost.
    #[cold]
    pub(crate) fn lost(what: impl fmt::Display, error: io::Error) -> Self {
        ErrorDetail::caused(Status::ERR_UNREACH, what, error).into()
    }

    /// Creates the error of a thread that the system could not start.
    #[cold]
    pub(crate) fn no_thread(what: impl fmt::Display, error: io::Error) -> Self {
        ErrorDetail::caused(Status::ERR_OUT_OF_RESOURCE, what, error).into()
    }

    /// Adds the failed object to the message; the status stays.
    #[cold]
    pub(crate) fn of(self, what: impl fmt::Display) -> Self {
        ErrorDetail::caused(self.status(), what, self).into()
    }
}
