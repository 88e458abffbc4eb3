// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: by a client or by a server's own process, of one key or of all keys.

use std::collections::HashSet;
use std::ffi::{c_char, c_void};

use pmix_client::{Found, SharedClient};
use pmix_types::{
    DataArray, ErrorDetail, Info, IntoOwned as _, Key, Proc, Rank, Status, Value, keys,
};

use crate::abi::*;
use crate::answers::value;
use crate::convert::{fault, infos_at, key_at};
use crate::guard::exported;
use crate::later::later;
use crate::memory::{Result, boxed};
use crate::model::Model;
use crate::names::proc_at;
use crate::record::there;
use crate::state::{State, client, state};
use crate::status::{code, make_at};

/// Returns `true` if one of the infos has the key and is true.
pub(crate) fn says(infos: &[Info<'_>], key: &str) -> bool {
    infos
        .iter()
        .any(|info| info.key.is(key) && info.truth().is_true())
}

/// Returns the process that a get names; this process if it names none.
///
/// # Safety
/// `at` is NULL or points to a valid process.
unsafe fn asked(at: *const pmix_proc_t, own: &Proc<'static>) -> Proc<'static> {
    // SAFETY: the header of the functions for gets requires `proc` to be NULL or valid for reads.
    let named = unsafe { proc_at(at) };
    named.map_or_else(
        || own.clone(),
        |proc| match proc.nspace.is_invalid() {
            true => Proc::new(own.nspace.clone(), proc.rank),
            false => proc,
        },
    )
}

/// Returns a value that a process knows about itself without a server.
fn own_value(of: &Proc<'_>, own: &Proc<'static>, key: &str) -> Option<Value<'static>> {
    (of == own).then_some(())?;
    match key {
        keys::RANK => Some(Value::Rank(own.rank)),
        keys::NSPACE => Some(Value::String(Some(own.nspace.as_text().clone()))),
        keys::PROCID => Some(Value::Proc(own.clone())),
        _ => None,
    }
}

/// Returns a value that this server stored for a process of a namespace, if the caller does not know the rank. The
/// lowest rank with the key wins.
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

/// Returns a value that this process knows as a server: it stored it, is itself the process, or registered the job.
/// Returns `None` if a client must ask its server.
pub(crate) fn known_to_server(
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
        let stored = stored.or_else(|| stored_of_any(&state, of, key));
        let stored = match stored.map(Value::try_clone).transpose() {
            Ok(stored) => stored,
            Err(error) => return Some(Err(error.status())),
        };
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
    // Stored values come first: the process may have replaced a registered value by its own.
    let registered = server.get(of, &name, &qualifiers).or_else(|error| {
        // A server is not part of a job, so data about its own process may be registered for the namespace as a
        // whole.
        if of != server.proc() {
            return Err(error);
        }
        let any = Proc::new(of.nspace.clone(), Rank::WILDCARD);
        server.get(&any, &name, &qualifiers)
    });
    match registered {
        Ok(found) => Some(Ok(found)),
        // A tool knows only the jobs that it registered; for others it asks the server that it is connected to.
        Err(_) if is_asking => None,
        Err(error) => Some(Err(error.status())),
    }
}

/// Returns all that a server without a connection knows about a process or job. Stored values replace registered
/// ones.
fn all_known_to_server(of: &Proc<'static>, infos: &[Info<'_>]) -> Result<Value<'static>> {
    let (server, stored) = {
        let state = state();
        let server = state
            .server
            .as_ref()
            .filter(|_| state.connection().is_none());
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

/// Returns all keys of a process. A client must name the process.
///
/// # Safety
/// `named` is NULL or points to a valid process.
unsafe fn all_known(
    named: *const pmix_proc_t,
    of: &Proc<'static>,
    infos: &[Info<'_>],
) -> Result<Value<'static>> {
    let connected = state().connection().cloned();
    let Some(client) = connected else {
        return all_known_to_server(of, infos);
    };
    // As in OpenPMIx, a get without a process and without a key is an error.
    if named.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    let all = client.get_all(of, infos).map_err(|error| fault(&error))?;
    Ok(Value::DataArray(DataArray::Info(all)))
}

/// Returns the value of a key, or of all keys if `key` is NULL.
///
/// # Safety
/// `named` is NULL or points to a valid process, and `key` is NULL or a string.
unsafe fn find(
    named: *const pmix_proc_t,
    of: Proc<'static>,
    key: *const c_char,
    infos: &[Info<'static>],
) -> Result<Value<'static>> {
    if key.is_null() {
        // SAFETY: the caller guarantees that `named` is NULL or valid for reads.
        return unsafe { all_known(named, &of, infos) };
    }
    // SAFETY: the caller guarantees that `key` ends with a NUL; it is not NULL.
    let key = unsafe { key_at(key)? };
    match known_to_server(&of, &key, infos) {
        Some(found) => found,
        None => client()?
            .get(&of, &key, infos)
            .map_err(|error| fault(&error)),
    }
}

/// Writes a value to memory of the caller (`PMIX_GET_STATIC_VALUES`), or to new memory.
///
/// # Safety
/// `to` is NULL or valid for writes, and with `PMIX_GET_STATIC_VALUES` `*to` as well.
unsafe fn hand_out(
    found: &Value<'_>,
    infos: &[Info<'_>],
    to: *mut *mut pmix_value_t,
) -> Result<()> {
    // SAFETY: the header requires `to` to be valid for writes, and `*to` with static memory.
    unsafe {
        match says(infos, keys::GET_STATIC_VALUES) {
            true => make_at(*there(to)?, || found.to_c()),
            false => make_at(to, || boxed(found.to_c()?)),
        }
    }
}

/// Returns an error if a required attribute of a get is not supported. The check comes first, because a server and a
/// client answer gets in different places.
fn check_get(infos: &[Info<'_>]) -> Result<()> {
    pmix_client::check_get(infos).map_err(|error| fault(&error))
}

exported! {
    fn PMIx_Get(proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize, val: *mut *mut pmix_value_t) -> pmix_status_t {
        code((|| {
            let own = crate::state::proc()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (of, infos) = unsafe { (asked(proc, &own), infos_at(info, ninfo)?) };
            if val.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: the header requires `proc` and `key` to be NULL or valid for reads.
            let got = check_get(&infos).and_then(|()| unsafe { find(proc, of, key, &infos) });
            // SAFETY: `val` is not NULL, and the header requires it to be valid for writes; static memory is at `*val`.
            let got = got.and_then(|found| unsafe { hand_out(&found, &infos, val) });
            // As in OpenPMIx, the value is NULL after an error, for programs that free it whatever the status is.
            // Static memory belongs to the program and is not touched.
            if got.is_err() && !says(&infos, keys::GET_STATIC_VALUES) {
                // SAFETY: `PMIx_Get` requires `val` to be valid for writes.
                unsafe { *val = std::ptr::null_mut() };
            }
            got
        })())
    }

    fn PMIx_Get_nb(proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_value_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let own = crate::state::proc()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let (of, infos) = unsafe { (asked(proc, &own), infos_at(info, ninfo)?) };
            check_get(&infos)?;
            let then = value(cbfunc, cbdata)?;
            if key.is_null() {
                // SAFETY: the header requires `proc` to be NULL or valid for reads.
                let all = unsafe { all_known(proc, &of, &infos)? };
                return later(move || then(Ok(all)));
            }
            // SAFETY: the header requires `key` to end with a NUL; it is not NULL.
            let key = unsafe { key_at(key)? };
            if let Some(found) = known_to_server(&of, &key, &infos) {
                let found = found.map_err(|status| ErrorDetail::new(status, "not known to this library").into());
                return later(move || then(found));
            }
            let client = client()?;
            let begun = match client.find(&of, &key, &infos) {
                Found::Known(found) => client.later(move || then(found)),
                Found::AskServer(ask) => client.start(*ask, then),
            };
            begun.map_err(|error| fault(&error))
        })())
    }
}
