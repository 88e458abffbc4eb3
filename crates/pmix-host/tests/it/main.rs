// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publish and lookup service, and the links of several nodes.

mod nodes;
mod publish;
mod pubsub;
