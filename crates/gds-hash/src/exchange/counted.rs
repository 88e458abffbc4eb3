// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of pack and unpack operations per thread, for tests of the amount of work.

use std::cell::Cell;
use std::thread::LocalKey;

/// A counter of each thread.
pub(crate) type Count = LocalKey<Cell<usize>>;

thread_local! {
    /// The number of times that this thread has packed the data of a process, or a value.
    pub(crate) static PACKED: Cell<usize> = const { Cell::new(0) };
    /// The number of values that this thread has unpacked from stored bytes.
    pub(crate) static UNPACKED: Cell<usize> = const { Cell::new(0) };
}

/// Increments a counter.
pub(crate) fn add_one(count: &'static Count) {
    count.set(count.get() + 1);
}

/// Returns the increase of a counter during a closure.
pub(crate) fn raised(count: &'static Count, run: impl FnOnce()) -> usize {
    let before = count.get();
    run();
    count.get() - before
}
