// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions for node-wide resources, inventories and the flow control of input.

use std::ffi::c_void;

use pmix_client::Error;
use pmix_types::{ErrorDetail, IofChannel, Status};

use super::{answer, refused};
use crate::abi::*;
use crate::answers::infos;
use crate::convert::{check_required, infos_at, procs_at};
use crate::guard::exported;
use crate::later::later;
use crate::names::proc_at;
use crate::packed::append;
use crate::record::there_mut;
use crate::state::server;
use crate::status::{code, outcome};

exported! {
    fn PMIx_server_register_resources(info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let infos = unsafe { infos_at(info, ninfo)? };
            let made = server.register_resources(&infos);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_deregister_resources(info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let infos = unsafe { infos_at(info, ninfo)? };
            let made = server.deregister_resources(&infos);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_collect_inventory(directives: *mut pmix_info_t, ndirs: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let server = server()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let directives = unsafe { infos_at(directives, ndirs)? };
            cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
            let then = infos(cbfunc, cbdata)?;
            // Reading the topology of the node takes time, for which the caller must not be blocked.
            later(move || {
                let made = server.collect_inventory(&directives);
                then(made.map(|infos| (Status::SUCCESS, infos)).map_err(|error| {
                    Error::from(ErrorDetail::new(refused(&error), "cannot collect the inventory"))
                }));
            })
        })())
    }

    fn PMIx_server_deliver_inventory(info: *mut pmix_info_t, ninfo: usize, directives: *mut pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let (infos, directives) = unsafe { (infos_at(info, ninfo)?, infos_at(directives, ndirs)?) };
            check_required("PMIx_server_deliver_inventory", &directives)?;
            let made = server.deliver_inventory(&infos);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_collect_job_info(procs: *mut pmix_proc_t, nprocs: usize, dbuf: *mut pmix_data_buffer_t) -> pmix_status_t {
        code((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (procs, buffer) = unsafe { (procs_at(procs, nprocs)?, there_mut(dbuf)?) };
            let packed = server.collect_job_info(&procs).map_err(|error| refused(&error))?;
            // SAFETY: the header requires a constructed buffer, whose memory came from the C library.
            unsafe { append(buffer, &packed) }
        })())
    }

    fn PMIx_server_IOF_flow_control(source: *const pmix_proc_t, channel: pmix_iof_channel_t, xoff: bool, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (source, directives) = unsafe { (proc_at(source), infos_at(directives, ndirs)?) };
            check_required("PMIx_server_IOF_flow_control", &directives)?;
            let channels = IofChannel::from_raw(channel);
            let made = server.iof_flow_control(source.as_ref(), channels, xoff);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }
}
