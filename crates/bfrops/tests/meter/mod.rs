// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts the memory of each thread, so that tests may run concurrently.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with counters.
pub(crate) struct Meter;

#[derive(Clone, Copy)]
struct Count {
    live: usize,
    peak: usize,
    calls: usize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { live: 0, peak: 0, calls: 0 }) };
}

/// The cost of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The maximum number of allocated bytes at a time, without those allocated before.
    pub(crate) peak: usize,
    /// The number of allocations.
    pub(crate) calls: usize,
}

/// The alignment by which probes of `pmix_types::memory` are recognized. They are freed at once and
/// not counted.
const ASKED: usize = 128;

/// Runs `run`, and returns its result and its cost. The memory of the result counts as allocated.
pub(crate) fn of<T>(run: impl FnOnce() -> T) -> (T, Cost) {
    let before = COUNT.get();
    COUNT.set(Count {
        peak: before.live,
        ..before
    });
    let result = run();
    let after = COUNT.get();
    let cost = Cost {
        peak: after.peak - before.live,
        calls: after.calls - before.calls,
    };
    (result, cost)
}

fn grew(bytes: usize) {
    // The counter of a thread that is ending may already be destroyed.
    let _ = COUNT.try_with(|cell| {
        let Count { live, peak, calls } = cell.get();
        let live = live.wrapping_add(bytes);
        cell.set(Count {
            live,
            peak: peak.max(live),
            calls: calls + 1,
        });
    });
}

fn shrank(bytes: usize) {
    let _ = COUNT.try_with(|cell| {
        let count = cell.get();
        // Another thread may have allocated this memory.
        let live = count.live.saturating_sub(bytes);
        cell.set(Count { live, ..count });
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters are
// thread-local cells without initializer or destructor, so counting neither allocates nor touches
// the memory.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != ASKED {
            grew(layout.size());
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() != ASKED {
            grew(layout.size());
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() != ASKED {
            shrank(layout.size());
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        shrank(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}
