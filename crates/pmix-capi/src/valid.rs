// SPDX-License-Identifier: MIT OR Apache-2.0
//! C structures of a program that the library reads.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::memory::{Result, slice};

/// A C structure or array that may be read, with all that its pointers lead to.
///
/// Invariant: each pointer in it is NULL or valid for the type that the header declares, and each count is that of the
/// array beside it, for as long as `'a`.
pub(crate) struct Valid<'a, T: ?Sized> {
    at: NonNull<T>,
    life: PhantomData<&'a T>,
}

impl<T: ?Sized> Clone for Valid<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Valid<'_, T> {}

impl<T: ?Sized> Deref for Valid<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` made the pointer from a reference that lives as long as `'a`.
        unsafe { self.at.as_ref() }
    }
}

impl<'a, T: ?Sized> Valid<'a, T> {
    /// States that a structure is valid.
    ///
    /// # Safety
    /// The invariant of [`Valid`] holds.
    pub(crate) unsafe fn new(at: &'a T) -> Self {
        Self {
            at: NonNull::from(at),
            life: PhantomData,
        }
    }
}

impl<'a, T> Valid<'a, [T]> {
    /// States that `count` elements at `at` are valid; NULL is an empty array.
    ///
    /// # Errors
    /// Returns the errors of [`slice()`].
    ///
    /// # Safety
    /// `at` is NULL or points to `count` elements for which the invariant of [`Valid`] holds.
    pub(crate) unsafe fn slice(at: *const T, count: usize) -> Result<Self> {
        // SAFETY: the caller guarantees `count` valid elements, or NULL.
        unsafe { slice(at, count).map(|all| Self::new(all)) }
    }

    /// Returns the elements.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = Valid<'a, T>> {
        let (first, count) = (self.at.cast::<T>(), self.len());
        (0..count).map(move |place| Valid {
            // SAFETY: `place` is less than the number of elements.
            at: unsafe { first.add(place) },
            life: PhantomData,
        })
    }
}
