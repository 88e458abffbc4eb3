// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of numbers and structures to text (`PMIx_..._string`).

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use pmix_types::*;

use crate::abi::*;
use crate::guard::exported;
use crate::memory::{self, Result, string, text};
use crate::model::Model;
use crate::per_process::PerProcess;
use crate::record::there;
use crate::values::{info_at, value_at};

/// The version of this library. Programs compare the first character: a letter counts as newer than any digit.
const VERSION: &CStr = c"pmix-rs 0.1.0 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)";

/// C strings of constant texts, each made once.
static TEXTS: PerProcess<Mutex<BTreeMap<&'static str, &'static CStr>>> =
    PerProcess::new(Mutex::new(BTreeMap::new()));

fn fixed(text: &'static str) -> *const c_char {
    let mut texts = TEXTS.get().lock().unwrap_or_else(PoisonError::into_inner);
    let made = texts.entry(text).or_insert_with(|| {
        let made = CString::new(text).unwrap_or_default();
        Box::leak(made.into_boxed_c_str())
    });
    made.as_ptr()
}

fn owned(made: Option<String>) -> *mut c_char {
    made.and_then(|made| string(made.as_bytes()).ok())
        .unwrap_or(ptr::null_mut())
}

/// Checks that the process has memory for the text of a datum.
fn showable<T: IntoOwned>(datum: T) -> Result<T> {
    memory::reserve(datum.measure(Measure::Shown))?;
    Ok(datum)
}

macro_rules! words {
    ($($name:ident($c:ty) = $type:ident;)*) => {
        exported! {
            $(fn $name(number: $c) -> *const c_char {
                fixed($type::from_raw(number).pretty())
            })*
        }
    };
}

words! {
    PMIx_Alloc_directive_string(pmix_alloc_directive_t) = AllocDirective;
    PMIx_Alloc_inheritance_string(pmix_alloc_inheritance_t) = AllocInheritance;
    PMIx_Data_range_string(pmix_data_range_t) = DataRange;
    PMIx_Data_type_string(pmix_data_type_t) = DataType;
    PMIx_Device_type_string(pmix_device_type_t) = DeviceType;
    PMIx_Group_operation_string(pmix_group_operation_t) = GroupOperation;
    PMIx_IOF_channel_string(pmix_iof_channel_t) = IofChannel;
    PMIx_Job_state_string(pmix_job_state_t) = JobState;
    PMIx_Link_state_string(pmix_link_state_t) = LinkState;
    PMIx_Persistence_string(pmix_persistence_t) = Persistence;
    PMIx_Proc_state_string(pmix_proc_state_t) = ProcState;
    PMIx_Resource_block_directive_string(pmix_resource_block_directive_t) = ResourceBlockDirective;
    PMIx_Scope_string(pmix_scope_t) = Scope;
}

exported! {
    fn PMIx_Get_version() -> *const c_char {
        VERSION.as_ptr()
    }

    fn PMIx_Error_string(status: pmix_status_t) -> *const c_char {
        fixed(Status::from_raw(status).pretty())
    }

    fn PMIx_Error_code(errname: *const c_char) -> pmix_status_t {
        // SAFETY: the header requires `errname` to be NULL or a string.
        let name = unsafe { text(errname) }.and_then(|name| std::str::from_utf8(name).ok());
        name.map_or(Status::from_raw(i32::MIN), Status::from_error_name).as_raw()
    }

    fn PMIx_Value_comparison_string(cmp: pmix_value_cmp_t) -> *const c_char {
        fixed(ValueComparison::from_raw(cmp).map_or("unknown", ValueComparison::as_str))
    }

    fn PMIx_Get_attribute_string(attribute: *const c_char) -> *const c_char {
        // SAFETY: the header requires `attribute` to be NULL or a string.
        let name = unsafe { text(attribute) }.and_then(|name| std::str::from_utf8(name).ok());
        let known = name.and_then(Attribute::by_name);
        known.map_or(attribute, |known| fixed(known.key()))
    }

    fn PMIx_Get_attribute_name(attrstring: *const c_char) -> *const c_char {
        // SAFETY: the header requires `attrstring` to be NULL or a string.
        let key = unsafe { text(attrstring) }.and_then(|key| std::str::from_utf8(key).ok());
        let known = key.and_then(Attribute::by_key);
        known.map_or(attrstring, |known| fixed(known.full_name()))
    }

    fn PMIx_Info_directives_string(directives: pmix_info_directives_t) -> *mut c_char {
        owned(Some(InfoFlags::from_raw(directives).pretty().to_owned()))
    }

    fn PMIx_Value_string(value: *const pmix_value_t) -> *mut c_char {
        // SAFETY: the header requires `value` to be NULL or valid.
        owned(unsafe { value_at(value) }.and_then(showable).ok().map(|value| value.to_string()))
    }

    fn PMIx_Info_string(info: *const pmix_info_t) -> *mut c_char {
        // SAFETY: the header requires `info` to be NULL or valid.
        owned(unsafe { info_at(info) }.and_then(showable).ok().map(|info| info.to_string()))
    }

    fn PMIx_Proc_string(proc: *const pmix_proc_t) -> *mut c_char {
        // SAFETY: the header requires `proc` to be NULL or valid.
        owned(unsafe { crate::names::proc_at(proc) }.map(|proc| proc.to_string()))
    }

    fn PMIx_App_string(app: *const pmix_app_t) -> *mut c_char {
        // SAFETY: the header requires `app` to be NULL or valid.
        let app = unsafe { there(app).and_then(|app| App::from_c(app)) };
        owned(app.and_then(showable).ok().map(|app| app.to_string()))
    }

    fn PMIx_Resource_unit_string(unit: *const pmix_resource_unit_t) -> *mut c_char {
        // SAFETY: the header requires `unit` to be NULL or valid.
        let unit = unsafe { there(unit).and_then(|unit| ResourceUnit::from_c(unit)) };
        owned(unit.ok().map(|unit| unit.to_string()))
    }
}
