// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of the framework and its schemes.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", for the statuses; offsets are in
//! bytes of the value.

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason for which a request failed, with the offset in the value and a remedy.
    pub struct Error;
    passes on pmix_mca::Error, OutOfMemory;
}

impl Error {
    /// Creates an error with a status and a message: a lower-case fragment that names the required
    /// action.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        ErrorDetail::new(status, message).into()
    }

    /// Creates an error about a value that is recognized but malformed at a byte offset
    /// (`PMIX_ERR_BAD_PARAM`).
    pub fn damaged(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, message).at(offset)
    }

    /// Sets the offset of the faulty byte in the value.
    #[must_use]
    pub fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }

    /// Adds `by` to the offset: the error is about a part of the value that begins at `by`.
    #[must_use]
    pub fn shifted(self, by: usize) -> Self {
        ErrorDetail::from(self).shifted_by(by).into()
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: Status) -> Self {
        ErrorDetail::from(self).with_status(status).into()
    }

    /// Sets the scheme that detected the error, unless one is set already.
    #[must_use]
    pub fn from_scheme(self, scheme: &str) -> Self {
        match self.scheme() {
            Some(_) => self,
            None => ErrorDetail::from(self).with_place(scheme).into(),
        }
    }

    /// Returns the scheme that detected the error.
    #[must_use]
    pub fn scheme(&self) -> Option<&str> {
        Some(self.0.place()).filter(|scheme| !scheme.is_empty())
    }
}

impl From<pmix_map::Error> for Error {
    /// Keeps the error. For an exceeded limit, it names the parameter that raises the limit.
    ///
    /// The offset is relative to the map. If the map begins later in the value, the caller uses
    /// [`Self::shifted`].
    fn from(error: pmix_map::Error) -> Self {
        let Some(limit) = error.exceeded() else {
            return ErrorDetail::from(error).into();
        };
        let what = error.message();
        let message = format!("{what}; raise preg_base_{limit} if this is meant");
        let converted = Self::new(error.status(), message);
        match error.offset() {
            Some(offset) => converted.at(offset),
            None => converted,
        }
    }
}
