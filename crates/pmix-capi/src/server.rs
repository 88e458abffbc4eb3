// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers: the functions that a C host calls (`PMIx_server_...`).

mod attributes;
mod host;
mod inventory;
mod modexes;
mod own;
mod pending;
mod upcalls;

use std::ffi::{OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use pmix_server::{Credentials, HostObject, ModexForm, Server};
use pmix_types::{Info, InfoFlags, IofChannel, Nspace, Status, keys};

use crate::abi::*;
use crate::argv::set;
use crate::binding::Binding;
use crate::callback::Callback;
use crate::convert::{infos_at, procs_at, text_at};
use crate::events::answer_now;
use crate::guard::exported;
use crate::later::{end, later};
use crate::log;
use crate::memory::{self, Result, slice};
use crate::model::counted;
use crate::names::{nspace_at, proc_at};
use crate::record::{empty_list, there};
use crate::state::{changed, server, server_of_parent, show_to_children, state};
use crate::status::{code, outcome};

pub(crate) use host::{CHost, module_at, module_size, take_module_size};
#[allow(unused_imports)]
pub(crate) use inventory::*;
pub(crate) use own::{give, has_spawn, own_host};
pub(crate) use pending::To;

/// Attributes of init that this library ignores unless they are required.
const WITHOUT_PART: &[&str] = &[keys::EVENT_BASE, keys::EXTERNAL_PROGRESS, keys::TOPOLOGY2];

fn refused(error: &pmix_server::Error) -> Status {
    match error.status() {
        // `PMIX_ERR_SILENT` tells the host that the library has reported the error, so it must be logged at any
        // level.
        Status::ERR_SILENT => log::report_setting(error),
        _ => tracing::warn!("{error}"),
    }
    error.status()
}

/// Returns an error if a host requires the use of its topology, which is a structure of the host's hwloc library.
fn check_topology(infos: &[Info<'_>]) -> Result<()> {
    let is_refused = |info: &Info<'_>| info.key.is(keys::TOPOLOGY2) && info.must_be_obeyed();
    if !infos.iter().any(is_refused) {
        return Ok(());
    }
    tracing::warn!(
        "PMIx_server_init: PMIX_TOPOLOGY2 is marked as required, and this library reads no structures of hwloc; \
         describe the node by the file that HWLOC_XMLFILE names or by PMIX_HWLOC_XML_V2 of the jobs"
    );
    Err(Status::ERR_NOT_SUPPORTED)
}

/// Returns `true` if an attribute of init is passed on to the server. A required attribute always is, so that the
/// server can reject it.
fn is_obeyed(info: &Info<'_>) -> bool {
    let required = info.flags.contains(InfoFlags::REQD);
    required || !WITHOUT_PART.iter().any(|key| info.key.is(key))
}

/// Initializes this process as a server, or increments the init count.
pub(crate) fn init(module: Option<&pmix_server_module_t>, infos: &[Info<'_>]) -> Result<()> {
    log::begin();
    let binding = Binding::of("PMIx_server_init", infos)?;
    let mut state = state();
    if state.server.is_some() {
        binding.check_again()?;
    } else if !state.is_any() {
        // The threads of a client or tool have started with the binding of its init; the server binds only its own
        // thread.
        binding.set();
    }
    if let Some((_, count)) = &mut state.server {
        *count += 1;
        return Ok(());
    }
    check_topology(infos)?;
    let infos: Vec<_> = infos
        .iter()
        .filter(|info| is_obeyed(info))
        .cloned()
        .collect();
    let host = Arc::new(CHost::new(module));
    let builder = Server::builder()
        .rendezvous_required(false)
        // As in OpenPMIx: C hosts register clients before their namespaces, or register a namespace twice.
        .refuse_contradictions(false)
        // The host on another node may use OpenPMIx, so fence data must have its form.
        .config(|config| config.fence_form = ModexForm::Numbered)
        .shared_host(Arc::<CHost>::clone(&host));
    let builder = builder
        .attributes(&infos)
        .map_err(|error| refused(&error))?;
    let made = builder.build().map_err(|error| refused(&error))?;
    made.start().map_err(|error| refused(&error))?;
    show_to_children(Some(&made));
    state.server = Some((made, 1));
    own::set_host(Some(host));
    Ok(())
}

/// Decrements the init count; the last call ends the server.
pub(crate) fn finalize() -> Result<()> {
    let (last, attached) = {
        let mut state = state();
        match &mut state.server {
            None => return Err(Status::ERR_INIT),
            Some((_, count)) if *count > 1 => {
                *count -= 1;
                return Ok(());
            }
            Some(_) => {
                state.stored.clear();
                state.topology = None;
                own::set_host(None);
                let attached = state.tool.take_if(|own| own.is_of_server);
                (state.server.take(), attached)
            }
        }
    };
    if let Some(attached) = attached {
        changed();
        if let Err(error) = attached.tool.finalize() {
            tracing::warn!(
                "PMIx_server_finalize cannot disconnect from the server of this tool: {error}"
            );
        }
    }
    show_to_children(None);
    // The state is not locked here, because the host may call the library until its server has ended.
    let ended = last.map_or(Ok(()), |(server, _)| server.finalize());
    attributes::forget();
    // The host receives no more calls, so all that are still open can be completed.
    pending::end_all();
    modexes::end_all();
    // Runs the callbacks that the completions above have queued, before the thread ends.
    end();
    crate::events::forget_all();
    ended.map_err(|error| refused(&error))
}

/// Completes a request by its callback. Without one, it returns `PMIX_OPERATION_SUCCEEDED` as OpenPMIx does.
fn answer(done: Result<()>, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> Result<Status> {
    done?;
    match cbfunc {
        None => Ok(Status::OPERATION_SUCCEEDED),
        Some(_) => answer_now(cbfunc, cbdata).map(|()| Status::SUCCESS),
    }
}

/// Reads a namespace. NULL, an empty name and a name that is too long are errors.
///
/// # Safety
/// The conditions of [`nspace_at`].
unsafe fn job_at(at: *const c_char) -> Result<Nspace<'static>> {
    // SAFETY: the caller guarantees the conditions of `nspace_at`.
    let nspace = unsafe { nspace_at(at) };
    match nspace.is_invalid() || nspace.as_bytes().len() > Nspace::MAX_LEN {
        true => Err(Status::ERR_BAD_PARAM),
        false => Ok(nspace),
    }
}

exported! {
    fn PMIx_server_init(module: *mut pmix_server_module_t, info: *mut pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let mut infos = unsafe { infos_at(info, ninfo)? };
            let size = take_module_size(&mut infos)?;
            // SAFETY: the module has the size that the host passed, or else at least the members of every release.
            let module = unsafe { module_at(module, size) };
            init(module.as_ref(), &infos)
        })())
    }

    fn PMIx_server_finalize() -> pmix_status_t {
        code(finalize())
    }

    fn PMIx_server_register_nspace(nspace: *const c_char, nlocalprocs: i32, info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (nspace, infos) = unsafe { (job_at(nspace)?, infos_at(info, ninfo)?) };
            // A host may pass a negative number for a job without local processes.
            let local = u32::try_from(nlocalprocs).unwrap_or(0);
            let made = server.register_nspace(&nspace, local, &infos);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_deregister_nspace(nspace: *const c_char, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) {
        if let Ok(server) = server() {
            // SAFETY: the header requires `nspace` to be NULL or a string. An unknown namespace needs no
            // deregistration.
            let _ = server.deregister_nspace(&unsafe { nspace_at(nspace) });
        }
        // The function returns no status, so a callback that cannot be scheduled is dropped.
        let _ = answer_now(cbfunc, cbdata);
    }

    fn PMIx_server_register_client(proc: *const pmix_proc_t, uid: u32, gid: u32, server_object: *mut c_void, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let proc = unsafe { proc_at(proc) }.ok_or(Status::ERR_BAD_PARAM)?;
            let object = HostObject(server_object as u64);
            let made = server.register_client(&proc, Credentials::new(uid, gid), object);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_deregister_client(proc: *const pmix_proc_t, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        if let (Ok(server), Some(proc)) = (server(), unsafe { proc_at(proc) }) {
            // An unknown client needs no deregistration.
            let _ = server.deregister_client(&proc);
        }
        // The function returns no status, so a callback that cannot be scheduled is dropped.
        let _ = answer_now(cbfunc, cbdata);
    }

    fn PMIx_server_setup_fork(proc: *const pmix_proc_t, env: *mut *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let proc = unsafe { proc_at(proc) }.ok_or(Status::ERR_BAD_PARAM)?;
            let vars = match server_of_parent() {
                Some(server) => server.environment_after_fork(&proc),
                None => server()?.setup_fork(&proc).map_err(|error| refused(&error))?,
            };
            for (name, value) in vars {
                let (name, value): (&OsStr, &OsStr) = (&name, &value);
                // SAFETY: the header requires `env` to be NULL, or to point to NULL or an array of strings that ends
                // with NULL.
                unsafe { set(name.as_bytes(), value.as_bytes(), true, env)? };
            }
            Ok(())
        })())
    }

    fn PMIx_server_dmodex_request(proc: *const pmix_proc_t, cbfunc: pmix_dmodex_response_fn_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let proc = unsafe { proc_at(proc) }.ok_or(Status::ERR_BAD_PARAM)?;
            let number = modexes::added(cbfunc, cbdata)?;
            let then = move |found| modexes::answer(number, found);
            server.dmodex_request(&proc, &[], then).map_err(|error| {
                modexes::forget(number);
                refused(&error)
            })
        })())
    }

    fn PMIx_server_setup_application(nspace: *const c_char, info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_setup_application_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (nspace, infos) = unsafe { (job_at(nspace)?, infos_at(info, ninfo)?) };
            let callback = Callback::new(cbfunc.ok_or(Status::ERR_BAD_PARAM)?, cbdata);
            let made = server.setup_application(&nspace, &infos).map_err(|error| refused(&error))?;
            later(move || callback.call(move |callback, data| {
                let (status, (at, count)) = match counted(&made) {
                    Ok(listed) => (Status::SUCCESS, listed),
                    Err(fault) => (fault, (std::ptr::null_mut(), 0)),
                };
                let given = Box::into_raw(Box::new((at, count)));
                // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `read`
                // frees the infos.
                unsafe { callback(status.as_raw(), at, count, data, Some(read), given.cast()) };
            }))
        })())
    }

    fn PMIx_server_setup_local_support(nspace: *const c_char, info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (nspace, infos) = unsafe { (job_at(nspace)?, infos_at(info, ninfo)?) };
            let made = server.setup_local_support(&nspace, &infos);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_IOF_deliver(source: *const pmix_proc_t, channel: pmix_iof_channel_t, bo: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        outcome((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (source, infos) = unsafe { (proc_at(source).ok_or(Status::ERR_BAD_PARAM)?, infos_at(info, ninfo)?) };
            // SAFETY: the header requires `bo` to be NULL or a valid byte object, which has `size` bytes.
            let data = unsafe { there(bo).and_then(|bo| slice(bo.bytes.cast::<u8>(), bo.size)).and_then(memory::copied)? };
            let channel = IofChannel::from_raw(channel);
            crate::pulls::deliver_here(&source, channel, &data, &infos)?;
            let made = server.iof_deliver(&source, channel, data, &infos);
            answer(made.map_err(|error| refused(&error)), cbfunc, cbdata)
        })())
    }

    fn PMIx_server_define_process_set(members: *const pmix_proc_t, nmembers: usize, pset_name: *const c_char) -> pmix_status_t {
        code((|| {
            let server = server()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (members, name) = unsafe { (procs_at(members, nmembers)?, text_at(pset_name)?) };
            server.define_process_set(&name, &members).map_err(|error| refused(&error))
        })())
    }

    fn PMIx_server_delete_process_set(pset_name: *mut c_char) -> pmix_status_t {
        code((|| {
            let server = server()?;
            // SAFETY: the header requires `pset_name` to be NULL or a string.
            let name = unsafe { text_at(pset_name)? };
            server.delete_process_set(&name).map_err(|error| refused(&error))
        })())
    }

    fn PMIx_Register_attributes(function: *mut c_char, attrs: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            server()?;
            // SAFETY: the header requires `function` to be NULL or a string, and `attrs` NULL or an array of strings
            // that ends with NULL.
            let (function, names) = unsafe { (text_at(function)?, memory::read_texts(attrs)?) };
            attributes::register(&function, &names)
        })())
    }
}

/// Frees the infos of `PMIx_server_setup_application`. The host calls it as the release function of its callback.
unsafe extern "C" fn read(_status: pmix_status_t, given: *mut c_void) {
    let free = move || {
        if !given.is_null() {
            // SAFETY: `PMIx_server_setup_application` made `given` with `Box::into_raw`, and the header allows one
            // call.
            let (mut at, mut count) =
                *unsafe { Box::from_raw(given.cast::<(*mut pmix_info_t, usize)>()) };
            // SAFETY: `counted` made the array, and nothing else frees it.
            unsafe { empty_list(&mut at, &mut count) };
        }
    };
    crate::guard::guard("release", free);
}
