// SPDX-License-Identifier: MIT OR Apache-2.0
//! A separate program, as its tests count the threads of their process.
#![cfg(all(feature = "client", feature = "server"))]

mod driven;
#[path = "../it/served/mod.rs"]
mod served;
mod sharing;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns a guard that lets one test run at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
