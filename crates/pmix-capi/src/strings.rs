// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of numbers and structures to text (`PMIx_..._string`).

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use pmix_types::*;

use crate::abi::*;
use crate::args::{self, Maybe, One, Str};
use crate::guard::exported;
use crate::memory::{self, Result, string};
use crate::per_process::PerProcess;

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

/// Returns the text of a datum, if the process has memory for it.
fn shown<T: IntoOwned + Display>(datum: T) -> Result<*mut c_char> {
    memory::reserve(datum.measure(Measure::Shown))?;
    string(datum.to_string().as_bytes())
}

macro_rules! words {
    ($($name:ident($type:ident);)*) => {
        exported! {
            $(fn $name(number: $type) -> *const c_char {
                Ok(fixed(number.pretty()))
            })*
        }
    };
}

words! {
    PMIx_Alloc_directive_string(AllocDirective);
    PMIx_Alloc_inheritance_string(AllocInheritance);
    PMIx_Data_range_string(DataRange);
    PMIx_Data_type_string(DataType);
    PMIx_Device_type_string(DeviceType);
    PMIx_Group_operation_string(GroupOperation);
    PMIx_IOF_channel_string(IofChannel);
    PMIx_Job_state_string(JobState);
    PMIx_Link_state_string(LinkState);
    PMIx_Persistence_string(Persistence);
    PMIx_Proc_state_string(ProcState);
    PMIx_Resource_block_directive_string(ResourceBlockDirective);
    PMIx_Scope_string(Scope);
}

exported! {
    fn PMIx_Get_version() -> *const c_char {
        Ok(VERSION.as_ptr())
    }

    fn PMIx_Error_string(status: Status) -> *const c_char {
        Ok(fixed(status.pretty()))
    }

    fn PMIx_Error_code(errname: Maybe<Str>) -> pmix_status_t {
        let name = errname.and_then(|name| std::str::from_utf8(name).ok());
        Ok(name.map_or(Status::from_raw(i32::MIN), Status::from_error_name))
    }

    fn PMIx_Value_comparison_string(cmp: pmix_value_cmp_t) -> *const c_char {
        Ok(fixed(ValueComparison::from_raw(cmp).map_or("unknown", ValueComparison::as_str)))
    }

    fn PMIx_Get_attribute_string(attribute: Str) -> *const c_char {
        let name = std::str::from_utf8(attribute).ok();
        let known = name.and_then(Attribute::by_name);
        Ok(known.map_or_else(|| attribute.as_ptr().cast(), |known| fixed(known.key())))
    }

    fn PMIx_Get_attribute_name(attrstring: Str) -> *const c_char {
        let key = std::str::from_utf8(attrstring).ok();
        let known = key.and_then(Attribute::by_key);
        Ok(known.map_or_else(|| attrstring.as_ptr().cast(), |known| fixed(known.full_name())))
    }

    fn PMIx_Info_directives_string(directives: InfoFlags) -> *mut c_char {
        string(directives.pretty().as_bytes())
    }

    fn PMIx_Value_string(value: args::Value) -> *mut c_char {
        shown(value)
    }

    fn PMIx_Info_string(info: args::Info) -> *mut c_char {
        shown(info)
    }

    fn PMIx_Proc_string(proc: args::Proc) -> *mut c_char {
        string(proc.to_string().as_bytes())
    }

    fn PMIx_App_string(app: One<App<'static>>) -> *mut c_char {
        shown(app)
    }

    fn PMIx_Resource_unit_string(unit: One<ResourceUnit>) -> *mut c_char {
        string(unit.to_string().as_bytes())
    }
}
