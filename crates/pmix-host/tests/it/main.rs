// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publish and lookup service.

mod publish;
mod pubsub;
