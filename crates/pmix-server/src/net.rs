// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses, interfaces and what the kernel says about connections.

mod interfaces;
pub(crate) mod listen;
mod netlink;
pub(crate) mod owner;
