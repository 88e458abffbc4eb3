// SPDX-License-Identifier: MIT OR Apache-2.0
//! NULL-terminated arrays of strings (`PMIx_Argv_...`) and environments.

use std::ffi::{c_char, c_int};
use std::ptr;

use pmix_types::{Argv, Status};

use crate::abi::pmix_status_t;
use crate::guard::exported;
use crate::memory::{Result, argv, release_argv, resized, string, strings, text};
use crate::record::there_mut;
use crate::status::code;

/// Puts a string into an array, which is reallocated.
///
/// # Safety
/// `list` points to NULL or an array from the C library.
unsafe fn insert(list: *mut *mut *mut c_char, arg: *const c_char, first: bool) -> Result<()> {
    // SAFETY: the caller says so.
    let (list, arg) = unsafe { (there_mut(list)?, text(arg).ok_or(Status::ERR_BAD_PARAM)?) };
    let copy = string(arg)?;
    // SAFETY: as above.
    let count = unsafe { strings(*list) }.len();
    // SAFETY: as above; there is room for one more and the NULL.
    unsafe {
        let grown = resized(*list, count + 2)?;
        *list = grown;
        let place = if first { 0 } else { count };
        ptr::copy(grown.add(place), grown.add(place + 1), count - place);
        *grown.add(place) = copy;
        *grown.add(count + 1) = ptr::null_mut();
    }
    Ok(())
}

/// A delimiter that is a character.
fn delimiter(number: c_int) -> Option<u8> {
    u8::try_from(number).ok()
}

/// # Safety
/// It is NULL or a string.
unsafe fn split(from: *const c_char, at: c_int, with_empty: bool) -> *mut *mut c_char {
    // SAFETY: the caller says so.
    let (Some(from), Some(at)) = (unsafe { text(from) }, delimiter(at)) else {
        return ptr::null_mut();
    };
    let parts = match with_empty {
        true => Argv::split_with_empty(from, at),
        false => Argv::split(from, at),
    };
    argv(&parts.into_vec()).unwrap_or(ptr::null_mut())
}

exported! {
    fn PMIx_Argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
        // SAFETY: C says so.
        code(unsafe { insert(argv, arg, false) })
    }

    fn PMIx_Argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
        // SAFETY: C says so.
        code(unsafe { insert(argv, arg, true) })
    }

    fn PMIx_Argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
            let (list, wanted) = unsafe { (*there_mut(argv)?, text(arg).ok_or(Status::ERR_BAD_PARAM)?) };
            // SAFETY: as above.
            if unsafe { strings(list) }.contains(&wanted) {
                return Ok(());
            }
            // SAFETY: as above.
            unsafe { insert(argv, arg, false) }
        })())
    }

    fn PMIx_Argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
        // SAFETY: C says so.
        let all = unsafe { strings(argv) };
        if !argv.is_null() && all.is_empty() {
            return crate::memory::zeroed(1).unwrap_or(ptr::null_mut());
        }
        crate::memory::argv(&all).unwrap_or(ptr::null_mut())
    }

    fn PMIx_Argv_count(a: *mut *mut c_char) -> c_int {
        // SAFETY: C says so.
        c_int::try_from(unsafe { strings(a) }.len()).unwrap_or(c_int::MAX)
    }

    fn PMIx_Argv_free(argv: *mut *mut c_char) {
        // SAFETY: C says so.
        unsafe { release_argv(argv) };
    }

    fn PMIx_Argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
        // SAFETY: C says so.
        let all = unsafe { strings(argv) };
        let between = self::delimiter(delimiter).map_or(Vec::new(), |byte| vec![byte]);
        string(&all.join(&between[..])).unwrap_or(ptr::null_mut())
    }

    fn PMIx_Argv_split(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        // SAFETY: C says so.
        unsafe { split(src_string, delimiter, false) }
    }

    fn PMIx_Argv_split_inter(src_string: *const c_char, delimiter: c_int, include_empty: bool) -> *mut *mut c_char {
        // SAFETY: C says so.
        unsafe { split(src_string, delimiter, include_empty) }
    }

    fn PMIx_Argv_split_with_empty(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        // SAFETY: C says so.
        unsafe { split(src_string, delimiter, true) }
    }

    fn PMIx_Setenv(name: *const c_char, value: *const c_char, overwrite: bool, env: *mut *mut *mut c_char) -> pmix_status_t {
        // SAFETY: C says so.
        code(unsafe {
            text(name).ok_or(Status::ERR_BAD_PARAM).and_then(|name| set(name, text(value).unwrap_or_default(), overwrite, env))
        })
    }
}

/// Sets a variable in an environment, which is reallocated.
///
/// # Safety
/// `env` points to NULL or an array from the C library.
pub(crate) unsafe fn set(
    name: &[u8],
    value: &[u8],
    overwrite: bool,
    env: *mut *mut *mut c_char,
) -> Result<()> {
    // SAFETY: the caller says so.
    let list = unsafe { there_mut(env)? };
    let entry = [name, b"=", value].concat();
    // SAFETY: as above.
    let known = unsafe { strings(*list) }.iter().position(|one| {
        one.strip_prefix(name)
            .is_some_and(|rest| rest.first() == Some(&b'='))
    });
    let Some(place) = known else {
        let made = string(&entry)?;
        // SAFETY: as above; the copy that is put in is another one.
        let added = unsafe { insert(env, made, false) };
        // SAFETY: it was made here.
        unsafe { crate::memory::release(made) };
        return added;
    };
    if !overwrite {
        return Err(Status::ERR_EXISTS);
    }
    let made = string(&entry)?;
    // SAFETY: there is a string at the place, from the C library.
    unsafe {
        let at = list.add(place);
        crate::memory::release(*at);
        *at = made;
    }
    Ok(())
}
