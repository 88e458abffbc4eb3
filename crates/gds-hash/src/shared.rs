// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that one thread replaces while others read them.
//!
//! In unit tests each of them is a model that knows every order in which threads may take turns
//! ([`model`]), and the tests in `store/schedules.rs` go through those orders. Tests of what a store
//! answers stand in `tests/`, where it is the real one.

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
