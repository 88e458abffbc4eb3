// SPDX-License-Identifier: MIT OR Apache-2.0
//! Families of functions that construct, create, destruct and free C structures.

use std::ffi::c_char;
use std::ptr;

use pmix_types::DataType;

use crate::abi::*;
use crate::args::{Held, In, Maybe, Mut, Out, Owned, OwnedOne, Str};
use crate::datum::new_array;
use crate::guard::exported;
use crate::memory::{CString, Result, argv, boxed, fill, zeroed};
use crate::owned::CArray;
use crate::record::{Record, fresh};

macro_rules! families {
    ($($type:ident: $construct:ident $create:ident $destruct:ident $free:ident;)*) => {
        exported! {
            $(
                fn $construct(p: Out<$type>) {
                    p.write($type::initial());
                    Ok(())
                }

                fn $create(n: usize) -> *mut $type {
                    fresh::<$type>(n)
                }

                fn $destruct(p: Held<$type>) {
                    p.replace($type::initial());
                    Ok(())
                }

                fn $free((p, n): Owned<$type>) {
                    drop(p);
                    Ok(())
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
    fn PMIx_Coord_construct(m: Out<pmix_coord_t>) {
        m.write(pmix_coord_t::initial());
        Ok(())
    }

    fn PMIx_Coord_create(dims: usize, number: usize) -> *mut pmix_coord_t {
        let made = CArray::<pmix_coord_t>::fresh(number)?;
        for mut coord in made.held().iter() {
            let members = coord.members();
            coord.set(pmix_coord_t { coord: zeroed(dims)?, dims, ..members });
        }
        Ok(made.into_raw().0)
    }

    fn PMIx_Coord_destruct(m: Held<pmix_coord_t>) {
        m.replace(pmix_coord_t::initial());
        Ok(())
    }

    fn PMIx_Coord_free((m, number): Owned<pmix_coord_t>) {
        drop(m);
        Ok(())
    }

    fn PMIx_App_release(p: OwnedOne<pmix_app_t>) {
        drop(p);
        Ok(())
    }

    fn PMIx_App_info_create(p: Held<pmix_app_t>, n: usize) {
        let members = p.members();
        p.set(pmix_app_t { info: fresh(n)?, ninfo: n, ..members });
        Ok(())
    }

    fn PMIx_Query_release(p: OwnedOne<pmix_query_t>) {
        drop(p);
        Ok(())
    }

    fn PMIx_Query_qualifiers_create(p: Held<pmix_query_t>, n: usize) {
        let members = p.members();
        p.set(pmix_query_t { qualifiers: fresh(n)?, nqual: n, ..members });
        Ok(())
    }

    fn PMIx_Fabric_construct(p: Out<pmix_fabric_t>) {
        p.write(pmix_fabric_t::initial());
        Ok(())
    }

    fn PMIx_Data_buffer_construct(b: Out<pmix_data_buffer_t>) {
        b.write(pmix_data_buffer_t::initial());
        Ok(())
    }

    fn PMIx_Data_buffer_create() -> *mut pmix_data_buffer_t {
        boxed(pmix_data_buffer_t::initial())
    }

    fn PMIx_Data_buffer_destruct(b: Held<pmix_data_buffer_t>) {
        b.replace(pmix_data_buffer_t::initial());
        Ok(())
    }

    fn PMIx_Data_buffer_release(b: OwnedOne<pmix_data_buffer_t>) {
        drop(b);
        Ok(())
    }

    fn PMIx_Data_array_init(p: Out<pmix_data_array_t>, r#type: pmix_data_type_t) {
        p.write(pmix_data_array_t { r#type, ..pmix_data_array_t::initial() });
        Ok(())
    }

    fn PMIx_Data_array_construct(p: Out<pmix_data_array_t>, num: usize, r#type: DataType) {
        let made = new_array(r#type, num);
        p.write(made.unwrap_or_else(|_| pmix_data_array_t::initial()));
        Ok(())
    }

    fn PMIx_Data_array_create(n: usize, r#type: DataType) -> *mut pmix_data_array_t {
        new_array(r#type, n).and_then(boxed)
    }

    fn PMIx_Data_array_destruct(d: Held<pmix_data_array_t>) {
        d.replace(pmix_data_array_t::initial());
        Ok(())
    }

    fn PMIx_Data_array_free(p: OwnedOne<pmix_data_array_t>) {
        drop(p);
        Ok(())
    }

    // The object takes the bytes without a copy.
    fn PMIx_Byte_object_load(b: Out<pmix_byte_object_t>, d: *mut c_char, sz: usize) {
        b.write(pmix_byte_object_t { bytes: d, size: sz });
        Ok(())
    }

    fn PMIx_Envar_load(e: Out<pmix_envar_t>, var: Maybe<Str<Mut>>, value: Maybe<Str<Mut>>, separator: c_char) {
        let copies = (copy_of(var), copy_of(value));
        let (Ok(envar), Ok(value)) = copies else {
            e.write(pmix_envar_t::initial());
            return Ok(());
        };
        e.write(pmix_envar_t { envar: envar.into_raw(), value: value.into_raw(), separator });
        Ok(())
    }

    fn PMIx_Regattr_load(info: Out<pmix_regattr_t>, name: Maybe<Str>, key: Maybe<Str>, r#type: pmix_data_type_t, description: Maybe<Str>) {
        let mut loaded = pmix_regattr_t { r#type, ..pmix_regattr_t::initial() };
        fill(&mut loaded.string, key.unwrap_or_default());
        loaded.name = copy_of(name).map_or(ptr::null_mut(), CString::into_raw);
        loaded.description = argv(description.as_slice()).unwrap_or(ptr::null_mut());
        info.write(loaded);
        Ok(())
    }

    fn PMIx_Regattr_xfer(dest: Out<pmix_regattr_t>, src: In<pmix_regattr_t>) {
        dest.write(src.duplicate().unwrap_or_else(|_| pmix_regattr_t::initial()));
        Ok(())
    }
}

/// Copies a string; NULL for `None`.
fn copy_of(text: Option<&[u8]>) -> Result<CString> {
    text.map_or_else(|| CString::of(None), CString::copy_of)
}
