// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error type of this crate, and the limits on the cost of unpacking.
//!
//! Source: PMIx Standard, chapter "Data Packing and Unpacking", for the statuses; offsets are in
//! bytes of the message.

use pmix_types::memory::OutOfMemory;
use pmix_types::{DataType, ErrorDetail, Status};

use crate::Module;

pmix_types::error_type! {
    /// The reason that a datum was not packed or unpacked, with the offset.
    ///
    /// The offset is in bytes from the start of the unpacked bytes. Errors of packing have none.
    pub struct Error;
    passes on OutOfMemory;
}

impl Error {
    fn new(status: Status, offset: Option<usize>, message: String) -> Self {
        let detail = ErrorDetail::new(status, message);
        Self::from(match offset {
            Some(offset) => detail.at(offset),
            None => detail,
        })
    }

    /// Creates an error for bytes that cannot be unpacked.
    #[cold]
    pub(crate) fn malformed(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_UNPACK_FAILURE, Some(offset), message.into())
    }

    /// Creates an error for `what`, which needs more bytes than are left.
    #[cold]
    pub(crate) fn past_end(offset: usize, needed: u64, left: usize, what: &str) -> Self {
        let message = format!("{what} needs {needed} bytes and there are {left}");
        Self::new(
            Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
            Some(offset),
            message,
        )
    }

    /// Creates an error for an exceeded limit of [`crate::Limits`].
    #[cold]
    pub(crate) fn limit(offset: usize, message: impl Into<String>) -> Self {
        Self::new(Status::ERR_OUT_OF_RESOURCE, Some(offset), message.into())
    }

    /// Creates an error for arrays that are nested deeper than this library unpacks.
    #[cold]
    pub(crate) fn too_deep() -> Self {
        let most = Limits::DEPTH;
        let message =
            format!("arrays are nested more than {most} deep, which is the limit of this library");
        Self::new(Status::ERR_BAD_PARAM, None, message)
    }

    /// Creates an error for a type that the module of the peer does not have.
    #[cold]
    pub(crate) fn unknown_type(
        status: Status,
        offset: Option<usize>,
        data_type: DataType,
        module: Module,
    ) -> Self {
        let number = data_type.as_raw();
        let message = format!("{data_type} (type {number}) is not a type of module {module}");
        Self::new(status, offset, message)
    }

    /// Creates an error for a number that is not the code of a type.
    #[cold]
    pub(crate) fn unknown_code(offset: usize, code: i32) -> Self {
        let message = format!("{code} is not the code of a type");
        Self::new(Status::ERR_UNKNOWN_DATA_TYPE, Some(offset), message)
    }

    /// Creates an error for an array that a value of PMIx 1.2 cannot hold.
    #[cold]
    pub(crate) fn only_infos(found: DataType) -> Self {
        let message = format!("a value of module v12 holds arrays of infos only, not of {found}");
        Self::new(Status::ERR_NOT_SUPPORTED, None, message)
    }

    /// Creates an error for a datum of another type than requested.
    #[cold]
    pub(crate) fn mismatch(offset: usize, expected: DataType, found: DataType) -> Self {
        let message = format!("expected {expected}, found {found}");
        Self::new(Status::ERR_PACK_MISMATCH, Some(offset), message)
    }

    /// Creates an error for a type that a value cannot have.
    #[cold]
    pub(crate) fn not_in_a_value(offset: Option<usize>, data_type: DataType) -> Self {
        let message = format!("a value cannot hold {data_type}");
        Self::new(Status::ERR_BAD_PARAM, offset, message)
    }

    /// Creates an error for integers whose packed type code is not an integer type.
    #[cold]
    pub(crate) fn no_integer(offset: usize, found: DataType) -> Self {
        let message = format!("expected the type of an integer, found {found}");
        Self::new(Status::ERR_NOT_FOUND, Some(offset), message)
    }

    /// Creates an error for a datum that is not packed, because no peer could unpack it.
    #[cold]
    pub(crate) fn unpackable(message: impl Into<String>) -> Self {
        Self::new(Status::ERR_PACK_FAILURE, None, message.into())
    }
}

// Limits on the cost of unpacking a message.
//
// Source: this project; the limits are this project's own, in bytes and in levels.

/// The limits on the cost of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum depth of nested arrays. A message without arrays has depth 0.
    pub depth: u32,
    /// The bytes of memory that unpacked data may take for each byte of the message.
    pub memory_factor: usize,
    /// The bytes of memory that unpacked data may take in addition.
    pub memory_base: usize,
}

impl Default for Limits {
    /// Returns a depth of 64, a factor of 8 and a base of 63 KiB. An error takes less than 1 KiB,
    /// so with it the base stays below 64 KiB.
    fn default() -> Self {
        Self {
            depth: Self::DEPTH,
            memory_factor: 8,
            memory_base: 63 * 1024,
        }
    }
}

impl Limits {
    /// The default limit for the depth of nested arrays.
    pub const DEPTH: u32 = 64;

    /// Returns the bytes of memory that data from a message of `len` bytes may take.
    pub(crate) const fn memory(&self, len: usize) -> usize {
        len.saturating_mul(self.memory_factor)
            .saturating_add(self.memory_base)
    }
}
