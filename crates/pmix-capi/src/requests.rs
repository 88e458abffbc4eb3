// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of clients, each in a blocking and a non-blocking form: publish and lookup, connect and disconnect,
//! spawn, queries, logging, control and credentials.

use std::ffi::{c_char, c_void};

use pmix_client::{Answers, Ask, OwnAnswers};
use pmix_types::{AllocDirective, App, Info, Key, Proc, Query, Status, Text, Value, keys};

use crate::abi::*;
use crate::answers::{credential, found, infos, op, spawned, validated};
use crate::convert::{
    apps_at, clear_out, fault, hand_out, infos_at, keys_at, procs_at, queries_at,
};
use crate::guard::exported;
use crate::later::later;
use crate::memory::{self, Result, fill, slice};
use crate::model::Model;
use crate::record::there;
use crate::server::{CHost, To, own_host};
use crate::state::client;
use crate::status::{code, write_to};
use crate::tool;

/// Sends a request whose reply is a status, and waits for the reply.
fn wait(ask: Result<Ask<'static>>) -> Result<()> {
    // `PMIX_ERR_INIT` comes before any error in the arguments, as in OpenPMIx.
    let client = client()?;
    client.wait(ask?).map_err(|error| fault(&error))
}

/// Sends a request whose reply is a status, and calls `cbfunc` with it.
fn start(ask: Result<Ask<'static>>, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> Result<()> {
    let client = client()?;
    client
        .start(ask?, op(cbfunc, cbdata)?)
        .map_err(|error| fault(&error))
}

/// Sends a request, waits for its infos, and writes them to the caller's pointers.
///
/// # Safety
/// Each pointer is NULL or valid for writes.
pub(crate) unsafe fn wait_infos(
    ask: Result<Ask<'static, Answers>>,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> Result<()> {
    // SAFETY: the caller guarantees that each pointer is NULL or valid for writes.
    unsafe { clear_out(results, nresults) };
    let client = client()?;
    let answer = client.wait(ask?).map_err(|error| fault(&error))?;
    // SAFETY: the caller guarantees that each pointer is NULL or valid for writes.
    unsafe { hand_out_infos(answer, results, nresults) }
}

/// Writes infos to the caller's pointers if the status says that there are any.
///
/// # Safety
/// The conditions of [`wait_infos`].
pub(crate) unsafe fn hand_out_infos(
    (status, made): Answers,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> Result<()> {
    let some = matches!(
        status,
        Status::SUCCESS
            | Status::OPERATION_SUCCEEDED
            | Status::ERR_PARTIAL_SUCCESS
            | Status::QUERY_PARTIAL_SUCCESS
    );
    if some {
        // SAFETY: the caller guarantees that each pointer is NULL or valid for writes.
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

/// Defines a blocking and a non-blocking function for a request whose reply is a status. A process that is a server
/// without a connection calls its host instead.
macro_rules! done {
    ($($wait:ident $start:ident ($($arg:ident: $type:ty),*) $ask:block
       $(=> |$host:ident, $own:ident, $to:ident| $call:block)?)*) => {
        exported! {
            $(
                fn $wait($($arg: $type),*) -> pmix_status_t {
                    $(if let Some(own) = own_host() {
                        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as
                        // many elements as its count says.
                        return code(own.wait(|$host, $own, $to| unsafe { $call }).map(drop));
                    })?
                    // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many
                    // elements as its count says.
                    code(wait(unsafe { $ask }))
                }

                fn $start($($arg: $type,)* cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
                    $(if let Some(own) = own_host() {
                        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as
                        // many elements as its count says.
                        let ask = |$host: &CHost, $own: &Proc<'static>, $to: To<()>| unsafe { $call };
                        return code(op(cbfunc, cbdata).and_then(|then| {
                            own.start(ask, |answer| then(answer.map(drop)))
                        }));
                    })?
                    // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many
                    // elements as its count says.
                    code(start(unsafe { $ask }, cbfunc, cbdata))
                }
            )*
        }
    };
}

macro_rules! answered {
    ($($wait:ident $start:ident ($($arg:ident: $type:ty),*) $ask:block
       $(=> |$host:ident, $own:ident, $to:ident| $call:block)?)*) => {
        exported! {
            $(
                fn $wait($($arg: $type,)* results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
                    $(if let Some(own) = own_host() {
                        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as
                        // many elements as its count says.
                        return code(unsafe {
                            clear_out(results, nresults);
                            let answer = own.wait(|$host, $own, $to| $call);
                            answer.and_then(|answer| hand_out_infos(answer, results, nresults))
                        });
                    })?
                    // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many
                    // elements as its count says.
                    code(unsafe { wait_infos($ask, results, nresults) })
                }

                fn $start($($arg: $type,)* cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
                    $(if let Some(own) = own_host() {
                        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as
                        // many elements as its count says.
                        let ask = |$host: &CHost, $own: &Proc<'static>, $to| unsafe { $call };
                        return code(infos(cbfunc, cbdata).and_then(|then| own.start(ask, then)));
                    })?
                    // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many
                    // elements as its count says.
                    code(start_infos(unsafe { $ask }, cbfunc, cbdata))
                }
            )*
        }
    };
}

/// Reads the infos to publish.
///
/// # Safety
/// `info` is NULL or points to `ninfo` valid infos.
unsafe fn published(info: *const pmix_info_t, ninfo: usize) -> Result<Vec<Info<'static>>> {
    // SAFETY: the caller guarantees `ninfo` valid infos, or NULL.
    let infos = unsafe { infos_at(info, ninfo)? };
    // As in OpenPMIx, a publish without data is an error.
    if infos.is_empty() {
        return Err(Status::ERR_BAD_PARAM);
    }
    Ok(infos)
}

done! {
    PMIx_Publish PMIx_Publish_nb (info: *const pmix_info_t, ninfo: usize) {
        published(info, ninfo).map(Ask::publish)
    } => |host, own, to| {
        published(info, ninfo).map(|infos| host.publish(own, &infos, to))
    }
    PMIx_Unpublish PMIx_Unpublish_nb (keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize) {
        infos_at(info, ninfo).and_then(|infos| Ok(Ask::unpublish(keys_at(keys)?, infos)))
    } => |host, own, to| {
        infos_at(info, ninfo).and_then(|infos| {
            host.unpublish(own, &texts_at(keys)?, &infos, to);
            Ok(())
        })
    }
    PMIx_Connect PMIx_Connect_nb (procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        members(procs, nprocs).and_then(|procs| Ok(Ask::connect(procs, infos_at(info, ninfo)?)))
    }
    PMIx_Disconnect PMIx_Disconnect_nb (procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) {
        members(procs, nprocs).and_then(|procs| Ok(Ask::disconnect(procs, infos_at(info, ninfo)?)))
    }
    PMIx_Log PMIx_Log_nb (data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize) {
        logged(data, ndata).and_then(|data| Ok(Ask::log(data, infos_at(directives, ndirs)?)))
    } => |host, own, to| {
        logged(data, ndata).and_then(|data| {
            let mut directives = infos_at(directives, ndirs)?;
            if !directives.iter().any(|info| info.key.is(keys::LOG_SOURCE)) {
                directives.push(Info::new(keys::LOG_SOURCE, Value::Proc(own.clone())));
            }
            host.log(own, &data, &directives, to);
            Ok(())
        })
    }
}

/// Reads the data to log; an empty array is an error.
///
/// # Safety
/// `data` is NULL or points to `ndata` valid infos.
unsafe fn logged(data: *const pmix_info_t, ndata: usize) -> Result<Vec<Info<'static>>> {
    // SAFETY: the caller guarantees `ndata` valid infos, or NULL.
    let data = unsafe { infos_at(data, ndata)? };
    match data.is_empty() {
        true => Err(Status::ERR_BAD_PARAM),
        false => Ok(data),
    }
}

/// Reads the keys of an array of strings.
///
/// # Safety
/// `keys` is NULL or an array of strings that ends with NULL.
unsafe fn texts_at(keys: *mut *mut c_char) -> Result<Vec<Text<'static>>> {
    // SAFETY: the caller guarantees NULL or an array of strings that ends with NULL.
    unsafe { memory::read_texts(keys) }
}

/// Reads the processes of a connect or disconnect.
///
/// # Safety
/// `procs` is NULL or points to `nprocs` valid processes.
unsafe fn members(procs: *const pmix_proc_t, nprocs: usize) -> Result<Vec<Proc<'static>>> {
    // SAFETY: the caller guarantees `nprocs` valid processes, or NULL.
    let procs = unsafe { procs_at(procs, nprocs)? };
    // A connect needs at least one process; unlike a fence it has no default.
    if procs.is_empty() {
        Err(Status::ERR_BAD_PARAM)
    } else {
        Ok(procs)
    }
}

/// Reads the queries; an empty array is an error.
///
/// # Safety
/// `queries` is NULL or points to `nqueries` valid queries.
unsafe fn queried(queries: *mut pmix_query_t, nqueries: usize) -> Result<Vec<Query<'static>>> {
    // SAFETY: the caller guarantees `nqueries` valid queries, or NULL.
    let queries = unsafe { queries_at(queries, nqueries)? };
    match queries.is_empty() {
        true => Err(Status::ERR_BAD_PARAM),
        false => Ok(queries),
    }
}

answered! {
    PMIx_Allocation_request PMIx_Allocation_request_nb (directive: pmix_alloc_directive_t, info: *mut pmix_info_t, ninfo: usize) {
        infos_at(info, ninfo).map(|infos| Ask::allocate(AllocDirective::from_raw(directive), infos))
    } => |host, own, to| {
        let directive = AllocDirective::from_raw(directive);
        infos_at(info, ninfo).map(|infos| host.allocate(own, directive, &infos, to))
    }
    PMIx_Job_control PMIx_Job_control_nb (targets: *const pmix_proc_t, ntargets: usize, directives: *const pmix_info_t, ndirs: usize) {
        procs_at(targets, ntargets).and_then(|targets| Ok(Ask::job_control(targets, infos_at(directives, ndirs)?)))
    } => |host, own, to| {
        procs_at(targets, ntargets).and_then(|targets| {
            host.job_control(own, &targets, &infos_at(directives, ndirs)?, to);
            Ok(())
        })
    }
}

/// Returns the queries that this library answers itself, which need neither a server nor init. The others need a
/// server.
fn own_answers(queries: Vec<Query<'static>>) -> OwnAnswers {
    let is_tool = crate::state::state().tool.is_some();
    OwnAnswers::of(queries, is_tool, |key| {
        let is_asked = is_tool && key == keys::QUERY_AVAIL_SERVERS;
        is_asked.then(|| pmix_tool::available_servers(&pmix_tool::Search::from_env()))
    })
}

exported! {
    fn PMIx_Query_info(queries: *mut pmix_query_t, nqueries: usize, results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements as
        // its count says.
        let asked = unsafe {
            clear_out(results, nresults);
            queried(queries, nqueries)
        };
        let answer = asked.and_then(|asked| {
            let mut known = own_answers(asked);
            let left = known.take_left();
            if left.is_empty() {
                return known.with(None);
            }
            let answer = match own_host() {
                Some(own) => own.wait(|host, own, to| {
                    host.query(own, &left, to);
                    Ok(())
                }),
                // Without a server, `client` returns the error of the function.
                None => client()?.wait(Ask::query(left)).map_err(|error| fault(&error)),
            };
            known.with(Some(answer))
        });
        // SAFETY: the header requires `results` and `nresults` to be NULL or valid for writes.
        code(answer.and_then(|answer| unsafe { hand_out_infos(answer, results, nresults) }))
    }

    fn PMIx_Query_info_nb(queries: *mut pmix_query_t, nqueries: usize, cbfunc: pmix_info_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires `queries` to be NULL or to have `nqueries` valid queries.
            let asked = unsafe { queried(queries, nqueries)? };
            let then = infos(cbfunc, cbdata)?;
            let mut known = own_answers(asked);
            let left = known.take_left();
            if left.is_empty() {
                return later(move || then(known.with(None)));
            }
            let then = move |answer| then(known.with(Some(answer)));
            let Some(own) = own_host() else {
                return client()?.start(Ask::query(left), then).map_err(|error| fault(&error));
            };
            let ask = |host: &CHost, own: &Proc<'static>, to| {
                host.query(own, &left, to);
                Ok(())
            };
            own.start(ask, then)
        })())
    }

    fn PMIx_Lookup(data: *mut pmix_pdata_t, ndata: usize, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
        code((|| {
            // `PMIX_ERR_INIT` comes before any error in the arguments, as in OpenPMIx.
            crate::state::proc()?;
            if data.is_null() || ndata == 0 {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let (wanted, infos) = unsafe { (slice(data, ndata)?, infos_at(info, ninfo)?) };
            let mut keys = memory::list_for(wanted.len())?;
            for one in wanted {
                keys.push(Text::new(memory::copied(memory::filled(&one.key))?));
            }
            let (status, found) = match own_host() {
                Some(own) => own.wait(|host, own, to| {
                    host.lookup(own, &keys, &infos, to);
                    Ok(())
                })?,
                None => {
                    let keys = keys.into_iter().map(Key::new).collect();
                    client()?.wait(Ask::lookup(keys, infos)).map_err(|error| fault(&error))?
                }
            };
            for place in 0..ndata {
                // SAFETY: the header requires `ndata` valid elements at `data`, which is not NULL.
                let one = unsafe { &mut *data.add(place) };
                let key = memory::filled(&one.key);
                if let Some(known) = found.iter().find(|known| known.key.as_bytes() == key) {
                    one.proc = known.proc.to_c()?;
                    one.value = known.value.to_c()?;
                }
            }
            match status {
                _ if found.is_empty() => Err(Status::ERR_NOT_FOUND),
                Status::ERR_PARTIAL_SUCCESS => Err(status),
                _ => Ok(()),
            }
        })())
    }

    fn PMIx_Lookup_nb(keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_lookup_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (keys, infos) = unsafe { (keys_at(keys)?, infos_at(info, ninfo)?) };
            if keys.is_empty() {
                return Err(Status::ERR_BAD_PARAM);
            }
            if let Some(own) = own_host() {
                let keys: Vec<_> = keys.iter().map(|key| key.as_text().clone()).collect();
                let then = found(cbfunc, cbdata)?;
                let ask = |host: &CHost, own: &Proc<'static>, to: To<_>| {
                    host.lookup(own, &keys, &infos, to);
                    Ok(())
                };
                return own.start(ask, then);
            }
            let client = client()?;
            client.start(Ask::lookup(keys, infos), found(cbfunc, cbdata)?).map_err(|error| fault(&error))
        })())
    }

    fn PMIx_Spawn(job_info: *const pmix_info_t, ninfo: usize, apps: *const pmix_app_t, napps: usize, nspace: *mut c_char) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let (infos, apps) = unsafe { spawned_by(job_info, ninfo, apps, napps)? };
            let name = match own_host() {
                _ if tool::starts_itself() => tool::start(&infos, &apps)?,
                Some(own) => own.wait(|host, own, to| {
                    host.spawn(own, &infos, &apps, to);
                    Ok(())
                })?.1,
                None => client()?.wait(Ask::spawn(infos, apps)).map_err(|error| fault(&error))?,
            };
            // SAFETY: the header requires `nspace` to be NULL or to have room for a namespace.
            if let Some(to) = unsafe { nspace.cast::<pmix_nspace_t>().as_mut() } {
                fill(to, name.as_bytes());
            }
            Ok(())
        })())
    }

    fn PMIx_Spawn_nb(job_info: *const pmix_info_t, ninfo: usize, apps: *const pmix_app_t, napps: usize, cbfunc: pmix_spawn_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let (infos, apps) = unsafe { spawned_by(job_info, ninfo, apps, napps)? };
            let then = spawned(cbfunc, cbdata)?;
            if tool::starts_itself() {
                let name = tool::start(&infos, &apps)?;
                return later(move || then(Ok(name)));
            }
            match own_host() {
                Some(own) => own.start(
                    |host, own, to| {
                        host.spawn(own, &infos, &apps, to);
                        Ok(())
                    },
                    |answer| then(answer.map(|(_, name)| name)),
                ),
                None => client()?.start(Ask::spawn(infos, apps), then).map_err(|error| fault(&error)),
            }
        })())
    }

    fn PMIx_Get_credential(info: *const pmix_info_t, ninfo: usize, credential: *mut pmix_byte_object_t) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let infos = unsafe { infos_at(info, ninfo)? };
            if credential.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let bytes = match own_host() {
                Some(own) => own.wait(|host, own, to| {
                    host.get_credential(own, &infos, to);
                    Ok(())
                })?.1.credential,
                None => client()?.wait(Ask::credential(infos)).map_err(|error| fault(&error))?.0,
            };
            let size = bytes.len();
            // SAFETY: the header requires `credential` to be valid for writes.
            unsafe { write_to(credential, pmix_byte_object_t { bytes: memory::bytes(&bytes)?, size }) }
        })())
    }

    fn PMIx_Get_credential_nb(info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_credential_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
            let infos = unsafe { infos_at(info, ninfo)? };
            let then = credential(cbfunc, cbdata)?;
            match own_host() {
                Some(own) => own.start(
                    |host, own, to| {
                        host.get_credential(own, &infos, to);
                        Ok(())
                    },
                    |answer| then(answer.map(|(_, made)| (made.credential, made.infos))),
                ),
                None => client()?.start(Ask::credential(infos), then).map_err(|error| fault(&error)),
            }
        })())
    }

    fn PMIx_Validate_credential(cred: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresults: *mut usize) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements as
        // its count says.
        let asked = unsafe { credential_at(cred, info, ninfo) };
        if let Some(own) = own_host() {
            return code(asked.and_then(|(bytes, infos)| {
                let answer = own.wait(|host, own, to| {
                    host.validate_credential(own, &bytes, &infos, to);
                    Ok(())
                })?;
                // SAFETY: the header requires `results` and `nresults` to be NULL or valid for writes.
                unsafe { hand_out_infos(answer, results, nresults) }
            }));
        }
        let ask = asked.map(|(bytes, infos)| Ask::validate(bytes, infos));
        // SAFETY: the header requires `results` and `nresults` to be NULL or valid for writes.
        code(unsafe { wait_infos(ask, results, nresults) })
    }

    fn PMIx_Validate_credential_nb(cred: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_validation_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            crate::state::proc()?;
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (bytes, infos) = unsafe { credential_at(cred, info, ninfo)? };
            let then = validated(cbfunc, cbdata)?;
            match own_host() {
                Some(own) => own.start(
                    |host, own, to| {
                        host.validate_credential(own, &bytes, &infos, to);
                        Ok(())
                    },
                    then,
                ),
                None => client()?.start(Ask::validate(bytes, infos), then).map_err(|error| fault(&error)),
            }
        })())
    }
}

/// Reads the arguments of a spawn; no application is an error.
///
/// # Safety
/// Each array is NULL or has as many valid elements as its count says.
unsafe fn spawned_by(
    info: *const pmix_info_t,
    ninfo: usize,
    apps: *const pmix_app_t,
    napps: usize,
) -> Result<(Vec<Info<'static>>, Vec<App<'static>>)> {
    // SAFETY: the caller guarantees that each array is NULL or has as many valid elements as its count says.
    let (infos, apps) = unsafe { (infos_at(info, ninfo)?, apps_at(apps, napps)?) };
    match apps.is_empty() {
        true => Err(Status::ERR_BAD_PARAM),
        false => Ok((infos, apps)),
    }
}

/// Reads a credential and its directives.
///
/// # Safety
/// `cred` is NULL or valid, and `info` is NULL or points to `ninfo` valid infos.
unsafe fn credential_at(
    cred: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<(Vec<u8>, Vec<Info<'static>>)> {
    // SAFETY: the caller guarantees that `cred` and the infos are NULL or valid.
    let (cred, infos) = unsafe { (there(cred)?, infos_at(info, ninfo)?) };
    // SAFETY: the caller guarantees a valid byte object, which has `size` bytes.
    let bytes = unsafe { slice(cred.bytes.cast::<u8>(), cred.size)? };
    Ok((memory::copied(bytes)?, infos))
}
