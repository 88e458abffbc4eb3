// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constants of the headers.

pub(crate) mod data_types;
pub(crate) mod enums;
