// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate, and the limits on the size of a map.
//!
//! Source: this project; offsets are in bytes from the start of the text.

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

// Limits on the size of a map.
//
// Source: this project. The defaults fit the largest known machines.

/// The limits of a parser. Input beyond a limit is rejected before memory for it is allocated.
///
/// A few bytes can encode a large map. So the first three limits bound the decoded size of a value.
/// The others bound the memory that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of names in a node list, and of nodes in a process map.
    pub max_nodes: u64,
    /// The maximum number of ranks in a process map, over all nodes.
    pub max_ranks: u64,
    /// The maximum length in bytes of the text that a map represents, even if that text is never
    /// generated.
    pub max_bytes: u64,
    /// The maximum length in bytes of generated text: an inflated value, or a map written as a
    /// list.
    pub max_text: u64,
    /// The maximum memory of a decoded map in bytes.
    pub max_memory: u64,
    /// The maximum length of a name in bytes.
    pub max_name: u64,
}

impl Default for Limits {
    /// Returns 16,777,216 nodes, 134,217,728 ranks (128 on each of a million nodes), 2 GiB of
    /// represented text, 256 MiB of generated text, 256 MiB of memory, and names of 1 MiB.
    fn default() -> Self {
        Self {
            max_nodes: 1 << 24,
            max_ranks: 1 << 27,
            max_bytes: 1 << 31,
            max_text: 1 << 28,
            max_memory: 1 << 28,
            max_name: 1 << 20,
        }
    }
}

impl Limits {
    /// Checks that text of `len` bytes may be generated.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` with the number of bytes and the limit.
    pub fn check_text(&self, len: usize) -> Result<(), crate::Error> {
        match u64::try_from(len) {
            Ok(len) if len <= self.max_text => Ok(()),
            _ => Err(crate::Error::limit("bytes of text", self.max_text)),
        }
    }

    /// Checks that a map may take this many bytes of memory.
    pub(crate) fn check_memory(&self, bytes: usize) -> Result<(), crate::Error> {
        match u64::try_from(bytes) {
            Ok(bytes) if bytes <= self.max_memory => Ok(()),
            _ => Err(crate::Error::limit("bytes of memory", self.max_memory)),
        }
    }
}
