// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: by a client or by a server's own process, of one key or of all keys.

use std::ptr;

use pmix_client::driver::qualifiers;
use pmix_types::{DataArray, Info, Key, Proc, Status, Value, keys};

use crate::abi::*;
use crate::args::{self, Array, Infos, Maybe, Out, Place, Required};
use crate::convert::{fault, key_of};
use crate::guard::exported;
use crate::later::later;
use crate::memory::Result;
use crate::model::Model;
use crate::owned::CArray;
use crate::state::{client, own_server, proc as own_name, state};

/// Returns `true` if one of the infos has the key and is true.
pub(crate) fn is_set(infos: &[Info<'_>], key: &str) -> bool {
    let mut named = infos.iter().filter(|info| info.key.is(key));
    named.any(|info| info.truth().is_true())
}

/// Returns the process that a get names; this process if it names none.
fn subject(named: Option<&Proc<'static>>, own: &Proc<'static>) -> Proc<'static> {
    match named {
        None => own.clone(),
        Some(proc) if proc.nspace.is_invalid() => Proc::new(own.nspace.clone(), proc.rank),
        Some(proc) => proc.clone(),
    }
}

/// Returns a value that this process knows as a server. Returns `None` if it must ask its server.
pub(crate) fn known_to_server(
    of: &Proc<'static>,
    key: &Key<'static>,
    infos: &[Info<'_>],
) -> Option<Result<Value<'static>>> {
    let (server, is_asking) = {
        let state = state();
        let (server, _) = state.server.as_ref()?;
        if state.client.is_some() {
            return None;
        }
        (server.clone(), state.connection().is_some())
    };
    match server.get(of, key.clone(), &qualifiers(infos)) {
        Ok(found) => Some(Ok(found)),
        // A tool knows only the jobs that it registered; for others it asks the server that it is connected to.
        Err(_) if is_asking => None,
        Err(error) => Some(Err(error.status())),
    }
}

/// Returns all keys of a process. A client must name the process.
fn find_all(
    named: Option<&Proc<'static>>,
    of: &Proc<'static>,
    infos: &[Info<'_>],
) -> Result<Value<'static>> {
    let connected = state().connection().cloned();
    let all = match connected {
        // As in OpenPMIx, a get without a process and without a key is an error.
        Some(_) if named.is_none() => return Err(Status::ERR_BAD_PARAM),
        Some(client) => client.get_all(of, infos).map_err(|error| fault(&error)),
        None => {
            let server = own_server().ok_or(Status::ERR_BAD_PARAM)?;
            let all = server.get_all(of, &qualifiers(infos));
            all.map_err(|error| error.status())
        }
    };
    all.map(|all| Value::DataArray(DataArray::Info(all)))
}

/// Returns the value of a key, or of all keys without one.
fn find(
    named: Option<&Proc<'static>>,
    own: &Proc<'static>,
    key: Option<&[u8]>,
    infos: &[Info<'static>],
) -> Result<Value<'static>> {
    // The check comes first, because a server and a client answer gets in different places.
    pmix_client::driver::check_get(infos).map_err(|error| fault(&error))?;
    let of = subject(named, own);
    let Some(key) = key else {
        return find_all(named, &of, infos);
    };
    let key = key_of(key)?;
    match known_to_server(&of, &key, infos) {
        Some(found) => found,
        None => { client()?.get(&of, key, infos).wait() }.map_err(|error| fault(&error)),
    }
}

/// Writes a value to memory of the caller (`PMIX_GET_STATIC_VALUES`), or to new memory.
fn write(found: &Value<'_>, is_static: bool, to: &Place<'_, *mut pmix_value_t>) -> Result<()> {
    match is_static {
        // SAFETY: with `PMIX_GET_STATIC_VALUES`, the header requires `*val` to be NULL or valid for writes.
        true => unsafe { to.target()? }.fill(|| found.to_c()),
        false => to.fill(|| Ok(CArray::of(std::slice::from_ref(found))?.into_raw().0)),
    }
}

exported! {
    fn PMIx_Get(own = own_name()?; proc: Maybe<args::Proc>, key: Maybe<Array<512>>, (info, ninfo): Infos, val: Out<*mut pmix_value_t>) -> pmix_status_t {
        let is_static = is_set(&info, keys::GET_STATIC_VALUES);
        let found = find(proc.as_ref(), &own, key, &info);
        let got = found.and_then(|found| write(&found, is_static, &val));
        // As in OpenPMIx, the value is NULL after an error, for programs that free it whatever the status is. Static
        // memory belongs to the program and is not touched.
        if got.is_err() && !is_static {
            val.write(ptr::null_mut());
        }
        got
    }

    fn PMIx_Get_nb(own = own_name()?; proc: Maybe<args::Proc>, key: Maybe<Array<512>>, (info, ninfo): Infos, (cbfunc, cbdata): Required<pmix_value_cbfunc_t>) -> pmix_status_t {
        pmix_client::driver::check_get(&info).map_err(|error| fault(&error))?;
        let of = subject(proc.as_ref(), &own);
        let Some(key) = key else {
            let all = find_all(proc.as_ref(), &of, &info)?;
            return later(move || cbfunc.complete(Ok(all)));
        };
        let key = key_of(key)?;
        if let Some(found) = known_to_server(&of, &key, &info) {
            return later(move || cbfunc.complete(found));
        }
        let client = client()?;
        let get = client.get(&of, key, &info);
        let deliver = move |found: std::result::Result<_, _>| {
            cbfunc.complete(found.map_err(|error| fault(&error)));
        };
        get.start(deliver).map_err(|error| fault(&error))
    }
}
