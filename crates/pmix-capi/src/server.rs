// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers: the functions that a C host calls (`PMIx_server_...`).

mod attributes;
mod files;
mod host;
mod modexes;
mod pending;
mod upcalls;

use std::ffi::c_void;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use pmix_server::{Credentials, HostObject, ModexForm, Server};
use pmix_types::{Info, InfoFlags, IofChannel, Status, keys};

use crate::abi::*;
use crate::args::{self, Held, Infos, Job, Maybe, Mut, Procs, Required};
use crate::argv::StringsPlace;
use crate::binding::Binding;
use crate::callback::Callback;
use crate::convert::check_required;
use crate::events::succeed_later;
use crate::guard::exported;
use crate::later::{end, later};
use crate::log;
use crate::memory::Result;
use crate::packed::append;
use crate::requester::{set_host, with_host};
use crate::state::{changed, server, server_of_parent, show_to_children, state};

pub(crate) use host::{CHost, module_at, module_size, take_module_size};
pub(crate) use pending::ReplyTo;

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
    set_host(Some(host));
    Ok(())
}

/// Decrements the init count; the last call ends the server.
pub(crate) fn finalize() -> Result<()> {
    let (last, attached, host) = {
        let mut state = state();
        match &mut state.server {
            None => return Err(Status::ERR_INIT),
            Some((_, count)) if *count > 1 => {
                *count -= 1;
                return Ok(());
            }
            Some(_) => {
                state.topology = None;
                let host = set_host(None);
                let attached = state.tool.take_if(|own| own.is_of_server);
                (state.server.take(), attached, host)
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
    if let Some(host) = host {
        host.files().end();
    }
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
fn complete(
    done: std::result::Result<(), pmix_server::Error>,
    callback: Callback<pmix_op_cbfunc_t>,
) -> Result<Status> {
    done.map_err(|error| refused(&error))?;
    match callback.is_null() {
        true => Ok(Status::OPERATION_SUCCEEDED),
        false => succeed_later(callback).map(|()| Status::SUCCESS),
    }
}

exported! {
    fn PMIx_server_init(module: *mut pmix_server_module_t, (info, ninfo): Infos<Mut>) -> pmix_status_t {
        let size = take_module_size(&mut info)?;
        // SAFETY: the module has the size that the host passed, or else at least the members of every release.
        let module = unsafe { module_at(module, size) };
        init(module.as_ref(), &info)
    }

    fn PMIx_server_finalize() -> pmix_status_t {
        finalize()
    }

    fn PMIx_server_register_nspace(server = server()?; nspace: Job, nlocalprocs: i32, (info, ninfo): Infos<Mut>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        // A host may pass a negative number for a job without local processes.
        let local = u32::try_from(nlocalprocs).unwrap_or(0);
        complete(server.register_nspace(&nspace, local, &info), cbfunc)
    }

    // The function returns no status, so a callback that cannot be scheduled is dropped.
    fn PMIx_server_deregister_nspace(nspace: args::Nspace, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) {
        if let Ok(server) = server() {
            // An unknown namespace needs no deregistration.
            let _ = server.deregister_nspace(&nspace);
            with_host(|host| host.files().job_ended(&nspace));
        }
        succeed_later(cbfunc)
    }

    fn PMIx_server_register_client(server = server()?; proc: args::Proc, uid: u32, gid: u32, server_object: *mut c_void, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        let object = HostObject(server_object as u64);
        complete(server.register_client(&proc, Credentials::new(uid, gid), object), cbfunc)
    }

    // The function returns no status, so a callback that cannot be scheduled is dropped.
    fn PMIx_server_deregister_client(proc: Maybe<args::Proc>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) {
        if let (Ok(server), Some(proc)) = (server(), proc) {
            // An unknown client needs no deregistration.
            let _ = server.deregister_client(&proc);
            with_host(|host| host.files().proc_ended(&proc));
        }
        succeed_later(cbfunc)
    }

    fn PMIx_server_setup_fork(proc: args::Proc, env: StringsPlace) -> pmix_status_t {
        let vars = match server_of_parent() {
            Some(server) => server.environment_after_fork(&proc),
            None => server()?.setup_fork(&proc).map_err(|error| refused(&error))?,
        };
        vars.iter().try_for_each(|(name, value)| env.set(name.as_bytes(), value.as_bytes(), true))
    }

    fn PMIx_server_dmodex_request(server = server()?; proc: args::Proc, (cbfunc, cbdata): Required<pmix_dmodex_response_fn_t>) -> pmix_status_t {
        let number = modexes::add(cbfunc);
        let then = move |found| modexes::complete(number, found);
        server.dmodex_request(&proc, &[], then).map_err(|error| {
            modexes::forget(number);
            refused(&error)
        })
    }

    fn PMIx_server_setup_application(server = server()?; nspace: Job, (info, ninfo): Infos<Mut>, (cbfunc, cbdata): Required<pmix_setup_application_cbfunc_t>) -> pmix_status_t {
        let made = server.setup_application(&nspace, &info).map_err(|error| refused(&error))?;
        later(move || cbfunc.complete(made))
    }

    fn PMIx_server_setup_local_support(server = server()?; nspace: Job, (info, ninfo): Infos<Mut>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        complete(server.setup_local_support(&nspace, &info), cbfunc)
    }

    fn PMIx_server_IOF_deliver(server = server()?; source: args::Proc, channel: IofChannel, bo: args::ByteObject, (info, ninfo): Infos, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        crate::pulls::deliver_here(&source, channel, &bo, &info)?;
        complete(server.iof_deliver(&source, channel, bo.into_owned(), &info), cbfunc)
    }

    fn PMIx_server_define_process_set(server = server()?; (members, nmembers): Procs, pset_name: args::Text) -> pmix_status_t {
        server.define_process_set(&pset_name, &members).map_err(|error| refused(&error))
    }

    fn PMIx_server_delete_process_set(server = server()?; pset_name: args::Text<Mut>) -> pmix_status_t {
        server.delete_process_set(&pset_name).map_err(|error| refused(&error))
    }

    fn PMIx_Register_attributes(_server = server()?; function: args::Text<Mut>, attrs: args::Strings) -> pmix_status_t {
        attributes::register(&function, &attrs)
    }

    fn PMIx_server_register_resources(server = server()?; (info, ninfo): Infos<Mut>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        complete(server.register_resources(&info), cbfunc)
    }

    fn PMIx_server_deregister_resources(server = server()?; (info, ninfo): Infos<Mut>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        complete(server.deregister_resources(&info), cbfunc)
    }

    fn PMIx_server_register_session(server = server()?; sessionID: u32, (info, ninfo): Infos<Mut>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        server.register_session(sessionID, &info).map_err(|error| refused(&error))?;
        // Other functions of the server return PMIX_OPERATION_SUCCEEDED without a callback. The header of 7.0 defines
        // the status of this one as that of a blocking call.
        succeed_later(cbfunc).map(|()| Status::SUCCESS)
    }

    // The function returns no status, so a callback that cannot be scheduled is dropped.
    fn PMIx_server_deregister_session(sessionID: u32, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) {
        if let Ok(server) = server() {
            // An unknown session needs no deregistration.
            let _ = server.deregister_session(sessionID);
        }
        succeed_later(cbfunc)
    }

    fn PMIx_server_collect_inventory(server = server()?; (directives, ndirs): Infos<Mut>, (cbfunc, cbdata): Required<pmix_info_cbfunc_t>) -> pmix_status_t {
        // Reading the topology of the node takes time, for which the caller must not be blocked.
        later(move || {
            let collected = server.collect_inventory(&directives).map_err(|error| refused(&error));
            cbfunc.complete(collected.map(|infos| (Status::SUCCESS, infos)));
        })
    }

    fn PMIx_server_deliver_inventory(server = server()?; (info, ninfo): Infos<Mut>, (directives, ndirs): Infos<Mut>, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        check_required("PMIx_server_deliver_inventory", &directives)?;
        complete(server.deliver_inventory(&info), cbfunc)
    }

    fn PMIx_server_collect_job_info(server = server()?; (procs, nprocs): Procs<Mut>, dbuf: Held<pmix_data_buffer_t>) -> pmix_status_t {
        let packed = server.collect_job_info(&procs).map_err(|error| refused(&error))?;
        append(&mut dbuf, &packed)
    }

    fn PMIx_server_IOF_flow_control(server = server()?; source: Maybe<args::Proc>, channel: IofChannel, xoff: bool, (directives, ndirs): Infos, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        check_required("PMIx_server_IOF_flow_control", &directives)?;
        complete(server.iof_flow_control(source.as_ref(), channel, xoff), cbfunc)
    }
}
