// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys that the server itself can answer.

use std::collections::HashMap;

use pmix_types::{ABI_VERSION, DataArray, Info, Nspace, Proc, Status, Text, Value, keys};

use super::nodes::Nodes;
use super::resolve::{nodes_of, peers_on};
use super::results::LocalAnswer;
use super::stored::stored;
use super::table::{proc_state, proc_table};
use super::target::QueryTarget;
use super::target::{may_see, meant, of_job, visible};
use crate::Error;
use crate::cx::Cx;
use crate::infos::is_set;
use crate::peers::Member;
use crate::registry::ClientState;

/// The keys that do not depend on registered values.
const OWN: &[&str] = &[
    keys::QUERY_ATTRIBUTE_SUPPORT,
    keys::QUERY_GROUP_MEMBERSHIP,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_JOB_STATUS,
    keys::QUERY_LOCAL_PROC_TABLE,
    keys::QUERY_NAMESPACES,
    keys::QUERY_NAMESPACE_INFO,
    keys::QUERY_NUM_GROUPS,
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PROC_TABLE,
    keys::QUERY_PROVISIONAL_ABI_VERSION,
    keys::QUERY_PSET_MEMBERSHIP,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_RESOLVE_NODE,
    keys::QUERY_RESOLVE_PEERS,
    keys::QUERY_STABLE_ABI_VERSION,
    keys::QUERY_SUPPORTED_KEYS,
    keys::PROC_STATE_STATUS,
    keys::SERVER_START_TIME,
];

/// The qualifiers that select a job, or a process of it.
const OF_JOB: &[&str] = &[keys::NSPACE, keys::PROCID];
const OF_PROC: &[&str] = &[keys::NSPACE, keys::RANK, keys::PROCID];
const OF_NODES: &[&str] = &[keys::NSPACE, keys::PROCID, keys::HOSTNAME, keys::NODEID];

/// The qualifiers of a key of the datastore.
const OF_DATA: &[&str] = &[
    keys::NSPACE,
    keys::RANK,
    keys::PROCID,
    keys::HOSTNAME,
    keys::NODEID,
    keys::QUERY_REFRESH_CACHE,
];

/// The key of the Standard for [`keys::SERVER_START_TIME`]; released headers define another.
const STANDARD_START_TIME: &str = "pmix.srvr.strtime";

/// The groups of the requesting process; for a tool, those with processes of jobs that it may read.
#[derive(Default)]
pub(crate) struct OwnGroups {
    /// The names of the groups.
    pub(crate) names: Vec<Text<'static>>,
    /// The members of the groups whose membership is requested.
    pub(crate) members: HashMap<Text<'static>, Vec<Proc<'static>>>,
}

/// Returns the answer of the server for a key of a member's query.
///
/// # Errors
///
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the query names too many nodes.
pub(super) fn known(
    cx: &Cx,
    member: &Member,
    key: &str,
    target: &QueryTarget,
    qualifiers: &[Info<'_>],
    groups: &OwnGroups,
) -> Result<LocalAnswer, Error> {
    let jobs = || meant(cx, member, target.nspace.as_ref());
    let nodes = || Nodes::of(qualifiers);
    if is_set(qualifiers, keys::QUERY_SUPPORTED_QUALIFIERS) {
        let is_stored = match own_qualifiers(key) {
            Some(_) => false,
            None => stored(cx, member, &jobs(), target.rank, key, &nodes()?)?.is_some(),
        };
        let list = own_qualifiers(key).or_else(|| is_stored.then_some(OF_DATA));
        let list = list.map(|list| LocalAnswer::Found(Value::from(list.join(","))));
        return Ok(list.unwrap_or(LocalAnswer::Unknown));
    }
    if let Some(found) = completed_by_host(cx, member, key, target, qualifiers)? {
        return Ok(found);
    }
    let found = match key {
        keys::QUERY_STABLE_ABI_VERSION | keys::QUERY_PROVISIONAL_ABI_VERSION => {
            Some(Value::from(ABI_VERSION))
        }
        keys::SERVER_START_TIME | STANDARD_START_TIME => {
            (cx.config.started).map(|started| Value::from(pmix_proto::ctime(started)))
        }
        keys::QUERY_NUM_PSETS => Some(Value::from(psets(cx, member).count())),
        keys::QUERY_PSET_NAMES => Some(pset_names(cx, member)),
        keys::QUERY_PSET_MEMBERSHIP => pset_members(cx, member, qualifiers),
        keys::QUERY_NUM_GROUPS => Some(Value::from(groups.names.len())),
        keys::QUERY_GROUP_NAMES => Some(group_names(groups)),
        keys::QUERY_GROUP_MEMBERSHIP => group_members(groups, qualifiers),
        keys::QUERY_RESOLVE_NODE => {
            let nodes = nodes_of(cx, member, target.nspace.as_ref()).ok();
            nodes.map(|nodes| Value::String(Some(nodes)))
        }
        keys::QUERY_RESOLVE_PEERS => {
            let peers = peers_on(cx, member, &nodes()?, target.nspace.as_ref());
            peers.ok().map(Value::from)
        }
        _ => {
            let found = stored(cx, member, &jobs(), target.rank, key, &nodes()?)?;
            let of_no_job = || cx.resources.find(key, qualifiers);
            let found = found.or_else(|| of_no_job().map(|(_, value)| value.into_owned()));
            // The store has the values of the registration; only the host has current ones.
            if is_set(qualifiers, keys::QUERY_REFRESH_CACHE) {
                return Ok(tentative(found));
            }
            found
        }
    };
    Ok(found.map_or(LocalAnswer::Unknown, LocalAnswer::Found))
}

/// Returns the answer for a key that the host may know more about, or `None` for other keys.
fn completed_by_host(
    cx: &Cx,
    member: &Member,
    key: &str,
    target: &QueryTarget,
    qualifiers: &[Info<'_>],
) -> Result<Option<LocalAnswer>, Error> {
    let nspace = target.nspace.as_ref();
    let jobs = || meant(cx, member, nspace);
    let found = match key {
        // The host adds the keys that it supports.
        keys::QUERY_SUPPORTED_KEYS => Some(Value::from(OWN.join(","))),
        // The host has jobs without processes on this node.
        keys::QUERY_NAMESPACES => Some(nspace_names(cx, member)),
        keys::QUERY_NAMESPACE_INFO => nspace_infos(cx, member, nspace),
        keys::QUERY_JOB_STATUS => job_status(cx, member, &jobs()),
        keys::QUERY_PROC_TABLE => proc_table(cx, member, &jobs(), None)?,
        keys::QUERY_LOCAL_PROC_TABLE => {
            proc_table(cx, member, &jobs(), Some(&Nodes::of(qualifiers)?))?
        }
        keys::PROC_STATE_STATUS => {
            let jobs = jobs();
            let only = jobs.first().filter(|_| jobs.len() == 1);
            only.and_then(|nspace| proc_state(cx, member, nspace, target.rank))
        }
        _ => return Ok(None),
    };
    Ok(Some(tentative(found)))
}

/// Returns the qualifiers of a key that does not depend on registered values; `None` for other keys.
fn own_qualifiers(key: &str) -> Option<&'static [&'static str]> {
    Some(match key {
        keys::QUERY_JOB_STATUS
        | keys::QUERY_NAMESPACE_INFO
        | keys::QUERY_PROC_TABLE
        | keys::QUERY_RESOLVE_NODE => OF_JOB,
        keys::QUERY_LOCAL_PROC_TABLE | keys::QUERY_RESOLVE_PEERS => OF_NODES,
        keys::PROC_STATE_STATUS => OF_PROC,
        keys::QUERY_PSET_MEMBERSHIP => &[keys::PSET_NAME],
        keys::QUERY_GROUP_MEMBERSHIP => &[keys::GROUP_ID],
        keys::QUERY_ATTRIBUTE_SUPPORT => &[
            keys::CLIENT_ATTRIBUTES,
            keys::SERVER_ATTRIBUTES,
            keys::HOST_ATTRIBUTES,
            keys::TOOL_ATTRIBUTES,
        ],
        _ if OWN.contains(&key) => &[],
        _ => return None,
    })
}

fn nspace_names(cx: &Cx, member: &Member) -> Value<'static> {
    let names = visible(cx, member);
    let names: Vec<_> = names.iter().map(Nspace::as_bytes).collect();
    Value::String(Some(Text::new(names.join(&b','))))
}

/// Returns the name and the command line of each job. The Standard fixes this order, and programs read both by position
/// as strings.
fn nspace_infos(
    cx: &Cx,
    member: &Member,
    nspace: Option<&Nspace<'static>>,
) -> Option<Value<'static>> {
    let mut nspaces = visible(cx, member);
    if let Some(only) = nspace {
        nspaces.retain(|nspace| nspace == only);
        if nspaces.is_empty() {
            return None;
        }
    }
    let about = |nspace: &Nspace<'static>| {
        let text = |text| Value::String(Some(text));
        let infos = vec![
            Info::new(keys::NSPACE, text(nspace.as_text().clone())),
            Info::new(keys::CMD_LINE, text(command_line(cx, nspace))),
        ];
        Info::new(keys::JOB_INFO_ARRAY, infos)
    };
    let infos: Vec<_> = nspaces.iter().map(about).collect();
    Some(Value::from(infos))
}

/// Returns the command line of a job, or that of its first application; empty if the host registered neither.
fn command_line(cx: &Cx, nspace: &Nspace<'_>) -> Text<'static> {
    let text = |key| match of_job(cx, nspace, key) {
        Some(Value::String(text)) => text,
        _ => None,
    };
    let stated = text(keys::CMD_LINE).or_else(|| text(keys::APP_ARGV));
    stated.unwrap_or_default()
}

fn group_names(groups: &OwnGroups) -> Value<'static> {
    let names = groups.names.iter().map(|name| Some(name.clone()));
    Value::DataArray(DataArray::String(names.collect()))
}

fn group_members(groups: &OwnGroups, qualifiers: &[Info<'_>]) -> Option<Value<'static>> {
    let name = qualifiers.iter().find(|info| info.key.is(keys::GROUP_ID))?;
    let Value::String(Some(name)) = &name.value else {
        return None;
    };
    let members = groups.members.get(name.as_bytes())?;
    Some(Value::from(members.clone()))
}

/// Returns the process sets that a member may query: those with a process of a job that it may read.
fn psets<'c>(
    cx: &'c Cx,
    member: &'c Member,
) -> impl Iterator<Item = (&'c Text<'static>, &'c [Proc<'static>])> {
    let may_read = |run: &[Proc<'_>]| {
        let first = run.first();
        first.is_some_and(|proc| cx.check_reads(member, &proc.nspace).is_ok())
    };
    (cx.process_sets.iter()).filter(move |(_, members)| {
        let mut runs = members.chunk_by(|a, b| a.nspace == b.nspace);
        cx.reads_all(member) || runs.any(may_read)
    })
}

fn pset_names(cx: &Cx, member: &Member) -> Value<'static> {
    let names: Vec<_> = psets(cx, member).map(|(name, _)| name.as_bytes()).collect();
    Value::String(Some(Text::new(names.join(&b','))))
}

fn pset_members(cx: &Cx, member: &Member, qualifiers: &[Info<'_>]) -> Option<Value<'static>> {
    let name = qualifiers
        .iter()
        .find(|info| info.key.is(keys::PSET_NAME))?;
    let Value::String(Some(name)) = &name.value else {
        return None;
    };
    let (_, members) = psets(cx, member).find(|(known, _)| *known == name)?;
    Some(Value::from(members.to_vec()))
}

/// Returns the status of jobs according to their connections: an error if a process was lost, otherwise success.
fn job_status(cx: &Cx, member: &Member, jobs: &[Nspace<'static>]) -> Option<Value<'static>> {
    let seen = jobs.iter().filter(|nspace| may_see(cx, member, nspace));
    let mut known = seen.filter_map(|nspace| cx.registry.job(nspace)).peekable();
    // Without local processes there are no connections to judge by; only the host knows.
    known.peek()?;
    let mut clients = known
        .flat_map(|job| job.clients.values())
        .filter_map(|id| cx.registry.client(*id));
    let is_lost = clients.any(|client| client.state == ClientState::Lost);
    Some(Value::Status(match is_lost {
        true => Status::ERR_PROC_TERM_WO_SYNC,
        false => Status::SUCCESS,
    }))
}

fn tentative(value: Option<Value<'static>>) -> LocalAnswer {
    value.map_or(LocalAnswer::Unknown, LocalAnswer::Tentative)
}
