// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values, infos and published data (`PMIx_Value_...`, `PMIx_Info_...`, `PMIx_Pdata_...`).

use std::ffi::{c_char, c_void};
use std::ptr;

use pmix_types::{DataType, Info, InfoFlags, RegexBytes, Status, Value};

use crate::abi::*;
use crate::datum::{self, Place, duplicate_one, load_value};
use crate::guard::exported;
use crate::memory::{self, Result, fill};
use crate::model::Model;
use crate::record::{Record, is_persistent, there, there_mut};
use crate::regex;
use crate::status::{code, make_at, write_to};

/// Returns a C value with a copy of a datum, which `data` names as in `PMIx_Value_load`.
///
/// # Safety
/// `data` is NULL or points to a datum of the type. For a string, a pointer or a map (`PMIX_REGEX`), `data` is that
/// itself.
pub(crate) unsafe fn loaded(data: *const c_void, of: DataType) -> Result<pmix_value_t> {
    let mut value = pmix_value_t::initial();
    value.r#type = of.as_raw();
    match of {
        DataType::UNDEF => {}
        // A Boolean attribute without a value means `true`.
        DataType::BOOL if data.is_null() => value.data.flag = 1,
        // SAFETY: the caller guarantees a string or NULL.
        DataType::STRING => value.data.string = unsafe { memory::duplicate(data.cast())? },
        DataType::POINTER => value.data.ptr = data.cast_mut(),
        DataType::REGEX if !data.is_null() => {
            // SAFETY: the caller guarantees a map, and it is not NULL.
            let map = unsafe { regex::map_at(data.cast())? };
            value.data.bo = regex::object(&RegexBytes(map.into()))?;
        }
        // SAFETY: the caller guarantees a valid datum of the type, or NULL.
        _ => return unsafe { load_value(of, data) },
    }
    Ok(value)
}

/// Copies the datum of a value to the memory of a caller.
///
/// # Safety
/// The value is valid. `data` is NULL or points to a pointer, which must point to room for the datum if it is stored
/// inline.
unsafe fn unload(value: &pmix_value_t, data: *mut *mut c_void, size: *mut usize) -> Result<()> {
    let of = DataType::from_raw(value.r#type);
    let known = datum::ops_in_value(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    if data.is_null() || size.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees a valid value, whose type matches its union, and room at `*data` for an inline
    // datum.
    unsafe {
        let (made, len) = match of {
            DataType::STRING => {
                let text = memory::text(value.data.string).map_or(0, <[u8]>::len);
                (memory::duplicate(value.data.string)?.cast(), text)
            }
            DataType::POINTER => (value.data.ptr, known.size),
            // The map in the form that `PMIx_Value_load` takes.
            DataType::REGEX => {
                let copy = value.duplicate()?.data.bo;
                (copy.bytes.cast(), copy.size)
            }
            DataType::BYTE_OBJECT
            | DataType::COMPRESSED_STRING
            | DataType::COMPRESSED_BYTE_OBJECT => {
                match value.data.bo.bytes.is_null() || value.data.bo.size == 0 {
                    true => (ptr::null_mut(), 0),
                    false => (
                        duplicate_one(&known, ptr::from_ref(&value.data.bo).cast())?,
                        known.size,
                    ),
                }
            }
            DataType::ENVAR => (
                duplicate_one(&known, ptr::from_ref(&value.data).cast())?,
                known.size,
            ),
            _ if known.place == Place::Inline => {
                if (*data).is_null() {
                    return Err(Status::ERR_BAD_PARAM);
                }
                let from = ptr::from_ref(&value.data).cast::<u8>();
                ptr::copy_nonoverlapping(from, (*data).cast::<u8>(), known.size);
                return write_to(size, known.size);
            }
            _ if value.data.ptr.is_null() => (ptr::null_mut(), 0),
            // The name of a process or of a job is copied to the memory of the caller if there is any.
            DataType::PROC | DataType::PROC_NSPACE if !(*data).is_null() => {
                ptr::copy_nonoverlapping(value.data.ptr.cast::<u8>(), (*data).cast(), known.size);
                return write_to(size, known.size);
            }
            _ => (duplicate_one(&known, value.data.ptr)?, known.size),
        };
        write_to(data, made)?;
        write_to(size, len)
    }
}

/// Compares two pointers or two topologies by their addresses, which the model does not contain. Returns `None` for
/// other types.
///
/// # Safety
/// Each pointer is NULL or points to a valid value.
unsafe fn pointers(
    first: *const pmix_value_t,
    second: *const pmix_value_t,
) -> Option<pmix_types::ValueComparison> {
    // SAFETY: the caller guarantees that each pointer is NULL or valid.
    let (first, second) = unsafe { (first.as_ref()?, second.as_ref()?) };
    if first.r#type != second.r#type {
        return None;
    }
    // SAFETY: the type of the valid value names the member of the union, and a topology is NULL or valid.
    let address = |value: &pmix_value_t| unsafe {
        match DataType::from_raw(value.r#type) {
            DataType::POINTER => Some(value.data.ptr.addr()),
            DataType::TOPO => value.data.topo.as_ref().map(|topo| topo.topology.addr()),
            _ => None,
        }
    };
    let order = address(first)?.cmp(&address(second)?);
    Some(match order {
        std::cmp::Ordering::Less => pmix_types::ValueComparison::SecondGreater,
        std::cmp::Ordering::Equal => pmix_types::ValueComparison::Equal,
        std::cmp::Ordering::Greater => pmix_types::ValueComparison::FirstGreater,
    })
}

/// Converts a C value.
///
/// # Safety
/// `at` is NULL, which is an error, or points to a valid value.
pub(crate) unsafe fn value_at(at: *const pmix_value_t) -> Result<Value<'static>> {
    // SAFETY: the caller guarantees that `at` is NULL or valid.
    unsafe { Value::from_c(there(at)?) }
}

/// Converts a C info.
///
/// # Safety
/// The conditions of [`value_at`].
pub(crate) unsafe fn info_at(at: *const pmix_info_t) -> Result<Info<'static>> {
    // SAFETY: the caller guarantees that `at` is NULL or valid.
    unsafe { Info::from_c(there(at)?) }
}

exported! {
    fn PMIx_Value_load(val: *mut pmix_value_t, data: *const c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        // SAFETY: the header requires `val` to be NULL or valid for writes, and `data` to be NULL or a datum of the
        // type.
        code(unsafe { make_at(val, || loaded(data, DataType::from_raw(r#type))) })
    }

    fn PMIx_Value_unload(val: *mut pmix_value_t, data: *mut *mut c_void, sz: *mut usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { there(val).and_then(|value| unload(value, data, sz)) })
    }

    fn PMIx_Value_xfer(dest: *mut pmix_value_t, src: *const pmix_value_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { there(src).and_then(|from| make_at(dest, || from.duplicate())) })
    }

    fn PMIx_Value_compare(v1: *mut pmix_value_t, v2: *mut pmix_value_t) -> pmix_value_cmp_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let Some(order) = unsafe { pointers(v1, v2) } {
            return order.as_raw();
        }
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        match unsafe { (value_at(v1), value_at(v2)) } {
            (Ok(one), Ok(other)) => one.compare(&other).as_raw(),
            _ => pmix_types::ValueComparison::NotAvailable.as_raw(),
        }
    }

    fn PMIx_Value_get_number(value: *const pmix_value_t, dest: *mut c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            let of = DataType::from_raw(r#type);
            // SAFETY: the header requires `value` to be NULL or valid.
            let number = unsafe { value_at(value)? }.convert(of).map_err(|e| e.status())?;
            let known = datum::ops(of).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
            if dest.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let made = number.to_c()?;
            // SAFETY: the header requires room at `dest` for a number of the type, and numbers are stored inline in
            // `made`.
            unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&made.data).cast::<u8>(), dest.cast(), known.size) };
            Ok(())
        })())
    }

    fn PMIx_Value_get_size(val: *const pmix_value_t, size: *mut usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `val` to be NULL or valid.
            let len = unsafe { value_at(val)? }.storage_size().map_err(|e| e.status())?;
            // SAFETY: the header requires `size` to be NULL or valid for writes.
            unsafe { write_to(size, len) }
        })())
    }

    fn PMIx_Value_true(v: *const pmix_value_t) -> pmix_boolean_t {
        // SAFETY: the header requires `v` to be NULL or valid.
        match unsafe { value_at(v) } {
            Ok(value) => value.truth().as_raw(),
            Err(_) if v.is_null() => pmix_types::Truth::False.as_raw(),
            Err(_) => pmix_types::Truth::NonBool.as_raw(),
        }
    }

    fn PMIx_Info_load(info: *mut pmix_info_t, key: *const c_char, data: *const c_void, r#type: pmix_data_type_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (to, key) = unsafe { (there_mut(info)?, memory::text_within(key, 512)) };
            // SAFETY: the header requires `info` to be valid for writes. Its old content may be uninitialized and is
            // not freed.
            unsafe { ptr::write(to, pmix_info_t::initial()) };
            fill(&mut to.key, key.ok_or(Status::ERR_BAD_PARAM)?);
            // SAFETY: the header requires `data` to be NULL or a datum of the type.
            to.value = unsafe { loaded(data, DataType::from_raw(r#type))? };
            Ok(())
        })())
    }

    fn PMIx_Info_xfer(dest: *mut pmix_info_t, src: *const pmix_info_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { there(src).and_then(|from| make_at(dest, || from.duplicate())) })
    }

    fn PMIx_Info_get_size(val: *const pmix_info_t, size: *mut usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires `val` to be NULL or valid.
            let len = unsafe { info_at(val)? }.storage_size().map_err(|e| e.status())?;
            // SAFETY: the header requires `size` to be NULL or valid for writes.
            unsafe { write_to(size, len) }
        })())
    }

    fn PMIx_Info_true(p: *const pmix_info_t) -> pmix_boolean_t {
        // SAFETY: the header requires `p` to be NULL or valid.
        match unsafe { info_at(p) } {
            Ok(info) => info.truth().as_raw(),
            Err(_) if p.is_null() => pmix_types::Truth::False.as_raw(),
            Err(_) => pmix_types::Truth::NonBool.as_raw(),
        }
    }

    fn PMIx_Pdata_load(dest: *mut pmix_pdata_t, p: *const pmix_proc_t, key: *const c_char, data: *const c_void, r#type: pmix_data_type_t) {
        // SAFETY: the header requires `dest` to be NULL or valid for writes.
        if let Some(to) = unsafe { dest.as_mut() } {
            *to = pmix_pdata_t::initial();
            // SAFETY: the header requires `p` to be NULL or valid, `key` NULL or a string, and `data` NULL or a datum
            // of the type.
            unsafe {
                if let Some(proc) = p.as_ref() {
                    to.proc = *proc;
                }
                fill(&mut to.key, memory::text_within(key, 512).unwrap_or_default());
                to.value = loaded(data, DataType::from_raw(r#type)).unwrap_or_else(|_| pmix_value_t::initial());
            }
        }
    }

    fn PMIx_Pdata_xfer(dest: *mut pmix_pdata_t, src: *mut pmix_pdata_t) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let (Some(to), Some(from)) = unsafe { (dest.as_mut(), src.as_ref()) } {
            // SAFETY: the header requires `src` to be valid; it is not NULL.
            *to = unsafe { from.duplicate() }.unwrap_or_else(|_| pmix_pdata_t::initial());
        }
    }
}

macro_rules! flags {
    (set { $($set:ident |$flag:ident| $to:expr;)* } has { $($has:ident |$seen:ident| $is:expr;)* }) => {
        exported! {
            $(fn $set(p: *mut pmix_info_t) {
                // SAFETY: the header requires `p` to be NULL or valid.
                if let Some(info) = unsafe { p.as_mut() } {
                    let $flag = InfoFlags::from_raw(info.flags);
                    info.flags = $to.as_raw();
                }
            })*
            $(fn $has(p: *const pmix_info_t) -> bool {
                // SAFETY: the header requires `p` to be NULL or valid.
                unsafe { p.as_ref() }.is_some_and(|$seen| $is)
            })*
        }
    };
}

fn has(info: &pmix_info_t, flag: InfoFlags) -> bool {
    InfoFlags::from_raw(info.flags).contains(flag)
}

flags! {
    set {
        PMIx_Info_required |flags| flags.union(InfoFlags::REQD);
        PMIx_Info_optional |flags| flags.without(InfoFlags::REQD);
        PMIx_Info_processed |flags| flags.union(InfoFlags::REQD_PROCESSED);
        PMIx_Info_set_end |flags| flags.union(InfoFlags::ARRAY_END);
        PMIx_Info_qualifier |flags| flags.union(InfoFlags::QUALIFIER);
        PMIx_Info_persistent |flags| flags.union(InfoFlags::PERSISTENT);
    }
    has {
        PMIx_Info_is_required |info| has(info, InfoFlags::REQD);
        PMIx_Info_is_optional |info| !has(info, InfoFlags::REQD);
        PMIx_Info_was_processed |info| has(info, InfoFlags::REQD_PROCESSED);
        PMIx_Info_is_end |info| has(info, InfoFlags::ARRAY_END);
        PMIx_Info_is_qualifier |info| has(info, InfoFlags::QUALIFIER);
        PMIx_Info_is_persistent |info| is_persistent(info);
    }
}
