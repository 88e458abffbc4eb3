// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes that are no compressed list.

use preg_core::{Error, Status};

/// A fault of the payload; OpenPMIx reports these as not supported.
pub(crate) fn damage(offset: usize, message: impl Into<String>) -> Error {
    Error::new(Status::ERR_NOT_SUPPORTED, message).at(offset)
}
