// SPDX-License-Identifier: MIT OR Apache-2.0
//! Initialization, release and copies of C structures, with all memory that they own.

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_types::{DataType, Status};

use crate::abi::*;
use crate::cpuset;
use crate::datum;
use crate::memory::{self, Result, duplicate, release, release_argv, slice, strings};
use crate::regex;
use crate::valid::Valid;

/// A C datum: a number, or a structure with all that its pointers lead to.
pub(crate) trait Record: Copy {
    /// Returns the datum as its construct function initializes it.
    fn initial() -> Self;

    /// Frees all that it owns, and resets it to [`initial`](Self::initial).
    ///
    /// # Safety
    /// The datum is valid, and all that it owns came from the C library.
    unsafe fn empty(&mut self);

    /// Returns a copy, with copies of all that it owns.
    fn duplicate(from: Valid<'_, Self>) -> Result<Self>;
}

impl<T: Record> Valid<'_, T> {
    /// Returns a copy, with copies of all that the structure owns.
    pub(crate) fn duplicate(self) -> Result<T> {
        T::duplicate(self)
    }
}

/// A string that an array or a value owns.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OwnedString(pub(crate) *mut c_char);

impl Record for OwnedString {
    fn initial() -> Self {
        Self(ptr::null_mut())
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees a string from the C library, or NULL.
        unsafe { release(self.0) };
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        // SAFETY: the datum is `Valid`: a string or NULL.
        unsafe { duplicate(from.0) }.map(Self)
    }
}

/// An encoded map (`PMIX_REGEX`) that an array owns.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OwnedMap(pub(crate) *mut c_char);

impl Record for OwnedMap {
    fn initial() -> Self {
        Self(ptr::null_mut())
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees that the map came from the C library.
        unsafe { release(self.0) };
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        if from.0.is_null() {
            return Ok(Self::initial());
        }
        // SAFETY: the datum is `Valid`: a map, and it is not NULL.
        unsafe { regex::duplicate(from.0) }.map(Self)
    }
}

/// An encoded map (`PMIX_REGEX`) that a value owns.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct MapObject(pub(crate) pmix_byte_object_t);

impl Record for MapObject {
    fn initial() -> Self {
        Self(pmix_byte_object_t::initial())
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees a valid object, whose bytes came from the C library.
        unsafe { self.0.empty() };
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        // SAFETY: the object is the only member of a `Valid` datum.
        regex::duplicate_object(unsafe { Valid::new(&from.0) }).map(Self)
    }
}

/// Implements `Record` for data that own no memory.
macro_rules! plain {
    ($($type:ty = $initial:expr;)*) => {
        $(impl Record for $type {
            fn initial() -> Self {
                $initial
            }

            unsafe fn empty(&mut self) {
                *self = Self::initial();
            }

            fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
                Ok(*from)
            }
        })*
    };
}

plain! {
    u8 = 0;
    u16 = 0;
    u32 = 0;
    u64 = 0;
    i8 = 0;
    i16 = 0;
    i32 = 0;
    i64 = 0;
    f32 = 0.0;
    f64 = 0.0;
    timeval = timeval::default();
    *mut c_void = ptr::null_mut();
    pmix_nspace_t = [0; 256];
    pmix_proc_t = pmix_proc_t { nspace: [0; 256], rank: u32::MAX };
    pmix_resource_unit_t = pmix_resource_unit_t { r#type: 0, count: 0 };
}

macro_rules! structures {
    (@free $at:ident, text $field:ident) => {
        release($at.$field)
    };
    (@free $at:ident, argv $field:ident) => {
        release_argv($at.$field)
    };
    (@free $at:ident, bytes $field:ident $len:ident) => {
        release($at.$field)
    };
    (@free $at:ident, list $field:ident $len:ident) => {
        empty_list(&mut $at.$field, &mut $at.$len)
    };
    (@free $at:ident, one $field:ident) => {
        $at.$field.empty()
    };
    (@unshare $to:ident, list $field:ident $len:ident) => {
        ($to.$field, $to.$len) = (ptr::null_mut(), 0)
    };
    (@unshare $to:ident, one $field:ident) => {
        $to.$field = Record::initial()
    };
    (@unshare $to:ident, $kind:ident $field:ident $($len:ident)?) => {
        $to.$field = ptr::null_mut()
    };
    (@copy $to:ident $from:ident, text $field:ident) => {
        $to.$field = duplicate($from.$field)?
    };
    (@copy $to:ident $from:ident, argv $field:ident) => {
        $to.$field = memory::argv(&strings($from.$field)?)?
    };
    (@copy $to:ident $from:ident, bytes $field:ident $len:ident) => {
        $to.$field = copied($from.$field, $from.$len)?
    };
    (@copy $to:ident $from:ident, list $field:ident $len:ident) => {
        ($to.$field, $to.$len) = duplicate_list(Valid::slice($from.$field, $from.$len)?)?
    };
    (@copy $to:ident $from:ident, one $field:ident) => {
        $to.$field = Valid::new(&$from.$field).duplicate()?
    };
    ($($type:ident { $($kind:ident $($field:ident)+;)* } $({ $($first:ident: $value:expr,)* })?)*) => {
        $(impl Record for $type {
            #[allow(unused_mut)]
            fn initial() -> Self {
                // SAFETY: all members are numbers, raw pointers or characters, for which zero is valid.
                let mut first: Self = unsafe { std::mem::zeroed() };
                $($(first.$first = $value;)*)?
                first
            }

            unsafe fn empty(&mut self) {
                // SAFETY: the caller guarantees a valid structure, and that all that it owns came from the C library.
                unsafe {
                    let at = &mut *self;
                    $(structures!(@free at, $kind $($field)+);)*
                }
                *self = Self::initial();
            }

            fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
                let mut to = *from;
                $(structures!(@unshare to, $kind $($field)+);)*
                let mut copy = || -> Result<()> {
                    // SAFETY: the structure is `Valid`, so each pointer in it is NULL or valid.
                    unsafe {
                        $(structures!(@copy to from, $kind $($field)+);)*
                    }
                    Ok(())
                };
                match copy() {
                    Ok(()) => Ok(to),
                    Err(status) => {
                        // SAFETY: `@unshare` set each owning pointer to NULL, and `@copy` replaced it only by a copy.
                        unsafe { to.empty() };
                        Err(status)
                    }
                }
            }
        })*
    };
}

structures! {
    pmix_app_t { text cmd; argv argv; argv env; text cwd; list info ninfo; }
    pmix_byte_object_t { bytes bytes size; }
    pmix_coord_t { bytes coord dims; }
    pmix_device_distance_t { text uuid; text osname; } { mindist: u16::MAX, maxdist: u16::MAX, }
    pmix_device_t { text uuid; text osname; }
    pmix_disk_stats_t { text disk; }
    pmix_endpoint_t { text uuid; text osname; one endpt; }
    pmix_envar_t { text envar; text value; }
    pmix_fabric_t { text name; list info ninfo; }
    pmix_geometry_t { text uuid; text osname; list coordinates ncoords; }
    pmix_net_stats_t { text net_interface; }
    pmix_node_pid_t { text hostname; } { nodeid: u32::MAX, pid: -1, }
    pmix_node_stats_t { text node; list diskstats ndiskstats; list netstats nnetstats; }
    pmix_pdata_t { one value; } { proc: pmix_proc_t::initial(), }
    pmix_proc_info_t { text hostname; text executable_name; } { proc: pmix_proc_t::initial(), }
    pmix_proc_stats_t { text node; text cmd; } { proc: pmix_proc_t::initial(), }
    pmix_query_t { argv keys; list qualifiers nqual; }
    pmix_regattr_t { text name; argv description; }
    pmix_regex2_t { text r#type; bytes bytes len; }
    // The description of the hardware belongs to the library that made it; a copy points to the same description.
    pmix_topology_t { text source; }
}

impl Record for pmix_cpuset_t {
    fn initial() -> Self {
        Self {
            source: ptr::null_mut(),
            bitmap: ptr::null_mut(),
        }
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees a valid set, whose members came from the C library.
        unsafe { cpuset::free(self) };
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        cpuset::copy(from)
    }
}

impl Record for pmix_info_t {
    fn initial() -> Self {
        Self {
            key: [0; 512],
            flags: 0,
            value: pmix_value_t::initial(),
        }
    }

    unsafe fn empty(&mut self) {
        if !is_persistent(self) {
            // SAFETY: the caller guarantees a valid info, and it owns its value.
            unsafe { self.value.empty() };
        }
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        let mut to = *from;
        if !is_persistent(&from) {
            // SAFETY: the value is a member of a `Valid` info.
            to.value = unsafe { Valid::new(&from.value) }.duplicate()?;
        }
        Ok(to)
    }
}

/// Returns `true` if an info does not own its value (`PMIX_INFO_PERSISTENT`).
pub(crate) const fn is_persistent(info: &pmix_info_t) -> bool {
    info.flags & pmix_types::InfoFlags::PERSISTENT.as_raw() != 0
}

impl Record for pmix_value_t {
    fn initial() -> Self {
        // SAFETY: zeros are a valid value: the type `PMIX_UNDEF`, and a union without content.
        unsafe { std::mem::zeroed() }
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees a valid value, whose type matches its union.
        unsafe { datum::empty_value(self) };
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        datum::duplicate_value(from)
    }
}

impl Record for pmix_data_array_t {
    fn initial() -> Self {
        Self {
            r#type: DataType::UNDEF.as_raw(),
            size: 0,
            array: ptr::null_mut(),
        }
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees a valid array, which has `size` data of its type.
        unsafe { datum::empty_array(self) };
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        datum::duplicate_array(from)
    }
}

impl Record for pmix_data_buffer_t {
    fn initial() -> Self {
        // SAFETY: all members are pointers and numbers, for which zero is valid.
        unsafe { std::mem::zeroed() }
    }

    unsafe fn empty(&mut self) {
        // SAFETY: the caller guarantees that the memory of the buffer came from the C library.
        unsafe { release(self.base_ptr) };
        *self = Self::initial();
    }

    fn duplicate(from: Valid<'_, Self>) -> Result<Self> {
        buffer_of(left_in(&from))
    }
}

/// Returns the bytes of a buffer that have not been unpacked.
pub(crate) fn left_in<'b>(buffer: &'b Valid<'_, pmix_data_buffer_t>) -> &'b [u8] {
    if buffer.base_ptr.is_null() {
        return &[];
    }
    let at = match buffer.unpack_ptr.is_null() {
        true => buffer.base_ptr,
        false => buffer.unpack_ptr,
    };
    let read = (at as usize).saturating_sub(buffer.base_ptr as usize);
    // SAFETY: the buffer is `Valid`: it has `bytes_used` bytes from its base.
    unsafe { slice(at.cast::<u8>(), buffer.bytes_used.saturating_sub(read)).unwrap_or_default() }
}

/// Returns a buffer with a copy of bytes.
pub(crate) fn buffer_of(bytes: &[u8]) -> Result<pmix_data_buffer_t> {
    Ok(holding(memory::bytes(bytes)?, bytes.len()))
}

/// Returns a buffer that takes ownership of bytes.
pub(crate) fn holding(at: *mut c_char, len: usize) -> pmix_data_buffer_t {
    pmix_data_buffer_t {
        base_ptr: at,
        pack_ptr: at.wrapping_add(len),
        unpack_ptr: at,
        bytes_allocated: len,
        bytes_used: len,
    }
}

/// Returns a copy of `count` plain data; NULL for none.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements.
unsafe fn copied<T: Copy>(at: *const T, count: usize) -> Result<*mut T> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    let from = unsafe { slice(at, count)? };
    let to = memory::zeroed::<T>(from.len())?;
    if !to.is_null() {
        // SAFETY: `to` was allocated for `from.len()` elements and does not overlap `from`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
    Ok(to)
}

/// Returns an array of `count` initialized elements; NULL for none.
pub(crate) fn fresh<T: Record>(count: usize) -> Result<*mut T> {
    // No message can count more elements. On a system that overcommits memory, filling them would take minutes.
    if i32::try_from(count).is_err() {
        return Err(Status::ERR_BAD_PARAM);
    }
    let at = memory::zeroed::<T>(count)?;
    if !at.is_null() {
        for place in 0..count {
            // SAFETY: the array was allocated for `count` elements.
            unsafe { at.add(place).write(T::initial()) };
        }
    }
    Ok(at)
}

/// Frees an array and all that its elements own. An array with an invalid count is leaked.
///
/// # Safety
/// `at` is NULL or an array from the C library with `count` valid elements.
pub(crate) unsafe fn empty_list<T: Record>(at: &mut *mut T, count: &mut usize) {
    // SAFETY: the caller guarantees `count` valid elements, or NULL.
    let is_list = unsafe { slice(*at, *count) }.is_ok();
    if is_list && !at.is_null() {
        for place in 0..*count {
            // SAFETY: the caller guarantees `count` valid elements, whose memory came from the C library.
            unsafe { (*at.add(place)).empty() };
        }
        // SAFETY: the caller guarantees that the array came from the C library.
        unsafe { release(*at) };
    }
    (*at, *count) = (ptr::null_mut(), 0);
}

/// Returns a copy of an array, with copies of all that its elements own.
pub(crate) fn duplicate_list<T: Record>(from: Valid<'_, [T]>) -> Result<(*mut T, usize)> {
    let (mut to, mut count) = (fresh::<T>(from.len())?, from.len());
    for (place, element) in from.iter().enumerate() {
        match element.duplicate() {
            // SAFETY: `fresh` made an array of `from.len()` elements.
            Ok(copy) => unsafe { to.add(place).write(copy) },
            Err(status) => {
                // SAFETY: every element is a copy or initialized as empty.
                unsafe { empty_list(&mut to, &mut count) };
                return Err(status);
            }
        }
    }
    Ok((to, count))
}
