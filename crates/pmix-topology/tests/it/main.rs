// SPDX-License-Identifier: MIT OR Apache-2.0
//! Topologies in the XML form of hwloc.

mod answers;
mod cost;
