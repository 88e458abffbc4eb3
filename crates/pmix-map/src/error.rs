// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.
//!
//! Source: none outside; offsets are in bytes from the begin of the text.

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// Reports why a map could not be built, and at which byte of the input.
    pub struct Error;
    passes on OutOfMemory;
}

impl Error {
    /// Creates an error about malformed input at a byte offset (`PMIX_ERR_BAD_PARAM`).
    pub fn malformed(offset: usize, message: impl Into<String>) -> Self {
        ErrorDetail::new(Status::ERR_BAD_PARAM, message)
            .at(offset)
            .into()
    }

    /// Creates an error about input that exceeds a limit of [`crate::Limits`], or one that nobody can
    /// raise.
    #[must_use]
    pub fn limit(what: &str, limit: u64) -> Self {
        let exceeded = match what {
            "nodes" => Some("max_nodes"),
            "ranks" => Some("max_ranks"),
            "bytes of names" | "bytes of ranks" => Some("max_bytes"),
            "bytes of text" => Some("max_text"),
            "bytes of memory" => Some("max_memory"),
            "bytes of one name" => Some("max_name"),
            _ => None,
        };
        let detail = ErrorDetail::new(
            Status::ERR_OUT_OF_RESOURCE,
            format!("more than {limit} {what}"),
        );
        match exceeded {
            Some(name) => detail.exceeding(name).into(),
            None => detail.into(),
        }
    }

    /// Returns the field of [`crate::Limits`] that was exceeded, if it was one.
    #[must_use]
    pub fn exceeded(&self) -> Option<&'static str> {
        self.0.exceeded()
    }

    /// Sets the place of the fault to the offset of the outer input.
    #[must_use]
    pub fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }
}
