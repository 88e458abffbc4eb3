// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation of memory whose size a caller or a peer determines. Without memory, these functions
//! return an error instead of aborting.
//!
//! Rust aborts the process when an allocation fails. Code that allocates a size from outside
//! therefore asks this module first. A large size is probed by itself: the memory is allocated and
//! freed at once. Small sizes are added up, and memory is probed once for each [`SMALL`] bytes.
//! Each probe allocates [`RESERVE`] bytes more, which error texts, small copies and call stacks use
//! without checks.
//!
//! Source: this project; sizes are in bytes.

use std::collections::TryReserveError;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Status;

/// The number of bytes of small allocations after which memory is probed.
pub const SMALL: usize = 64 << 10;

/// The bytes that must stay available in addition to the requested ones.
pub const RESERVE: usize = 1 << 20;

/// The error for an allocation for which the process has no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    bytes: usize,
}

impl OutOfMemory {
    /// Returns the PMIx status, `PMIX_ERR_NOMEM`.
    #[must_use]
    pub const fn status(&self) -> Status {
        Status::ERR_NOMEM
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(f, "the process has no memory left for {bytes} bytes more")
    }
}

impl std::error::Error for OutOfMemory {}

/// The bytes of small allocations since the last probe.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// Checks that the process has memory for `bytes` more bytes, which the caller allocates next.
///
/// # Errors
///
/// The process has no memory for them, or no reserve would be left.
#[inline]
pub fn check(bytes: usize) -> Result<(), OutOfMemory> {
    if bytes < SMALL {
        // Relaxed ordering is enough: a race can lose a count, which only delays the next probe.
        let counted = COUNTED.load(Ordering::Relaxed) + bytes;
        if counted < SMALL {
            COUNTED.store(counted, Ordering::Relaxed);
            return Ok(());
        }
    }
    ask(bytes)
}

/// The unit of a probe. No other type of this project has its alignment, so a counting allocator in
/// tests can recognize a probe, which is freed at once.
#[expect(dead_code, reason = "only its size and its alignment matter")]
#[repr(align(128))]
struct ProbeUnit([u8; 128]);

/// Probes memory: allocates `bytes` plus the reserve, and frees them.
#[cold]
#[inline(never)]
fn ask(bytes: usize) -> Result<(), OutOfMemory> {
    COUNTED.store(0, Ordering::Relaxed);
    let mut room = Vec::<ProbeUnit>::new();
    let parts = bytes
        .saturating_add(RESERVE)
        .div_ceil(size_of::<ProbeUnit>());
    let asked = room.try_reserve_exact(parts);
    // Without this, the compiler would remove the unused allocation.
    std::hint::black_box(room.as_ptr());
    asked.map_err(|_| OutOfMemory { bytes })
}

/// Returns the approximate number of bytes that the allocator uses for an allocation.
#[must_use]
pub const fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..24 => 32,
        _ => bytes.saturating_add(24),
    }
}

/// Reserves memory for at least `additional` more items. If the list must grow, its capacity at
/// least doubles.
///
/// # Errors
///
/// The process has no memory for them.
#[inline]
pub fn reserve<T>(list: &mut Vec<T>, additional: usize) -> Result<(), OutOfMemory> {
    match list.capacity() - list.len() >= additional {
        true => Ok(()),
        // Doubles the capacity. If there is no memory for that, grows by a small step. The step is
        // more than the requested items, because a list that grows item by item would otherwise
        // move each time.
        false => grow(list, additional, |list| {
            let step = additional.max(SMALL / size_of::<T>().max(1));
            list.try_reserve(additional)
                .or_else(|_| list.try_reserve_exact(step))
        }),
    }
}

/// Reserves memory for exactly `additional` more items.
///
/// # Errors
///
/// The process has no memory for them.
#[inline]
pub fn reserve_exact<T>(list: &mut Vec<T>, additional: usize) -> Result<(), OutOfMemory> {
    match list.capacity() - list.len() >= additional {
        true => Ok(()),
        false => grow(list, additional, |list| list.try_reserve_exact(additional)),
    }
}

#[inline(never)]
fn grow<T>(
    list: &mut Vec<T>,
    additional: usize,
    reserve: impl FnOnce(&mut Vec<T>) -> Result<(), TryReserveError>,
) -> Result<(), OutOfMemory> {
    let before = list.capacity();
    reserve(list).map_err(|_| OutOfMemory {
        bytes: additional.saturating_mul(size_of::<T>()),
    })?;
    let bytes = (list.capacity() - before) * size_of::<T>();
    match bytes < SMALL {
        true => check(allocated(bytes)),
        // The items are already allocated, so only the reserve is probed.
        false => ask(0),
    }
}

/// Creates an empty list with reserved memory for `capacity` items.
///
/// # Errors
///
/// The process has no memory for them.
#[inline]
pub fn list<T>(capacity: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut list = Vec::new();
    reserve_exact(&mut list, capacity)?;
    Ok(list)
}

/// Copies items.
///
/// # Errors
///
/// The process has no memory for the copy.
#[inline]
pub fn copy<T: Copy>(items: &[T]) -> Result<Vec<T>, OutOfMemory> {
    let mut copy = list(items.len())?;
    copy.extend_from_slice(items);
    Ok(copy)
}

/// Appends copies of items.
///
/// # Errors
///
/// The process has no memory for them. Then the list is unchanged.
#[inline]
pub fn append<T: Copy>(list: &mut Vec<T>, items: &[T]) -> Result<(), OutOfMemory> {
    reserve(list, items.len())?;
    list.extend_from_slice(items);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_impossible_sizes_without_changes() {
        let huge = usize::MAX / 4;
        for bytes in [huge, usize::MAX] {
            assert_eq!(check(bytes), Err(OutOfMemory { bytes }));
            assert!(list::<u64>(bytes).is_err());
        }
        let mut bytes = b"unchanged".to_vec();
        let refused = reserve(&mut bytes, huge).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOMEM);
        assert!(reserve_exact(&mut bytes, huge).is_err());
        assert_eq!(bytes, b"unchanged");
    }

    #[test]
    fn copies_are_exact_and_appending_doubles_the_capacity() {
        let mut bytes = copy(&[7_u8; 1000]).unwrap();
        assert_eq!(bytes, [7; 1000]);
        assert_eq!(bytes.capacity(), 1000);
        append(&mut bytes, &[8]).unwrap();
        assert_eq!(bytes[999..], [7, 8]);
        assert_eq!(bytes.capacity(), 2000);
        assert_eq!(list::<u32>(5).unwrap().capacity(), 5);
        assert_eq!(list::<u32>(0).unwrap().capacity(), 0);
        assert!(copy::<u8>(&[]).unwrap().is_empty());
    }
}
