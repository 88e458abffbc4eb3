// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory whose size a caller or a peer decides: a process that has none left gets an error, not an abort.
//!
//! Rust aborts the process when an allocation fails. Code that takes memory by a size from outside therefore asks
//! this module first. A large piece is asked for on its own; small pieces are counted, and memory is asked for once
//! per [`SMALL`] bytes of them. Each time [`RESERVE`] bytes more must be there, which are given back at once: error
//! texts, small copies and the stacks of calls use them, and need no checks of their own.
//!
//! Source: none outside; sizes are in bytes.

use std::collections::TryReserveError;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Status;

/// The most bytes that may be taken in small pieces before memory is asked for.
pub const SMALL: usize = 64 << 10;

/// The bytes that must be left beside what is taken.
pub const RESERVE: usize = 1 << 20;

/// Reports that the process has no memory for something whose size a caller or a peer decided.
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

/// The bytes of small pieces since memory was last asked for.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// Checks that the process has memory for some bytes more, which the caller takes next.
///
/// # Errors
///
/// The process has no room for them, or nothing would be left for small things.
#[inline]
pub fn check(bytes: usize) -> Result<(), OutOfMemory> {
    if bytes < SMALL {
        // A lost count costs nothing but a later check.
        let counted = COUNTED.load(Ordering::Relaxed) + bytes;
        if counted < SMALL {
            COUNTED.store(counted, Ordering::Relaxed);
            return Ok(());
        }
    }
    ask(bytes)
}

/// A part of what [`ask`] asks for. Nothing else in this project is aligned like it, by which an allocator that
/// counts for a test tells that the piece is given back at once.
#[expect(dead_code, reason = "only its size and its alignment matter")]
#[repr(align(128))]
struct Part([u8; 128]);

/// Asks the allocator for the bytes and the reserve, and gives them back.
#[cold]
#[inline(never)]
fn ask(bytes: usize) -> Result<(), OutOfMemory> {
    COUNTED.store(0, Ordering::Relaxed);
    let mut room = Vec::<Part>::new();
    let parts = bytes.saturating_add(RESERVE).div_ceil(size_of::<Part>());
    let asked = room.try_reserve_exact(parts);
    // Otherwise the compiler leaves out an allocation that nothing uses.
    std::hint::black_box(room.as_ptr());
    asked.map_err(|_| OutOfMemory { bytes })
}

/// Returns about how many bytes the allocator takes for a piece.
#[must_use]
pub const fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..24 => 32,
        _ => bytes.saturating_add(24),
    }
}

/// Makes room for at least so many items more; a list that grows again and again gets twice its length.
///
/// # Errors
///
/// The process has no memory for them.
#[inline]
pub fn reserve<T>(list: &mut Vec<T>, additional: usize) -> Result<(), OutOfMemory> {
    match list.capacity() - list.len() >= additional {
        true => Ok(()),
        // Twice the length, or where that is too much what is needed.
        false => grow(list, additional, |list| {
            list.try_reserve(additional)
                .or_else(|_| list.try_reserve_exact(additional))
        }),
    }
}

/// Makes room for so many items more and not for others.
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
        // They are taken already.
        false => ask(0),
    }
}

/// Creates an empty list with room for so many items.
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
/// The process has no memory for them; the list is as it was.
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
    fn what_no_process_has_is_refused_and_changes_nothing() {
        let huge = usize::MAX / 4;
        for bytes in [huge, usize::MAX] {
            assert_eq!(check(bytes), Err(OutOfMemory { bytes }));
            assert!(list::<u64>(bytes).is_err());
        }
        let mut bytes = b"as it was".to_vec();
        let refused = reserve(&mut bytes, huge).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOMEM);
        assert!(reserve_exact(&mut bytes, huge).is_err());
        assert_eq!(bytes, b"as it was");
    }

    #[test]
    fn copies_have_room_for_what_they_hold_and_appending_doubles_it() {
        let mut bytes = copy(&[7_u8; 1000]).unwrap();
        assert_eq!(bytes, [7; 1000]);
        assert_eq!(bytes.capacity(), 1000);
        append(&mut bytes, &[8]).unwrap();
        assert_eq!(bytes[999..], [7, 8]);
        assert_eq!(bytes.capacity(), 2000);
        assert_eq!(list::<u32>(5).unwrap().capacity(), 5);
        assert_eq!(list::<u32>(0).unwrap().capacity(), 0);
        assert_eq!(copy::<u8>(&[]).unwrap(), []);
    }
}
