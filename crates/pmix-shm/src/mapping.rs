// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is mapped from a descriptor, as words that processes share.
#![allow(unsafe_code)]

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::Error;
use crate::layout::WORD;

/// A part of the address space that shows the first bytes of an object.
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    num_words: usize,
    /// Whether it may be written.
    is_writable: bool,
}

// SAFETY: all that a mapping hands out are atomic words, which any thread may use; the address space
// belongs to all threads alike.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps so many bytes, a multiple of the size of a page; the object must not become shorter.
    ///
    /// # Errors
    ///
    /// The system gives no address space for it.
    pub(crate) fn new(object: impl AsFd, len: usize, is_writable: bool) -> Result<Self, Error> {
        let rights = match is_writable {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses a free place, so nothing that is in use is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), len, rights, flags, object, 0) };
        let start = start.map_err(Error::system("mapping a memory object"))?;
        let unusable = Error::System("mmap returned address 0", ErrorKind::Unsupported);
        let start = NonNull::new(start.cast()).ok_or(unusable)?;
        Ok(Self {
            start,
            num_words: len / size_of::<AtomicU64>(),
            is_writable,
        })
    }

    /// The word at a position; none if there is none.
    ///
    /// Those of a mapping that is not writable are only to be loaded, without an order of their own
    /// (`Relaxed`): that is what may be done with memory that is read-only.
    pub(crate) fn word(&self, position: u64) -> Option<&AtomicU64> {
        let index = usize::try_from(position / WORD).ok()?;
        if !position.is_multiple_of(WORD) || index >= self.num_words {
            return None;
        }
        // SAFETY: the index is within the mapping, which lives as long as `self`; a page is aligned for
        // words, and any bytes are one. The object is sealed against becoming shorter before it is
        // mapped, so the memory behind the address stays there.
        Some(unsafe { self.start.add(index).as_ref() })
    }

    /// So many words from a position on; none if they are not all there.
    pub(crate) fn words(&self, position: u64, num_words: u64) -> Option<&[AtomicU64]> {
        let first = usize::try_from(position / WORD).ok()?;
        let count = usize::try_from(num_words).ok()?;
        let end = first.checked_add(count)?;
        if !position.is_multiple_of(WORD) || end > self.num_words {
            return None;
        }
        // SAFETY: as for one word: all of them are within the mapping.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(first).as_ptr(), count) })
    }

    /// Whether the words may be stored to.
    pub(crate) const fn is_writable(&self) -> bool {
        self.is_writable
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = self.num_words * size_of::<AtomicU64>();
        // SAFETY: it was mapped with this length, and nothing borrows from it any longer.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
