// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monitoring of processes, and heartbeats (`PMIx_Process_monitor`).

use std::ffi::c_void;

use pmix_client::{Answers, Ask};
use pmix_types::{Info, Proc, Status, keys};

use crate::abi::*;
use crate::answers::infos;
use crate::convert::{clear_out, fault, infos_at};
use crate::guard::exported;
use crate::later::later;
use crate::memory::Result;
use crate::requests::{hand_out_infos, wait_infos};
use crate::server::{CHost, own_host};
use crate::state::client;
use crate::status::code;
use crate::values::info_at;

/// The arguments of a monitoring request.
struct MonitorCall {
    monitor: Info<'static>,
    error: Status,
    directives: Vec<Info<'static>>,
}

impl MonitorCall {
    /// Reads the arguments.
    ///
    /// # Safety
    /// `monitor` is NULL or valid, and `directives` is NULL or points to `ndirs` valid infos.
    unsafe fn of(
        monitor: *const pmix_info_t,
        error: pmix_status_t,
        directives: *const pmix_info_t,
        ndirs: usize,
    ) -> Result<Self> {
        crate::state::proc()?;
        // SAFETY: the caller guarantees that `monitor` and the `ndirs` infos are NULL or valid.
        let (monitor, directives) = unsafe { (info_at(monitor)?, infos_at(directives, ndirs)?) };
        Ok(Self {
            monitor,
            error: Status::from_raw(error),
            directives,
        })
    }

    /// Sends a heartbeat if `monitor` requests one and no directive is required. Returns `true` if it was sent. A
    /// heartbeat is a message type of its own, because OpenPMIx servers accept it only in that form.
    fn beat(&self) -> Result<bool> {
        let is_plain = !self.directives.iter().any(Info::must_be_obeyed);
        if !is_plain || !self.monitor.key.is(keys::SEND_HEARTBEAT) {
            return Ok(false);
        }
        let sent = client()?.heartbeat();
        sent.map(|()| true).map_err(|error| fault(&error))
    }

    fn of_client(self) -> Ask<'static, Answers> {
        Ask::monitor(self.monitor, self.error, self.directives)
    }
}

exported! {
    fn PMIx_Process_monitor(monitor: *const pmix_info_t, error: pmix_status_t, directives: *const pmix_info_t, ndirs: usize, results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements as
        // its count says.
        code(unsafe { (|| {
            clear_out(results, nresults);
            let call = MonitorCall::of(monitor, error, directives, ndirs)?;
            if let Some(own) = own_host() {
                let answer = own.wait(|host, own, to| {
                    host.monitor(own, &call.monitor, call.error, &call.directives, to);
                    Ok(())
                })?;
                return hand_out_infos(answer, results, nresults);
            }
            match call.beat()? {
                true => Ok(()),
                false => wait_infos(Ok(call.of_client()), results, nresults),
            }
        })() })
    }

    fn PMIx_Process_monitor_nb(monitor: *const pmix_info_t, error: pmix_status_t, directives: *const pmix_info_t, ndirs: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let call = unsafe { MonitorCall::of(monitor, error, directives, ndirs)? };
            let then = infos(cbfunc, cbdata)?;
            if let Some(own) = own_host() {
                let ask = |host: &CHost, own: &Proc<'static>, to| {
                    host.monitor(own, &call.monitor, call.error, &call.directives, to);
                    Ok(())
                };
                return own.start(ask, then);
            }
            match call.beat()? {
                true => later(move || then(Ok((Status::SUCCESS, Vec::new())))),
                false => client()?.start(call.of_client(), then).map_err(|error| fault(&error)),
            }
        })())
    }
}
