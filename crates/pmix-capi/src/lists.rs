// SPDX-License-Identifier: MIT OR Apache-2.0
//! Growing lists of infos (`PMIx_Info_list_...`).

use std::ffi::c_void;
use std::ptr;

use pmix_types::{DataType, InfoFlags, Status};

use crate::abi::*;
use crate::args::{Array, CallScope, In, Maybe, Mut, Out, Parameter};
use crate::guard::exported;
use crate::memory::{self, Result, fill, filled};
use crate::owned::CArray;
use crate::record::Record;
use crate::valid::Valid;
use crate::values::Datum;

/// A list of infos. Each info keeps its address as long as it is in the list.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "an info is passed by its address")]
pub(crate) struct List(Vec<Box<pmix_info_t>>);

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

    /// Appends an info.
    fn add(&mut self, info: pmix_info_t) {
        self.0.push(Box::new(info));
    }

    /// Appends an info. If its key exists, replaces the old info with `overwrite`, and drops the new one otherwise.
    fn add_unique(&mut self, info: pmix_info_t, overwrite: bool) {
        let known = self.position(filled(&info.key));
        let Some(old) = known.and_then(|place| self.0.get_mut(place)) else {
            return self.add(info);
        };
        let mut info = Box::new(info);
        if overwrite {
            std::mem::swap(old, &mut info);
        }
        // SAFETY: the list owns both infos, and `info` is the one that is dropped.
        unsafe { info.empty() };
    }

    /// Returns copies of the infos.
    fn to_array(&self) -> Result<pmix_data_array_t> {
        let mut infos = memory::list_for(self.0.len())?;
        infos.extend(self.0.iter().map(|info| **info));
        // SAFETY: these are shallow copies of infos that the list keeps valid.
        let copies = CArray::copy_of(unsafe { Valid::slice(infos.as_ptr(), infos.len())? })?;
        let (array, size) = copies.into_raw();
        Ok(pmix_data_array_t {
            r#type: DataType::INFO.as_raw(),
            size,
            array: array.cast(),
        })
    }
}

/// A list from `PMIx_Info_list_start`; NULL is an error.
pub(crate) struct InfoList(());

impl Parameter for InfoList {
    type C = *mut c_void;
    type Given<'c> = &'c mut List;

    unsafe fn take(given: *mut c_void, _: &CallScope) -> Result<&mut List> {
        // SAFETY: the header requires NULL or a list, which no other thread uses.
        unsafe { given.cast::<List>().as_mut() }.ok_or(Status::ERR_BAD_PARAM)
    }
}

/// Returns an info with a key and a value.
fn info(key: &[u8], value: Result<pmix_value_t>) -> Result<pmix_info_t> {
    let mut info = pmix_info_t::initial();
    fill(&mut info.key, key);
    info.value = value?;
    Ok(info)
}

exported! {
    fn PMIx_Info_list_start() -> *mut c_void {
        Ok(Box::into_raw(Box::<List>::default()).cast())
    }

    fn PMIx_Info_list_release(ptr: *mut c_void) {
        if !ptr.is_null() {
            // SAFETY: the header requires a list from `PMIx_Info_list_start`, which is released once.
            drop(unsafe { Box::from_raw(ptr.cast::<List>()) });
        }
        Ok(())
    }

    fn PMIx_Info_list_add(ptr: InfoList, key: Array<512>, (value, r#type): Datum) -> pmix_status_t {
        ptr.add(info(key, value.load())?);
        Ok(())
    }

    fn PMIx_Info_list_add_unique(ptr: InfoList, key: Array<512>, (value, r#type): Datum, overwrite: bool) -> pmix_status_t {
        ptr.add_unique(info(key, value.load())?, overwrite);
        Ok(())
    }

    fn PMIx_Info_list_add_value(ptr: InfoList, key: Array<512>, value: In<pmix_value_t>) -> pmix_status_t {
        ptr.add(info(key, value.duplicate())?);
        Ok(())
    }

    fn PMIx_Info_list_add_value_unique(ptr: InfoList, key: Array<512>, value: In<pmix_value_t>, overwrite: bool) -> pmix_status_t {
        ptr.add_unique(info(key, value.duplicate())?, overwrite);
        Ok(())
    }

    fn PMIx_Info_list_prepend(ptr: InfoList, key: Array<512>, (value, r#type): Datum) -> pmix_status_t {
        ptr.0.insert(0, Box::new(info(key, value.load())?));
        Ok(())
    }

    // The list does not own the value of this info.
    fn PMIx_Info_list_insert(ptr: InfoList, info: In<pmix_info_t, Mut>) -> pmix_status_t {
        let flags = info.flags | InfoFlags::PERSISTENT.as_raw();
        ptr.add(pmix_info_t { flags, ..*info });
        Ok(())
    }

    fn PMIx_Info_list_xfer(ptr: InfoList, info: In<pmix_info_t>) -> pmix_status_t {
        ptr.add(info.duplicate()?);
        Ok(())
    }

    fn PMIx_Info_list_xfer_unique(ptr: InfoList, info: In<pmix_info_t>, overwrite: bool) -> pmix_status_t {
        ptr.add_unique(info.duplicate()?, overwrite);
        Ok(())
    }

    fn PMIx_Info_list_convert(ptr: InfoList, par: Maybe<Out<pmix_data_array_t>>) -> pmix_status_t {
        match par {
            _ if ptr.0.is_empty() => Err(Status::ERR_EMPTY),
            None => Err(Status::ERR_BAD_PARAM),
            Some(par) => par.fill(|| ptr.to_array()),
        }
    }

    fn PMIx_Info_list_get_info(list: InfoList, prev: *mut c_void, next: Maybe<Out<*mut c_void>>) -> *mut pmix_info_t {
        // The handle of the next info is its index, which is never 0, so NULL means the first info or the end.
        let place = prev as usize;
        let follows = if place + 1 < list.0.len() { place + 1 } else { 0 };
        if let Some(next) = next {
            next.write(ptr::without_provenance_mut(follows));
        }
        Ok(list.0.get_mut(place).map_or(ptr::null_mut(), |info| ptr::from_mut(&mut **info)))
    }

    fn PMIx_Info_list_get_size(ptr: InfoList) -> usize {
        Ok(ptr.0.len())
    }
}
