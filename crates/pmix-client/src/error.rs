// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use std::fmt;
use std::io;

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// Reports why a call failed.
    pub struct Error;
    passes on gds_hash::Error, pmix_proto::Error, OutOfMemory;
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
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

    /// Nothing can be asked before init has ended.
    #[cold]
    pub(crate) fn not_begun() -> Self {
        let message = "the server has not sent the job info yet";
        Self::new(Status::ERR_NOT_AVAILABLE, message)
    }

    /// Creates the error of a call that needs a server, where no launcher started this process.
    #[cold]
    pub(crate) fn no_server() -> Self {
        let message = "this process was not started by a PMIx launcher and has no server: start it with `pmix run`";
        Self::new(Status::ERR_UNREACH, message)
    }

    /// The server did not answer in time.
    #[cold]
    pub(crate) fn timeout(what: impl fmt::Display) -> Self {
        Self::new(
            Status::ERR_TIMEOUT,
            format!("no reply to {what} within the time limit"),
        )
    }

    /// The server cannot be reached, or can no longer be.
    #[cold]
    pub(crate) fn lost(what: impl fmt::Display, error: io::Error) -> Self {
        ErrorDetail::caused(Status::ERR_UNREACH, what, error).into()
    }

    /// The system has no thread for what is asked.
    #[cold]
    pub(crate) fn no_thread(what: impl fmt::Display, error: io::Error) -> Self {
        ErrorDetail::caused(Status::ERR_OUT_OF_RESOURCE, what, error).into()
    }

    /// The same error, of something that is named.
    #[cold]
    pub(crate) fn of(self, what: impl fmt::Display) -> Self {
        ErrorDetail::caused(self.status(), what, self).into()
    }
}
