// SPDX-License-Identifier: MIT OR Apache-2.0
//! The listening addresses of a server, and the kernel's information about connections.

pub(crate) mod listen;
mod netlink;
pub(crate) mod owner;

pub use owner::{Listeners, socket_owner};
