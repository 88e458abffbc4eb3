// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the declaration of a message says of its parts.
//!
//! Source: the declarations of this crate.

use pmix_types::DataType;

/// Describes a part of a message, for pages and tools that explain messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A call of one datum.
    One(&'static str, DataType),
    /// A call of a size, and if that is not 0 a call of so many data.
    Many(&'static str, DataType),
    /// A call of a size, and so many calls of one datum.
    Each(&'static str, DataType),
    /// A call of one datum that is bytes, and what is packed in them.
    Packed(&'static str, DataType, Vec<Self>),
    /// Fields that are there if the truth value before them is true.
    If(Vec<Self>),
    /// Fields that may be missing.
    Maybe(Vec<Self>),
    /// Fields that repeat up to the end.
    Rest(Vec<Self>),
}
