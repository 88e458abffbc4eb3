// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools that find and attach to servers.

mod launchers;
mod servers;
