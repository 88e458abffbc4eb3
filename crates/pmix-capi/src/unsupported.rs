// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that are there and that this library cannot serve yet.

use std::ffi::{c_char, c_void};

use pmix_types::Status;

use crate::abi::*;
use crate::guard::exported;

macro_rules! not_supported {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        exported! {
            $(fn $name($($arg: $type),*) -> pmix_status_t {
                let _ = ($($arg,)*);
                Status::ERR_NOT_SUPPORTED.as_raw()
            })*
        }

        /// The functions that answer `PMIX_ERR_NOT_SUPPORTED` whatever they are given.
        pub const UNSUPPORTED: &[&str] = &[$(stringify!($name)),*];
    };
}

not_supported! {
    PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t);
    PMIx_Fabric_deregister_nb(fabric: *mut pmix_fabric_t, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize);
    PMIx_Fabric_register_nb(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_Fabric_update(fabric: *mut pmix_fabric_t);
    PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_Resource_block(directive: pmix_resource_block_directive_t, block: *mut c_char, res: *const pmix_resource_unit_t, nres: usize, info: *const pmix_info_t, ninfo: usize);
    PMIx_Resource_block_nb(directive: pmix_resource_block_directive_t, block: *mut c_char, res: *const pmix_resource_unit_t, nres: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_Session_control(session_id: u32, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_IOF_flow_control(source: *const pmix_proc_t, channel: pmix_iof_channel_t, xoff: bool, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_collect_inventory(directives: *mut pmix_info_t, ndirs: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_collect_job_info(procs: *mut pmix_proc_t, nprocs: usize, dbuf: *mut pmix_data_buffer_t);
    PMIx_server_deliver_inventory(info: *mut pmix_info_t, ninfo: usize, directives: *mut pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_deregister_resources(info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_register_resources(info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
}
