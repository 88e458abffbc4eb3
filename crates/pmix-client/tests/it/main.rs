// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients with servers that the tests implement.

mod blocking;
mod singleton;
mod tool_connection;
