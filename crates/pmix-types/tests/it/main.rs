// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data model: its tables, its operations and its JSON form.

#[cfg(feature = "serde")]
mod json;
mod ops;
mod tables;
