// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of clients, each in a blocking and a nonblocking form: publish and lookup, connect and disconnect, spawn,
//! queries, logging, control, monitoring and credentials.

use pmix_client::Answers;
use pmix_client::driver::OwnAnswers;
use pmix_server::upcall::{
    Alloc, GetCredential, JobControl, Log, Lookup, Monitor, Publish, Query as QueryHost, Spawn,
    Unpublish, ValidateCredential,
};
use pmix_types::{AllocDirective, Info, Pdata, Query, Status, Text, keys};

use crate::abi::*;
use crate::args::{self, Callback, Infos, Mut, NonEmpty, OutList, Procs, Required, Results};
use crate::convert::fault;
use crate::guard::exported;
use crate::later::later;
use crate::memory::{self, Result};
use crate::model::Model;
use crate::owned::HeldArray;
use crate::replies;
use crate::requester::Requester;
use crate::state::{client, proc};
use crate::tool;

/// Writes infos to the caller's pointers if the status says that there are any.
pub(crate) fn write_infos(
    (status, infos): Answers,
    results: &Results<'_, Info<'static>>,
) -> Result<()> {
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => results.write(&infos),
        Status::ERR_PARTIAL_SUCCESS | Status::QUERY_PARTIAL_SUCCESS => {
            results.write(&infos)?;
            Err(status)
        }
        other => Err(other),
    }
}

/// Sends a heartbeat if `monitor` requests one and no directive is required. Returns `true` if it was sent. A heartbeat
/// is a message type of its own, because OpenPMIx servers accept it only in that form.
fn send_heartbeat(
    requester: &Requester,
    monitor: &Info<'_>,
    directives: &[Info<'_>],
) -> Result<bool> {
    let is_plain = !directives.iter().any(Info::must_be_obeyed);
    match requester {
        Requester::Server(client) if is_plain && monitor.key.is(keys::SEND_HEARTBEAT) => {
            let sent = client.heartbeat();
            sent.map(|()| true).map_err(|error| fault(&error))
        }
        _ => Ok(false),
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

/// Returns the keys of the elements of a lookup.
fn keys_of(data: &HeldArray<'_, pmix_pdata_t>) -> Result<Vec<Text<'static>>> {
    let mut keys = memory::list_for(data.len())?;
    for wanted in data.iter() {
        keys.push(Text::new(memory::copied(memory::filled(
            &wanted.members().key,
        ))?));
    }
    Ok(keys)
}

/// Stores published data in the elements of a lookup, by their keys.
fn store_found(
    data: &HeldArray<'_, pmix_pdata_t>,
    (status, found): (Status, Vec<Pdata<'static>>),
) -> Result<()> {
    for mut element in data.iter() {
        let members = element.members();
        let key = memory::filled(&members.key);
        if let Some(known) = found.iter().find(|known| known.key.as_bytes() == key) {
            let (proc, value) = (known.proc.to_c()?, known.value.to_c()?);
            // The program passes elements whose values are not initialized or are its own, so they are not freed.
            element.set(pmix_pdata_t {
                proc,
                value,
                ..members
            });
        }
    }
    match status {
        _ if found.is_empty() => Err(Status::ERR_NOT_FOUND),
        Status::ERR_PARTIAL_SUCCESS => Err(status),
        _ => Ok(()),
    }
}

exported! {
    fn PMIx_Publish(requester = Requester::current()?; (info, ninfo): NonEmpty<Infos>) -> pmix_status_t {
        requester.wait(Publish::new(requester.proc(), info))
    }

    fn PMIx_Publish_nb(requester = Requester::current()?; (info, ninfo): NonEmpty<Infos>, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        requester.call_back(Publish::new(requester.proc(), info), cbfunc)
    }

    fn PMIx_Unpublish(requester = Requester::current()?; keys: args::Strings, (info, ninfo): Infos) -> pmix_status_t {
        requester.wait(Unpublish::new(requester.proc(), keys, info))
    }

    fn PMIx_Unpublish_nb(requester = Requester::current()?; keys: args::Strings, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        requester.call_back(Unpublish::new(requester.proc(), keys, info), cbfunc)
    }

    // A connect needs at least one process; unlike a fence it has no default.
    fn PMIx_Connect(client = client()?; (procs, nprocs): NonEmpty<Procs>, (info, ninfo): Infos) -> pmix_status_t {
        replies::wait(client.connect(procs, info))
    }

    fn PMIx_Connect_nb(client = client()?; (procs, nprocs): NonEmpty<Procs>, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        replies::call_back(client.connect(procs, info), cbfunc)
    }

    fn PMIx_Disconnect(client = client()?; (procs, nprocs): NonEmpty<Procs>, (info, ninfo): Infos) -> pmix_status_t {
        replies::wait(client.disconnect(procs, info))
    }

    fn PMIx_Disconnect_nb(client = client()?; (procs, nprocs): NonEmpty<Procs>, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        replies::call_back(client.disconnect(procs, info), cbfunc)
    }

    fn PMIx_Log(requester = Requester::current()?; (data, ndata): NonEmpty<Infos>, (directives, ndirs): Infos) -> pmix_status_t {
        requester.wait(Log::new(requester.proc(), data, directives))
    }

    fn PMIx_Log_nb(requester = Requester::current()?; (data, ndata): NonEmpty<Infos>, (directives, ndirs): Infos, (cbfunc, cbdata): Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        requester.call_back(Log::new(requester.proc(), data, directives), cbfunc)
    }

    fn PMIx_Allocation_request(requester = Requester::current()?; directive: AllocDirective, (info, ninfo): Infos<Mut>, (results, nresults): OutList<Info<'static>>) -> pmix_status_t {
        write_infos(requester.wait(Alloc::new(requester.proc(), directive, info))?, &results)
    }

    fn PMIx_Allocation_request_nb(requester = Requester::current()?; directive: AllocDirective, (info, ninfo): Infos<Mut>, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        requester.call_back(Alloc::new(requester.proc(), directive, info), cbfunc)
    }

    fn PMIx_Job_control(requester = Requester::current()?; (targets, ntargets): Procs, (directives, ndirs): Infos, (results, nresults): OutList<Info<'static>>) -> pmix_status_t {
        write_infos(requester.wait(JobControl::new(requester.proc(), targets, directives))?, &results)
    }

    fn PMIx_Job_control_nb(requester = Requester::current()?; (targets, ntargets): Procs, (directives, ndirs): Infos, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        requester.call_back(JobControl::new(requester.proc(), targets, directives), cbfunc)
    }

    fn PMIx_Process_monitor(_own = proc()?; monitor: args::Info, error: Status, (directives, ndirs): Infos, (results, nresults): OutList<Info<'static>>) -> pmix_status_t {
        let requester = Requester::current()?;
        if send_heartbeat(&requester, &monitor, &directives)? {
            return Ok(());
        }
        write_infos(requester.wait(Monitor::new(requester.proc(), monitor, error, directives))?, &results)
    }

    fn PMIx_Process_monitor_nb(_own = proc()?; monitor: args::Info, error: Status, (directives, ndirs): Infos, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        let requester = Requester::current()?;
        if send_heartbeat(&requester, &monitor, &directives)? {
            return later(move || cbfunc.complete(Ok((Status::SUCCESS, Vec::new()))));
        }
        requester.call_back(Monitor::new(requester.proc(), monitor, error, directives), cbfunc)
    }

    fn PMIx_Query_info((queries, nqueries): NonEmpty<args::Queries<Mut>>, (results, nresults): OutList<Info<'static>>) -> pmix_status_t {
        let mut known = own_answers(queries);
        let left = known.take_left();
        let asked = match left.is_empty() {
            true => None,
            // Without a server, this is the error of the function.
            false => {
                let requester = Requester::current()?;
                Some(requester.wait(QueryHost::new(requester.proc(), left)))
            }
        };
        write_infos(known.with(asked)?, &results)
    }

    fn PMIx_Query_info_nb(own = proc()?; (queries, nqueries): NonEmpty<args::Queries<Mut>>, (cbfunc, cbdata): Callback<pmix_info_cbfunc_t>) -> pmix_status_t {
        let mut known = own_answers(queries);
        let left = known.take_left();
        if left.is_empty() {
            return later(move || cbfunc.complete(known.with(None)));
        }
        let then = move |answer| cbfunc.complete(known.with(Some(answer)));
        Requester::current()?.start(QueryHost::new(own, left), then)
    }

    fn PMIx_Lookup(own = proc()?; (data, ndata): NonEmpty<args::Elements<pmix_pdata_t>>, (info, ninfo): Infos) -> pmix_status_t {
        let wanted = Lookup::new(own, keys_of(&data)?, info);
        store_found(&data, Requester::current()?.wait(wanted)?)
    }

    fn PMIx_Lookup_nb(own = proc()?; keys: args::Strings, (info, ninfo): Infos, (cbfunc, cbdata): Required<pmix_lookup_cbfunc_t>) -> pmix_status_t {
        if keys.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        Requester::current()?.call_back(Lookup::new(own, keys, info), cbfunc)
    }

    fn PMIx_Spawn(own = proc()?; (job_info, ninfo): Infos, (apps, napps): NonEmpty<args::Apps>, nspace: args::Maybe<args::OutChars<256>>) -> pmix_status_t {
        let name = match tool::starts_itself() {
            true => tool::start(&job_info, &apps)?,
            false => Requester::current()?.wait(Spawn::new(own, job_info, apps))?,
        };
        if let Some(nspace) = nspace {
            nspace.write(name.to_c()?);
        }
        Ok(())
    }

    fn PMIx_Spawn_nb(own = proc()?; (job_info, ninfo): Infos, (apps, napps): NonEmpty<args::Apps>, (cbfunc, cbdata): Required<pmix_spawn_cbfunc_t>) -> pmix_status_t {
        if tool::starts_itself() {
            let name = tool::start(&job_info, &apps)?;
            return later(move || cbfunc.complete(Ok(name)));
        }
        Requester::current()?.call_back(Spawn::new(own, job_info, apps), cbfunc)
    }

    fn PMIx_Get_credential(own = proc()?; (info, ninfo): Infos, credential: args::Out<pmix_byte_object_t>) -> pmix_status_t {
        let (bytes, _) = Requester::current()?.wait(GetCredential::new(own, info))?;
        credential.fill(|| pmix_types::Bytes::from(bytes).to_c())
    }

    fn PMIx_Get_credential_nb(own = proc()?; (info, ninfo): Infos, (cbfunc, cbdata): Required<pmix_credential_cbfunc_t>) -> pmix_status_t {
        Requester::current()?.call_back(GetCredential::new(own, info), cbfunc)
    }

    fn PMIx_Validate_credential(requester = Requester::current()?; cred: args::ByteObject, (info, ninfo): Infos, (results, nresults): OutList<Info<'static>>) -> pmix_status_t {
        let call = ValidateCredential::new(requester.proc(), cred.into_owned(), info);
        write_infos(requester.wait(call)?, &results)
    }

    fn PMIx_Validate_credential_nb(own = proc()?; cred: args::ByteObject, (info, ninfo): Infos, (cbfunc, cbdata): Callback<pmix_validation_cbfunc_t>) -> pmix_status_t {
        Requester::current()?.call_back(ValidateCredential::new(own, cred.into_owned(), info), cbfunc)
    }
}
