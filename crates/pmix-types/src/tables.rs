// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constants of the headers. `cargo xtask tables` writes every file beside this one.

#[rustfmt::skip]
pub(crate) mod attributes;
#[rustfmt::skip]
pub(crate) mod data_types;
#[rustfmt::skip]
pub(crate) mod enums;
#[rustfmt::skip]
pub mod keys;
#[rustfmt::skip]
pub(crate) mod status;
