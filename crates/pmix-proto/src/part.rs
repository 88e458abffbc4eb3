// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outline of the fields of a message.
//!
//! Source: the declarations of this crate.

use pmix_types::DataType;

/// The outline of a field, for documentation and tools that explain messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A call with one datum.
    One(&'static str, DataType),
    /// A call with a size and, if the size is not 0, one call with that number of data.
    Many(&'static str, DataType),
    /// A call with a size, and that number of calls with one datum each.
    Each(&'static str, DataType),
    /// A call with one datum of bytes, and the fields packed in them.
    Packed(&'static str, DataType, Vec<Self>),
    /// Fields that are present if the preceding truth value is true.
    If(Vec<Self>),
    /// Optional fields.
    Maybe(Vec<Self>),
    /// Fields that repeat up to the end.
    Rest(Vec<Self>),
}
