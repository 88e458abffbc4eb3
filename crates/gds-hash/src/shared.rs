// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that one thread replaces while others read them.
//!
//! In unit tests, models replace the real types ([`model`]): with them, the tests in
//! `store/schedules.rs` run in every order of threads. Tests in `tests/` use the real types.

#[cfg(test)]
mod model;

#[cfg(not(test))]
pub(crate) use std::hash::RandomState as NameHasher;
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, OnceLock};

#[cfg(not(test))]
pub(crate) use arc_swap::ArcSwap;

#[cfg(test)]
pub(crate) use self::model::{ArcSwap, Mutex, NameHasher, OnceLock};
