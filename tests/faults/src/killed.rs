// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients and servers that are killed by `kill -9` at every point of their lives.

pub(super) mod client;
pub(super) mod points;
pub(super) mod server;
