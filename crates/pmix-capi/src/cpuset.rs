// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU sets in their C form: the bitmap of hwloc.
//!
//! Programs pass bitmaps that hwloc made, and call hwloc's functions on the bitmaps that they receive, as Open MPI 5
//! does. A bitmap therefore has the layout of hwloc 1.1 to 2.9, in memory of the C library. `cargo xtask interop
//! topology` checks that hwloc reads the bitmaps of this library and that this library reads those of hwloc.
//!
//! | offset | member | content |
//! | --- | --- | --- |
//! | 0 | `count`, 32 bits | the number of words used, at least 1 |
//! | 4 | `room`, 32 bits | the number of words that the memory at `words` can hold |
//! | 8 | `words` | 64 CPUs each, the lowest first |
//! | 16 | `is_endless`, `int` | nonzero if all CPUs after the words are in the set |

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::ptr;

use pmix_topology::Cpuset;
use pmix_types::Status;

use crate::abi::pmix_cpuset_t;
use crate::memory::{self, Result, boxed, release, slice, text, zeroed};
use crate::valid::Valid;

/// hwloc's `struct hwloc_bitmap_s`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Bitmap {
    count: u32,
    room: u32,
    words: *mut u64,
    is_endless: c_int,
}

const _: () = {
    assert!(size_of::<Bitmap>() == 24);
    assert!(offset_of!(Bitmap, words) == 8);
    assert!(offset_of!(Bitmap, is_endless) == 16);
};

/// Returns `true` if a source is hwloc, of any release.
pub(crate) fn is_hwloc_name(source: &[u8]) -> bool {
    let name = source.get(..5);
    name.is_some_and(|name| name.eq_ignore_ascii_case(b"hwloc"))
}

/// Returns `true` if the source of a cpuset is hwloc.
///
/// # Safety
/// `source` is NULL or a string.
unsafe fn is_hwloc(source: *const c_char) -> bool {
    // SAFETY: the caller guarantees NULL or a string.
    unsafe { text(source) }.is_some_and(is_hwloc_name)
}

/// Returns the CPUs of a C set; `None` if it has no bitmap, as the set of a process that is not bound.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` if there is no source or the bitmap is invalid, and `PMIX_ERR_NOT_SUPPORTED` if the
/// source is not hwloc.
pub(crate) fn read(from: Valid<'_, pmix_cpuset_t>) -> Result<Option<Cpuset>> {
    if from.source.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the set is `Valid`, so its source is NULL or a string.
    if !unsafe { is_hwloc(from.source) } {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    // SAFETY: the set is `Valid` and its source is hwloc, so `bitmap` is NULL or a bitmap of hwloc.
    let Some(bitmap) = (unsafe { from.bitmap.cast::<Bitmap>().as_ref() }) else {
        return Ok(None);
    };
    let count = bitmap.count;
    if count > bitmap.room || count > Cpuset::MAX_CPUS / 64 || bitmap.words.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the bitmap is valid, so its `words` has `room` words, and `count` is at most `room`.
    let words = unsafe { slice(bitmap.words, count as usize)? };
    let cpus = Cpuset::from_words(words, bitmap.is_endless != 0);
    cpus.map(Some).map_err(|error| error.status())
}

/// Returns a C set, which owns `source`.
pub(crate) fn write(cpus: &Cpuset, source: *mut c_char) -> Result<pmix_cpuset_t> {
    let from = cpus.words();
    // A bitmap of hwloc has at least one word. For an empty list, that word repeats `is_endless`.
    let count = from.len().max(1);
    let words = zeroed::<u64>(count)?;
    // SAFETY: `words` was allocated for `count` words, which is at least 1 and at least `from.len()`.
    unsafe {
        words.write(if cpus.is_endless() { u64::MAX } else { 0 });
        ptr::copy_nonoverlapping(from.as_ptr(), words, from.len());
    }
    let made = u32::try_from(count).map_err(|_| Status::ERR_NOMEM);
    let made = made.and_then(|count| {
        boxed(Bitmap {
            count,
            room: count,
            words,
            is_endless: c_int::from(cpus.is_endless()),
        })
    });
    match made {
        Ok(bitmap) => Ok(pmix_cpuset_t {
            source,
            bitmap: bitmap.cast(),
        }),
        Err(status) => {
            // SAFETY: `words` was allocated here, and no other pointer to it exists.
            unsafe { release(words) };
            Err(status)
        }
    }
}

/// Returns a C set whose source is hwloc.
pub(crate) fn made(cpus: &Cpuset) -> Result<pmix_cpuset_t> {
    let source = memory::string(b"hwloc")?;
    // SAFETY: `source` was allocated here; `write` takes it only if it succeeds.
    write(cpus, source).inspect_err(|_| unsafe { release(source) })
}

/// Frees a set. The bitmap is freed only if the source is hwloc, since its layout is unknown otherwise.
///
/// # Safety
/// The set is valid, all that it owns came from the C library, and nothing uses it afterwards.
pub(crate) unsafe fn free(set: &pmix_cpuset_t) {
    // SAFETY: the caller guarantees a valid set whose members came from the C library and are not used afterwards.
    unsafe {
        if is_hwloc(set.source)
            && let Some(bitmap) = set.bitmap.cast::<Bitmap>().as_mut()
        {
            release(bitmap.words);
            release(bitmap);
        }
        release(set.source);
    }
}

/// Returns a copy of a set. Its bitmap is copied if the source is hwloc, and shared otherwise.
pub(crate) fn copy(set: Valid<'_, pmix_cpuset_t>) -> Result<pmix_cpuset_t> {
    // SAFETY: the set is `Valid`, so its source is NULL or a string.
    let (source, is_hwloc) = unsafe { (memory::duplicate(set.source)?, is_hwloc(set.source)) };
    let bitmap = ptr::null_mut();
    let copied = match is_hwloc {
        false => Ok(pmix_cpuset_t { source, ..*set }),
        true => read(set).and_then(|cpus| match cpus {
            Some(cpus) => write(&cpus, source),
            None => Ok(pmix_cpuset_t { source, bitmap }),
        }),
    };
    // SAFETY: `source` was made here and is freed only if no set took it.
    copied.inspect_err(|_| unsafe { release(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_as_they_were_given() {
        for list in ["", "0", "0-63", "0-3,64,200-300", "0-", "5,64-", "65535"] {
            let cpus = Cpuset::parse(list).unwrap();
            let one = made(&cpus).unwrap();
            // SAFETY: `made` and `copy` return valid sets of their own, and each is freed once.
            unsafe {
                assert_eq!(read(Valid::new(&one)), Ok(Some(cpus.clone())), "{list}");
                let copied = copy(Valid::new(&one)).unwrap();
                assert_ne!(copied.bitmap, one.bitmap);
                free(&one);
                assert_eq!(read(Valid::new(&copied)), Ok(Some(cpus)), "{list}");
                free(&copied);
            }
        }
    }

    #[test]
    fn a_bitmap_that_no_machine_has_is_refused_unread() {
        let mut words = [u64::MAX; 2];
        let mut bitmap = Bitmap {
            count: 2,
            room: 2,
            words: words.as_mut_ptr(),
            is_endless: 0,
        };
        let hwloc = c"HWLOC:3.0".as_ptr().cast_mut();
        let status = |bitmap: &mut Bitmap, source| {
            let bitmap = ptr::from_mut(bitmap).cast();
            let set = pmix_cpuset_t { source, bitmap };
            // SAFETY: `words` is valid for `room` words of the valid bitmap; all others are rejected before they are
            // read.
            let set = unsafe { Valid::new(&set) };
            read(set).err()
        };
        assert_eq!(status(&mut bitmap, hwloc), None);
        assert_eq!(
            status(&mut bitmap, ptr::null_mut()),
            Some(Status::ERR_BAD_PARAM)
        );
        let other = c"hwlo".as_ptr().cast_mut();
        assert_eq!(status(&mut bitmap, other), Some(Status::ERR_NOT_SUPPORTED));
        for (count, room) in [(3, 2), (u32::MAX, u32::MAX), (1025, 1025)] {
            let mut wrong = Bitmap {
                count,
                room,
                ..bitmap
            };
            assert_eq!(status(&mut wrong, hwloc), Some(Status::ERR_BAD_PARAM));
        }
        bitmap.words = ptr::null_mut();
        assert_eq!(status(&mut bitmap, hwloc), Some(Status::ERR_BAD_PARAM));
    }
}
