// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of this crate.

use std::fmt;

use pmix_types::Status;

/// Reports why a map could not be built, and at which byte of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    offset: Option<usize>,
    message: String,
    exceeded: Option<&'static str>,
}

impl Error {
    /// Creates an error about malformed input at a byte offset (`PMIX_ERR_BAD_PARAM`).
    pub fn malformed(offset: usize, message: impl Into<String>) -> Self {
        Self {
            status: Status::ERR_BAD_PARAM,
            offset: Some(offset),
            message: message.into(),
            exceeded: None,
        }
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
        Self {
            status: Status::ERR_OUT_OF_RESOURCE,
            offset: None,
            message: format!("more than {limit} {what}"),
            exceeded,
        }
    }

    /// Returns the field of [`crate::Limits`] that was exceeded, if it was one.
    #[must_use]
    pub fn exceeded(&self) -> Option<&'static str> {
        self.exceeded
    }

    /// Sets the place of the fault to the offset of the outer input.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Returns the PMIx status of this error.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the byte offset in the input, if the fault has a place.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.offset
    }

    /// Returns the message without the offset.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(limit) = self.exceeded {
            write!(f, "; raise {limit} if this is meant")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
