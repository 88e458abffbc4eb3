// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of processors as C has them: the bitmap of hwloc.
//!
//! Programs hand over bitmaps that hwloc made, and use hwloc's functions on those that they are
//! given: Open MPI 5 does. So a bitmap is laid out as hwloc 1.1 to 2.9 lay out theirs, in memory of the
//! C library, as hwloc's is. `cargo xtask interop topology` has hwloc read ours and ours hwloc's.
//!
//! | offset | member | what |
//! | --- | --- | --- |
//! | 0 | `count`, 32 bits | how many words are used, 1 at least |
//! | 4 | `room`, 32 bits | the number of words that the memory at `words` can hold |
//! | 8 | `words` | 64 processors each, the lowest first |
//! | 16 | `is_endless`, `int` | whether all processors behind the words are in the set |

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::ptr;

use pmix_topology::Cpuset;
use pmix_types::Status;

use crate::abi::pmix_cpuset_t;
use crate::memory::{self, Result, boxed, release, slice, text, zeroed};

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

/// Returns whether the source that a cpuset or topology names is hwloc, of any release.
///
/// # Safety
/// It is NULL or a string.
pub(crate) unsafe fn is_hwloc(source: *const c_char) -> bool {
    // SAFETY: the caller says so.
    let source = unsafe { text(source) }.and_then(|source| source.get(..5));
    source.is_some_and(|source| source.eq_ignore_ascii_case(b"hwloc"))
}

/// The processors of a set of C; none if it has no bitmap, as that of a process that is not bound.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM`: there is no source, or a bitmap that no machine has;
/// `PMIX_ERR_NOT_SUPPORTED`: the source is not hwloc.
///
/// # Safety
/// The set is valid.
pub(crate) unsafe fn read(from: &pmix_cpuset_t) -> Result<Option<Cpuset>> {
    if from.source.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller says so.
    if !unsafe { is_hwloc(from.source) } {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    // SAFETY: the source says that it is a bitmap of hwloc's.
    let Some(bitmap) = (unsafe { from.bitmap.cast::<Bitmap>().as_ref() }) else {
        return Ok(None);
    };
    let count = bitmap.count;
    if count > bitmap.room || count > Cpuset::MAX_CPUS / 64 || bitmap.words.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: as above.
    let words = unsafe { slice(bitmap.words, count as usize)? };
    let cpus = Cpuset::from_words(words, bitmap.is_endless != 0);
    cpus.map(Some).map_err(|error| error.status())
}

/// A set for C. `source` is freed with it.
pub(crate) fn write(cpus: &Cpuset, source: *mut c_char) -> Result<pmix_cpuset_t> {
    let from = cpus.words();
    // hwloc has no bitmap without a word: the first one not told says what follows.
    let count = from.len().max(1);
    let words = zeroed::<u64>(count)?;
    // SAFETY: there is room for so many, and it is new.
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
            // SAFETY: it was made here.
            unsafe { release(words) };
            Err(status)
        }
    }
}

/// A set for C whose source is hwloc.
pub(crate) fn made(cpus: &Cpuset) -> Result<pmix_cpuset_t> {
    let source = memory::string(b"hwloc")?;
    // SAFETY: it was made here.
    write(cpus, source).inspect_err(|_| unsafe { release(source) })
}

/// Frees a set: its bitmap if it is hwloc's; what another source has is its own business.
///
/// # Safety
/// The set is valid, and what it owns came from the C library and is used no longer.
pub(crate) unsafe fn free(set: &pmix_cpuset_t) {
    // SAFETY: the caller says so.
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

/// A copy of a set, with a bitmap of its own if it is hwloc's.
///
/// # Safety
/// The set is valid.
pub(crate) unsafe fn copy(set: &pmix_cpuset_t) -> Result<pmix_cpuset_t> {
    // SAFETY: the caller says so.
    unsafe {
        let source = memory::duplicate(set.source)?;
        let bitmap = ptr::null_mut();
        let copied = match is_hwloc(set.source) {
            false => Ok(pmix_cpuset_t { source, ..*set }),
            true => read(set).and_then(|cpus| match cpus {
                Some(cpus) => write(&cpus, source),
                None => Ok(pmix_cpuset_t { source, bitmap }),
            }),
        };
        copied.inspect_err(|_| release(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_as_they_were_given() {
        for list in ["", "0", "0-63", "0-3,64,200-300", "0-", "5,64-", "65535"] {
            let cpus = Cpuset::parse(list).unwrap();
            let one = made(&cpus).unwrap();
            // SAFETY: it was made here, and so was its copy.
            unsafe {
                assert_eq!(read(&one), Ok(Some(cpus.clone())), "{list}");
                let copied = copy(&one).unwrap();
                assert_ne!(copied.bitmap, one.bitmap);
                free(&one);
                assert_eq!(read(&copied), Ok(Some(cpus)), "{list}");
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
            // SAFETY: the members say how many words there are, or are refused.
            unsafe { read(&pmix_cpuset_t { source, bitmap }) }.err()
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
