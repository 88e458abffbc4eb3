// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process tables, by which debuggers find the processes of a job.

use gds_hash::{Registered, Request};
use pmix_types::{DataArray, Info, Nspace, Proc, ProcInfo, ProcState, Rank, Text, Value, keys};

use super::jobs::{may_see, of_job, procs_of};
use crate::cx::Cx;
use crate::peers::Member;
use crate::registry::ClientState;

/// The process table of a job, or of the part of it on this node. Process ids are there if the
/// host stated them when it registered the job.
pub(super) fn proc_table(
    cx: &Cx,
    member: &Member,
    nspace: &Nspace<'static>,
    only_local: bool,
) -> Option<Value<'static>> {
    if !may_see(cx, member, nspace) {
        return None;
    }
    let known = cx.store.job(nspace)?;
    let job = known.job();
    let ranks: Vec<_> = match only_local {
        true => local_ranks(cx, nspace),
        false => job.ranks().collect(),
    };
    let rows = ranks.into_iter().map(|rank| row(cx, &known, rank));
    Some(Value::DataArray(DataArray::ProcInfo(rows.collect())))
}

/// The ranks of a job on this node, those of its map or those that are registered.
fn local_ranks(cx: &Cx, nspace: &Nspace<'static>) -> Vec<Rank> {
    let peers = of_job(cx, nspace, keys::LOCAL_PEERS);
    if let Some(Value::String(Some(ranks))) = peers {
        let procs = procs_of(nspace, &ranks);
        return procs.into_iter().map(|proc| proc.rank).collect();
    }
    let job = cx.registry.job(nspace);
    job.map_or_else(Vec::new, |job| job.clients.keys().copied().collect())
}

fn row(cx: &Cx, known: &Registered, rank: Rank) -> ProcInfo<'static> {
    let job = known.job();
    let nspace = job.nspace();
    let get = |key| job.get(&Request::new(rank, key)).ok();
    let text = |key| match get(key)?.into_owned() {
        Value::String(text) => text,
        _ => None,
    };
    let pid = get(keys::PROC_PID).and_then(|pid| pid.to_number().ok());
    ProcInfo {
        proc: Proc::new(nspace.as_text().clone(), rank),
        hostname: text(keys::HOSTNAME),
        executable_name: text(keys::APP_ARGV).map(|argv| first_word(&argv)),
        pid: pid.unwrap_or_default(),
        exit_code: 0,
        state: state_of(cx, nspace, rank),
    }
}

/// The state of a process.
pub(super) fn proc_state(
    cx: &Cx,
    member: &Member,
    nspace: &Nspace<'static>,
    rank: Rank,
) -> Option<Value<'static>> {
    let has_rank = cx.store.job(nspace)?.job().has_rank(rank);
    let may_see = has_rank && may_see(cx, member, nspace);
    may_see.then(|| Value::ProcState(state_of(cx, nspace, rank)))
}

/// Where a process stands, as far as its connection tells; nothing is known of remote ones.
fn state_of(cx: &Cx, nspace: &Nspace<'static>, rank: Rank) -> ProcState {
    let client = cx.registry.find(nspace, rank);
    match client.and_then(|id| cx.registry.client(id)) {
        None if cx.registry.was_here(&Proc::new(nspace.clone(), rank)) => ProcState::TERMINATED,
        None => ProcState::UNDEF,
        Some(client) => match client.state {
            ClientState::Expected => ProcState::LAUNCH_UNDERWAY,
            ClientState::Connected => ProcState::CONNECTED,
            ClientState::Finalized | ClientState::Left => ProcState::TERMINATED,
            ClientState::Lost => ProcState::TERM_WO_SYNC,
        },
    }
}

/// The first word of a command line: the program.
fn first_word(argv: &Text<'_>) -> Text<'static> {
    let mut words = argv.as_bytes().split(|byte| *byte == b' ');
    Text::new(words.next().unwrap_or_default().to_vec())
}

/// The infos that ask for something on a node.
pub(super) fn on_node(node: Option<&Text<'_>>) -> Vec<Info<'static>> {
    let mut infos = vec![Info::new(keys::NODE_INFO, true)];
    if let Some(node) = node {
        let name = Value::String(Some(Text::new(node.as_bytes().to_vec())));
        infos.push(Info::new(keys::HOSTNAME, name));
    }
    infos
}
