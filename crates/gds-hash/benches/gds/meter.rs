// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts the memory and the allocations of this thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The alignment by which probes of `pmix_types::memory` are recognized. They are freed at once and
/// not counted.
const PROBE: usize = 128;

/// The system's allocator with counters.
pub(crate) struct Meter;

thread_local! {
    /// The allocated bytes, and the number of allocations.
    static COUNT: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
    /// The allocated bytes at the last reset, and their maximum since then.
    static PEAK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Resets the maximum.
pub(crate) fn forget_peak() {
    let (held, _) = COUNT.get();
    PEAK.set((held, held));
}

/// Returns the maximum since the reset, without the bytes that were allocated at the reset.
pub(crate) fn peak() -> usize {
    let (before, most) = PEAK.get();
    most - before
}

/// Returns the allocated bytes of this thread, and its number of allocations.
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

// SAFETY: every call is passed on to the system's allocator unchanged; the counters are
// thread-local cells without initializer or destructor, so counting neither allocates nor touches
// the memory.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            count(layout.size(), 0, 1);
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            count(layout.size(), 0, 1);
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() != PROBE {
            count(0, layout.size(), 0);
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size(), 1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}
