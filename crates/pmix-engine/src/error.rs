// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses.

use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason why the engine refused a request of the host or of a peer.
    pub struct Error;
    passes on bfrops::Error, gds_hash::Error, pmix_proto::Error, pmix_types::memory::OutOfMemory;
}

impl Error {
    /// Creates an error with the status that the host or peer gets.
    #[cold]
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates an error for an invalid argument.
    #[cold]
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message)
    }

    /// Creates an error for a missing object.
    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NOT_FOUND, message)
    }

    /// Creates an error for a missing permission.
    #[cold]
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_NO_PERMISSIONS, message)
    }
}
