// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate.
//!
//! Source: none outside; offsets are in bytes from the start of the text.

use pmix_types::memory::OutOfMemory;
use pmix_types::{ErrorDetail, Status};

pmix_types::error_type! {
    /// The reason for which a map could not be built, with the byte offset in the input.
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

    /// Creates an error about input that exceeds a limit of [`crate::Limits`] or a fixed limit.
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

    /// Returns the field of [`crate::Limits`] that was exceeded, or `None` for a fixed limit.
    #[must_use]
    pub fn exceeded(&self) -> Option<&'static str> {
        self.0.exceeded()
    }

    /// Sets the offset in the input.
    #[must_use]
    pub fn at(self, offset: usize) -> Self {
        ErrorDetail::from(self).at(offset).into()
    }
}
