// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface: its headers, and what `pmix-capi` needs to know of them.

pub(crate) mod abi;
mod declare;
pub(crate) mod header;
mod initial;
mod shape;
mod texts;
