// SPDX-License-Identifier: MIT OR Apache-2.0
//! The addresses that a server listens on, and what the kernel says about connections.

mod interfaces;
pub(crate) mod listen;
mod netlink;
pub(crate) mod owner;
