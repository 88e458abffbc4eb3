// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients in front of servers of the tests.

mod blocking;
mod singleton;
mod tool_connection;
