// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kill -9`: of clients and of servers, wherever they are in their lives.

pub(super) mod client;
pub(super) mod points;
pub(super) mod server;
