// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an input costs: memory held at once, memory asked for in total, time of the processor.
//!
//! The first two are counted by an allocator and are the same in every run. What is asked for in
//! total shows work that is done again and again, such as a buffer that is copied for each part.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The alignment of memory that `pmix_types::memory` asks for and gives back at once, to see whether it is there. It is
/// no part of a cost.
const PROBE: usize = 128;

/// The system's allocator, counted.
pub(crate) struct Meter;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// What one input cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// The most bytes held at once, beyond what was held before.
    pub(crate) held: usize,
    /// The bytes of all that was asked for.
    pub(crate) asked: usize,
    /// The time that this thread ran, which other programs do not lengthen.
    pub(crate) time: Duration,
}

/// Runs a target and returns what it cost.
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

/// How long this thread ran by now.
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

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            grew(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() != PROBE {
            grew(layout.size());
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() != PROBE {
            LIVE.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grew(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}
