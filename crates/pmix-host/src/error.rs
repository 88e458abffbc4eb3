// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.

use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason why a component of a host could not do something.
    pub struct Error;
    passes on pmix_server::Error;
}

impl Error {
    /// Creates an error with the status of the reply.
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates an error for an invalid argument.
    #[cold]
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message)
    }
}
