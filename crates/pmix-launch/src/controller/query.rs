// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queries that only the launcher can answer: about its processes and jobs, the supported directives, and the
//! resources of this node.
//!
//! | key | answer |
//! | --- | --- |
//! | `PMIX_QUERY_PROC_TABLE`, `PMIX_QUERY_LOCAL_PROC_TABLE` | the processes of the jobs in question, with process ids and exit codes |
//! | `PMIX_PROC_STATE_STATUS` | the state of the named process |
//! | `PMIX_BREAKPOINT` | the processes of the jobs in question that wait for a debugger, and where each waits |
//! | `PMIX_QUERY_JOB_STATUS` | success, or the failure of the first failed job in question (an ended job if it is named) |
//! | [`QUERY_FIGURES`] | what the server holds, and the restarts of the named job, or of all jobs |
//! | [`QUERY_PENDING`] | the fences, connects, group constructs and gets in which processes of the named job, or of all jobs, wait |
//! | `PMIX_TIME_REMAINING` | the seconds until the first time limit |
//! | `PMIX_QUERY_SPAWN_SUPPORT`, `PMIX_QUERY_DEBUG_SUPPORT` | the supported directives of a spawn |
//! | `PMIX_QUERY_SUPPORTED_KEYS`; any key with `PMIX_QUERY_SUPPORTED_QUALIFIERS` | the keys that the launcher answers; the qualifiers of the key |
//! | `PMIX_QUERY_ATTRIBUTE_SUPPORT` | the supported functions with their attributes |
//! | `PMIX_QUERY_ALLOCATION`, `PMIX_QUERY_AVAILABLE_SLOTS` | the resources of this node, and room for spawned processes |
//! | keys of schedulers | rejected by name |

use std::collections::HashSet;
use std::time::Instant;

use pmix_server::upcall::Query;
use pmix_server::{SupportLevel, is_about_support};
use pmix_types::{
    Attribute, BREAKPOINT_IN_INIT, DataArray, Info, Nspace, Proc, ProcInfo, ProcState, Rank,
    Status, Text, Value, keys,
};

use super::debugging::ON_EXEC;
use super::directives::Directive;
use super::events::of_cause;
use super::job::Job;
use super::support;
use super::{Controller, Cx};
use crate::agent::Agent;
use crate::figures::{QUERY_FIGURES, ServerFigures};
use crate::host::AtNode;
use crate::pending::{PendingOperations, QUERY_PENDING};
use crate::process::{Ending, Link, Process, ProcessState};

/// The keys about queues, allocations and storage. Only a resource manager can answer them.
const REFUSED: &[&str] = &[
    keys::QUERY_ALLOC_STATUS,
    keys::QUERY_ALLOC_IDS,
    keys::QUERY_ALLOC_PROPERTIES,
    keys::QUERY_AUTHORIZATIONS,
    keys::QUERY_MIN_ALLOC_UNIT,
    keys::QUERY_QUEUE_LIST,
    keys::QUERY_QUEUE_STATUS,
    keys::QUERY_RES_BLOCKS,
    keys::QUERY_RES_BLOCK_DEF,
    keys::QUERY_STORAGE_LIST,
];

/// The largest number of queries for supported attributes in one request: each returns all attributes.
const MOST_ABOUT_SUPPORT: usize = 64;

/// The largest number of values of [`QUERY_PENDING`] and [`QUERY_FIGURES`] in one reply: each may take milliseconds, and
/// some hundred KiB.
const MOST_COSTLY: usize = 8;

/// The jobs and the process that a query concerns.
struct Subject<'s> {
    /// The named job, else that of the requester, else all jobs (a tool has no job of its own).
    jobs: Vec<&'s Job>,
    /// The nspace that the query names.
    named: Option<Vec<u8>>,
    /// This launcher itself, if it is named and waits for its release.
    launcher: Option<Proc<'static>>,
    rank: Option<Rank>,
    /// The nodes of the session that are named, or that of the requester.
    nodes: Vec<Vec<u8>>,
}

impl Subject<'_> {
    /// Returns the job, or `None` for all jobs: the jobs are a single one or all of them.
    fn only_job(&self) -> Option<&Nspace<'static>> {
        match self.jobs[..] {
            [job] => Some(&job.nspace),
            _ => None,
        }
    }
}

impl Controller {
    /// Returns the jobs whose pending operations a query asks for; `None` for all jobs together.
    pub(crate) fn pending_jobs(
        &self,
        cx: &Cx<'_>,
        node: AtNode,
        call: &Query,
    ) -> Vec<Option<Nspace<'static>>> {
        let is_pending = |key: &Text<'_>| key.as_bytes() == QUERY_PENDING.as_bytes();
        let asks = call.queries.iter();
        let asks = asks.filter(|query| query.keys.iter().any(is_pending));
        let mut jobs = Vec::new();
        for query in asks {
            let meant = self.subject(cx, (node, call), &query.qualifiers);
            if meant.jobs.is_empty() || jobs.len() >= MOST_COSTLY {
                continue;
            }
            let job = meant.only_job().cloned();
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        jobs
    }

    /// Returns the values for the requested keys, with the status that tells if all were found. `waits` has the pending
    /// operations of all nodes that were listed for it.
    pub(crate) fn query(
        &self,
        cx: &mut Cx<'_>,
        node: AtNode,
        call: &Query,
        waits: &[(Option<Nspace<'static>>, PendingOperations)],
    ) -> (Status, Vec<Info<'static>>) {
        let mut found = Vec::new();
        let (mut num_asked, mut refused) = (0, Vec::new());
        let about_support = call.queries.iter().filter(|query| is_about_support(query));
        if about_support.count() > MOST_ABOUT_SUPPORT {
            let who = cx.identify(&call.proc);
            cx.warn(format!(
                "PMIx_Query_info from {who} asks for supported attributes in more than {MOST_ABOUT_SUPPORT} \
                queries at once"
            ));
            return (Status::ERR_OUT_OF_RESOURCE, Vec::new());
        }
        // The table of all processes is long, so a repeated key is answered once.
        let mut seen = HashSet::new();
        let mut num_costly = 0;
        for query in &call.queries {
            if is_about_support(query) {
                num_asked += 1;
                found.extend(support::with_table(|table| {
                    SupportLevel::Host.answer(query, table)
                }));
                continue;
            }
            let meant = self.subject(cx, (node, call), &query.qualifiers);
            // The jobs are a single one or all of them, so the first one and their number identify them.
            let first = meant.jobs.first().map(|job| job.nspace.as_bytes());
            let ended = meant.named.clone().filter(|_| first.is_none());
            let jobs = (first, ended, meant.jobs.len());
            for key in &query.keys {
                let key = key.as_str().unwrap_or_default();
                let rank = meant.rank.filter(|_| key == keys::PROC_STATE_STATUS);
                if !seen.insert((
                    jobs.clone(),
                    meant.launcher.clone(),
                    rank,
                    meant.nodes.clone(),
                    key,
                )) {
                    continue;
                }
                num_asked += 1;
                let is_costly = [QUERY_PENDING, QUERY_FIGURES].contains(&key);
                num_costly += usize::from(is_costly);
                if is_costly && num_costly > MOST_COSTLY {
                    continue;
                }
                match self.value_of(cx, &meant, key, (&query.qualifiers, waits)) {
                    Some(value) => found.push(Info::new(key.to_owned(), value)),
                    None => refused.extend(REFUSED.iter().copied().filter(|one| *one == key)),
                }
            }
        }
        // One warning for the request is enough: the reply does not name the keys either.
        if let Some(key) = refused.first() {
            let (who, name) = (cx.identify(&call.proc), Attribute::name_of(key));
            cx.warn(format!(
                "{who} queried {name}, which pmix run does not support"
            ));
        }
        let status = status_of(found.len(), num_asked, !refused.is_empty());
        (status, found)
    }

    /// Returns the jobs and the process that the qualifiers name.
    fn subject(
        &self,
        cx: &Cx<'_>,
        (node, call): (AtNode, &Query),
        qualifiers: &[Info<'_>],
    ) -> Subject<'_> {
        let mut named = None;
        let mut rank = None;
        for info in qualifiers {
            match &info.value {
                Value::String(Some(text)) if info.key.is(keys::NSPACE) => {
                    named = Some(text.as_bytes());
                }
                Value::Nspace(nspace) if info.key.is(keys::NSPACE) => {
                    named = Some(nspace.as_bytes());
                }
                Value::Proc(Proc { nspace, rank: one }) if info.key.is(keys::PROCID) => {
                    (named, rank) = (Some(nspace.as_bytes()), Some(*one));
                }
                Value::Rank(one) if info.key.is(keys::RANK) => rank = Some(*one),
                _ => {}
            }
        }
        let own = self.jobs.named(&call.proc.nspace);
        let jobs = match (named.filter(|name| !name.is_empty()), own) {
            (Some(name), _) => (self.jobs.iter())
                .filter(|job| job.nspace.as_bytes() == name)
                .collect(),
            (None, Some(own)) => vec![own],
            (None, None) => self.jobs.iter().collect(),
        };
        let nodes = nodes_of(cx, node, qualifiers);
        let launcher = named.and_then(|name| self.waiting_launcher(cx, name));
        Subject {
            jobs,
            named: named.map(<[u8]>::to_vec),
            launcher,
            rank: rank.filter(|rank| rank.is_valid()),
            nodes,
        }
    }

    fn value_of(
        &self,
        cx: &Cx<'_>,
        meant: &Subject<'_>,
        key: &str,
        (qualifiers, listed): (&[Info<'_>], &[(Option<Nspace<'static>>, PendingOperations)]),
    ) -> Option<Value<'static>> {
        let jobs = &meant.jobs;
        match key {
            keys::QUERY_PROC_TABLE => table(&cx.agent, jobs, |_| true),
            keys::QUERY_LOCAL_PROC_TABLE if !meant.nodes.is_empty() => {
                table(&cx.agent, jobs, |host| {
                    meant.nodes.iter().any(|node| node == host)
                })
            }
            keys::PROC_STATE_STATUS => {
                let [job] = jobs[..] else {
                    return None;
                };
                let process = cx.agent.job(&job.nspace)?.process(meant.rank?)?;
                Some(Value::ProcState(state(process)))
            }
            keys::BREAKPOINT => match &meant.launcher {
                Some(launcher) => {
                    let rows = vec![waits(launcher.clone(), Text::from(BREAKPOINT_IN_INIT))];
                    Some(Value::DataArray(DataArray::Info(rows)))
                }
                None => waiting(&cx.agent, jobs),
            },
            QUERY_PENDING => {
                jobs.first()?;
                let job = meant.only_job();
                let known = listed.iter().find(|(known, _)| known.as_ref() == job);
                Some(match known {
                    Some((_, pending)) => pending.to_value(),
                    None => cx.agent.pending(job).to_value(),
                })
            }
            QUERY_FIGURES => {
                // A server without a job has figures, too.
                if jobs.is_empty() && meant.named.is_some() {
                    return None;
                }
                let jobs = jobs.iter().filter_map(|job| cx.agent.job(&job.nspace));
                let restarts = jobs
                    .flat_map(|job| job.processes())
                    .map(|process| u64::from(process.num_restarts));
                cx.agent
                    .figures(restarts.sum())
                    .map(ServerFigures::to_value)
            }
            keys::QUERY_JOB_STATUS => {
                let status = |job: &&Job| job.stop.cause().map(|cause| of_cause(cause).1);
                if jobs.is_empty() {
                    let status = self.outcomes.status_of(meant.named.as_deref()?)?;
                    return Some(Value::Status(status));
                }
                let failed = jobs.iter().find_map(status);
                Some(Value::Status(failed.unwrap_or(Status::SUCCESS)))
            }
            keys::TIME_REMAINING => {
                let now = Instant::now();
                let left = jobs
                    .iter()
                    .filter_map(|job| job.stop.time_left(now))
                    .min()?;
                u32::try_from(left.as_secs()).ok().map(Value::from)
            }
            keys::QUERY_SUPPORTED_KEYS => Some(Value::from(support::query_keys())),
            keys::QUERY_SPAWN_SUPPORT => Some(Value::from(Directive::supported())),
            keys::QUERY_DEBUG_SUPPORT => Some(Value::from(Directive::supported_for_debuggers())),
            keys::QUERY_AVAILABLE_SLOTS => {
                let spawned = cx.agent.jobs().num_spawned();
                let spawned = u32::try_from(spawned).unwrap_or(u32::MAX);
                Some(Value::from(cx.plan.max_spawned.saturating_sub(spawned)))
            }
            keys::QUERY_ALLOCATION => {
                // The launcher has no allocation with an id.
                let is_named = qualifiers.iter().any(|info| info.key.is(keys::ALLOC_ID));
                (!is_named).then(|| super::node::allocation(cx.plan.layout.host()))
            }
            _ => None,
        }
    }
}

/// Returns the status of a reply with this number of values for this number of keys.
fn status_of(num_found: usize, num_asked: usize, is_refused: bool) -> Status {
    match num_found {
        0 if is_refused => Status::ERR_NOT_SUPPORTED,
        0 => Status::ERR_NOT_FOUND,
        some if some < num_asked => Status::ERR_PARTIAL_SUCCESS,
        _ => Status::SUCCESS,
    }
}

/// Returns the nodes that the qualifiers of a query name, if they belong to the session. If the qualifiers name none, this
/// is the node of the requester.
fn nodes_of(cx: &Cx<'_>, node: AtNode, qualifiers: &[Info<'_>]) -> Vec<Vec<u8>> {
    let layout = &cx.plan.layout;
    let is_node = |info: &&Info<'_>| info.key.is(keys::HOSTNAME) || info.key.is(keys::NODEID);
    let mut named = qualifiers.iter().filter(is_node).peekable();
    if named.peek().is_none() {
        let name = node.map(|node| cx.agent.name_of_node(node).as_bytes().to_vec());
        return vec![name.unwrap_or_else(|| layout.host().to_vec())];
    }
    let names = named.filter_map(|info| match &info.value {
        Value::String(name) => {
            let name = name.as_ref().map(|name| name.as_bytes().to_vec());
            Some(name.unwrap_or_else(|| layout.host().to_vec()))
        }
        id => {
            let id = usize::try_from(id.to_number::<u32>().ok()?).ok()?;
            layout.nodes().nth(id).map(|name| name.to_vec())
        }
    });
    let is_known =
        |name: &Vec<u8>| *name == layout.host() || layout.nodes().position(name).is_some();
    names.filter(is_known).collect()
}

/// Returns the processes of the jobs on the selected nodes, if there are any jobs.
fn table(
    agent: &Agent<'_>,
    jobs: &[&Job],
    is_meant: impl Fn(&[u8]) -> bool,
) -> Option<Value<'static>> {
    jobs.first()?;
    let is_meant = &is_meant;
    let rows = jobs.iter().flat_map(|job| {
        let local = agent.job(&job.nspace);
        let processes = local.into_iter().flat_map(|local| local.processes());
        let meant = processes.filter(|process| is_meant(&job.plan.layout.host_of(process.rank)));
        meant.map(|process| about(job, process))
    });
    Some(Value::DataArray(DataArray::ProcInfo(rows.collect())))
}

/// Returns the processes that wait for a debugger: for each an array with its name and its breakpoint.
fn waiting(agent: &Agent<'_>, jobs: &[&Job]) -> Option<Value<'static>> {
    jobs.first()?;
    let rows = jobs.iter().flat_map(|job| {
        let local = agent.job(&job.nspace);
        let processes = local.into_iter().flat_map(|local| local.processes());
        let running = processes.filter(|process| process.ended.is_none());
        running.filter_map(|process| {
            let breakpoint = match process.is_stopped_on_exec {
                true => Text::from(ON_EXEC.to_vec()),
                false => job.debugging.breakpoint_of(process.rank)?.clone(),
            };
            Some(waits(job.proc(process.rank), breakpoint))
        })
    });
    Some(Value::DataArray(DataArray::Info(rows.collect())))
}

/// Returns the row for a waiting process.
fn waits(proc: Proc<'static>, breakpoint: Text<'static>) -> Info<'static> {
    let about = vec![
        Info::new(keys::PROCID, proc),
        Info::new(keys::BREAKPOINT, Value::String(Some(breakpoint))),
    ];
    let about = Value::DataArray(DataArray::Info(about));
    Info::new(keys::PROC_INFO_ARRAY, about)
}

fn about(job: &Job, process: &Process) -> ProcInfo<'static> {
    let program = job.plan.apps.get(process.app).map(|app| &app.program);
    let text = |bytes: &[u8]| Some(Text::new(bytes.to_vec()));
    ProcInfo {
        proc: job.proc(process.rank),
        hostname: text(&job.plan.layout.host_of(process.rank)),
        executable_name: program.and_then(|name| text(name.as_encoded_bytes())),
        pid: process.pid.as_raw_nonzero().get(),
        exit_code: process
            .ended
            .map_or(0, |(ending, _)| ending.exit_code().into()),
        state: state(process),
    }
}

/// Returns the state of a process as the Standard defines it.
fn state(process: &Process) -> ProcState {
    match process.state() {
        ProcessState::RestartAwaited => ProcState::RESTART,
        ProcessState::Connected => ProcState::CONNECTED,
        ProcessState::Running | ProcessState::StoppedOnExec => ProcState::RUNNING,
        ProcessState::Ended(Ending::Exited(0)) if process.link == Link::Connected => {
            ProcState::TERM_WO_SYNC
        }
        ProcessState::Ended(Ending::Exited(0)) => ProcState::TERMINATED,
        ProcessState::Ended(Ending::Exited(_)) => ProcState::TERM_NON_ZERO,
        ProcessState::Ended(Ending::Signalled { .. }) if process.was_killed_by_command() => {
            ProcState::KILLED_BY_CMD
        }
        ProcessState::Ended(Ending::Signalled { .. }) => ProcState::ABORTED_BY_SIG,
        ProcessState::Ended(Ending::Lost) => ProcState::COMM_FAILED,
    }
}
