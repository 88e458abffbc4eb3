// SPDX-License-Identifier: MIT OR Apache-2.0
//! Families of functions that construct, create, destruct and free C structures.

use std::ptr;

use pmix_types::DataType;

use crate::abi::*;
use crate::datum::new_array;
use crate::guard::exported;
use crate::memory::{argv, boxed, fill, release, zeroed};
use crate::record::{Record, duplicate_list, empty_list, fresh, there_mut};

macro_rules! families {
    ($($type:ident: $construct:ident $create:ident $destruct:ident $free:ident;)*) => {
        exported! {
            $(
                fn $construct(p: *mut $type) {
                    if !p.is_null() {
                        // SAFETY: the header requires `p` to be valid for writes; it is not NULL.
                        unsafe { p.write($type::initial()) };
                    }
                }

                fn $create(n: usize) -> *mut $type {
                    fresh::<$type>(n).unwrap_or(ptr::null_mut())
                }

                fn $destruct(p: *mut $type) {
                    // SAFETY: the header requires `p` to be NULL or a constructed structure.
                    if let Some(p) = unsafe { p.as_mut() } {
                        // SAFETY: the header requires that all that the structure owns came from the C library.
                        unsafe { p.empty() };
                    }
                }

                fn $free(p: *mut $type, n: usize) {
                    let (mut p, mut n) = (p, n);
                    // SAFETY: the header requires `p` to be NULL or an array of `n` structures from the create
                    // function.
                    unsafe { empty_list(&mut p, &mut n) };
                }
            )*
        }
    };
}

families! {
    pmix_app_t: PMIx_App_construct PMIx_App_create PMIx_App_destruct PMIx_App_free;
    pmix_byte_object_t: PMIx_Byte_object_construct PMIx_Byte_object_create PMIx_Byte_object_destruct PMIx_Byte_object_free;
    pmix_cpuset_t: PMIx_Cpuset_construct PMIx_Cpuset_create PMIx_Cpuset_destruct PMIx_Cpuset_free;
    pmix_device_t: PMIx_Device_construct PMIx_Device_create PMIx_Device_destruct PMIx_Device_free;
    pmix_device_distance_t: PMIx_Device_distance_construct PMIx_Device_distance_create PMIx_Device_distance_destruct PMIx_Device_distance_free;
    pmix_disk_stats_t: PMIx_Disk_stats_construct PMIx_Disk_stats_create PMIx_Disk_stats_destruct PMIx_Disk_stats_free;
    pmix_endpoint_t: PMIx_Endpoint_construct PMIx_Endpoint_create PMIx_Endpoint_destruct PMIx_Endpoint_free;
    pmix_envar_t: PMIx_Envar_construct PMIx_Envar_create PMIx_Envar_destruct PMIx_Envar_free;
    pmix_geometry_t: PMIx_Geometry_construct PMIx_Geometry_create PMIx_Geometry_destruct PMIx_Geometry_free;
    pmix_info_t: PMIx_Info_construct PMIx_Info_create PMIx_Info_destruct PMIx_Info_free;
    pmix_net_stats_t: PMIx_Net_stats_construct PMIx_Net_stats_create PMIx_Net_stats_destruct PMIx_Net_stats_free;
    pmix_node_pid_t: PMIx_Node_pid_construct PMIx_Node_pid_create PMIx_Node_pid_destruct PMIx_Node_pid_free;
    pmix_node_stats_t: PMIx_Node_stats_construct PMIx_Node_stats_create PMIx_Node_stats_destruct PMIx_Node_stats_free;
    pmix_pdata_t: PMIx_Pdata_construct PMIx_Pdata_create PMIx_Pdata_destruct PMIx_Pdata_free;
    pmix_proc_t: PMIx_Proc_construct PMIx_Proc_create PMIx_Proc_destruct PMIx_Proc_free;
    pmix_proc_info_t: PMIx_Proc_info_construct PMIx_Proc_info_create PMIx_Proc_info_destruct PMIx_Proc_info_free;
    pmix_proc_stats_t: PMIx_Proc_stats_construct PMIx_Proc_stats_create PMIx_Proc_stats_destruct PMIx_Proc_stats_free;
    pmix_query_t: PMIx_Query_construct PMIx_Query_create PMIx_Query_destruct PMIx_Query_free;
    pmix_regattr_t: PMIx_Regattr_construct PMIx_Regattr_create PMIx_Regattr_destruct PMIx_Regattr_free;
    pmix_regex2_t: PMIx_Regex2_construct PMIx_Regex2_create PMIx_Regex2_destruct PMIx_Regex2_free;
    pmix_resource_unit_t: PMIx_Resource_unit_construct PMIx_Resource_unit_create PMIx_Resource_unit_destruct PMIx_Resource_unit_free;
    pmix_topology_t: PMIx_Topology_construct PMIx_Topology_create PMIx_Topology_destruct PMIx_Topology_free;
    pmix_value_t: PMIx_Value_construct PMIx_Value_create PMIx_Value_destruct PMIx_Value_free;
}

exported! {
    fn PMIx_Coord_construct(m: *mut pmix_coord_t) {
        if !m.is_null() {
            // SAFETY: the header requires `m` to be valid for writes; it is not NULL.
            unsafe { m.write(pmix_coord_t::initial()) };
        }
    }

    fn PMIx_Coord_create(dims: usize, number: usize) -> *mut pmix_coord_t {
        let Ok(made) = fresh::<pmix_coord_t>(number) else {
            return ptr::null_mut();
        };
        for place in 0..number {
            // SAFETY: `fresh` made `number` elements, and `place` is less than that.
            let one = unsafe { &mut *made.add(place) };
            match zeroed(dims) {
                Ok(coord) => (one.coord, one.dims) = (coord, dims),
                Err(_) => {
                    let (mut all, mut count) = (made, number);
                    // SAFETY: every member is complete or initialized as empty.
                    unsafe { empty_list(&mut all, &mut count) };
                    return ptr::null_mut();
                }
            }
        }
        made
    }

    fn PMIx_Coord_destruct(m: *mut pmix_coord_t) {
        // SAFETY: the header requires `m` to be NULL or a constructed structure.
        if let Some(m) = unsafe { m.as_mut() } {
            // SAFETY: the header requires that all that the structure owns came from the C library.
            unsafe { m.empty() };
        }
    }

    fn PMIx_Coord_free(m: *mut pmix_coord_t, number: usize) {
        let (mut m, mut number) = (m, number);
        // SAFETY: the header requires `m` to be NULL or an array of `number` structures from the create function.
        unsafe { empty_list(&mut m, &mut number) };
    }

    fn PMIx_App_release(p: *mut pmix_app_t) {
        let (mut p, mut n) = (p, 1);
        // SAFETY: the header requires `p` to be NULL or a structure from the create function.
        unsafe { empty_list(&mut p, &mut n) };
    }

    fn PMIx_App_info_create(p: *mut pmix_app_t, n: usize) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let Ok(app) = unsafe { there_mut(p) }
            && let Ok(infos) = fresh(n)
        {
            (app.info, app.ninfo) = (infos, n);
        }
    }

    fn PMIx_Query_release(p: *mut pmix_query_t) {
        let (mut p, mut n) = (p, 1);
        // SAFETY: the header requires `p` to be NULL or a structure from the create function.
        unsafe { empty_list(&mut p, &mut n) };
    }

    fn PMIx_Query_qualifiers_create(p: *mut pmix_query_t, n: usize) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let Ok(query) = unsafe { there_mut(p) }
            && let Ok(infos) = fresh(n)
        {
            (query.qualifiers, query.nqual) = (infos, n);
        }
    }

    fn PMIx_Fabric_construct(p: *mut pmix_fabric_t) {
        if !p.is_null() {
            // SAFETY: the header requires `p` to be valid for writes; it is not NULL.
            unsafe { p.write(pmix_fabric_t::initial()) };
        }
    }

    fn PMIx_Data_buffer_construct(b: *mut pmix_data_buffer_t) {
        if !b.is_null() {
            // SAFETY: the header requires `b` to be valid for writes; it is not NULL.
            unsafe { b.write(pmix_data_buffer_t::initial()) };
        }
    }

    fn PMIx_Data_buffer_create() -> *mut pmix_data_buffer_t {
        boxed(pmix_data_buffer_t::initial()).unwrap_or(ptr::null_mut())
    }

    fn PMIx_Data_buffer_destruct(b: *mut pmix_data_buffer_t) {
        // SAFETY: the header requires `b` to be NULL or a constructed buffer.
        if let Some(b) = unsafe { b.as_mut() } {
            // SAFETY: the header requires that all that the buffer owns came from the C library.
            unsafe { b.empty() };
        }
    }

    fn PMIx_Data_buffer_release(b: *mut pmix_data_buffer_t) {
        let (mut b, mut n) = (b, 1);
        // SAFETY: the header requires `b` to be NULL or a buffer from the create function.
        unsafe { empty_list(&mut b, &mut n) };
    }

    fn PMIx_Data_array_init(p: *mut pmix_data_array_t, r#type: pmix_data_type_t) {
        if !p.is_null() {
            let mut empty = pmix_data_array_t::initial();
            empty.r#type = r#type;
            // SAFETY: the header requires `p` to be valid for writes; it is not NULL.
            unsafe { p.write(empty) };
        }
    }

    fn PMIx_Data_array_construct(p: *mut pmix_data_array_t, num: usize, r#type: pmix_data_type_t) {
        if !p.is_null() {
            let made = new_array(DataType::from_raw(r#type), num);
            // SAFETY: the header requires `p` to be valid for writes; it is not NULL.
            unsafe { p.write(made.unwrap_or_else(|_| pmix_data_array_t::initial())) };
        }
    }

    fn PMIx_Data_array_create(n: usize, r#type: pmix_data_type_t) -> *mut pmix_data_array_t {
        let made = new_array(DataType::from_raw(r#type), n);
        made.and_then(boxed).unwrap_or(ptr::null_mut())
    }

    fn PMIx_Data_array_destruct(d: *mut pmix_data_array_t) {
        // SAFETY: the header requires `d` to be NULL or a constructed array.
        if let Some(d) = unsafe { d.as_mut() } {
            // SAFETY: the header requires that all that the array owns came from the C library.
            unsafe { d.empty() };
        }
    }

    fn PMIx_Data_array_free(p: *mut pmix_data_array_t) {
        let (mut p, mut n) = (p, 1);
        // SAFETY: the header requires `p` to be NULL or an array from the create function.
        unsafe { empty_list(&mut p, &mut n) };
    }

    fn PMIx_Byte_object_load(b: *mut pmix_byte_object_t, d: *mut std::ffi::c_char, sz: usize) {
        // SAFETY: the header requires `b` to be NULL or valid for writes. The object takes the bytes without a copy.
        if let Some(object) = unsafe { b.as_mut() } {
            *object = pmix_byte_object_t { bytes: d, size: sz };
        }
    }

    fn PMIx_Envar_load(e: *mut pmix_envar_t, var: *mut std::ffi::c_char, value: *mut std::ffi::c_char, separator: std::ffi::c_char) {
        // SAFETY: the header requires `e` to be NULL or valid for writes.
        if let Some(envar) = unsafe { e.as_mut() } {
            let given = pmix_envar_t { envar: var, value, separator };
            // SAFETY: the header requires `var` and `value` to be NULL or strings.
            *envar = unsafe { given.duplicate() }.unwrap_or_else(|_| pmix_envar_t::initial());
        }
    }

    fn PMIx_Regattr_load(info: *mut pmix_regattr_t, name: *const std::ffi::c_char, key: *const std::ffi::c_char, r#type: pmix_data_type_t, description: *const std::ffi::c_char) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        let (Some(to), name, key, description) = (unsafe {
            use crate::memory::text;
            (info.as_mut(), text(name), text(key), text(description))
        }) else {
            return;
        };
        *to = pmix_regattr_t::initial();
        to.r#type = r#type;
        fill(&mut to.string, key.unwrap_or_default());
        to.name = name.and_then(|n| crate::memory::string(n).ok()).unwrap_or(ptr::null_mut());
        let lines: Vec<_> = description.into_iter().collect();
        to.description = argv(&lines).unwrap_or(ptr::null_mut());
    }

    fn PMIx_Regattr_xfer(dest: *mut pmix_regattr_t, src: *const pmix_regattr_t) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let (Some(to), Some(from)) = unsafe { (dest.as_mut(), src.as_ref()) } {
            // SAFETY: the header requires `src` to be a valid structure; it is not NULL.
            *to = unsafe { from.duplicate() }.unwrap_or_else(|_| pmix_regattr_t::initial());
        }
    }
}

/// Returns copies of the elements of an array, to be freed like an array of the create function.
///
/// # Safety
/// The conditions of [`duplicate_list`].
pub(crate) unsafe fn copies<T: Record>(at: *const T, count: usize) -> (*mut T, usize) {
    // SAFETY: the caller guarantees the conditions of `duplicate_list`.
    unsafe { duplicate_list(at, count) }.unwrap_or((ptr::null_mut(), 0))
}

/// Frees a structure that was allocated alone, and all that it owns.
///
/// # Safety
/// `at` is NULL, or points to a valid structure that came from the C library.
pub(crate) unsafe fn free_one<T: Record>(at: *mut T) {
    // SAFETY: the caller guarantees that `at` is NULL or valid.
    if let Some(one) = unsafe { at.as_mut() } {
        // SAFETY: the caller guarantees that the structure and all that it owns came from the C library.
        unsafe {
            one.empty();
            release(at);
        }
    }
}
