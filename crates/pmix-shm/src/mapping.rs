// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is mapped from a descriptor, as atomic words that processes share.
#![allow(unsafe_code)]

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::Error;
use crate::layout::WORD;

/// A mapping of the first bytes of an object.
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    num_words: usize,
    /// `true` if the mapping may be written.
    is_writable: bool,
}

// SAFETY: a mapping only gives access to atomic words, which any thread may use, and the address
// space is common to all threads.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of an object, a multiple of the page size. The object must be
    /// sealed against shortening.
    ///
    /// # Errors
    ///
    /// The process has no address space for the mapping.
    pub(crate) fn new(object: impl AsFd, len: usize, is_writable: bool) -> Result<Self, Error> {
        let rights = match is_writable {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses an unused address range, so no existing mapping is replaced.
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

    /// Returns the word at a position, or `None` outside of the mapping.
    ///
    /// Words of a read-only mapping may only be loaded with `Relaxed` ordering: Rust allows no
    /// other atomic operation on read-only memory.
    pub(crate) fn word(&self, position: u64) -> Option<&AtomicU64> {
        let index = usize::try_from(position / WORD).ok()?;
        if !position.is_multiple_of(WORD) || index >= self.num_words {
            return None;
        }
        // SAFETY: the index is within the mapping, which lives as long as `self`; a page is aligned
        // for words, and any bytes are a valid word. The object was sealed against shortening
        // before it was mapped, so the memory at the address remains.
        Some(unsafe { self.start.add(index).as_ref() })
    }

    /// Returns `num_words` words from a position on, or `None` if some are outside of the mapping.
    pub(crate) fn words(&self, position: u64, num_words: u64) -> Option<&[AtomicU64]> {
        let first = usize::try_from(position / WORD).ok()?;
        let count = usize::try_from(num_words).ok()?;
        let end = first.checked_add(count)?;
        if !position.is_multiple_of(WORD) || end > self.num_words {
            return None;
        }
        // SAFETY: as for one word; all of them are within the mapping.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(first).as_ptr(), count) })
    }

    /// Returns `true` if the words may be written.
    pub(crate) const fn is_writable(&self) -> bool {
        self.is_writable
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = self.num_words * size_of::<AtomicU64>();
        // SAFETY: `start` was mapped with this length, and no borrow of it is left, because `self`
        // is dropped.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
