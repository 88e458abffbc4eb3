// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the data model: tables, operations and JSON form.

#[cfg(feature = "serde")]
mod json;
mod ops;
mod tables;
