// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that one thread replaces while others read them.
//!
//! In unit tests each is a model that explores every order of threads ([`model`]), and the tests in
//! `store/schedules.rs` use it. Tests of the results of a store are in `tests/`, where the real
//! types are used.

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
