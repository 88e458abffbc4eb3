// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: this project.

use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// An error about an invalid setting. The message has the source and the remedy.
    pub struct Error;
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ErrorDetail::new(Status::ERR_BAD_PARAM, message).into()
    }

    pub(crate) fn with_status(self, status: Status) -> Self {
        ErrorDetail::from(self).with_status(status).into()
    }
}
