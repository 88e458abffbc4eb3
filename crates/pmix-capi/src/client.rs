// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: init, put, commit, fence, get, finalize.

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void};
use std::time::Instant;

use pmix_client::{Ask, Found, Settings, SharedClient};
use pmix_server::HostObject;
use pmix_types::{
    DataArray, ErrorDetail, Info, Key, Nspace, Proc, Query, Rank, Scope, Status, Value, keys,
};

use crate::abi::*;
use crate::answers::{op, value};
use crate::convert::{check_required, fault, infos_at, key_at, procs_at, text_at};
use crate::events;
use crate::guard::exported;
use crate::later::later;
use crate::log;
use crate::memory::{Result, boxed, string};
use crate::model::Model;
use crate::names::{nspace_at, proc_at};
use crate::record::there;
use crate::server::own_host;
use crate::state::{State, client, name_of, state};
use crate::status::{code, make_at};
use crate::tool;
use crate::values::value_at;

/// Whether one of the infos says that something is so.
fn says(infos: &[Info<'_>], key: &str) -> bool {
    infos
        .iter()
        .any(|info| info.key.is(key) && info.truth().is_true())
}

/// Initializes this process as a client, or counts one more call. With `PMIX_EXTERNAL_PROGRESS` the program calls
/// `PMIx_Progress`. Without a launcher the process becomes a job of its own ([`Settings::singleton`]).
fn init(infos: &[Info<'_>]) -> Result<Proc<'static>> {
    log::begin();
    check_required("PMIx_Init", infos)?;
    if says(infos, keys::BIND_REQUIRED) {
        tracing::warn!(
            "the threads of the library run where the process may, and PMIX_BIND_REQUIRED asks for more"
        );
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let mut state = state();
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
    let settings = Settings::from_env_or_singleton().map_err(|error| match error.status() {
        // The environment names a job without a server.
        Status::ERR_NOT_AVAILABLE => Status::ERR_UNREACH,
        _ => fault(&error),
    })?;
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

/// Ends the client or tool with the last call.
fn finalize(infos: &[Info<'_>]) -> Result<()> {
    check_required("PMIx_Finalize", infos)?;
    if let Some(ended) = tool::finalize() {
        return ended;
    }
    let last = {
        let mut state = state();
        if let Some((_, count)) = &mut state.server {
            return match *count {
                // The last call is that of PMIx_server_finalize.
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
                state.client.take()
            }
        }
    };
    let Some((client, _)) = last else {
        return Err(Status::ERR_INIT);
    };
    if says(infos, keys::EMBED_BARRIER) {
        let all = Ask::fence(vec![client.job()], Vec::new());
        // Who leaves does so whoever else is there.
        let _ = client.wait(all);
    }
    let left = client.finalize();
    events::forget_all();
    left.map_err(|error| fault(&error))
}

/// Refuses what is required of a get that this library does not obey, whoever answers the get.
fn check_get(infos: &[Info<'_>]) -> Result<()> {
    pmix_client::check_get(infos).map_err(|error| fault(&error))
}

/// Of whom a value is asked; of this process if nobody is named.
unsafe fn asked(at: *const pmix_proc_t, own: &Proc<'static>) -> Proc<'static> {
    // SAFETY: the caller says so.
    let named = unsafe { proc_at(at) };
    named.map_or_else(
        || own.clone(),
        |proc| match proc.nspace.is_invalid() {
            true => Proc::new(own.nspace.clone(), proc.rank),
            false => proc,
        },
    )
}

/// What a process knows of itself even if nobody told it.
fn own_value(of: &Proc<'_>, own: &Proc<'static>, key: &str) -> Option<Value<'static>> {
    (of == own).then_some(())?;
    match key {
        keys::RANK => Some(Value::Rank(own.rank)),
        keys::NSPACE => Some(Value::String(Some(own.nspace.as_text().clone()))),
        keys::PROCID => Some(Value::Proc(own.clone())),
        _ => None,
    }
}

/// Stores a value about a process, its own if none is named, where this process is a server.
fn store_of_server(of: Option<&Proc<'static>>, info: &Info<'static>) -> Option<Result<()>> {
    let mut state = state();
    if state.connection().is_some() {
        return None;
    }
    let (server, _) = state.server.as_ref()?;
    let of = of.unwrap_or_else(|| server.proc()).clone();
    let at = (of, info.key.clone());
    state.stored.insert(at, info.value.clone());
    Some(Ok(()))
}

/// Puts a value where this process is a server, which alone reads it.
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

/// What this server stored about some process of a nspace, where it is asked which one has the key.
fn stored_of_any<'s>(
    state: &'s State,
    of: &Proc<'static>,
    key: &Key<'static>,
) -> Option<&'s Value<'static>> {
    let is_it =
        |(proc, known): &(Proc<'static>, Key<'static>)| proc.nspace == of.nspace && known == key;
    let any = (of.rank == Rank::UNDEF).then_some(&state.stored)?;
    let least = any
        .keys()
        .filter(|at| is_it(at))
        .min_by_key(|(proc, _)| proc.rank)?;
    any.get(least)
}

/// What this process stored, or knows of itself, or what its jobs are, where it is a server: it asks
/// nobody.
fn known_to_server(
    of: &Proc<'static>,
    key: &Key<'static>,
    infos: &[Info<'_>],
) -> Option<Result<Value<'static>>> {
    let (server, stored, is_asking) = {
        let state = state();
        let (server, _) = state.server.as_ref()?;
        if state.client.is_some() {
            return None;
        }
        let stored = state.stored.get(&(of.clone(), key.clone()));
        let stored = stored.or_else(|| stored_of_any(&state, of, key)).cloned();
        (server.clone(), stored, state.connection().is_some())
    };
    let name = key.as_text().to_str_lossy();
    let own = || match name == keys::MYSERVER_URI && of == server.proc() {
        true => Some(Value::from(server.uri().to_owned())),
        false => own_value(of, server.proc(), &name),
    };
    if let Some(known) = stored.or_else(own) {
        return Some(Ok(known));
    }
    let qualifiers = SharedClient::qualifiers(infos);
    let registered = server.get(of, &name, &qualifiers).or_else(|error| {
        // A server has no job: what is asked of its own process may be registered of no job in particular.
        if of != server.proc() {
            return Err(error);
        }
        let any = Proc::new(of.nspace.clone(), Rank::WILDCARD);
        server.get(&any, &name, &qualifiers)
    });
    match registered {
        Ok(found) => Some(Ok(found)),
        // A tool's jobs are known here; of others it asks the server that it is attached to.
        Err(_) if is_asking => None,
        Err(error) => Some(Err(error.status())),
    }
}

/// All that this process knows of another or of a job, where it is a server that asks nobody: what it
/// stored takes the place of what was registered.
fn all_known_to_server(of: &Proc<'static>, infos: &[Info<'_>]) -> Result<Value<'static>> {
    let (server, stored) = {
        let state = state();
        let server = state
            .server
            .as_ref()
            .filter(|_| state.connection().is_none());
        // A client asks for one key.
        let (server, _) = server.ok_or(Status::ERR_BAD_PARAM)?;
        let stored = state.stored.iter().filter(|((proc, _), _)| proc == of);
        let stored = stored.map(|((_, key), value)| Info::new(key.clone(), value.clone()));
        (server.clone(), stored.collect::<Vec<_>>())
    };
    let mut known = match server.known(of, &SharedClient::qualifiers(infos)) {
        Err(error) if stored.is_empty() => return Err(error.status()),
        known => known.unwrap_or_default(),
    };
    let keys: HashSet<_> = stored.iter().map(|info| info.key.clone()).collect();
    known.retain(|info| !keys.contains(&info.key));
    known.extend(stored);
    Ok(Value::DataArray(DataArray::Info(known)))
}

/// Hands a value out: to memory of the caller if it says so, otherwise to new memory.
unsafe fn hand_out(
    found: &Value<'_>,
    infos: &[Info<'_>],
    to: *mut *mut pmix_value_t,
) -> Result<()> {
    // SAFETY: the caller says so.
    unsafe {
        match says(infos, keys::GET_STATIC_VALUES) {
            true => make_at(*there(to)?, || found.to_c()),
            false => make_at(to, || boxed(found.to_c()?)),
        }
    }
}

/// The processes that take part: all of the own job if none are named.
unsafe fn participants(
    client: &SharedClient,
    at: *const pmix_proc_t,
    count: usize,
) -> Result<Vec<Proc<'static>>> {
    // SAFETY: the caller says so.
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
            // SAFETY: C says so. What is said at init is known to the server already.
            let infos = unsafe { infos_at(info, ninfo)? };
            let own = init(&infos)?;
            // SAFETY: as above.
            if let Some(to) = unsafe { proc.as_mut() } {
                *to = own.to_c()?;
            }
            // As in OpenPMIx, the status says that no launcher started the process, which is initialized as a job of
            // one all the same: Open MPI takes this status for success.
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
        // SAFETY: C says so.
        code(unsafe { infos_at(info, ninfo) }.and_then(|infos| finalize(&infos)))
    }

    fn PMIx_tool_finalize() -> pmix_status_t {
        code(finalize(&[]))
    }

    fn PMIx_Abort(status: c_int, msg: *const c_char, procs: *mut pmix_proc_t, nprocs: usize) -> pmix_status_t {
        code((|| {
            // SAFETY: C says so.
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
                // A removal has none.
                Scope::DEL_LOCAL | Scope::DEL_REMOTE | Scope::DEL_GLOBAL | Scope::DEL_INTERNAL => {
                    Value::Undef
                }
                // SAFETY: C says so.
                _ => unsafe { value_at(val)? },
            };
            // SAFETY: C says so.
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
            // SAFETY: C says so.
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
        // What a server's own process put is there at once.
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
            // SAFETY: C says so.
            let ask = unsafe { Ask::fence(participants(&client, procs, nprocs)?, infos_at(info, ninfo)?) };
            client.wait(ask).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Fence_nb(procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let client = client()?;
            // SAFETY: C says so.
            let ask = unsafe { Ask::fence(participants(&client, procs, nprocs)?, infos_at(info, ninfo)?) };
            client.start(ask, op(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Get(proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize, val: *mut *mut pmix_value_t) -> pmix_status_t {
        code((|| {
            let own = crate::state::proc()?;
            // SAFETY: C says so.
            let (of, infos) = unsafe { (asked(proc, &own), infos_at(info, ninfo)?) };
            check_get(&infos)?;
            if val.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            if key.is_null() {
                let all = all_known_to_server(&of, &infos)?;
                // SAFETY: as above.
                return unsafe { hand_out(&all, &infos, val) };
            }
            // SAFETY: as above.
            let key = unsafe { key_at(key)? };
            if let Some(found) = known_to_server(&of, &key, &infos) {
                // SAFETY: as above.
                return unsafe { hand_out(&found?, &infos, val) };
            }
            let client = client()?;
            let name = key.as_text().to_str_lossy();
            let found = match own_value(&of, client.proc(), &name) {
                Some(own) => own,
                None => client.get(&of, &key, &infos).map_err(|error| fault(&error))?,
            };
            // SAFETY: as above.
            unsafe { hand_out(&found, &infos, val) }
        })())
    }

    fn PMIx_Get_nb(proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_value_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let own = crate::state::proc()?;
            // SAFETY: C says so.
            let (of, infos) = unsafe { (asked(proc, &own), infos_at(info, ninfo)?) };
            check_get(&infos)?;
            let then = value(cbfunc, cbdata)?;
            if key.is_null() {
                let all = all_known_to_server(&of, &infos)?;
                return later(move || then(Ok(all)));
            }
            // SAFETY: as above.
            let key = unsafe { key_at(key)? };
            if let Some(found) = known_to_server(&of, &key, &infos) {
                let found = found.map_err(|status| ErrorDetail::new(status, "not known here").into());
                return later(move || then(found));
            }
            let client = client()?;
            let name = key.as_text().to_str_lossy();
            let found = match own_value(&of, client.proc(), &name) {
                Some(own) => Found::Known(Ok(own)),
                None => client.find(&of, &key, &infos),
            };
            let begun = match found {
                Found::Known(found) => client.later(move || then(found)),
                Found::AskServer(ask) => client.start(*ask, then),
            };
            begun.map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Heartbeat() {
        if let Ok(client) = client() {
            // A server that was lost is told of by other calls.
            let _ = client.heartbeat();
        }
    }

    fn PMIx_Resolve_peers(nodename: *const c_char, nspace: *const c_char, procs: *mut *mut pmix_proc_t, nprocs: *mut usize) -> pmix_status_t {
        code((|| {
            let own = crate::state::proc()?;
            if procs.is_null() || nprocs.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: C says so.
            let (node, nspace) = unsafe { (text_at(nodename).ok(), nspace_at(nspace)) };
            let infos: Vec<_> = node.map(|node| Info::new(keys::HOSTNAME, Value::String(Some(node)))).into_iter().collect();
            let found = match peers_by_query(&nspace, &infos) {
                Some(found) => found,
                None => {
                    let of = if nspace.is_invalid() { own.nspace } else { nspace };
                    let job = Proc::new(of.clone(), Rank::WILDCARD);
                    let ranks = peers_of(&of_job(&job, keys::LOCAL_PEERS, &infos)?)?;
                    ranks.into_iter().map(|rank| Proc::new(of.clone(), rank)).collect()
                }
            };
            // SAFETY: as above.
            unsafe { crate::convert::hand_out(&found, procs, nprocs) }
        })())
    }

    fn PMIx_Resolve_nodes(nspace: *const c_char, nodelist: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            let own = crate::state::proc()?;
            // SAFETY: C says so.
            let nspace = unsafe { nspace_at(nspace) };
            let by_query = nspace.is_invalid().then(|| resolved(keys::QUERY_RESOLVE_NODE, &nspace, &[])).flatten();
            let found = match by_query {
                Some(found) => found,
                None => {
                    let of = if nspace.is_invalid() { own.nspace } else { nspace };
                    of_job(&Proc::new(of, Rank::WILDCARD), keys::NODE_LIST, &[])?
                }
            };
            let Value::String(Some(nodes)) = found else {
                return Err(Status::ERR_NOT_FOUND);
            };
            // SAFETY: as above.
            unsafe { make_at(nodelist, || string(nodes.as_bytes())) }
        })())
    }

    fn PMIx_Progress() {
        // Where the library has threads they need no help.
        if let Ok(client) = client() {
            let _ = client.drive(Instant::now());
        }
    }

    fn PMIx_Progress_thread_stop(_info: *const pmix_info_t, _ninfo: usize) {
        // The threads end with PMIx_Finalize: before, others may wait for them.
    }
}

/// Returns a value of a job, from what this process knows or from the server.
fn of_job(job: &Proc<'static>, key: &str, infos: &[Info<'static>]) -> Result<Value<'static>> {
    let key = Key::from(key.to_owned());
    match known_to_server(job, &key, infos) {
        Some(found) => found,
        None => client()?
            .get(job, &key, infos)
            .map_err(|error| fault(&error)),
    }
}

/// The processes of all jobs on a node, or those of one job as a tool asks for them, which has no job whose data
/// say on which node it is. `None` where the server does not say, as those of OpenPMIx do not.
fn peers_by_query(nspace: &Nspace<'static>, node: &[Info<'static>]) -> Option<Vec<Proc<'static>>> {
    let is_of_tool = tool::is_tool().is_ok() && node.is_empty();
    if !nspace.is_invalid() && !is_of_tool {
        return None;
    }
    match resolved(keys::QUERY_RESOLVE_PEERS, nspace, node)? {
        Value::DataArray(DataArray::Proc(procs)) if !procs.is_empty() => {
            Some(Proc::owned_list(&procs))
        }
        _ => None,
    }
}

/// Asks the server with a query of one key about one job, or about all if the nspace is empty.
fn resolved(key: &str, nspace: &Nspace<'static>, more: &[Info<'static>]) -> Option<Value<'static>> {
    let mut qualifiers = more.to_vec();
    if !nspace.is_invalid() {
        let name = nspace.as_text().clone();
        qualifiers.push(Info::new(keys::NSPACE, Value::String(Some(name))));
    }
    let query = Query {
        keys: vec![key.to_owned().into()],
        qualifiers,
    };
    let (_, infos) = client().ok()?.wait(Ask::query(vec![query])).ok()?;
    let found = infos.into_iter().find(|info| info.key.is(key))?;
    Some(found.value)
}

/// The ranks of a list with commas.
fn peers_of(value: &Value<'_>) -> Result<Vec<Rank>> {
    let Value::String(Some(text)) = value else {
        return Err(Status::ERR_NOT_FOUND);
    };
    let text = text.to_str_lossy();
    let ranks = text
        .split(',')
        .map(|rank| rank.trim().parse().map(Rank::new));
    ranks
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Status::ERR_NOT_FOUND)
}
