// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process tables, which debuggers use to find the processes of a job.

use gds_hash::{Registered, Request};
use pmix_types::{DataArray, Nspace, Proc, ProcInfo, ProcState, Rank, Text, Value, keys};

use super::nodes::Nodes;
use super::resolve::procs_on;
use super::results::QueryResults;
use super::target::{may_see, of_job};
use crate::Error;
use crate::cx::Cx;
use crate::peers::Member;
use crate::registry::ClientState;

/// Returns the process table of jobs: of all processes, or of those on the named nodes (without a name, this node).
/// Process ids are included if the host registered them with the job.
///
/// # Errors
///
/// Returns the errors of [`QueryResults::make_room`].
pub(super) fn proc_table(
    cx: &Cx,
    member: &Member,
    jobs: &[Nspace<'static>],
    on: Option<&Nodes<'_>>,
) -> Result<Option<Value<'static>>, Error> {
    let mut rows = Vec::new();
    let mut any = false;
    for nspace in jobs.iter().filter(|nspace| may_see(cx, member, nspace)) {
        let Some(known) = cx.store.job(nspace) else {
            continue;
        };
        any = true;
        match on {
            Some(nodes) => {
                let ranks = ranks_on(cx, nspace, nodes);
                QueryResults::make_room(&mut rows, ranks.len() as u64)?;
                rows.extend(ranks.into_iter().map(|rank| row(cx, &known, rank)));
            }
            None => {
                QueryResults::make_room(&mut rows, known.job().num_ranks())?;
                rows.extend(known.job().ranks().map(|rank| row(cx, &known, rank)));
            }
        }
    }
    Ok(any.then_some(Value::DataArray(DataArray::ProcInfo(rows))))
}

/// Returns the ranks of a job on some nodes according to its map. Without a map, returns the registered clients of this
/// node.
fn ranks_on(cx: &Cx, nspace: &Nspace<'static>, nodes: &Nodes<'_>) -> Vec<Rank> {
    if nodes.are_named() || of_job(cx, nspace, keys::LOCAL_PEERS).is_some() {
        let procs = procs_on(cx, nspace, nodes);
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
        // The server observes connections; only the host learns exit codes.
        exit_code: 0,
        state: state_of(cx, nspace, rank),
    }
}

/// Returns the state of a process.
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

/// Returns the state of a process according to its connection; undefined for remote processes.
fn state_of(cx: &Cx, nspace: &Nspace<'static>, rank: Rank) -> ProcState {
    let client = cx.registry.find(nspace, rank);
    match client.and_then(|id| cx.registry.client(id)) {
        // A host deregisters a client after its end.
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

/// Returns the program of a command line.
fn first_word(argv: &Text<'_>) -> Text<'static> {
    let mut words = argv.as_bytes().split(|byte| *byte == b' ');
    Text::new(words.next().unwrap_or_default().to_vec())
}
