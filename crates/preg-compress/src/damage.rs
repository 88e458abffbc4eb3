// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors for bytes that are not a compressed list.

use preg_core::{Error, Status};

/// Returns an error about the payload, with `PMIX_ERR_NOT_SUPPORTED` as in OpenPMIx.
pub(crate) fn damage(offset: usize, message: impl Into<String>) -> Error {
    Error::new(Status::ERR_NOT_SUPPORTED, message).at(offset)
}
