// SPDX-License-Identifier: MIT OR Apache-2.0
//! Growing lists of infos (`PMIx_Info_list_...`).

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_types::{DataType, InfoFlags, Status};

use crate::abi::*;
use crate::families::copies;
use crate::guard::exported;
use crate::memory::{self, Result, fill, filled};
use crate::record::{Record, there, there_mut};
use crate::status::{code, write_to};
use crate::values::loaded;

/// A list of infos. Each info keeps its address as long as it is in the list.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "an info is passed by its address")]
struct List(Vec<Box<pmix_info_t>>);

impl Drop for List {
    fn drop(&mut self) {
        for info in &mut self.0 {
            // SAFETY: the list owns its infos, whose members came from the C library.
            unsafe { info.empty() };
        }
    }
}

impl List {
    fn position(&self, key: &[u8]) -> Option<usize> {
        self.0.iter().position(|info| filled(&info.key) == key)
    }

    /// Appends an info. If `overwrite` is given and the key exists, replaces the old info or drops the new one.
    fn add(&mut self, info: Result<pmix_info_t>, overwrite: Option<bool>) -> Result<()> {
        let info = info?;
        let known = overwrite.and_then(|_| self.position(filled(&info.key)));
        let mut info = Box::new(info);
        match known.and_then(|place| self.0.get_mut(place)) {
            None => self.0.push(info),
            Some(old) => {
                if overwrite == Some(true) {
                    std::mem::swap(old, &mut info);
                }
                // SAFETY: the list owns both infos, and `info` is the one that is dropped.
                unsafe { info.empty() };
            }
        }
        Ok(())
    }
}

/// Returns an info with a copy of a value.
///
/// # Safety
/// `key` is NULL, a string, or an array of the size of a key.
unsafe fn info(
    key: *const c_char,
    value: impl FnOnce() -> Result<pmix_value_t>,
) -> Result<pmix_info_t> {
    // SAFETY: the caller guarantees a string or 512 readable bytes.
    let key = unsafe { memory::text_within(key, 512) }.ok_or(Status::ERR_BAD_PARAM)?;
    let mut info = pmix_info_t::initial();
    fill(&mut info.key, key);
    info.value = value()?;
    Ok(info)
}

/// Returns the list of a handle. NULL is an error.
///
/// # Safety
/// `at` is NULL or a list from `PMIx_Info_list_start`, which no other thread uses.
unsafe fn list<'a>(at: *mut c_void) -> Result<&'a mut List> {
    // SAFETY: the caller guarantees that `at` is NULL or a list.
    unsafe { there_mut(at.cast::<List>()) }
}

exported! {
    fn PMIx_Info_list_start() -> *mut c_void {
        Box::into_raw(Box::<List>::default()).cast()
    }

    fn PMIx_Info_list_release(ptr: *mut c_void) {
        if !ptr.is_null() {
            // SAFETY: the header requires a list from `PMIx_Info_list_start`, which is released once.
            drop(unsafe { Box::from_raw(ptr.cast::<List>()) });
        }
    }

    fn PMIx_Info_list_add(ptr: *mut c_void, key: *const c_char, value: *const c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe {
            list(ptr).and_then(|list| list.add(info(key, || loaded(value, DataType::from_raw(r#type))), None))
        })
    }

    fn PMIx_Info_list_add_unique(ptr: *mut c_void, key: *const c_char, value: *const c_void, r#type: pmix_data_type_t, overwrite: bool) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe {
            list(ptr).and_then(|list| {
                list.add(info(key, || loaded(value, DataType::from_raw(r#type))), Some(overwrite))
            })
        })
    }

    fn PMIx_Info_list_add_value(ptr: *mut c_void, key: *const c_char, value: *const pmix_value_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { list(ptr).and_then(|list| list.add(info(key, || there(value)?.duplicate()), None)) })
    }

    fn PMIx_Info_list_add_value_unique(ptr: *mut c_void, key: *const c_char, value: *const pmix_value_t, overwrite: bool) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe {
            list(ptr).and_then(|list| list.add(info(key, || there(value)?.duplicate()), Some(overwrite)))
        })
    }

    fn PMIx_Info_list_prepend(ptr: *mut c_void, key: *const c_char, value: *const c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe {
            list(ptr).and_then(|list| {
                let made = info(key, || loaded(value, DataType::from_raw(r#type)))?;
                list.0.insert(0, Box::new(made));
                Ok(())
            })
        })
    }

    fn PMIx_Info_list_insert(ptr: *mut c_void, info: *mut pmix_info_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe {
            list(ptr).and_then(|list| {
                let mut taken = *there(info)?;
                taken.flags |= InfoFlags::PERSISTENT.as_raw();
                list.0.push(Box::new(taken));
                Ok(())
            })
        })
    }

    fn PMIx_Info_list_xfer(ptr: *mut c_void, info: *const pmix_info_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { list(ptr).and_then(|list| list.add(there(info).and_then(|info| info.duplicate()), None)) })
    }

    fn PMIx_Info_list_xfer_unique(ptr: *mut c_void, info: *const pmix_info_t, overwrite: bool) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { list(ptr).and_then(|list| list.add(there(info).and_then(|info| info.duplicate()), Some(overwrite))) })
    }

    fn PMIx_Info_list_convert(ptr: *mut c_void, par: *mut pmix_data_array_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `ptr` to be NULL or a list from `PMIx_Info_list_start`.
            let list = unsafe { list(ptr)? };
            if list.0.is_empty() {
                return Err(Status::ERR_EMPTY);
            }
            if par.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let mut infos = memory::list_for(list.0.len())?;
            infos.extend(list.0.iter().map(|info| **info));
            // SAFETY: `infos` has `infos.len()` shallow copies of infos that the list keeps valid.
            let (array, size) = unsafe { copies(infos.as_ptr(), infos.len()) };
            if array.is_null() {
                return Err(Status::ERR_NOMEM);
            }
            let made = pmix_data_array_t { r#type: DataType::INFO.as_raw(), size, array: array.cast() };
            // SAFETY: the header requires `par` to be valid for writes; it is not NULL.
            unsafe { write_to(par, made) }
        })())
    }

    fn PMIx_Info_list_get_info(ptr: *mut c_void, prev: *mut c_void, next: *mut *mut c_void) -> *mut pmix_info_t {
        // SAFETY: the header requires `ptr` to be NULL or a list from `PMIx_Info_list_start`.
        let Ok(list) = (unsafe { list(ptr) }) else {
            return ptr::null_mut();
        };
        // The handle of the next info is its index, which is never 0, so NULL means the first info or the end.
        let place = prev as usize;
        let follows = if place + 1 < list.0.len() { place + 1 } else { 0 };
        if !next.is_null() {
            // SAFETY: the header requires `next` to be valid for writes; it is not NULL.
            unsafe { next.write(ptr::without_provenance_mut(follows)) };
        }
        list.0.get_mut(place).map_or(ptr::null_mut(), |info| ptr::from_mut(&mut **info))
    }

    fn PMIx_Info_list_get_size(ptr: *mut c_void) -> usize {
        // SAFETY: the header requires `ptr` to be NULL or a list from `PMIx_Info_list_start`.
        unsafe { list(ptr) }.map_or(0, |list| list.0.len())
    }
}
