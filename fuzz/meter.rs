// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of an input: memory held at once, memory allocated in total, and processor time.
//!
//! An allocator counts the first two, which are the same in every run. The total shows repeated work, such as a buffer
//! that is copied for each part.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The alignment of allocations by which `pmix_types::memory` only checks that memory is available. They are freed at
/// once and do not count.
const PROBE: usize = 128;

/// The system's allocator with counters.
pub(crate) struct Meter;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The cost of one input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// The peak of the allocated bytes, without the bytes that were allocated before.
    pub(crate) held: usize,
    /// The bytes of all allocations.
    pub(crate) asked: usize,
    /// The processor time of this thread, which other load of the machine does not affect.
    pub(crate) time: Duration,
}

/// Runs a target and returns its cost.
pub(crate) fn cost_of(run: impl FnOnce()) -> Cost {
    let (before, asked) = (LIVE.load(Relaxed), ASKED.load(Relaxed));
    PEAK.store(before, Relaxed);
    let started = ran();
    run();
    Cost {
        held: PEAK.load(Relaxed).saturating_sub(before),
        asked: ASKED.load(Relaxed) - asked,
        time: ran().saturating_sub(started),
    }
}

/// Returns the processor time that this thread has used.
fn ran() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

fn grew(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
    ASKED.fetch_add(bytes, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters are atomics that do not touch the
// memory.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            grew(layout.size());
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            grew(layout.size());
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() != PROBE {
            LIVE.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}
