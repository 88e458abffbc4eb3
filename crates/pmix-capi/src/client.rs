// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: init, put, commit, fence, finalize.

use std::ffi::{c_char, c_int, c_void};
use std::time::Instant;

use pmix_client::{Ask, Settings, SharedClient};
use pmix_server::HostObject;
use pmix_types::{Info, IntoOwned as _, Proc, Scope, Status, Value, keys};

use crate::abi::*;
use crate::answers::op;
use crate::binding::{Binding, thread_start};
use crate::convert::{check_required, fault, infos_at, key_at, procs_at, text_at};
use crate::events;
use crate::gets::says;
use crate::guard::exported;
use crate::later;
use crate::log;
use crate::memory::Result;
use crate::model::Model;
use crate::names::proc_at;
use crate::server::own_host;
use crate::state::{client, name_of, state};
use crate::status::code;
use crate::tool;
use crate::values::value_at;

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
    let made = match says(infos, keys::EXTERNAL_PROGRESS) {
        true => SharedClient::init_driven(settings, events::client_event),
        false => SharedClient::init(settings, events::client_event),
    };
    let made = made.map_err(|error| fault(&error))?;
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
    if says(infos, keys::EMBED_BARRIER) {
        let all = Ask::fence(vec![client.job()], Vec::new());
        // A failed barrier does not keep this process from leaving: a member may have been lost.
        let _ = client.wait(all);
    }
    let left = client.finalize();
    later::end();
    drop(ending);
    events::forget_all();
    left.map_err(|error| fault(&error))
}

/// Stores a value for `of`, or for this process if `of` is `None`. Returns `None` unless this process is only a
/// server.
fn store_of_server(of: Option<&Proc<'static>>, info: &Info<'static>) -> Option<Result<()>> {
    let mut state = state();
    if state.connection().is_some() {
        return None;
    }
    let (server, _) = state.server.as_ref()?;
    let of = of.unwrap_or_else(|| server.proc()).clone();
    let at = (of, info.key.clone());
    let value = info.value.try_clone().map_err(|error| error.status());
    Some(value.map(|value| drop(state.stored.insert(at, value))))
}

/// Puts a value of a server's own process, which only that process reads. Returns `None` unless this process is only
/// a server.
fn put_by_server(scope: Scope, info: &Info<'static>) -> Option<Result<()>> {
    match scope {
        Scope::LOCAL | Scope::REMOTE | Scope::GLOBAL | Scope::INTERNAL => {
            store_of_server(None, info)
        }
        Scope::DEL_LOCAL | Scope::DEL_REMOTE | Scope::DEL_GLOBAL | Scope::DEL_INTERNAL => {
            let mut state = state();
            if state.connection().is_some() {
                return None;
            }
            let (server, _) = state.server.as_ref()?;
            let at = (server.proc().clone(), info.key.clone());
            state.stored.remove(&at);
            Some(Ok(()))
        }
        _ => own_host().map(|_| Err(Status::ERR_BAD_PARAM)),
    }
}

/// Returns the participants of a collective: the whole job of the caller if the array is empty.
///
/// # Safety
/// `at` is NULL or points to `count` valid elements.
unsafe fn participants(
    client: &SharedClient,
    at: *const pmix_proc_t,
    count: usize,
) -> Result<Vec<Proc<'static>>> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    let procs = unsafe { procs_at(at, count)? };
    Ok(if procs.is_empty() {
        vec![client.job()]
    } else {
        procs
    })
}

exported! {
    fn PMIx_Init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let infos = unsafe { infos_at(info, ninfo)? };
            let own = init(&infos)?;
            // SAFETY: the header requires `proc` to be NULL or valid for writes.
            if let Some(to) = unsafe { proc.as_mut() } {
                *to = own.to_c()?;
            }
            // As in OpenPMIx, this status says that no launcher started the process. The process is initialized as a
            // singleton all the same, and Open MPI takes this status for success.
            match is_singleton() {
                true => Err(Status::ERR_UNREACH),
                false => Ok(()),
            }
        })())
    }

    fn PMIx_Initialized() -> c_int {
        let state = state();
        c_int::from(state.is_any())
    }

    fn PMIx_Finalize(info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
        code(unsafe { infos_at(info, ninfo) }.and_then(|infos| finalize(&infos)))
    }

    fn PMIx_tool_finalize() -> pmix_status_t {
        code(finalize(&[]))
    }

    fn PMIx_Abort(status: c_int, msg: *const c_char, procs: *mut pmix_proc_t, nprocs: usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (message, procs) = unsafe { (text_at(msg).ok(), procs_at(procs, nprocs)?) };
            if let Some(own) = own_host() {
                let status = Status::from_raw(status);
                let object = HostObject::default();
                let asked = own.wait(|host, me, to| {
                    host.abort(me, object, status, message.as_ref(), &procs, to);
                    Ok(())
                });
                return asked.map(drop);
            }
            let client = client()?;
            let ask = Ask::abort(Status::from_raw(status), message, procs);
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Put(scope: pmix_scope_t, key: *const c_char, val: *mut pmix_value_t) -> pmix_status_t {
        code((|| {
            let scope = Scope::from_raw(scope);
            let value = match scope {
                // A removal has no value.
                Scope::DEL_LOCAL | Scope::DEL_REMOTE | Scope::DEL_GLOBAL | Scope::DEL_INTERNAL => {
                    Value::Undef
                }
                // SAFETY: the header requires `val` to be NULL or a valid value.
                _ => unsafe { value_at(val)? },
            };
            // SAFETY: the header requires `key` to be NULL or a string, or an array of the size of a key.
            let info = Info::new(unsafe { key_at(key)? }, value);
            if let Some(put) = put_by_server(scope, &info) {
                return put;
            }
            let client = client()?;
            client.put(scope, info).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Store_internal(proc: *const pmix_proc_t, key: *const c_char, val: *mut pmix_value_t) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (of, info) = unsafe { (proc_at(proc), Info::new(key_at(key)?, value_at(val)?)) };
            if let Some(stored) = store_of_server(of.as_ref(), &info) {
                return stored;
            }
            let client = client()?;
            let of = of.unwrap_or_else(|| client.proc().clone());
            client.store(&of, info).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Commit() -> pmix_status_t {
        // A server's own process has no peers to send its data to: a put is visible at once.
        let is_server = {
            let state = state();
            state.server.is_some() && state.connection().is_none()
        };
        if is_server {
            return Status::SUCCESS.as_raw();
        }
        code(client().and_then(|client| client.commit().map_err(|error| fault(&error))))
    }

    fn PMIx_Fence(procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let ask = unsafe { Ask::fence(participants(&client, procs, nprocs)?, infos_at(info, ninfo)?) };
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Fence_nb(procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let ask = unsafe { Ask::fence(participants(&client, procs, nprocs)?, infos_at(info, ninfo)?) };
            client.start(ask, op(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Heartbeat() {
        if let Ok(client) = client() {
            // The function has no result; other calls report that the server was lost.
            let _ = client.heartbeat();
        }
    }

    fn PMIx_Progress() {
        // If the library has threads, `drive` has nothing to do.
        if let Ok(client) = client() {
            let _ = client.drive(Instant::now());
        }
    }

    fn PMIx_Progress_thread_stop(_info: *const pmix_info_t, _ninfo: usize) {
        // The threads stop in PMIx_Finalize, because other callers may still wait for them.
    }
}
