// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of topologies in hwloc's XML.

mod answers;
