// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes on a node and the nodes of a job (`PMIx_Resolve_peers`, `PMIx_Resolve_nodes`).
//!
//! Only here does the Standard require an empty result: for a node without processes of the job, or of any job, the
//! result is `PMIX_SUCCESS` with NULL and 0. An unknown job is an error.

use std::ffi::c_char;

use pmix_types::memory as heap;
use pmix_types::{
    DataArray, Info, IntoOwned as _, Key, Measure, Nspace, Proc, Query, Rank, Status, Text, Value,
    keys,
};

use crate::abi::*;
use crate::args::{self, Maybe, OutArray, OutPointer};
use crate::convert::fault;
use crate::gets::known_to_server;
use crate::guard::exported;
use crate::memory::{self, Result, string};
use crate::state::{client, own_server, proc};
use crate::tool;

exported! {
    fn PMIx_Resolve_peers(own = proc()?; nodename: Maybe<args::Text>, nspace: args::Nspace, (procs, nprocs): OutArray<Proc<'static>>) -> pmix_status_t {
        let node = nodename.map(|node| Info::new(keys::HOSTNAME, Value::String(Some(node))));
        procs.write(&peers(own, nspace, node.as_slice())?)
    }

    fn PMIx_Resolve_nodes(own = proc()?; nspace: args::Nspace, nodelist: OutPointer<c_char>) -> pmix_status_t {
        match nodes(own, nspace)? {
            Some(nodes) => nodelist.fill(|| string(nodes.as_bytes())),
            None => Ok(()),
        }
    }
}

/// The number of copies of a node name while all nodes are listed: the name, the set of names seen, and the list.
const NAME_COPIES: usize = 3;

/// The bytes that a name takes in addition to its text: an entry of a list that doubles as it grows, and one of a table.
const NAME_OVERHEAD: usize = 256;

/// Returns the processes on a node that belong to a job, or to any job if the namespace is empty.
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
            let more = peers_of_job(&nspace, node)?;
            memory::reserve(more.len().saturating_mul(2 * size_of::<Proc<'_>>()))?;
            procs.extend(more);
        }
        return Ok(procs);
    }
    let by_query = peers_by_query(&nspace, node);
    if let Some(found) = &by_query
        && !found.is_empty()
    {
        memory::reserve(found.measure(Measure::All))?;
        return Ok(Proc::owned_list(found));
    }
    let of = if nspace.is_invalid() {
        own.nspace
    } else {
        nspace
    };
    match peers_of_job(&of, node) {
        // The server has replied that there are none. The error only says that this process has no job of its own.
        Err(Status::ERR_NOT_FOUND) if by_query.is_some() => Ok(Vec::new()),
        found => found,
    }
}

/// Returns the processes of a job on a node; none if the job exists and has none there.
fn peers_of_job(nspace: &Nspace<'static>, node: &[Info<'static>]) -> Result<Vec<Proc<'static>>> {
    let job = Proc::new(nspace.clone(), Rank::WILDCARD);
    let ranks = match of_job(&job, keys::LOCAL_PEERS, node) {
        Ok(ranks) => ranks_of(&ranks)?,
        Err(Status::ERR_NOT_FOUND) if of_job(&job, keys::JOB_SIZE, &[]).is_ok() => Vec::new(),
        Err(status) => return Err(status),
    };
    let name = heap::allocated(nspace.as_bytes().len());
    memory::reserve(ranks.len().saturating_mul(size_of::<Proc<'_>>() + name))?;
    Ok(ranks
        .into_iter()
        .map(|rank| Proc::new(nspace.clone(), rank))
        .collect())
}

/// Returns the names of the nodes of a job, or of all jobs if the namespace is empty, separated by commas. Returns
/// `None` if this process is a server without jobs.
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
            let count = nodes
                .as_bytes()
                .iter()
                .filter(|byte| **byte == b',')
                .count()
                + 1;
            let texts = nodes.as_bytes().len().saturating_mul(NAME_COPIES);
            memory::reserve(texts.saturating_add(count.saturating_mul(NAME_OVERHEAD)))?;
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
        // A server of OpenPMIx 7 replies with an empty list.
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

/// Returns a value of a job, from the data of this process or from the server.
fn of_job(job: &Proc<'static>, key: &str, infos: &[Info<'static>]) -> Result<Value<'static>> {
    let key = Key::from(key.to_owned());
    match known_to_server(job, &key, infos) {
        Some(found) => found,
        None => client()?
            .get(job, key, infos)
            .wait()
            .map_err(|error| fault(&error)),
    }
}

/// Asks the server for the processes of all jobs on a node. A tool also asks for one job this way, because it has no
/// job data that name its node. Returns `None` if the server does not support the query; OpenPMIx servers do not.
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

/// Queries the server for a key of one job, or of all jobs if the namespace is empty.
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
    let (_, infos) = client().ok()?.query([query]).wait().ok()?;
    let found = infos.into_iter().find(|info| info.key.is(key))?;
    Some(found.value)
}

/// Parses a comma-separated list of ranks.
fn ranks_of(value: &Value<'_>) -> Result<Vec<Rank>> {
    let Value::String(Some(text)) = value else {
        return Err(Status::ERR_NOT_FOUND);
    };
    let bytes = text.as_bytes();
    let mut ranks = memory::list_for(bytes.iter().filter(|byte| **byte == b',').count() + 1)?;
    for rank in bytes.split(|byte| *byte == b',') {
        let rank = std::str::from_utf8(rank).ok();
        let rank = rank.and_then(|rank| rank.trim().parse().ok());
        ranks.push(Rank::new(rank.ok_or(Status::ERR_NOT_FOUND)?));
    }
    Ok(ranks)
}
