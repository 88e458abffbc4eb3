// SPDX-License-Identifier: MIT OR Apache-2.0
//! C structures and arrays that a program owns and the library changes, and those that the library owns.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::memory::{Result, slice};
use crate::model::{Model, list};
use crate::record::{Record, duplicate_list, empty_list, fresh};
use crate::valid::Valid;

/// A constructed structure of the program, which a function changes.
///
/// Invariant: it may be read and written as long as `'a`, and all that it owns came from the C library.
pub(crate) struct Held<'a, T> {
    at: NonNull<T>,
    life: PhantomData<&'a mut T>,
}

// SAFETY: no other thread uses the structure while it is held.
unsafe impl<T: Record> Send for Held<'_, T> {}

impl<'a, T: Record> Held<'a, T> {
    /// States that a structure is constructed.
    ///
    /// # Safety
    /// The invariant of [`Held`] holds.
    pub(crate) unsafe fn new(at: &'a mut T) -> Self {
        Self {
            at: NonNull::from(at),
            life: PhantomData,
        }
    }

    /// Returns the members. Pointers in them stay the property of the structure.
    pub(crate) fn members(&self) -> T {
        // SAFETY: the invariant of `Held`.
        unsafe { self.at.read() }
    }

    /// Returns the structure for reading.
    pub(crate) fn valid(&self) -> Valid<'_, T> {
        // SAFETY: the invariant of `Held` includes that of `Valid`.
        unsafe { Valid::new(self.at.as_ref()) }
    }

    /// Frees all that the structure owns, and stores new members, which own their memory.
    pub(crate) fn replace(&mut self, new: T) {
        // SAFETY: the invariant of `Held` is what `Record::empty` needs.
        unsafe { self.at.as_mut().empty() };
        self.set(new);
    }

    /// Stores new members without freeing the old ones, which the caller has taken.
    pub(crate) fn set(&mut self, new: T) {
        // SAFETY: the invariant of `Held`.
        unsafe { self.at.write(new) };
    }
}

/// An array of the program, which a function changes.
///
/// Invariant: its elements are those of [`Held`].
pub(crate) struct HeldArray<'a, T> {
    first: *mut T,
    count: usize,
    life: PhantomData<&'a mut T>,
}

impl<T: Record> HeldArray<'_, T> {
    /// States that `count` elements at `first` are constructed; NULL is an empty array.
    ///
    /// # Errors
    /// Returns the errors of [`slice()`].
    ///
    /// # Safety
    /// `first` is NULL or the invariant of [`HeldArray`] holds.
    pub(crate) unsafe fn new(first: *mut T, count: usize) -> Result<Self> {
        // SAFETY: the caller guarantees `count` valid elements, or NULL.
        let count = unsafe { slice(first, count)? }.len();
        let life = PhantomData;
        Ok(Self { first, count, life })
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the elements.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Held<'_, T>> {
        (0..self.count).map(|place| {
            // SAFETY: `place` is less than the number of elements, each of which has the invariant of `Held`.
            unsafe { Held::new(&mut *self.first.add(place)) }
        })
    }
}

/// An array of C structures in memory of the C library, which is freed when it is dropped.
pub(crate) struct CArray<T: Record> {
    at: *mut T,
    count: usize,
}

// SAFETY: `CArray` owns the memory of the array, and no other pointer leads to it.
unsafe impl<T: Record> Send for CArray<T> {}

impl<T: Record> CArray<T> {
    /// Takes ownership of an array.
    ///
    /// # Safety
    /// `at` is NULL or an array from the C library with `count` valid elements, which nothing else frees.
    pub(crate) const unsafe fn new(at: *mut T, count: usize) -> Self {
        Self { at, count }
    }

    /// Returns an array without elements.
    pub(crate) const fn empty() -> Self {
        Self {
            at: ptr::null_mut(),
            count: 0,
        }
    }

    /// Returns an array of initialized elements.
    pub(crate) fn fresh(count: usize) -> Result<Self> {
        let at = fresh(count)?;
        Ok(Self { at, count })
    }

    /// Returns the elements for changes.
    pub(crate) const fn held(&self) -> HeldArray<'_, T> {
        let life = PhantomData;
        let (first, count) = (self.at, self.count);
        HeldArray { first, count, life }
    }

    /// Converts elements of the model.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_NOMEM` if there is not enough memory. The caller must not continue with an empty array: a
    /// callback would report success without data, and a host would receive a different request.
    pub(crate) fn of<M: Model<C = T>>(from: &[M]) -> Result<Self> {
        let at = list(from).inspect_err(|status| {
            tracing::warn!("cannot convert {} elements to C: {status}", from.len());
        })?;
        let count = from.len();
        Ok(Self { at, count })
    }

    /// Copies an array of the program.
    pub(crate) fn copy_of(from: Valid<'_, [T]>) -> Result<Self> {
        let (at, count) = duplicate_list(from)?;
        Ok(Self { at, count })
    }

    pub(crate) const fn as_mut_ptr(&self) -> *mut T {
        self.at
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Passes the array to the program.
    pub(crate) fn into_raw(self) -> (*mut T, usize) {
        let raw = (self.at, self.count);
        std::mem::forget(self);
        raw
    }
}

impl<T: Record> Drop for CArray<T> {
    fn drop(&mut self) {
        // SAFETY: the array has `count` elements, and nothing else frees it.
        unsafe { empty_list(&mut self.at, &mut self.count) };
    }
}
