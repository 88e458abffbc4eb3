// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that crosses the interface: the C library's, as old headers free it inline.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pmix_types::memory as heap;
use pmix_types::{Status, Text};

unsafe extern "C" {
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(at: *mut c_void, size: usize) -> *mut c_void;
    fn free(at: *mut c_void);
}

/// What can go wrong in a function of the interface.
pub(crate) type Result<T> = std::result::Result<T, Status>;

/// Frees what the C library allocated; nothing happens with NULL.
///
/// # Safety
/// It came from the C library and is used no longer.
pub(crate) unsafe fn release<T>(at: *mut T) {
    // SAFETY: the caller says so.
    unsafe { free(at.cast()) }
}

/// Checks that the process has memory for bytes whose number the caller or a peer decides.
pub(crate) fn reserve(bytes: usize) -> Result<()> {
    #[cfg(test)]
    shortage::refuse(bytes)?;
    heap::check(bytes).map_err(|error| error.status())
}

/// Copies data of C into memory of this library.
pub(crate) fn copied<T: Copy>(from: &[T]) -> Result<Vec<T>> {
    heap::copy(from).map_err(|error| error.status())
}

/// Creates an empty list with room for so many items.
pub(crate) fn list_for<T>(count: usize) -> Result<Vec<T>> {
    heap::list(count).map_err(|error| error.status())
}

/// Room for so many, filled with zeros; NULL for none.
pub(crate) fn zeroed<T>(count: usize) -> Result<*mut T> {
    if count == 0 {
        return Ok(ptr::null_mut());
    }
    // The C library refuses what is too large; this also leaves something for small things.
    reserve(count.saturating_mul(size_of::<T>()))?;
    // SAFETY: calloc has no conditions; it refuses a product that is too large.
    let at = unsafe { calloc(count, size_of::<T>()) };
    match at.is_null() {
        true => Err(Status::ERR_NOMEM),
        false => Ok(at.cast()),
    }
}

/// More or less room for what is there.
///
/// # Safety
/// `at` is NULL or came from the C library, and is used no longer if this succeeds.
pub(crate) unsafe fn resized<T>(at: *mut T, count: usize) -> Result<*mut T> {
    let bytes = count.checked_mul(size_of::<T>()).ok_or(Status::ERR_NOMEM)?;
    reserve(bytes)?;
    // SAFETY: the caller says so.
    let at = unsafe { realloc(at.cast(), bytes.max(1)) };
    match at.is_null() {
        true => Err(Status::ERR_NOMEM),
        false => Ok(at.cast()),
    }
}

/// A copy of one, in memory of its own.
pub(crate) fn boxed<T>(one: T) -> Result<*mut T> {
    let at = zeroed::<T>(1)?;
    // SAFETY: there is room for one.
    unsafe { at.write(one) };
    Ok(at)
}

/// A copy of bytes; NULL if there are none.
pub(crate) fn bytes(from: &[u8]) -> Result<*mut c_char> {
    let at = zeroed::<u8>(from.len())?;
    if !at.is_null() {
        // SAFETY: there is room for them, and it is new.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at, from.len()) };
    }
    Ok(at.cast())
}

/// A copy of text with its NUL; it ends before the first one that it holds.
pub(crate) fn string(from: &[u8]) -> Result<*mut c_char> {
    let len = from
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(from.len());
    let at = zeroed::<u8>(len + 1)?;
    // SAFETY: there is room for them and the NUL, which is there already.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at, len) };
    Ok(at.cast())
}

/// A copy of text that may be missing: NULL then.
pub(crate) fn maybe_string(from: Option<&Text<'_>>) -> Result<*mut c_char> {
    from.map_or(Ok(ptr::null_mut()), |text| string(text.as_bytes()))
}

/// The bytes of a string; none for NULL.
///
/// # Safety
/// `at` is NULL or a string that lives as long as the result.
pub(crate) unsafe fn text<'a>(at: *const c_char) -> Option<&'a [u8]> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    Some(unsafe { CStr::from_ptr(at) }.to_bytes())
}

/// A copy of a string, NULL for NULL.
///
/// # Safety
/// `at` is NULL or a string.
pub(crate) unsafe fn duplicate(at: *const c_char) -> Result<*mut c_char> {
    // SAFETY: the caller says so.
    unsafe { text(at) }.map_or(Ok(ptr::null_mut()), string)
}

/// The bytes of a string, so many at most: a name in an array that it fills has no NUL. None for NULL.
///
/// # Safety
/// `at` is NULL, or a string or so many bytes that live as long as the result.
pub(crate) unsafe fn text_within<'a>(at: *const c_char, most: usize) -> Option<&'a [u8]> {
    if at.is_null() {
        return None;
    }
    // SAFETY: no NUL was there before, so the text goes on to here.
    let ended = (0..most).find(|place| unsafe { *at.add(*place) } == 0);
    // SAFETY: so many were read.
    Some(unsafe { std::slice::from_raw_parts(at.cast(), ended.unwrap_or(most)) })
}

/// The most bytes that a process has, unless it asks the kernel for addresses beyond them.
const MAX_BYTES: usize = 1 << 47;

/// So many at a place; none for NULL.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` for more than a process can have, as a negative number becomes, and for more
/// structures than a message can count.
///
/// # Safety
/// `at` is NULL or points to so many that live as long as the result and are not changed.
pub(crate) unsafe fn slice<'a, T>(at: *const T, count: usize) -> Result<&'a [T]> {
    if at.is_null() || count == 0 {
        return Ok(&[]);
    }
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes > MAX_BYTES || (size_of::<T>() > 1 && i32::try_from(count).is_err()) {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller says so.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// The strings of a NULL-terminated array; none for NULL.
///
/// # Safety
/// `argv` is NULL or such an array that lives as long as the result.
pub(crate) unsafe fn strings<'a>(argv: *const *mut c_char) -> Result<Vec<&'a [u8]>> {
    let mut found = Vec::new();
    if argv.is_null() {
        return Ok(found);
    }
    for place in 0.. {
        // SAFETY: no NULL was there before, so the array goes on to here.
        let Some(one) = (unsafe { text(*argv.add(place)) }) else {
            break;
        };
        heap::reserve(&mut found, 1).map_err(|error| error.status())?;
        found.push(one);
    }
    Ok(found)
}

/// A NULL-terminated array with copies of strings; NULL for none.
pub(crate) fn argv<T: AsRef<[u8]>>(from: &[T]) -> Result<*mut *mut c_char> {
    if from.is_empty() {
        return Ok(ptr::null_mut());
    }
    let at = zeroed::<*mut c_char>(from.len() + 1)?;
    for (place, one) in from.iter().enumerate() {
        match string(one.as_ref()) {
            // SAFETY: there is room for all and the NULL.
            Ok(made) => unsafe { *at.add(place) = made },
            Err(status) => {
                // SAFETY: it is ours, and a NULL is after the last string.
                unsafe { release_argv(at) };
                return Err(status);
            }
        }
    }
    Ok(at)
}

/// Frees a NULL-terminated array and its strings.
///
/// # Safety
/// `argv` is NULL or such an array from the C library that is used no longer.
pub(crate) unsafe fn release_argv(argv: *mut *mut c_char) {
    if argv.is_null() {
        return;
    }
    for place in 0.. {
        // SAFETY: no NULL was there before, so the array goes on to here.
        let one = unsafe { *argv.add(place) };
        if one.is_null() {
            break;
        }
        // SAFETY: the caller says so.
        unsafe { release(one) };
    }
    // SAFETY: the caller says so.
    unsafe { release(argv) };
}

/// Copies text into an array of a fixed size, cut so that a NUL ends it.
pub(crate) fn fill<const N: usize>(to: &mut [c_char; N], from: &[u8]) {
    *to = [0; N];
    let end = from
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(from.len());
    let kept = from.get(..end.min(N - 1)).unwrap_or_default();
    for (place, byte) in to.iter_mut().zip(kept) {
        *place = byte.cast_signed();
    }
}

/// The text in an array of a fixed size, which a NUL ends or the array.
pub(crate) fn filled<const N: usize>(from: &[c_char; N]) -> &[u8] {
    let end = from.iter().position(|byte| *byte == 0).unwrap_or(N);
    // SAFETY: characters are bytes, and there are so many.
    unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), end) }
}

/// Text at a pointer.
///
/// # Safety
/// It is NULL or a string.
pub(crate) unsafe fn read_text(at: *const c_char) -> Result<Option<Text<'static>>> {
    // SAFETY: the caller says so.
    let bytes = unsafe { text(at) };
    bytes.map(|bytes| copied(bytes).map(Text::new)).transpose()
}

/// Texts of a NULL-terminated array.
///
/// # Safety
/// As of [`strings`].
pub(crate) unsafe fn read_texts(at: *const *mut c_char) -> Result<Vec<Text<'static>>> {
    // SAFETY: the caller says so.
    let all = unsafe { strings(at)? };
    let mut texts = list_for(all.len())?;
    for bytes in all {
        texts.push(Text::new(copied(bytes)?));
    }
    Ok(texts)
}

/// Shortages of memory that a test asks for.
#[cfg(test)]
pub(crate) mod shortage {
    use std::cell::Cell;

    use super::{Result, Status};

    thread_local! {
        /// The most bytes that this thread may take at once.
        static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    pub(super) fn refuse(bytes: usize) -> Result<()> {
        match bytes > MOST.get() {
            true => Err(Status::ERR_NOMEM),
            false => Ok(()),
        }
    }

    /// Calls a function while this thread cannot take more than `most` bytes at once.
    pub(crate) fn with_most<T>(most: usize, call: impl FnOnce() -> T) -> T {
        MOST.set(most);
        let made = call();
        MOST.set(usize::MAX);
        made
    }
}
