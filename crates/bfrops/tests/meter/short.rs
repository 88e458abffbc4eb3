// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator whose memory a test limits for each thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    /// The bytes that this thread may still allocate.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// An allocator that counts memory and has a limit for each thread.
pub(crate) struct Short;

fn take(bytes: usize) -> bool {
    LEFT.with(|left| match left.get() {
        usize::MAX => true,
        there => {
            let rest = there.checked_sub(bytes);
            left.set(rest.unwrap_or(there));
            rest.is_some()
        }
    })
}

fn give_back(bytes: usize) {
    // The counter of a thread that is ending may already be destroyed.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_add(bytes)));
}

// SAFETY: every call that is not refused is passed on unchanged, and a refusal is NULL, as the trait allows. The
// counter is a thread-local cell and does not allocate.
unsafe impl GlobalAlloc for Short {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match take(layout.size()) {
            // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
            true => unsafe { super::meter::Meter.alloc(layout) },
            false => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { super::meter::Meter.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return std::ptr::null_mut();
        }
        give_back(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`.
        unsafe { super::meter::Meter.realloc(memory, layout, size) }
    }
}

/// Runs a call that can allocate at most this many bytes.
pub(crate) fn with<T>(bytes: usize, call: impl FnOnce() -> T) -> T {
    LEFT.set(bytes);
    let result = call();
    LEFT.set(usize::MAX);
    result
}
