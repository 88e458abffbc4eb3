// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts what this thread holds and how often it asks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The alignment of memory that `pmix_types::memory` asks for and gives back at once, to see whether it is there. It is
/// no part of a cost.
const PROBE: usize = 128;

/// The system's allocator, counted.
pub(crate) struct Meter;

thread_local! {
    /// Bytes held, and how often memory was asked for.
    static COUNT: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
    /// The bytes held when the peak was forgotten, and the most since.
    static PEAK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Begins to look for the most bytes held at once.
pub(crate) fn forget_peak() {
    let (held, _) = COUNT.get();
    PEAK.set((held, held));
}

/// The most bytes held at once since then, beyond what was held before.
pub(crate) fn peak() -> usize {
    let (before, most) = PEAK.get();
    most - before
}

/// Bytes held by this thread, and how often it asked for memory.
pub(crate) fn now() -> (usize, u64) {
    COUNT.get()
}

fn count(more: usize, less: usize, asked: u64) {
    let _ = COUNT.try_with(|cell| {
        let (held, calls) = cell.get();
        let held = held.wrapping_add(more).wrapping_sub(less);
        cell.set((held, calls + asked));
        let _ = PEAK.try_with(|peak| {
            let (before, most) = peak.get();
            peak.set((before, most.max(held)));
        });
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it
// and asks for none, as the count needs neither to be made nor to be dropped.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            count(layout.size(), 0, 1);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            count(layout.size(), 0, 1);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() != PROBE {
            count(0, layout.size(), 0);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size(), 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}
