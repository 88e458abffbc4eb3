// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that one thread replaces while others read them.
//!
//! With `--cfg schedules`, models replace the real types in unit tests ([`model`]): with them, the tests in
//! `store/schedules.rs` run in every order of threads. `cargo xtask variants` runs them. They are not part of every
//! build, because loom changes the features of libraries that all crates use, so each crate would be built twice.

#[cfg(all(test, schedules))]
mod model;

#[cfg(not(all(test, schedules)))]
pub(crate) use std::hash::RandomState as NameHasher;
#[cfg(not(all(test, schedules)))]
pub(crate) use std::sync::{Mutex, OnceLock};

#[cfg(not(all(test, schedules)))]
pub(crate) use arc_swap::ArcSwap;

#[cfg(all(test, schedules))]
pub(crate) use self::model::{ArcSwap, Mutex, NameHasher, OnceLock};
