// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface: its headers, and the generated Rust of `pmix-capi`.

pub(crate) mod abi;
mod declare;
pub(crate) mod header;
mod initial;
mod shape;
mod texts;
