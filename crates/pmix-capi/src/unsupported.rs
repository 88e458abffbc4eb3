// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that are there and that this library cannot serve yet.

use std::ffi::c_void;

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
    PMIx_server_IOF_flow_control(source: *const pmix_proc_t, channel: pmix_iof_channel_t, xoff: bool, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_collect_inventory(directives: *mut pmix_info_t, ndirs: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_collect_job_info(procs: *mut pmix_proc_t, nprocs: usize, dbuf: *mut pmix_data_buffer_t);
    PMIx_server_deliver_inventory(info: *mut pmix_info_t, ninfo: usize, directives: *mut pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_deregister_resources(info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
    PMIx_server_register_resources(info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void);
}
