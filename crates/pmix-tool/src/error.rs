// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use std::fmt;

use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// Reports why a server was not found or a call failed.
    pub struct Error;
    passes on pmix_client::Error, pmix_proto::Error;
}

impl Error {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates the error for a server that was not found or cannot be reached.
    #[cold]
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_UNREACH, message)
    }

    /// Adds the name of the object.
    #[cold]
    pub(crate) fn of(self, what: impl fmt::Display) -> Self {
        ErrorDetail::caused(self.status(), what, self).into()
    }
}
