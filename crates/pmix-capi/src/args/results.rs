// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters for results: places of the caller, and callbacks.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ptr;

use pmix_types::Status;

use super::{CallScope, Maybe, Pair, Parameter};
use crate::callback;
use crate::convert::Data;
use crate::memory::Result;
use crate::model::{Model, list};

/// The place of a result; NULL is an error.
pub(crate) struct Out<T>(PhantomData<T>);

impl<T: 'static> Parameter for Out<T> {
    type C = *mut T;
    type Given<'c> = Place<'c, T>;

    unsafe fn take(given: *mut T, _: &CallScope) -> Result<Place<'_, T>> {
        let at = ptr::NonNull::new(given).ok_or(Status::ERR_BAD_PARAM)?;
        Ok(Place {
            at,
            scope: PhantomData,
        })
    }
}

/// The place of a result, which may be uninitialized.
///
/// Invariant: it is valid for one write as long as `'c`, by the contract of the header.
pub(crate) struct Place<'c, T> {
    at: ptr::NonNull<T>,
    scope: PhantomData<&'c ()>,
}

impl<'c, T> Place<'c, T> {
    /// Writes the result. The old content is not freed.
    pub(crate) fn write(&self, made: T) {
        // SAFETY: the invariant of `Place`.
        unsafe { self.at.write(made) };
    }

    /// Returns the content.
    ///
    /// # Safety
    /// The place is initialized.
    pub(crate) unsafe fn read(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: the invariant of `Place`, and the caller guarantees that it is initialized.
        unsafe { self.at.read() }
    }

    /// Writes the result that `make` returns.
    pub(crate) fn fill(&self, make: impl FnOnce() -> Result<T>) -> Result<()> {
        make().map(|made| self.write(made))
    }
}

impl<'c, T> Place<'c, *mut T> {
    /// Returns the place to which the pointer leads.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_BAD_PARAM` for NULL.
    ///
    /// # Safety
    /// The pointer is initialized: NULL or valid for writes as long as `'c`.
    pub(crate) unsafe fn target(&self) -> Result<Place<'c, T>> {
        // SAFETY: the invariant of `Place`, and the caller guarantees that it is initialized.
        let at = ptr::NonNull::new(unsafe { self.read() });
        let scope = PhantomData;
        let place = at.map(|at| Place { at, scope });
        place.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// The place of an array of `N` characters, which C passes as a pointer to the first; NULL is an error.
pub(crate) struct OutChars<const N: usize>(());

impl<const N: usize> Parameter for OutChars<N> {
    type C = *mut c_char;
    type Given<'c> = Place<'c, [c_char; N]>;

    unsafe fn take(given: *mut c_char, scope: &CallScope) -> Result<Place<'_, [c_char; N]>> {
        // SAFETY: the header requires room for `N` characters, which have the alignment of their array.
        unsafe { Out::take(given.cast(), scope) }
    }
}

/// The place of a pointer, which is set to NULL before the arguments are checked; NULL is an error.
pub(crate) struct OutPointer<T>(PhantomData<T>);

impl<T: 'static> Parameter for OutPointer<T> {
    type C = *mut *mut T;
    type Given<'c> = Place<'c, *mut T>;

    unsafe fn reset(given: *mut *mut T) {
        if !given.is_null() {
            // SAFETY: the header requires the pointer to be NULL or valid for writes.
            unsafe { given.write(ptr::null_mut()) };
        }
    }

    unsafe fn take(given: *mut *mut T, scope: &CallScope) -> Result<Place<'_, *mut T>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Out`.
        unsafe { Out::take(given, scope) }
    }
}

/// The place of an array of results and its count, which are set to an empty array first. If either pointer is NULL,
/// the program does not want the results.
pub(crate) struct OutList<M>(PhantomData<M>);

/// Like [`OutList`], but a NULL pointer is an error.
pub(crate) struct OutArray<M>(PhantomData<M>);

impl<M: Model<C: 'static> + 'static> Pair for OutList<M> {
    type First = *mut *mut M::C;
    type Second = *mut usize;
    type Given<'c> = Results<'c, M>;

    unsafe fn reset(first: *mut *mut M::C, count: *mut usize) {
        // SAFETY: the header requires each pointer to be NULL or valid for writes.
        unsafe {
            if let Some(first) = first.as_mut() {
                *first = ptr::null_mut();
            }
            if let Some(count) = count.as_mut() {
                *count = 0;
            }
        }
    }

    unsafe fn take(
        first: *mut *mut M::C,
        count: *mut usize,
        scope: &CallScope,
    ) -> Result<Results<'_, M>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `Maybe<Out>`.
        let (first, count) = unsafe {
            (
                Maybe::<Out<_>>::take(first, scope)?,
                Maybe::<Out<_>>::take(count, scope)?,
            )
        };
        Ok(Results(first.zip(count)))
    }
}

impl<M: Model<C: 'static> + 'static> Pair for OutArray<M> {
    type First = *mut *mut M::C;
    type Second = *mut usize;
    type Given<'c> = Results<'c, M>;

    unsafe fn reset(first: *mut *mut M::C, count: *mut usize) {
        // SAFETY: the caller guarantees the contract of the header, which is that of `OutList`.
        unsafe { OutList::<M>::reset(first, count) };
    }

    unsafe fn take(
        first: *mut *mut M::C,
        count: *mut usize,
        scope: &CallScope,
    ) -> Result<Results<'_, M>> {
        // SAFETY: the caller guarantees the contract of the header, which is that of `OutList`.
        let results = unsafe { OutList::<M>::take(first, count, scope)? };
        match results.0 {
            None => Err(Status::ERR_BAD_PARAM),
            Some(_) => Ok(results),
        }
    }
}

/// The place of an array of results, if the program wants them.
pub(crate) struct Results<'c, M: Model>(Option<(Place<'c, *mut M::C>, Place<'c, usize>)>);

impl<M: Model> Results<'_, M> {
    /// Writes an array with the elements, which the program frees.
    pub(crate) fn write(&self, made: &[M]) -> Result<()> {
        if let Some((at, count)) = &self.0 {
            at.write(list(made)?);
            count.write(made.len());
        }
        Ok(())
    }
}

/// The callback of a nonblocking function and its `cbdata`. Without a callback the result is dropped.
pub(crate) struct Callback<F>(PhantomData<F>);

/// Like [`Callback`], but NULL is an error.
pub(crate) struct Required<F>(PhantomData<F>);

impl<F: callback::Deliver> Pair for Callback<F> {
    type First = F;
    type Second = *mut c_void;
    type Given<'c> = callback::Callback<F>;

    unsafe fn take(first: F, second: *mut c_void, _: &CallScope) -> Result<callback::Callback<F>> {
        // SAFETY: the header requires a function that may be called with this `cbdata` once, from any thread.
        Ok(unsafe { callback::Callback::new(first, Data(second)) })
    }
}

impl<F: callback::Deliver> Pair for Required<F> {
    type First = F;
    type Second = *mut c_void;
    type Given<'c> = callback::Callback<F>;

    unsafe fn take(
        first: F,
        second: *mut c_void,
        scope: &CallScope,
    ) -> Result<callback::Callback<F>> {
        match first.is_null() {
            true => Err(Status::ERR_BAD_PARAM),
            // SAFETY: the caller guarantees the contract of the header, which is that of `Callback`.
            false => unsafe { Callback::take(first, second, scope) },
        }
    }
}
