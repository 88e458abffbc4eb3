// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared parts of the project's tasks: counts of checks, running of programs, installation of peers.
//!
//! Tasks that need crates of the project are separate programs (`tests/interop`, `tests/faults`,
//! `benches`). A crate that does not build therefore stops no other task. They report through
//! [`close`], and `cargo xtask` reads the report by [`delegate`].
#![forbid(unsafe_code)]

pub mod install;
pub mod library;
mod outcome;
pub mod process;

pub use outcome::{Outcome, Skip, close, delegate};
