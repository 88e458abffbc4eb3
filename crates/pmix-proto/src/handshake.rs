// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake of a connection: the client's [`Hello`], the server's [`Welcome`].
//!
//! A client that is not welcome is answered by closing the connection and sending nothing: clients
//! of 4.2 do not look at a refusal in words.

mod fields;
mod hello;
mod peer;
mod role;
mod welcome;

pub use hello::Hello;
pub use peer::PeerForm;
pub use role::Role;
pub use welcome::{Welcome, WelcomeForm};
