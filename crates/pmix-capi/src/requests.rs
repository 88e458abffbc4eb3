// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clients ask for, each waiting or with a callback: publications, jobs that meet, queries,
//! control.

use std::ffi::{c_char, c_void};

use pmix_client::{Answers, Ask};
use pmix_types::{AllocDirective, Key, Status};

use crate::abi::*;
use crate::answers::{credential, found, infos, op, spawned, validated};
use crate::convert::{
    apps_at, clear_out, fault, hand_out, infos_at, keys_at, procs_at, queries_at, text_at,
};
use crate::guard::exported;
use crate::memory::{self, Result, fill, slice};
use crate::model::Model;
use crate::record::there;
use crate::state::client;
use crate::status::{code, write_to};
use crate::values::info_at;

/// Waits for what is answered with a status alone.
fn wait(ask: Result<Ask<'static>>) -> Result<()> {
    // A process that is nothing yet hears so before anything else.
    let client = client()?;
    client.wait(ask?).map_err(|error| fault(&error))
}

/// Has what is answered with a status alone called back.
fn start(ask: Result<Ask<'static>>, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> Result<()> {
    let client = client()?;
    client
        .start(ask?, op(cbfunc, cbdata)?)
        .map_err(|error| fault(&error))
}

/// Waits for infos and hands them out.
///
/// # Safety
/// The pointers are NULL or lead to room for one each.
unsafe fn wait_infos(
    ask: Result<Ask<'static, Answers>>,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> Result<()> {
    // SAFETY: the caller says so.
    unsafe { clear_out(results, nresults) };
    let client = client()?;
    let (status, made) = client.wait(ask?).map_err(|error| fault(&error))?;
    let some = matches!(
        status,
        Status::SUCCESS
            | Status::OPERATION_SUCCEEDED
            | Status::ERR_PARTIAL_SUCCESS
            | Status::QUERY_PARTIAL_SUCCESS
    );
    if some {
        // SAFETY: the caller says so.
        unsafe { hand_out(&made, results, nresults)? };
    }
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
        other => Err(other),
    }
}

fn start_infos(
    ask: Result<Ask<'static, Answers>>,
    cbfunc: pmix_info_cbfunc_t,
    cbdata: *mut c_void,
) -> Result<()> {
    let client = client()?;
    client
        .start(ask?, infos(cbfunc, cbdata)?)
        .map_err(|error| fault(&error))
}

/// Pairs of functions: one waits, one calls back; both ask the same.
macro_rules! done {
    ($($wait:ident $start:ident ($($arg:ident: $type:ty),*) $ask:block)*) => {
        exported! {
            $(
                fn $wait($($arg: $type),*) -> pmix_status_t {
                    // SAFETY: C says so.
                    code(wait(unsafe { $ask }))
                }

                fn $start($($arg: $type,)* cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
                    // SAFETY: C says so.
                    code(start(unsafe { $ask }, cbfunc, cbdata))
                }
            )*
        }
    };
}

macro_rules! answered {
    ($($wait:ident $start:ident ($($arg:ident: $type:ty),*) $ask:block)*) => {
        exported! {
            $(
                fn $wait($($arg: $type,)* results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
                    // SAFETY: C says so.
                    code(unsafe { wait_infos($ask, results, nresults) })
                }

                fn $start($($arg: $type,)* cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
                    // SAFETY: C says so.
                    code(start_infos(unsafe { $ask }, cbfunc, cbdata))
                }
            )*
        }
    };
}

/// # Safety
/// They are NULL or so many valid ones.
unsafe fn published(info: *const pmix_info_t, ninfo: usize) -> Result<Ask<'static>> {
    // SAFETY: the caller says so.
    let infos = unsafe { infos_at(info, ninfo)? };
    // Without data there is nothing to publish.
    if infos.is_empty() {
        return Err(Status::ERR_BAD_PARAM);
    }
    Ok(Ask::publish(infos))
}

done! {
    PMIx_Publish PMIx_Publish_nb (info: *const pmix_info_t, ninfo: usize) {
        published(info, ninfo)
    }
    PMIx_Unpublish PMIx_Unpublish_nb (keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize) {
        infos_at(info, ninfo).map(|infos| Ask::unpublish(keys_at(keys), infos))
    }
    PMIx_Connect PMIx_Connect_nb (procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        members(procs, nprocs).and_then(|procs| Ok(Ask::connect(procs, infos_at(info, ninfo)?)))
    }
    PMIx_Disconnect PMIx_Disconnect_nb (procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        members(procs, nprocs).and_then(|procs| Ok(Ask::disconnect(procs, infos_at(info, ninfo)?)))
    }
    PMIx_Log PMIx_Log_nb (data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize) {
        infos_at(data, ndata).and_then(|data| match data.is_empty() {
            true => Err(Status::ERR_BAD_PARAM),
            false => Ok(Ask::log(data, infos_at(directives, ndirs)?)),
        })
    }
    PMIx_Group_leave PMIx_Group_leave_nb (grp: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        text_at(grp).and_then(|grp| Ok(Ask::group_leave(grp, infos_at(info, ninfo)?)))
    }
    PMIx_Group_destruct PMIx_Group_destruct_nb (grp: *const c_char, info: *const pmix_info_t, ninfo: usize) {
        text_at(grp).and_then(|grp| Ok(Ask::group_destruct(grp, Vec::new(), infos_at(info, ninfo)?)))
    }
}

/// # Safety
/// They are NULL or so many valid ones.
unsafe fn members(
    procs: *const pmix_proc_t,
    nprocs: usize,
) -> Result<Vec<pmix_types::Proc<'static>>> {
    // SAFETY: the caller says so.
    let procs = unsafe { procs_at(procs, nprocs)? };
    // Nobody to connect with is a mistake.
    if procs.is_empty() {
        Err(Status::ERR_BAD_PARAM)
    } else {
        Ok(procs)
    }
}

answered! {
    PMIx_Query_info PMIx_Query_info_nb (queries: *mut pmix_query_t, nqueries: usize) {
        queries_at(queries, nqueries).and_then(|queries| match queries.is_empty() {
            true => Err(Status::ERR_BAD_PARAM),
            false => Ok(Ask::query(queries)),
        })
    }
    PMIx_Allocation_request PMIx_Allocation_request_nb (directive: pmix_alloc_directive_t, info: *mut pmix_info_t, ninfo: usize) {
        infos_at(info, ninfo).map(|infos| Ask::allocate(AllocDirective::from_raw(directive), infos))
    }
    PMIx_Job_control PMIx_Job_control_nb (targets: *const pmix_proc_t, ntargets: usize, directives: *const pmix_info_t, ndirs: usize) {
        procs_at(targets, ntargets).and_then(|targets| Ok(Ask::job_control(targets, infos_at(directives, ndirs)?)))
    }
    PMIx_Process_monitor PMIx_Process_monitor_nb (monitor: *const pmix_info_t, error: pmix_status_t, directives: *const pmix_info_t, ndirs: usize) {
        info_at(monitor).and_then(|monitor| {
            Ok(Ask::monitor(monitor, Status::from_raw(error), infos_at(directives, ndirs)?))
        })
    }
    PMIx_Group_construct PMIx_Group_construct_nb (grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, directives: *const pmix_info_t, ndirs: usize) {
        text_at(grp).and_then(|grp| Ok(Ask::group_construct(grp, procs_at(procs, nprocs)?, infos_at(directives, ndirs)?)))
    }
}

exported! {
    fn PMIx_Lookup(data: *mut pmix_pdata_t, ndata: usize, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            let client = client()?;
            if data.is_null() || ndata == 0 {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: C says so.
            let (wanted, infos) = unsafe { (slice(data, ndata)?, infos_at(info, ninfo)?) };
            let keys = wanted.iter().map(|one| Key::from(memory::filled(&one.key).to_vec())).collect();
            let found = client.wait(Ask::lookup(keys, infos)).map_err(|error| fault(&error))?;
            for place in 0..ndata {
                // SAFETY: C says that there are so many.
                let one = unsafe { &mut *data.add(place) };
                let key = memory::filled(&one.key);
                if let Some(known) = found.iter().find(|known| known.key.as_bytes() == key) {
                    one.proc = known.proc.to_c()?;
                    one.value = known.value.to_c()?;
                }
            }
            match found.is_empty() {
                true => Err(Status::ERR_NOT_FOUND),
                false => Ok(()),
            }
        })())
    }

    fn PMIx_Lookup_nb(keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_lookup_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let (keys, infos) = unsafe { (keys_at(keys), infos_at(info, ninfo)?) };
            if keys.is_empty() {
                return Err(Status::ERR_BAD_PARAM);
            }
            client.start(Ask::lookup(keys, infos), found(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Spawn(job_info: *const pmix_info_t, ninfo: usize, apps: *const pmix_app_t, napps: usize, nspace: *mut c_char) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { spawn(job_info, ninfo, apps, napps)? };
            let name = client.wait(ask).map_err(|error| fault(&error))?;
            // SAFETY: C has room for a name, or does not want it.
            if let Some(to) = unsafe { nspace.cast::<pmix_nspace_t>().as_mut() } {
                fill(to, name.as_bytes());
            }
            Ok(())
        })())
    }

    fn PMIx_Spawn_nb(job_info: *const pmix_info_t, ninfo: usize, apps: *const pmix_app_t, napps: usize, cbfunc: pmix_spawn_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { spawn(job_info, ninfo, apps, napps)? };
            client.start(ask, spawned(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Get_credential(info: *const pmix_info_t, ninfo: usize, credential: *mut pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = Ask::credential(unsafe { infos_at(info, ninfo)? });
            if credential.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let (bytes, _) = client.wait(ask).map_err(|error| fault(&error))?;
            let size = bytes.len();
            // SAFETY: as above.
            unsafe { write_to(credential, pmix_byte_object_t { bytes: memory::bytes(&bytes)?, size }) }
        })())
    }

    fn PMIx_Get_credential_nb(info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_credential_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = Ask::credential(unsafe { infos_at(info, ninfo)? });
            client.start(ask, credential(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Validate_credential(cred: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
        // SAFETY: C says so.
        code(unsafe { wait_infos(validate(cred, info, ninfo), results, nresults) })
    }

    fn PMIx_Validate_credential_nb(cred: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_validation_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { validate(cred, info, ninfo)? };
            client.start(ask, validated(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }
}

/// # Safety
/// The pointers are NULL or lead to so many valid ones.
unsafe fn spawn(
    info: *const pmix_info_t,
    ninfo: usize,
    apps: *const pmix_app_t,
    napps: usize,
) -> Result<Ask<'static, pmix_types::Nspace<'static>>> {
    // SAFETY: the caller says so.
    let (infos, apps) = unsafe { (infos_at(info, ninfo)?, apps_at(apps, napps)?) };
    match apps.is_empty() {
        true => Err(Status::ERR_BAD_PARAM),
        false => Ok(Ask::spawn(infos, apps)),
    }
}

/// # Safety
/// The pointers are NULL or lead to so many valid ones.
unsafe fn validate(
    cred: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Ask<'static, Answers>> {
    // SAFETY: the caller says so.
    let (cred, infos) = unsafe { (there(cred)?, infos_at(info, ninfo)?) };
    // SAFETY: as above.
    let bytes = unsafe { slice(cred.bytes.cast::<u8>(), cred.size)? };
    Ok(Ask::validate(bytes.to_vec(), infos))
}
