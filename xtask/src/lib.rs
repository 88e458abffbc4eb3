// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the project's tasks share: counts of checks, running other programs, installing peers.
//!
//! The tasks that need crates of the project are programs of their own (`tests/interop`,
//! `tests/faults`, `benches`), so that a crate that does not build stops none of the others. They
//! report through [`close`], and `cargo xtask` reads it by [`delegate`].
#![forbid(unsafe_code)]

mod delegate;
pub mod install;
pub mod library;
mod outcome;
pub mod process;

pub use delegate::{close, delegate};
pub use outcome::{Outcome, Skip};
