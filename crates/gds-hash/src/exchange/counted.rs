// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what a thread packs and unpacks, for tests that say how much work something takes.

use std::cell::Cell;
use std::thread::LocalKey;

/// A number that each thread has for itself.
pub(crate) type Count = LocalKey<Cell<usize>>;

thread_local! {
    /// Counts how often this thread has packed the data of a process, or a value.
    pub(crate) static PACKED: Cell<usize> = const { Cell::new(0) };
    /// Counts how many values this thread has unpacked from the bytes that were kept of them.
    pub(crate) static UNPACKED: Cell<usize> = const { Cell::new(0) };
}

/// Adds one.
pub(crate) fn add_one(count: &'static Count) {
    count.set(count.get() + 1);
}

/// Returns by how much a piece of code raises a count.
pub(crate) fn raised(count: &'static Count, run: impl FnOnce()) -> usize {
    let before = count.get();
    run();
    count.get() - before
}
