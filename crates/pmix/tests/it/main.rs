// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients and servers through the public interface of the crate.
#![cfg(all(feature = "client", feature = "server"))]

mod devices;
mod examples;
mod groups;
mod groups_of_nodes;
mod names;
mod nodes;
mod prefetch;
mod served;
mod shared;
mod shared_nodes;
