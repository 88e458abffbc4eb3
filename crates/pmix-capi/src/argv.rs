// SPDX-License-Identifier: MIT OR Apache-2.0
//! NULL-terminated arrays of strings (`PMIx_Argv_...`) and environments.

use std::ffi::{c_char, c_int, c_ulong};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use pmix_types::{Argv, Status};

use crate::abi::pmix_status_t;
use crate::args::{self, CallScope, Maybe, OwnedStrings, Parameter, Str};
use crate::guard::exported;
use crate::memory::{
    CString, CStrings, Result, list_for, release, reserve, resized, string, strings,
};

/// The place of an array of strings of the program, which a function may reallocate.
///
/// Invariant: the place is valid as long as `'c`, and has NULL or an array of strings that ends with NULL.
pub(crate) struct StringList<'c> {
    place: NonNull<*mut *mut c_char>,
    life: PhantomData<&'c ()>,
}

impl<'c> StringList<'c> {
    /// States that a place has an array of strings.
    ///
    /// # Safety
    /// The invariant of [`StringList`] holds.
    pub(crate) unsafe fn new(place: &'c mut *mut *mut c_char) -> Self {
        Self {
            place: NonNull::from(place),
            life: PhantomData,
        }
    }

    const fn array(&self) -> *mut *mut c_char {
        // SAFETY: the invariant of `StringList`.
        unsafe { self.place.read() }
    }

    fn len(&self) -> usize {
        // SAFETY: the invariant of `StringList`.
        unsafe { count(self.array()) }
    }

    fn strings(&self) -> Result<Vec<&[u8]>> {
        // SAFETY: the invariant of `StringList`.
        unsafe { strings(self.array()) }
    }

    /// Makes the array one of the C library: copies the array and its strings if it did not come from `malloc`. The
    /// original is unchanged.
    fn own(&mut self) -> Result<()> {
        if is_borrowed(self.array()) {
            let all = self.strings()?;
            let copy = match all.is_empty() {
                true => crate::memory::zeroed(1)?,
                false => crate::memory::argv(&all)?,
            };
            // SAFETY: the invariant of `StringList`, and the copy ends with NULL.
            unsafe { self.place.write(copy) };
        }
        Ok(())
    }

    /// Inserts a copy of a string at a place.
    fn insert(&mut self, arg: &[u8], place: usize) -> Result<()> {
        let count = self.len();
        let (borrowed, copy) = (self.array(), CString::copy_of(arg)?);
        self.own()?;
        // SAFETY: the array is one of the C library with `count` strings and the NULL. The new one has room for one
        // string more, so each place written is inside.
        unsafe {
            let own = self.array();
            let grown = resized(own, count + 2).inspect_err(|_| {
                if own != borrowed {
                    // The copy of a borrowed array belongs to no caller yet.
                    drop(CStrings::new(own));
                    self.place.write(borrowed);
                }
            })?;
            ptr::copy(grown.add(place), grown.add(place + 1), count - place);
            grown.add(place).write(copy.into_raw());
            grown.add(count + 1).write(ptr::null_mut());
            self.place.write(grown);
        }
        Ok(())
    }

    fn append(&mut self, arg: &[u8]) -> Result<()> {
        self.insert(arg, self.len())
    }

    /// Returns the place of a variable in an environment.
    fn position(&self, name: &[u8]) -> Result<Option<usize>> {
        let mut all = self.strings()?.into_iter();
        Ok(all.position(|entry| {
            let rest = entry.strip_prefix(name);
            rest.is_some_and(|rest| rest.first() == Some(&b'='))
        }))
    }

    /// Sets a variable in an environment, which is reallocated. The environment of the process itself is changed by
    /// `setenv`.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_EXISTS` if the variable is set in the array and `overwrite` is false, and `PMIX_ERR_BAD_PARAM`
    /// if the name is empty or contains `=`.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8], overwrite: bool) -> Result<()> {
        if name.is_empty() || name.contains(&b'=') {
            return Err(Status::ERR_BAD_PARAM);
        }
        if is_of_process(self.array()) {
            return self.set_in_process(name, value, overwrite);
        }
        let entry = joined([name, b"=", value].into_iter())?;
        let Some(place) = self.position(name)? else {
            return self.append(&entry);
        };
        if !overwrite {
            return Err(Status::ERR_EXISTS);
        }
        // Copies a borrowed array before the string is made: an error afterwards leaves no unreachable string.
        self.own()?;
        let made = string(&entry)?;
        // SAFETY: the array is one of the C library, and `place` is inside it.
        unsafe {
            let at = self.array().add(place);
            release(at.replace(made));
        }
        Ok(())
    }

    /// Sets a variable in the environment of this process with `setenv`, as OpenPMIx does. Only the C library knows
    /// which of the strings were allocated.
    fn set_in_process(&mut self, name: &[u8], value: &[u8], overwrite: bool) -> Result<()> {
        // A variable that is already set is not an error here, as in `setenv` and in OpenPMIx.
        if self.position(name)?.is_some() && !overwrite {
            return Ok(());
        }
        let (name, value) = (CString::copy_of(name)?, CString::copy_of(value)?);
        // SAFETY: both are strings, and the header requires that no other thread uses the environment.
        let answer = unsafe { setenv(name.as_mut_ptr(), value.as_mut_ptr(), 1) };
        self.follow_process();
        match answer {
            0 => Ok(()),
            _ => Err(Status::ERR_NOMEM),
        }
    }

    /// Removes a variable from the environment of this process.
    fn unset_in_process(&mut self, name: &[u8]) -> Result<()> {
        let name = CString::copy_of(name)?;
        // SAFETY: `name` is a string, and the header requires that no other thread uses the environment.
        let answer = unsafe { unsetenv(name.as_mut_ptr()) };
        self.follow_process();
        match answer {
            0 => Ok(()),
            _ => Err(Status::ERR_BAD_PARAM),
        }
    }

    /// Stores the address of the environment of this process, which `setenv` may have moved.
    fn follow_process(&mut self) {
        // SAFETY: the invariant of `StringList`; the environment ends with NULL.
        unsafe { self.place.write(environ) };
    }
}

/// The place of a NULL-terminated array of strings that the function changes; NULL is an error.
pub(crate) struct StringsPlace(());

impl Parameter for StringsPlace {
    type C = *mut *mut *mut c_char;
    type Given<'c> = StringList<'c>;

    unsafe fn take(given: *mut *mut *mut c_char, _: &CallScope) -> Result<StringList<'_>> {
        // SAFETY: the header requires NULL, or the address of NULL or of an array of strings that ends with NULL.
        unsafe { given.as_mut().map(|list| StringList::new(list)) }.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// Returns the number of strings in an array.
///
/// # Safety
/// `list` is NULL or an array that ends with NULL.
unsafe fn count(list: *const *mut c_char) -> usize {
    if list.is_null() {
        return 0;
    }
    // SAFETY: the caller guarantees an array that ends with NULL, and no NULL was found before this place.
    let is_end = |place: &usize| unsafe { *list.add(*place) }.is_null();
    (0..).find(is_end).unwrap_or(usize::MAX)
}

/// Concatenates pieces of text.
fn joined<'t>(pieces: impl Iterator<Item = &'t [u8]> + Clone) -> Result<Vec<u8>> {
    let len = { pieces.clone() }.fold(0_usize, |len, piece| len.saturating_add(piece.len()));
    let mut text = list_for(len)?;
    pieces.for_each(|piece| text.extend_from_slice(piece));
    Ok(text)
}

/// Splits a string at a delimiter. A delimiter that is not a character is an error.
fn split(from: &[u8], delimiter: c_int, with_empty: bool) -> Result<*mut *mut c_char> {
    let at = u8::try_from(delimiter).map_err(|_| Status::ERR_BAD_PARAM)?;
    // An estimate of the memory for the pieces: a pointer and the overhead of the allocator for each.
    let pieces = from.iter().filter(|byte| **byte == at).count() + 1;
    reserve(from.len().saturating_add(pieces.saturating_mul(64)))?;
    let parts = match with_empty {
        true => Argv::split_with_empty(from, at),
        false => Argv::split(from, at),
    };
    crate::memory::argv(&parts.into_vec())
}

exported! {
    fn PMIx_Argv_append_nosize(argv: StringsPlace, arg: Str) -> pmix_status_t {
        argv.append(arg)
    }

    fn PMIx_Argv_prepend_nosize(argv: StringsPlace, arg: Str) -> pmix_status_t {
        argv.insert(arg, 0)
    }

    fn PMIx_Argv_append_unique_nosize(argv: StringsPlace, arg: Str) -> pmix_status_t {
        match argv.strings()?.contains(&arg) {
            true => Ok(()),
            false => argv.append(arg),
        }
    }

    fn PMIx_Argv_copy(argv: Maybe<args::Argv>) -> *mut *mut c_char {
        match argv {
            Some(all) if all.is_empty() => crate::memory::zeroed(1),
            all => crate::memory::argv(&all.unwrap_or_default()),
        }
    }

    fn PMIx_Argv_count(a: *mut *mut c_char) -> c_int {
        // SAFETY: the header requires NULL or an array of strings that ends with NULL.
        Ok(c_int::try_from(unsafe { count(a) }).unwrap_or(c_int::MAX))
    }

    fn PMIx_Argv_free(argv: OwnedStrings) {
        drop(argv);
        Ok(())
    }

    fn PMIx_Argv_join(argv: args::Argv, delimiter: c_int) -> *mut c_char {
        let between = u8::try_from(delimiter).ok();
        let pieces = argv.iter().enumerate().flat_map(|(place, piece)| {
            let between = between.as_ref().filter(|_| place > 0);
            [between.map_or(&[][..], std::slice::from_ref), *piece]
        });
        string(&joined(pieces)?)
    }

    fn PMIx_Argv_split(src_string: Str, delimiter: c_int) -> *mut *mut c_char {
        split(src_string, delimiter, false)
    }

    fn PMIx_Argv_split_inter(src_string: Str, delimiter: c_int, include_empty: bool) -> *mut *mut c_char {
        split(src_string, delimiter, include_empty)
    }

    fn PMIx_Argv_split_with_empty(src_string: Str, delimiter: c_int) -> *mut *mut c_char {
        split(src_string, delimiter, true)
    }

    fn PMIx_Setenv(name: Str, value: Maybe<Str>, overwrite: bool, env: StringsPlace) -> pmix_status_t {
        match value {
            // Without a value, OpenPMIx also removes the variable from the environment of the process.
            None if is_of_process(env.array()) => env.unset_in_process(name),
            value => env.set(name, value.unwrap_or_default(), overwrite),
        }
    }
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    fn unsetenv(name: *const c_char) -> c_int;
    fn getauxval(entry: c_ulong) -> c_ulong;
}

/// The `getauxval` entry for the name of the program, which the kernel puts at the end of the stack of the first
/// thread.
const AT_EXECFN: c_ulong = 31;

/// The number of bytes before that end that count as the stack.
const STACK: usize = 8 << 20;

/// Returns `true` if `list` is the environment of the process itself.
fn is_of_process(list: *const *mut c_char) -> bool {
    // SAFETY: only the pointer `environ` is read, not the strings.
    !list.is_null() && ptr::eq(list, unsafe { environ })
}

/// Returns `true` if the array did not come from `malloc`: `environ`, `argv` and `envp` of `main`, and anything else
/// on the stack of the first thread.
fn is_borrowed(list: *const *mut c_char) -> bool {
    // SAFETY: `getauxval` has no preconditions.
    let end = unsafe { getauxval(AT_EXECFN) };
    let from_end = usize::try_from(end).map_or(None, |end| end.checked_sub(list.addr()));
    !list.is_null() && (is_of_process(list) || from_end.is_some_and(|bytes| bytes < STACK))
}
