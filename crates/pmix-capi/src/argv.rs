// SPDX-License-Identifier: MIT OR Apache-2.0
//! NULL-terminated arrays of strings (`PMIx_Argv_...`) and environments.

use std::ffi::{c_char, c_int, c_ulong};
use std::ptr;

use pmix_types::{Argv, Status};

use crate::abi::pmix_status_t;
use crate::guard::exported;
use crate::memory::{
    Result, argv, list_for, release_argv, reserve, resized, string, strings, text,
};
use crate::record::there_mut;
use crate::status::code;

/// Inserts a string into an array, which is reallocated, or copied if it did not come from `malloc`.
///
/// # Safety
/// `list` points to NULL or to an array of strings that ends with NULL.
unsafe fn insert(list: *mut *mut *mut c_char, arg: *const c_char, first: bool) -> Result<()> {
    // SAFETY: the caller guarantees that `list` is valid for reads and writes, and `arg` a string or NULL.
    let (list, arg) = unsafe { (there_mut(list)?, text(arg).ok_or(Status::ERR_BAD_PARAM)?) };
    // SAFETY: the caller guarantees that `*list` is NULL or an array that ends with NULL.
    let count = unsafe { count(*list) };
    // SAFETY: `resized` made room for `count` strings, one more and the NULL, so each place written is inside.
    unsafe {
        let own = owned(*list)?;
        let grown = resized(own, count + 2).inspect_err(|_| {
            if own != *list {
                // The copy of a borrowed array belongs to no caller yet.
                release_argv(own);
            }
        })?;
        // The list has moved, so the caller needs the new address even if the string cannot be copied.
        *list = grown;
        if count == 0 {
            *grown = ptr::null_mut();
        }
        let copy = string(arg)?;
        let place = if first { 0 } else { count };
        ptr::copy(grown.add(place), grown.add(place + 1), count - place);
        *grown.add(place) = copy;
        *grown.add(count + 1) = ptr::null_mut();
    }
    Ok(())
}

/// Returns the number of strings in an array.
///
/// # Safety
/// `list` is NULL or an array that ends with NULL.
unsafe fn count(list: *const *mut c_char) -> usize {
    if list.is_null() {
        return 0;
    }
    let mut count = 0;
    // SAFETY: the caller guarantees an array that ends with NULL, and no NULL was found before this place.
    while !unsafe { *list.add(count) }.is_null() {
        count += 1;
    }
    count
}

/// Concatenates pieces of text.
fn joined<'t>(pieces: impl Iterator<Item = &'t [u8]> + Clone) -> Result<Vec<u8>> {
    let len = { pieces.clone() }.fold(0_usize, |len, piece| len.saturating_add(piece.len()));
    let mut text = list_for(len)?;
    pieces.for_each(|piece| text.extend_from_slice(piece));
    Ok(text)
}

/// Returns the delimiter as a byte, or `None` if it is not a character.
fn delimiter(number: c_int) -> Option<u8> {
    u8::try_from(number).ok()
}

/// Splits a string at a delimiter.
///
/// # Safety
/// `from` is NULL or a string.
unsafe fn split(from: *const c_char, at: c_int, with_empty: bool) -> *mut *mut c_char {
    // SAFETY: the caller guarantees that `from` is NULL or ends with a NUL.
    let (Some(from), Some(at)) = (unsafe { text(from) }, delimiter(at)) else {
        return ptr::null_mut();
    };
    // An estimate of the memory for the pieces: a pointer and the overhead of the allocator for each.
    let pieces = from.iter().filter(|byte| **byte == at).count() + 1;
    let bytes = from.len().saturating_add(pieces.saturating_mul(64));
    if reserve(bytes).is_err() {
        return ptr::null_mut();
    }
    let parts = match with_empty {
        true => Argv::split_with_empty(from, at),
        false => Argv::split(from, at),
    };
    argv(&parts.into_vec()).unwrap_or(ptr::null_mut())
}

exported! {
    fn PMIx_Argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { insert(argv, arg, false) })
    }

    fn PMIx_Argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { insert(argv, arg, true) })
    }

    fn PMIx_Argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (list, wanted) = unsafe { (*there_mut(argv)?, text(arg).ok_or(Status::ERR_BAD_PARAM)?) };
            // SAFETY: the header requires `*argv` to be NULL or an array of strings that ends with NULL.
            if unsafe { strings(list)? }.contains(&wanted) {
                return Ok(());
            }
            // SAFETY: `there_mut` found `argv` valid, and the header requires `*argv` to be an array or NULL.
            unsafe { insert(argv, arg, false) }
        })())
    }

    fn PMIx_Argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        let Ok(all) = (unsafe { strings(argv) }) else {
            return ptr::null_mut();
        };
        if !argv.is_null() && all.is_empty() {
            return crate::memory::zeroed(1).unwrap_or(ptr::null_mut());
        }
        crate::memory::argv(&all).unwrap_or(ptr::null_mut())
    }

    fn PMIx_Argv_count(a: *mut *mut c_char) -> c_int {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        c_int::try_from(unsafe { count(a) }).unwrap_or(c_int::MAX)
    }

    fn PMIx_Argv_free(argv: *mut *mut c_char) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { release_argv(argv) };
    }

    fn PMIx_Argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        let Ok(all) = (unsafe { strings(argv) }) else {
            return ptr::null_mut();
        };
        let between = self::delimiter(delimiter);
        let pieces = all.iter().enumerate().flat_map(|(place, piece)| {
            let between = between.as_ref().filter(|_| place > 0);
            [between.map_or(&[][..], std::slice::from_ref), *piece]
        });
        joined(pieces).and_then(|text| string(&text)).unwrap_or(ptr::null_mut())
    }

    fn PMIx_Argv_split(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { split(src_string, delimiter, false) }
    }

    fn PMIx_Argv_split_inter(src_string: *const c_char, delimiter: c_int, include_empty: bool) -> *mut *mut c_char {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { split(src_string, delimiter, include_empty) }
    }

    fn PMIx_Argv_split_with_empty(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { split(src_string, delimiter, true) }
    }

    fn PMIx_Setenv(name: *const c_char, value: *const c_char, overwrite: bool, env: *mut *mut *mut c_char) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe {
            text(name).ok_or(Status::ERR_BAD_PARAM).and_then(|known| {
                if value.is_null() && is_of_process(*there_mut(env)?) {
                    // Without a value, OpenPMIx also removes the variable from the environment of the process.
                    return unset_in_process(name, env);
                }
                set(known, text(value).unwrap_or_default(), overwrite, env)
            })
        })
    }
}

/// Sets a variable in an environment, which is reallocated. The environment of the process itself is changed by
/// `setenv`.
///
/// # Errors
/// Returns `PMIX_ERR_EXISTS` if the variable is set in the array and `overwrite` is false, and `PMIX_ERR_BAD_PARAM`
/// if the name is empty or contains `=`.
///
/// # Safety
/// `env` points to NULL or to an array of strings that ends with NULL.
pub(crate) unsafe fn set(
    name: &[u8],
    value: &[u8],
    overwrite: bool,
    env: *mut *mut *mut c_char,
) -> Result<()> {
    // SAFETY: the caller guarantees that `env` is valid for reads and writes.
    let list = unsafe { there_mut(env)? };
    if name.is_empty() || name.contains(&b'=') {
        return Err(Status::ERR_BAD_PARAM);
    }
    if is_of_process(*list) {
        // SAFETY: the caller guarantees that `env` is valid; its array is that of the process.
        return unsafe { set_in_process(name, value, overwrite, env) };
    }
    let entry = joined([name, b"=", value].into_iter())?;
    // SAFETY: the caller guarantees that `*list` is NULL or an array that ends with NULL.
    let known = unsafe { strings(*list)? }.iter().position(|one| {
        one.strip_prefix(name)
            .is_some_and(|rest| rest.first() == Some(&b'='))
    });
    let Some(place) = known else {
        let made = string(&entry)?;
        // SAFETY: the caller guarantees `env`, and `made` is a string. `insert` inserts a copy, so `made` must be
        // freed here.
        let added = unsafe { insert(env, made, false) };
        // SAFETY: `made` was allocated here, and no other pointer to it exists.
        unsafe { crate::memory::release(made) };
        return added;
    };
    if !overwrite {
        return Err(Status::ERR_EXISTS);
    }
    // SAFETY: `place` is inside the array. `owned` returns an array of the C library, whose strings may be freed.
    unsafe {
        // Copies a borrowed array before the string is made: an error afterwards leaves no unreachable string.
        *list = owned(*list)?;
        let made = string(&entry)?;
        let at = list.add(place);
        crate::memory::release(*at);
        *at = made;
    }
    Ok(())
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

/// Returns the array itself if it came from `malloc`, otherwise a copy of the array and its strings. The original is
/// unchanged.
///
/// # Safety
/// `list` is NULL or an array of strings that ends with NULL.
unsafe fn owned(list: *mut *mut c_char) -> Result<*mut *mut c_char> {
    if !is_borrowed(list) {
        return Ok(list);
    }
    // SAFETY: the caller guarantees that `list` is NULL or an array that ends with NULL.
    let all = unsafe { strings(list)? };
    match all.is_empty() {
        true => crate::memory::zeroed(1),
        false => crate::memory::argv(&all),
    }
}

/// Sets a variable in the environment of this process with `setenv`, as OpenPMIx does. Only the C library knows which
/// of the strings were allocated.
///
/// # Safety
/// `env` points to the environment of the process. No other thread uses the environment (the condition of `setenv`).
unsafe fn set_in_process(
    name: &[u8],
    value: &[u8],
    overwrite: bool,
    env: *mut *mut *mut c_char,
) -> Result<()> {
    // SAFETY: the caller guarantees that `*env` is the environment of the process, which ends with NULL.
    let is_known = unsafe { strings(*env)? }.iter().any(|one| {
        one.strip_prefix(name)
            .is_some_and(|rest| rest.first() == Some(&b'='))
    });
    // A variable that is already set is not an error here, as in `setenv` and in OpenPMIx.
    if is_known && !overwrite {
        return Ok(());
    }
    let name = string(name)?;
    let value = string(value).inspect_err(|_| {
        // SAFETY: the string was allocated here, and no pointer to it is left.
        unsafe { crate::memory::release(name) };
    })?;
    // SAFETY: both are strings that were allocated here. The caller guarantees that no other thread uses the
    // environment.
    let answer = unsafe {
        let answer = setenv(name, value, 1);
        crate::memory::release(name);
        crate::memory::release(value);
        // `setenv` may have moved the array.
        *env = environ;
        answer
    };
    match answer {
        0 => Ok(()),
        _ => Err(Status::ERR_NOMEM),
    }
}

/// Removes a variable from the environment of this process.
///
/// # Safety
/// The conditions of [`set_in_process`]; `name` is a string.
unsafe fn unset_in_process(name: *const c_char, env: *mut *mut *mut c_char) -> Result<()> {
    // SAFETY: the caller guarantees that `name` ends with a NUL, that `env` is valid, and that no thread reads it.
    unsafe {
        let answer = unsetenv(name);
        *env = environ;
        match answer {
            0 => Ok(()),
            _ => Err(Status::ERR_BAD_PARAM),
        }
    }
}
