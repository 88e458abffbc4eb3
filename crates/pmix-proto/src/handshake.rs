// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake of a connection: the client's [`Hello`], the server's [`Welcome`].
//!
//! A server rejects a client by closing the connection without a reply, because clients of 4.2 do
//! not check the status of a rejection.

mod fields;
mod hello;
mod peer;
mod role;
mod welcome;

pub use hello::Hello;
pub use peer::PeerForm;
pub use role::Role;
pub use welcome::{Welcome, WelcomeForm};
