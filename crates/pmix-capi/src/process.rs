// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pid of this process, without a system call for each call of the interface.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

unsafe extern "C" {
    fn madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int;
}

/// Advice to the kernel (since Linux 4.14) that the child of a fork sees zeros in the page.
const MADV_WIPEONFORK: c_int = 18;

const PAGE_BYTES: usize = 4096;

/// A page of zeros that no other variable shares.
#[repr(C, align(4096))]
struct Page {
    id: AtomicU32,
    rest: [u8; PAGE_BYTES - size_of::<AtomicU32>()],
}

static PAGE: Page = Page {
    id: AtomicU32::new(0),
    rest: [0; PAGE_BYTES - size_of::<AtomicU32>()],
};

/// The answer of the kernel to `MADV_WIPEONFORK`: not asked, yes, or no.
static WIPED: AtomicU8 = AtomicU8::new(NOT_ASKED);
const NOT_ASKED: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// Returns the pid of this process, also right after any kind of fork.
pub(crate) fn id() -> u32 {
    let known = PAGE.id.load(Ordering::Relaxed);
    match known {
        0 => learn(),
        known => known,
    }
}

/// Gets the pid from the system, and stores it if the kernel hides it from children.
#[cold]
fn learn() -> u32 {
    let id = std::process::id();
    if WIPED.load(Ordering::Relaxed) == NOT_ASKED {
        let at = (&raw const PAGE).cast_mut().cast();
        // SAFETY: `PAGE` is a whole page that only this library uses, and it is still all zeros. The advice does not
        // affect this process. A kernel without the advice, or with larger pages, returns an error.
        let refused = unsafe { madvise(at, PAGE_BYTES, MADV_WIPEONFORK) } != 0;
        WIPED.store(if refused { NO } else { YES }, Ordering::Relaxed);
    }
    if WIPED.load(Ordering::Relaxed) == YES {
        PAGE.id.store(id, Ordering::Relaxed);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_that_of_the_system_and_is_kept() {
        assert_eq!(id(), std::process::id());
        assert_eq!(id(), std::process::id());
        if WIPED.load(Ordering::Relaxed) == YES {
            assert_eq!(PAGE.id.load(Ordering::Relaxed), std::process::id());
        }
        assert!(PAGE.rest.iter().all(|byte| *byte == 0));
    }
}
