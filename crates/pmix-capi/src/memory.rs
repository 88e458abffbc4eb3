// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that crosses the interface. It is allocated with the C library, because inline functions of older headers
//! free it with `free`.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pmix_types::memory as heap;
use pmix_types::{IntoOwned, Status, Text};

unsafe extern "C" {
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(at: *mut c_void, size: usize) -> *mut c_void;
    fn free(at: *mut c_void);
}

/// The result of a function of the interface, with the status of the failure.
pub(crate) type Result<T> = std::result::Result<T, Status>;

/// Frees memory of the C library. NULL is allowed.
///
/// # Safety
/// `at` is NULL or came from the C library, and nothing uses it afterwards.
pub(crate) unsafe fn release<T>(at: *mut T) {
    // SAFETY: the caller guarantees memory of the C library that nothing uses afterwards.
    unsafe { free(at.cast()) }
}

/// Checks that the process can allocate `bytes`. For sizes that the caller or a peer determines.
pub(crate) fn reserve(bytes: usize) -> Result<()> {
    #[cfg(test)]
    shortage::refuse(bytes)?;
    heap::check(bytes).map_err(|error| error.status())
}

/// Copies data of a C program to memory of this library.
pub(crate) fn copied<T: Copy>(from: &[T]) -> Result<Vec<T>> {
    heap::copy(from).map_err(|error| error.status())
}

/// Copies a value of the model.
pub(crate) fn cloned<T: IntoOwned + Clone>(from: &T) -> Result<T> {
    from.try_clone().map_err(|error| error.status())
}

/// Returns an empty vector with room for `count` elements.
pub(crate) fn list_for<T>(count: usize) -> Result<Vec<T>> {
    heap::list(count).map_err(|error| error.status())
}

/// Allocates zeroed memory for `count` elements; NULL for 0.
pub(crate) fn zeroed<T>(count: usize) -> Result<*mut T> {
    if count == 0 {
        return Ok(ptr::null_mut());
    }
    // `calloc` fails only if the whole size cannot be had; `reserve` also leaves memory for small allocations.
    reserve(count.saturating_mul(size_of::<T>()))?;
    // SAFETY: `calloc` has no preconditions, and fails if the product overflows.
    let at = unsafe { calloc(count, size_of::<T>()) };
    match at.is_null() {
        true => Err(Status::ERR_NOMEM),
        false => Ok(at.cast()),
    }
}

/// Reallocates an array to `count` elements.
///
/// # Safety
/// `at` is NULL or came from the C library, and nothing uses it after a success.
pub(crate) unsafe fn resized<T>(at: *mut T, count: usize) -> Result<*mut T> {
    let bytes = count.checked_mul(size_of::<T>()).ok_or(Status::ERR_NOMEM)?;
    reserve(bytes)?;
    // SAFETY: the caller guarantees that `at` is NULL or memory of the C library.
    let at = unsafe { realloc(at.cast(), bytes.max(1)) };
    match at.is_null() {
        true => Err(Status::ERR_NOMEM),
        false => Ok(at.cast()),
    }
}

/// Moves a value to C memory of its own.
pub(crate) fn boxed<T>(one: T) -> Result<*mut T> {
    let at = zeroed::<T>(1)?;
    // SAFETY: `at` was allocated for one `T`.
    unsafe { at.write(one) };
    Ok(at)
}

/// Returns a copy of bytes in C memory; NULL for none.
pub(crate) fn bytes(from: &[u8]) -> Result<*mut c_char> {
    let at = zeroed::<u8>(from.len())?;
    if !at.is_null() {
        // SAFETY: `at` was allocated for `from.len()` bytes and does not overlap `from`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at, from.len()) };
    }
    Ok(at.cast())
}

/// Returns a C string with a copy of the text up to its first NUL.
pub(crate) fn string(from: &[u8]) -> Result<*mut c_char> {
    let len = from
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(from.len());
    let at = zeroed::<u8>(len + 1)?;
    // SAFETY: `at` was allocated for `len + 1` zeroed bytes, so the NUL is present.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at, len) };
    Ok(at.cast())
}

/// Returns a C string with a copy of the text; NULL for `None`.
pub(crate) fn maybe_string(from: Option<&Text<'_>>) -> Result<*mut c_char> {
    from.map_or(Ok(ptr::null_mut()), |text| string(text.as_bytes()))
}

/// Returns the bytes of a string; `None` for NULL.
///
/// # Safety
/// `at` is NULL or a string that lives as long as the result.
pub(crate) unsafe fn text<'a>(at: *const c_char) -> Option<&'a [u8]> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees a string that outlives `'a`; it is not NULL.
    Some(unsafe { CStr::from_ptr(at) }.to_bytes())
}

/// Returns a copy of a string; NULL for NULL.
///
/// # Safety
/// `at` is NULL or a string.
pub(crate) unsafe fn duplicate(at: *const c_char) -> Result<*mut c_char> {
    // SAFETY: the caller guarantees NULL or a string.
    unsafe { text(at) }.map_or(Ok(ptr::null_mut()), string)
}

/// Returns the bytes of a string, at most `most`; `None` for NULL. A name that fills its array has no NUL.
///
/// # Safety
/// `at` is NULL, a string, or points to `most` bytes. The bytes live as long as the result.
pub(crate) unsafe fn text_within<'a>(at: *const c_char, most: usize) -> Option<&'a [u8]> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees `most` bytes or a string, and no NUL was found before this place.
    let ended = (0..most).find(|place| unsafe { *at.add(*place) } == 0);
    // SAFETY: the search above read all these bytes.
    Some(unsafe { std::slice::from_raw_parts(at.cast(), ended.unwrap_or(most)) })
}

/// The size of the address space of a process that does not request 5-level paging.
const MAX_BYTES: usize = 1 << 47;

/// Returns `count` elements as a slice; an empty one for NULL.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` if the elements exceed the address space, as with a negative number, or if a message
/// cannot count the structures.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements that live as long as the result and are not changed.
pub(crate) unsafe fn slice<'a, T>(at: *const T, count: usize) -> Result<&'a [T]> {
    if at.is_null() || count == 0 {
        return Ok(&[]);
    }
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes > MAX_BYTES || (size_of::<T>() > 1 && i32::try_from(count).is_err()) {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees `count` valid elements, and `at` is not NULL.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// Returns the strings of a NULL-terminated array; none for NULL.
///
/// # Safety
/// `argv` is NULL or an array of strings that ends with NULL and lives as long as the result.
pub(crate) unsafe fn strings<'a>(argv: *const *mut c_char) -> Result<Vec<&'a [u8]>> {
    let mut found = Vec::new();
    if argv.is_null() {
        return Ok(found);
    }
    for place in 0.. {
        // SAFETY: the caller guarantees an array that ends with NULL, and no NULL was found before this place.
        let Some(one) = (unsafe { text(*argv.add(place)) }) else {
            break;
        };
        heap::reserve(&mut found, 1).map_err(|error| error.status())?;
        found.push(one);
    }
    Ok(found)
}

/// Returns a NULL-terminated array with copies of strings; NULL for none.
pub(crate) fn argv<T: AsRef<[u8]>>(from: &[T]) -> Result<*mut *mut c_char> {
    if from.is_empty() {
        return Ok(ptr::null_mut());
    }
    let at = zeroed::<*mut c_char>(from.len() + 1)?;
    for (place, one) in from.iter().enumerate() {
        match string(one.as_ref()) {
            // SAFETY: `at` was allocated for all strings and the NULL.
            Ok(made) => unsafe { *at.add(place) = made },
            Err(status) => {
                // SAFETY: `at` was allocated here as zeros, so a NULL follows the last string.
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
/// `argv` is NULL or an array from the C library that ends with NULL, and nothing uses it afterwards.
pub(crate) unsafe fn release_argv(argv: *mut *mut c_char) {
    if argv.is_null() {
        return;
    }
    for place in 0.. {
        // SAFETY: the caller guarantees an array that ends with NULL, and no NULL was found before this place.
        let one = unsafe { *argv.add(place) };
        if one.is_null() {
            break;
        }
        // SAFETY: the caller guarantees that the strings came from the C library.
        unsafe { release(one) };
    }
    // SAFETY: the caller guarantees that the array came from the C library.
    unsafe { release(argv) };
}

/// A string in memory of the C library, or NULL, which is freed when it is dropped.
pub(crate) struct CString(*mut c_char);

// SAFETY: `CString` owns the string, and no other pointer leads to it.
unsafe impl Send for CString {}

impl CString {
    /// Copies a text; NULL for `None`.
    pub(crate) fn of(from: Option<&Text<'_>>) -> Result<Self> {
        maybe_string(from).map(Self)
    }

    /// Copies bytes up to the first NUL.
    pub(crate) fn copy_of(from: &[u8]) -> Result<Self> {
        string(from).map(Self)
    }

    pub(crate) const fn as_mut_ptr(&self) -> *mut c_char {
        self.0
    }

    /// Passes the string to the program.
    pub(crate) fn into_raw(self) -> *mut c_char {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for CString {
    fn drop(&mut self) {
        // SAFETY: the C library allocated the string, and nothing else frees it.
        unsafe { release(self.0) };
    }
}

/// A NULL-terminated array of strings in memory of the C library, which is freed when it is dropped.
pub(crate) struct CStrings(*mut *mut c_char);

// SAFETY: `CStrings` owns the array and its strings, and no other pointer leads to them.
unsafe impl Send for CStrings {}

impl CStrings {
    /// Takes ownership of an array.
    ///
    /// # Safety
    /// `at` is NULL or an array from the C library that ends with NULL, which nothing else frees.
    pub(crate) const unsafe fn new(at: *mut *mut c_char) -> Self {
        Self(at)
    }

    /// Copies texts; NULL for none.
    pub(crate) fn of<T: AsRef<[u8]>>(from: &[T]) -> Result<Self> {
        argv(from).map(Self)
    }

    pub(crate) const fn as_mut_ptr(&self) -> *mut *mut c_char {
        self.0
    }
}

impl Drop for CStrings {
    fn drop(&mut self) {
        // SAFETY: the C library allocated the array and its strings, and nothing else frees them.
        unsafe { release_argv(self.0) };
    }
}

/// Copies text to a fixed-size array, cut so that a NUL fits.
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

/// Returns the text in a fixed-size array, up to the first NUL or the end of the array.
pub(crate) fn filled<const N: usize>(from: &[c_char; N]) -> &[u8] {
    let end = from.iter().position(|byte| *byte == 0).unwrap_or(N);
    // SAFETY: `c_char` has the layout of `u8`, and `end` is at most `N`.
    unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), end) }
}

/// Copies a string; `None` for NULL.
///
/// # Safety
/// `at` is NULL or a string.
pub(crate) unsafe fn read_text(at: *const c_char) -> Result<Option<Text<'static>>> {
    // SAFETY: the caller guarantees NULL or a string.
    let bytes = unsafe { text(at) };
    bytes.map(|bytes| copied(bytes).map(Text::new)).transpose()
}

/// Copies the strings of a NULL-terminated array.
///
/// # Safety
/// The conditions of [`strings`].
pub(crate) unsafe fn read_texts(at: *const *mut c_char) -> Result<Vec<Text<'static>>> {
    // SAFETY: the caller guarantees the conditions of `strings`.
    let all = unsafe { strings(at)? };
    let mut texts = list_for(all.len())?;
    for bytes in all {
        texts.push(Text::new(copied(bytes)?));
    }
    Ok(texts)
}

/// Simulated memory shortages for tests.
#[cfg(test)]
pub(crate) mod shortage {
    use std::cell::Cell;

    use super::{Result, Status};

    thread_local! {
        /// The largest allocation allowed on this thread.
        static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    pub(super) fn refuse(bytes: usize) -> Result<()> {
        match bytes > MOST.get() {
            true => Err(Status::ERR_NOMEM),
            false => Ok(()),
        }
    }

    /// Runs a function while this thread cannot allocate more than `most` bytes at once.
    pub(crate) fn with_most<T>(most: usize, call: impl FnOnce() -> T) -> T {
        MOST.set(most);
        let made = call();
        MOST.set(usize::MAX);
        made
    }
}
