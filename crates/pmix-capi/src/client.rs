// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: init, put, commit, fence, finalize.

use std::ffi::c_int;
use std::time::Instant;

use pmix_client::driver::Driver;
use pmix_client::{Client, Settings};
use pmix_server::HostObject;
use pmix_server::upcall::Abort;
use pmix_types::{Info, Proc, Scope, Status, Value, keys};

use crate::abi::*;
use crate::args::{self, Callback, In, Infos, Maybe, Mut, Out, Procs};
use crate::binding::{Binding, thread_start};
use crate::convert::{check_required, fault};
use crate::events;
use crate::gets::is_set;
use crate::guard::exported;
use crate::later;
use crate::log;
use crate::memory::Result;
use crate::model::Model;
use crate::replies;
use crate::requester::Requester;
use crate::state::{client, name_of, own_server, state};
use crate::tool;

/// Initializes this process as a client, or increments the init count. With `PMIX_EXTERNAL_PROGRESS` the program
/// calls `PMIx_Progress`. Without a launcher the process becomes a singleton ([`Settings::singleton`]).
fn init(infos: &[Info<'_>]) -> Result<Proc<'static>> {
    log::begin();
    check_required("PMIx_Init", infos)?;
    let binding = Binding::of("PMIx_Init", infos)?;
    let mut state = state();
    if state.is_any() {
        binding.check_again()?;
    }
    if let Some((client, count)) = &mut state.client {
        *count += 1;
        return Ok(client.proc().clone());
    }
    if let Some(own) = state.initialized_tool() {
        own.count += 1;
        return Ok(name_of(&own.tool));
    }
    if let Some((server, count)) = &mut state.server {
        *count += 1;
        return Ok(server.proc().clone());
    }
    let mut settings = Settings::from_env_or_singleton().map_err(|error| match error.status() {
        // The environment names a job without a server.
        Status::ERR_NOT_AVAILABLE => Status::ERR_UNREACH,
        _ => fault(&error),
    })?;
    binding.set();
    settings.thread_start = thread_start();
    // The result of an event handler may abort the group, and the library reads its events itself.
    settings.asks_about_acceptances = true;
    let made = match is_set(infos, keys::EXTERNAL_PROGRESS) {
        true => Driver::init(settings).map(|driver| driver.client().clone()),
        false => Client::init(settings),
    };
    let made = made.map_err(|error| fault(&error))?;
    made.set_listener(events::client_event);
    let proc = made.proc().clone();
    state.client = Some((made, 1));
    Ok(proc)
}

/// Returns `true` if this process is a client that no launcher started.
fn is_singleton() -> bool {
    let state = state();
    { state.client.as_ref() }.is_some_and(|(client, _)| client.is_singleton())
}

/// Decrements the init count; the last call disconnects the client or tool.
fn finalize(infos: &[Info<'_>]) -> Result<()> {
    check_required("PMIx_Finalize", infos)?;
    if let Some(ended) = tool::finalize() {
        return ended;
    }
    let last = {
        let mut state = state();
        if let Some((_, count)) = &mut state.server {
            return match *count {
                // The last call must be PMIx_server_finalize.
                0 | 1 => Err(Status::ERR_INIT),
                _ => {
                    *count -= 1;
                    Ok(())
                }
            };
        }
        match &mut state.client {
            None => return Err(Status::ERR_INIT),
            Some((_, count)) if *count > 1 => {
                *count -= 1;
                return Ok(());
            }
            Some(_) => {
                state.topology = None;
                let ending = later::Ending::of_client();
                state.client.take().zip(Some(ending))
            }
        }
    };
    let Some(((client, _), ending)) = last else {
        return Err(Status::ERR_INIT);
    };
    if is_set(infos, keys::EMBED_BARRIER) {
        // A failed barrier does not keep this process from leaving: a member may have been lost.
        let _ = client.fence([client.job()], []).wait();
    }
    let left = client.finalize();
    later::end();
    drop(ending);
    events::forget_all();
    left.map_err(|error| fault(&error))
}

/// Returns the participants of a collective: the whole job of the caller if none is named.
fn participants(client: &Client, procs: Vec<Proc<'static>>) -> Vec<Proc<'static>> {
    match procs.is_empty() {
        true => vec![client.job()],
        false => procs,
    }
}

exported! {
    fn PMIx_Init(proc: Maybe<Out<pmix_proc_t>>, (info, ninfo): Infos<Mut>) -> pmix_status_t {
        let own = init(&info)?;
        if let Some(proc) = proc {
            proc.write(own.to_c()?);
        }
        // As in OpenPMIx, this status says that no launcher started the process. The process is initialized as a
        // singleton all the same, and Open MPI takes this status for success.
        match is_singleton() {
            true => Err(Status::ERR_UNREACH),
            false => Ok(()),
        }
    }

    fn PMIx_Initialized() -> c_int {
        Ok(c_int::from(state().is_any()))
    }

    fn PMIx_Finalize((info, ninfo): Infos) -> pmix_status_t {
        finalize(&info)
    }

    fn PMIx_tool_finalize() -> pmix_status_t {
        finalize(&[])
    }

    fn PMIx_Abort(status: Status, msg: Maybe<args::Text>, (procs, nprocs): Procs<Mut>) -> pmix_status_t {
        let requester = Requester::current()?;
        requester.wait(Abort::new(requester.proc(), HostObject::default(), status, msg, procs))
    }

    fn PMIx_Put(scope: Scope, key: args::Key, val: Maybe<In<pmix_value_t, Mut>>) -> pmix_status_t {
        let value = match scope {
            // A removal has no value.
            Scope::DEL_LOCAL | Scope::DEL_REMOTE | Scope::DEL_GLOBAL | Scope::DEL_INTERNAL => Value::Undef,
            _ => Value::from_c(val.ok_or(Status::ERR_BAD_PARAM)?)?,
        };
        let info = Info::new(key, value);
        match own_server() {
            Some(server) => server.put(scope, info.key, info.value).map_err(|error| error.status()),
            None => { client()?.put(scope, info.key, info.value) }.map_err(|error| fault(&error)),
        }
    }

    fn PMIx_Store_internal(proc: Maybe<args::Proc>, key: args::Key, val: args::Value<Mut>) -> pmix_status_t {
        let info = Info::new(key, val);
        if let Some(server) = own_server() {
            server.store(proc.as_ref().unwrap_or_else(|| server.proc()), info.key, info.value);
            return Ok(());
        }
        let client = client()?;
        let of = proc.unwrap_or_else(|| client.proc().clone());
        client.store(&of, info.key, info.value).map_err(|error| fault(&error))
    }

    fn PMIx_Commit() -> pmix_status_t {
        match own_server() {
            // A server's own process has no peers to send its data to: a put is visible at once.
            Some(_) => Ok(()),
            None => { client()?.commit() }.map_err(|error| fault(&error)),
        }
    }

    fn PMIx_Fence(client = client()?; (procs, nprocs): Procs, (info, ninfo): Infos) -> pmix_status_t {
        replies::wait(client.fence(participants(&client, procs), info))
    }

    fn PMIx_Fence_nb(client = client()?; (procs, nprocs): Procs, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        replies::call_back(client.fence(participants(&client, procs), info), cbfunc)
    }

    fn PMIx_Heartbeat() {
        if let Ok(client) = client() {
            // The function has no result; other calls report that the server was lost.
            let _ = client.heartbeat();
        }
        Ok(())
    }

    fn PMIx_Progress() {
        // A client with threads has no driver.
        if let Some(driver) = client().ok().and_then(|client| Driver::of(&client)) {
            driver.drive(Instant::now());
        }
        Ok(())
    }

    // The threads stop in PMIx_Finalize, because other callers may still wait for them.
    fn PMIx_Progress_thread_stop((_info, _ninfo): args::Slice<pmix_info_t>) {
        Ok(())
    }
}
