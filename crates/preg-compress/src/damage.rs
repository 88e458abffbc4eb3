// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors for bytes that are not a compressed list.

use preg_core::{Error, Status};

/// Returns an error about the payload; OpenPMIx reports these as not supported.
pub(crate) fn damage(offset: usize, message: impl Into<String>) -> Error {
    Error::new(Status::ERR_NOT_SUPPORTED, message).at(offset)
}
