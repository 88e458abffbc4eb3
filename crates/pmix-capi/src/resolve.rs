// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes are on a node, and which nodes jobs are on (`PMIx_Resolve_peers`, `PMIx_Resolve_nodes`).
//!
//! The Standard asks for an empty answer here alone: a node without processes of the job, or of any job, is
//! `PMIX_SUCCESS` with NULL and 0. A job that is not known is an error.

use std::ffi::c_char;
use std::ptr;

use pmix_client::Ask;
use pmix_server::Server;
use pmix_types::{DataArray, Info, Key, Nspace, Proc, Query, Rank, Status, Text, Value, keys};

use crate::abi::*;
use crate::convert::{clear_out, fault, hand_out, text_at};
use crate::gets::known_to_server;
use crate::guard::exported;
use crate::memory::{Result, string};
use crate::names::nspace_at;
use crate::state::{client, state};
use crate::status::{code, write_to};
use crate::tool;

exported! {
    fn PMIx_Resolve_peers(nodename: *const c_char, nspace: *const c_char, procs: *mut *mut pmix_proc_t, nprocs: *mut usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the function requires each pointer to be NULL or to lead to room for one (header contract).
            unsafe { clear_out(procs, nprocs) };
            let own = crate::state::proc()?;
            if procs.is_null() || nprocs.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: the function requires both names to be NULL or strings (header contract).
            let (node, nspace) = unsafe { (text_at(nodename).ok(), nspace_at(nspace)) };
            let node = node.map(|node| Info::new(keys::HOSTNAME, Value::String(Some(node))));
            let found = peers(own, nspace, node.as_slice())?;
            // SAFETY: as above; neither pointer is NULL.
            unsafe { hand_out(&found, procs, nprocs) }
        })())
    }

    fn PMIx_Resolve_nodes(nspace: *const c_char, nodelist: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the function requires `nodelist` to be NULL or to lead to room for one (header contract).
            unsafe { write_to(nodelist, ptr::null_mut())? };
            let own = crate::state::proc()?;
            // SAFETY: the function requires the name to be NULL or a string (header contract).
            let nspace = unsafe { nspace_at(nspace) };
            match nodes(own, nspace)? {
                // SAFETY: as above; it is not NULL.
                Some(nodes) => unsafe { write_to(nodelist, string(nodes.as_bytes())?) },
                None => Ok(()),
            }
        })())
    }
}

/// Returns the server that this process is, if it asks no other server.
fn own_server() -> Option<Server> {
    let state = state();
    match state.connection() {
        Some(_) => None,
        None => state.server.as_ref().map(|(server, _)| server.clone()),
    }
}

/// Returns the processes of a job, or of all jobs if the nspace is empty, on a node.
fn peers(
    own: Proc<'static>,
    nspace: Nspace<'static>,
    node: &[Info<'static>],
) -> Result<Vec<Proc<'static>>> {
    if nspace.is_invalid()
        && let Some(server) = own_server()
    {
        let mut procs = Vec::new();
        for nspace in server.nspaces().map_err(|error| error.status())? {
            procs.extend(peers_of_job(&nspace, node)?);
        }
        return Ok(procs);
    }
    let by_query = peers_by_query(&nspace, node);
    if let Some(found) = &by_query
        && !found.is_empty()
    {
        return Ok(Proc::owned_list(found));
    }
    let of = if nspace.is_invalid() {
        own.nspace
    } else {
        nspace
    };
    match peers_of_job(&of, node) {
        // The server has said that there are none, and this process has no job.
        Err(Status::ERR_NOT_FOUND) if by_query.is_some() => Ok(Vec::new()),
        found => found,
    }
}

/// Returns the processes of a job on a node: none if the job has none there.
fn peers_of_job(nspace: &Nspace<'static>, node: &[Info<'static>]) -> Result<Vec<Proc<'static>>> {
    let job = Proc::new(nspace.clone(), Rank::WILDCARD);
    let ranks = match of_job(&job, keys::LOCAL_PEERS, node) {
        Ok(ranks) => ranks_of(&ranks)?,
        Err(Status::ERR_NOT_FOUND) if of_job(&job, keys::JOB_SIZE, &[]).is_ok() => Vec::new(),
        Err(status) => return Err(status),
    };
    Ok(ranks
        .into_iter()
        .map(|rank| Proc::new(nspace.clone(), rank))
        .collect())
}

/// Returns the names of the nodes of a job, or of all jobs if the nspace is empty, with commas between them. `None`
/// where the server that this process is has no job.
fn nodes(own: Proc<'static>, nspace: Nspace<'static>) -> Result<Option<Text<'static>>> {
    if nspace.is_invalid()
        && let Some(server) = own_server()
    {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for nspace in server.nspaces().map_err(|error| error.status())? {
            let job = Proc::new(nspace, Rank::WILDCARD);
            let Ok(Value::String(Some(nodes))) = of_job(&job, keys::NODE_LIST, &[]) else {
                continue;
            };
            names.extend(
                nodes
                    .as_bytes()
                    .split(|byte| *byte == b',')
                    .map(<[u8]>::to_vec),
            );
        }
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
        return Ok((!names.is_empty()).then(|| Text::new(names.join(&b','))));
    }
    let text = |value| match value {
        Value::String(Some(nodes)) if !Text::is_empty(&nodes) => Some(nodes),
        // A server of OpenPMIx 7 answers with a list without names.
        _ => None,
    };
    let by_query = nspace
        .is_invalid()
        .then(|| resolved(keys::QUERY_RESOLVE_NODE, &nspace, &[]));
    if let Some(nodes) = by_query.flatten().and_then(text) {
        return Ok(Some(nodes));
    }
    let of = if nspace.is_invalid() {
        own.nspace
    } else {
        nspace
    };
    let found = of_job(&Proc::new(of, Rank::WILDCARD), keys::NODE_LIST, &[])?;
    text(found).map(Some).ok_or(Status::ERR_NOT_FOUND)
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
        Value::DataArray(DataArray::Proc(procs)) => Some(procs),
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
fn ranks_of(value: &Value<'_>) -> Result<Vec<Rank>> {
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
