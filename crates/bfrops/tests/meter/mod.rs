// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts what each thread holds, so that tests may run side by side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
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

/// What something cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The most bytes held at once, beyond what was held before.
    pub(crate) peak: usize,
    /// How often memory was asked for.
    pub(crate) calls: usize,
}

/// The alignment of memory that `pmix_types::memory` asks for and gives back at once, to see whether it is there: no
/// part of what something costs.
const ASKED: usize = 128;

/// What `run` costs, and what it returned, which counts as held.
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
    // A thread that is ending has no count any more, and nobody asks for it.
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
        // What another thread asked for may be given back here.
        let live = count.live.saturating_sub(bytes);
        cell.set(Count { live, ..count });
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it
// and asks for none, as the count needs neither to be made nor to be dropped.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != ASKED {
            grew(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() != ASKED {
            grew(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() != ASKED {
            shrank(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        shrank(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}
