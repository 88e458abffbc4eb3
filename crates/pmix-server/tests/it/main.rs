// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server over real sockets, with clients of the protocol crate.

mod admission;
mod attributes;
mod life;
mod peer;
mod pressure;
mod registration;
