// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a node, and the nodes of a job.

use std::collections::HashSet;

use gds_hash::Request;
use pmix_proto::{reply, request};
use pmix_types::{DataArray, Info, IntoOwned, Nspace, Proc, Rank, Status, Text, Value, keys};

use super::nodes::Nodes;
use super::results::QueryResults;
use super::target::{procs_of, visible};
use crate::Error;
use crate::cx::Cx;
use crate::host::{HostReply, Query};
use crate::peers::{Member, Ticket};
use crate::pending::Pending;

/// Returns the processes of a job, or of all jobs, on the named nodes; without a name, on the node of this server. The
/// result is empty for nodes without processes of the job.
///
/// # Errors
///
/// Returns `PMIX_ERR_INVALID_NAMESPACE` if the job is not registered, `PMIX_ERR_NO_PERMISSIONS` if it belongs to
/// another user, and the errors of [`QueryResults::make_room`].
pub(super) fn peers_on(
    cx: &Cx,
    member: &Member,
    nodes: &Nodes<'_>,
    nspace: Option<&Nspace<'static>>,
) -> Result<Vec<Proc<'static>>, Error> {
    let mut procs = Vec::new();
    for nspace in requested_jobs(cx, member, nspace)? {
        let found = procs_on(cx, &nspace, nodes);
        QueryResults::make_room(&mut procs, found.len() as u64)?;
        procs.extend(found);
    }
    Ok(procs)
}

/// Returns the distinct processes of a job on the named nodes; without a name, on the node of this server.
pub(super) fn procs_on(cx: &Cx, nspace: &Nspace<'static>, nodes: &Nodes<'_>) -> Vec<Proc<'static>> {
    let on_one = |qualifiers: &[Info<'_>]| {
        let request = Request::new(Rank::WILDCARD, keys::LOCAL_PEERS).with(qualifiers);
        match cx.store.get(nspace, &request) {
            Ok(Value::String(Some(ranks))) => procs_of(nspace, &ranks),
            _ => Vec::new(),
        }
    };
    let mut seen = HashSet::new();
    let procs = nodes.for_each(on_one).into_iter().flatten();
    // One query may select a node both by its name and by its number.
    procs.filter(|proc| seen.insert(proc.rank)).collect()
}

/// Returns the comma-separated names of the nodes of a job, or of all jobs.
///
/// # Errors
///
/// Returns the errors of [`peers_on`].
pub(super) fn nodes_of(
    cx: &Cx,
    member: &Member,
    nspace: Option<&Nspace<'static>>,
) -> Result<Text<'static>, Error> {
    let mut names = Vec::new();
    let mut seen = HashSet::new();
    for nspace in requested_jobs(cx, member, nspace)? {
        let Some(known) = cx.store.job(&nspace) else {
            continue;
        };
        for name in known.job().nodes().filter_map(|node| node.name) {
            if seen.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    Ok(Text::new(names.join(&b',')))
}

/// Returns the jobs of a request.
fn requested_jobs(
    cx: &Cx,
    member: &Member,
    nspace: Option<&Nspace<'static>>,
) -> Result<Vec<Nspace<'static>>, Error> {
    let Some(nspace) = nspace else {
        return Ok(visible(cx, member));
    };
    if cx.store.job(nspace).is_none() {
        let message = format!("no job {nspace} is registered");
        return Err(Error::new(Status::ERR_INVALID_NAMESPACE, message));
    }
    cx.check_reads(member, nspace)?;
    Ok(vec![nspace.clone()])
}

pub(crate) fn resolve_peers(cx: &mut Cx, ticket: Ticket, request: &request::ResolvePeers<'_>) {
    let nspace = named(&request.nspace);
    let node = request.node.clone();
    let on_node = node.map(|node| Info::new(keys::HOSTNAME, Value::String(Some(node))));
    let qualifiers = on_node.as_slice();
    let found = Nodes::of(qualifiers)
        .and_then(|nodes| peers_on(cx, cx.member(&ticket)?, &nodes, nspace.as_ref()));
    match found {
        Ok(procs) => reply_peers(cx, ticket, Status::SUCCESS, procs),
        Err(error) if error.status() == Status::ERR_INVALID_NAMESPACE => {
            let node = request.node.clone().into_owned();
            ask_host_to_resolve(cx, ticket, keys::QUERY_RESOLVE_PEERS, nspace, node);
        }
        Err(error) => cx.reply_error(ticket, &error),
    }
}

pub(crate) fn resolve_nodes(cx: &mut Cx, ticket: Ticket, request: &request::ResolveNodes<'_>) {
    let nspace = named(&request.nspace);
    let found = (cx.member(&ticket)).and_then(|member| nodes_of(cx, member, nspace.as_ref()));
    match found {
        Ok(nodes) => reply_nodes(cx, ticket, nodes),
        Err(error) if error.status() == Status::ERR_INVALID_NAMESPACE => {
            ask_host_to_resolve(cx, ticket, keys::QUERY_RESOLVE_NODE, nspace, None);
        }
        Err(error) => cx.reply_error(ticket, &error),
    }
}

/// Asks the host about a job that is not registered here.
fn ask_host_to_resolve(
    cx: &mut Cx,
    ticket: Ticket,
    key: &'static str,
    nspace: Option<Nspace<'static>>,
    node: Option<Text<'static>>,
) {
    let Ok(member) = cx.member(&ticket) else {
        return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
    };
    let name = nspace.unwrap_or_default().as_text().clone();
    let mut qualifiers = vec![Info::new(keys::NSPACE, Value::String(Some(name)))];
    if let Some(node) = node {
        qualifiers.push(Info::new(keys::HOSTNAME, Value::String(Some(node))));
    }
    let query = pmix_types::Query {
        keys: vec![Text::from(key)],
        qualifiers,
    };
    let call = Query {
        proc: member.proc.clone(),
        queries: vec![query],
    };
    cx.call_host(call, Pending::Resolve(ticket, key));
}

pub(crate) fn host_resolved(cx: &mut Cx, ticket: Ticket, key: &str, reply: HostReply) {
    let unknown = Status::ERR_INVALID_NAMESPACE;
    let infos = match reply {
        HostReply::Infos(status, infos) if status.is_success() => infos,
        _ => return cx.reply_status(ticket, unknown),
    };
    let found = infos.into_iter().find(|info| info.key.is(key));
    match found.map(|info| info.value) {
        Some(Value::DataArray(DataArray::Proc(procs))) => {
            reply_peers(cx, ticket, Status::SUCCESS, procs);
        }
        Some(Value::String(Some(nodes))) => reply_nodes(cx, ticket, nodes),
        _ => cx.reply_status(ticket, unknown),
    }
}

fn reply_peers(cx: &mut Cx, ticket: Ticket, status: Status, procs: Vec<Proc<'static>>) {
    let Some(form) = cx.form(ticket.peer()) else {
        return cx.reply_status(ticket, status);
    };
    let reply = reply::Peers {
        status,
        procs: Some(procs),
    };
    let packed = reply.encode(&form, Some(cx.framer()));
    cx.reply_packed(ticket, packed);
}

fn reply_nodes(cx: &mut Cx, ticket: Ticket, nodes: Text<'static>) {
    let status = Status::SUCCESS;
    let Some(form) = cx.form(ticket.peer()) else {
        return cx.reply_status(ticket, status);
    };
    let reply = reply::Nodes {
        status,
        nodes: Some(Some(nodes)),
    };
    let packed = reply.encode(&form, Some(cx.framer()));
    cx.reply_packed(ticket, packed);
}

/// Returns the job of a request; `None` for an empty name.
fn named(nspace: &Nspace<'_>) -> Option<Nspace<'static>> {
    (!nspace.is_empty()).then(|| nspace.clone().into_owned())
}
