// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix ps`: the processes of the jobs that servers know.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{iter, thread};

use pmix_launch::{PendingOperations, QUERY_FIGURES, ServerFigures};
use pmix_tool::{FoundServer, Tool};
use pmix_types::{DataArray, Info, Nspace, ProcInfo, ProcState, Rank, Status, Text, Value, keys};
use serde_json::{Value as Json, json};

use super::ask::ask;
use super::top::rows::Row;
use super::{AT_ONCE, attach, find, leave, node, pending, stacks, target};
use crate::args::{Global, Ps, Ranks};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::printable;

/// The maximum number of jobs of a server that are queried. A launcher of one node has a few
/// thousand at most.
const MAX_JOBS: usize = 16_384;

/// The maximum memory in bytes for the tables of all jobs of a server: those of a million
/// processes.
const MAX_BYTES: usize = 256 << 20;

/// The same for a server of another user, which root does not trust.
const MAX_BYTES_OF_OTHERS: usize = 32 << 20;

/// The maximum number of servers that are queried concurrently if some belong to other users.
const OTHERS_AT_ONCE: usize = 8;

/// The time limit for all replies of a server, as a multiple of the limit for one reply.
const MAX_LIMITS: u32 = 4;

/// The report of a server about its jobs.
pub(super) struct Report {
    pub(super) server: FoundServer,
    pub(super) jobs: Result<Vec<Job>, Failure>,
    /// The figures of a server without jobs.
    pub(super) figures: Option<ServerFigures>,
}

/// A job and its processes, or the status with which the server refuses to list them.
pub(super) struct Job {
    pub(super) nspace: String,
    pub(super) procs: Result<Vec<ProcInfo<'static>>, Status>,
    /// The breakpoints of the processes that wait for a debugger.
    pub(super) waiting: BTreeMap<Rank, Text<'static>>,
    /// The states of the processes in the operating system and their processor use, if the server reports them.
    pub(super) usage: Option<BTreeMap<Rank, Row>>,
    /// The operations in which processes of the job wait, if the server reports them.
    pub(super) pending: Option<PendingOperations>,
    /// The processes on other nodes than that of the server, if stacks are wanted.
    pub(super) elsewhere: BTreeSet<Rank>,
    /// The figures of the server, if they are wanted and the server reports them.
    pub(super) figures: Option<ServerFigures>,
}

impl Job {
    /// Returns `true` if a signal has stopped a process; `None` if the server does not report it.
    pub(super) fn is_stopped(&self, rank: Rank) -> Option<bool> {
        let usage = self.usage.as_ref()?;
        Some(usage.get(&rank).is_some_and(Row::is_stopped))
    }

    /// Returns the state of a process in words. A process that waits for a debugger has its breakpoint as its state.
    pub(super) fn state_of(&self, proc: &ProcInfo<'_>) -> String {
        let rank = proc.proc.rank;
        match self.waiting.get(&rank) {
            Some(point) => format!("waits at {}", printable(point.as_bytes())),
            None if self.is_stopped(rank) == Some(true) => "stopped".to_owned(),
            None => state(proc.state),
        }
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Ps) -> Result<Exit, Failure> {
    let servers = match target(&args.attach) {
        Some(_) => vec![find(&args.attach)?],
        None => node::all_servers(&args.attach, args.nspace.as_deref())?,
    };
    let is_only = servers.len() == 1;
    let (mut failed, mut has_job) = (None, false);
    let mut out = Out::new();
    ask_each(&servers, args, |report| {
        has_job |= report.jobs.as_ref().is_ok_and(|jobs| !jobs.is_empty());
        // For one job, servers without the job are omitted instead of being printed without jobs.
        let is_shown = match &report.jobs {
            Ok(jobs) => !jobs.is_empty() || args.nspace.is_none(),
            Err(_) => is_only || args.nspace.is_none(),
        };
        if is_shown {
            match global.json {
                true => in_json(&mut out, &report)?,
                false => in_words(&mut out, &report, args.stacks)?,
            }
            // Flushes the output, because the reply of the next server may take long.
            out.flush()?;
        }
        if failed.is_none() {
            failed = report.jobs.err();
        }
        Ok(())
    })?;
    match (failed, &args.nspace) {
        // One of several servers may have exited meanwhile.
        (Some(failure), _) if is_only => Err(failure),
        (_, Some(nspace)) if !has_job => Err(no_job(nspace, "")),
        _ => Ok(Exit::Ok),
    }
}

/// Returns the failure for an unknown job. `silent` has a line for each server that did not reply.
pub(super) fn no_job(nspace: &str, silent: &str) -> Failure {
    let message = format!("no server that replied has a job {nspace:?}{silent}");
    Failure::new(Exit::Negative, Status::ERR_NOT_FOUND, message)
}

/// Queries servers for their jobs concurrently, and returns each report as soon as it arrives. A
/// server that does not reply thus does not delay the others.
pub(super) fn ask_each(
    servers: &[FoundServer],
    args: &Ps,
    take: impl FnMut(Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let left = Mutex::new(servers.iter());
    let until = Instant::now().checked_add(args.attach.timeout.saturating_mul(MAX_LIMITS));
    let report = |server: &FoundServer| {
        let reported = match until {
            // Servers of other users that do not reply must not delay root forever.
            Some(until) if server.owner.is_some() && Instant::now() >= until => Err(unasked()),
            _ => jobs_and_figures(server, args),
        };
        let (jobs, figures) = match reported {
            Ok((jobs, figures)) => (Ok(jobs), figures),
            Err(failure) => (Err(failure), None),
        };
        Report {
            server: server.clone(),
            jobs,
            figures,
        }
    };
    let next = || {
        let server = left.lock().unwrap_or_else(PoisonError::into_inner).next();
        server.map(report)
    };
    let at_once = match servers.iter().any(|server| server.owner.is_some()) {
        true => OTHERS_AT_ONCE,
        false => AT_ONCE,
    };
    let (sender, reports) = mpsc::channel();
    thread::scope(|scope| {
        let mut num_threads = 0;
        for _ in 0..servers.len().min(at_once) {
            let sender = sender.clone();
            let ask = move || {
                // The receiver is dropped when the command ends early.
                iter::from_fn(next).all(|report| sender.send(report).is_ok())
            };
            match thread::Builder::new().spawn_scoped(scope, ask) {
                Ok(_) => num_threads += 1,
                Err(error) => {
                    tracing::debug!(%error, "cannot start a thread; fewer servers are queried concurrently");
                    break;
                }
            }
        }
        drop(sender);
        match num_threads {
            // No thread could be started.
            0 => iter::from_fn(next).try_for_each(take),
            _ => reports.iter().try_for_each(take),
        }
    })
}

/// Returns the jobs of a server.
pub(super) fn jobs(server: &FoundServer, args: &Ps) -> Result<Vec<Job>, Failure> {
    jobs_and_figures(server, args).map(|(jobs, _)| jobs)
}

/// Returns the jobs of a server, and its figures if they are wanted and it has no job.
fn jobs_and_figures(
    server: &FoundServer,
    args: &Ps,
) -> Result<(Vec<Job>, Option<ServerFigures>), Failure> {
    let tool = attach(server, &args.attach)?;
    let mut names = names(&tool)?;
    let figures_of_server = match args.figures && names.is_empty() {
        true => figures(&tool, None)?,
        false => None,
    };
    if let Some(only) = &args.nspace {
        names.retain(|name| name == only);
    }
    check_names(&names)?;
    let whole = args.attach.timeout.saturating_mul(MAX_LIMITS);
    let until = Instant::now().checked_add(whole);
    let max_bytes = match server.owner {
        Some(_) => MAX_BYTES_OF_OTHERS,
        None => MAX_BYTES,
    };
    let mut bytes = 0;
    let jobs = names.into_iter().map(|nspace| {
        let procs = procs(&tool, &nspace)?;
        bytes += procs.as_ref().map_or(0, |procs| size_of_table(procs));
        check(bytes, max_bytes, until, whole)?;
        let waiting = waiting(&tool, &nspace)?.unwrap_or_default();
        let usage = usage(&tool, &nspace)?.ok();
        let pending = pending::ask(&tool, &nspace)?;
        bytes += pending.as_ref().map_or(0, pending::num_bytes);
        let figures = match args.figures {
            true => figures(&tool, Some(&nspace))?,
            false => None,
        };
        let elsewhere = match &procs {
            Ok(procs) if args.stacks => stacks::elsewhere(&tool, &nspace, procs)?,
            _ => BTreeSet::new(),
        };
        Ok(Job {
            nspace,
            procs,
            waiting,
            usage,
            pending,
            elsewhere,
            figures,
        })
    });
    let jobs: Result<_, Failure> = jobs.collect();
    leave(tool);
    Ok((jobs?, figures_of_server))
}

/// Rejects a list of more than [`MAX_JOBS`] jobs, because each job costs requests and memory. Rejects names that are
/// longer than an nspace can be.
pub(super) fn check_names(names: &[String]) -> Result<(), Failure> {
    let number = names.len();
    let long = names.iter().find(|name| name.len() > Nspace::MAX_LEN);
    let message = match long {
        _ if number > MAX_JOBS => {
            format!("the server lists more than {MAX_JOBS} jobs; none are shown")
        }
        Some(name) => format!(
            "the server sent a job name of {} bytes; the longest valid one has {}",
            name.len(),
            Nspace::MAX_LEN
        ),
        None => return Ok(()),
    };
    Err(Failure::new(
        Exit::Negative,
        Status::ERR_OUT_OF_RESOURCE,
        message,
    ))
}

/// Rejects a server whose replies together are too long or take too long.
fn check(
    bytes: usize,
    max_bytes: usize,
    until: Option<Instant>,
    whole: Duration,
) -> Result<(), Failure> {
    if bytes > max_bytes {
        let message = format!(
            "the process tables of the server exceed {} MiB",
            max_bytes >> 20
        );
        return Err(Failure::new(
            Exit::Negative,
            Status::ERR_OUT_OF_RESOURCE,
            message,
        ));
    }
    match until {
        Some(until) if Instant::now() >= until => {
            let message = format!(
                "the server did not list all of its jobs within {whole:?} (four times --timeout): use a longer --timeout"
            );
            Err(Failure::new(Exit::Negative, Status::ERR_TIMEOUT, message))
        }
        _ => Ok(()),
    }
}

/// Returns the failure for a server that was not queried, because the servers before it took too long.
fn unasked() -> Failure {
    let message = "it was not queried, because servers of other users did not reply in time: select it with --pid N";
    Failure::new(Exit::Negative, Status::ERR_TIMEOUT, message)
}

/// Returns the memory that the table of a job takes, in bytes.
fn size_of_table(procs: &[ProcInfo<'_>]) -> usize {
    let text = |text: &Option<Text<'_>>| text.as_ref().map_or(0, Text::len);
    let row = |row: &ProcInfo<'_>| {
        let names =
            row.proc.nspace.as_bytes().len() + text(&row.hostname) + text(&row.executable_name);
        size_of::<ProcInfo<'_>>() + names
    };
    procs.iter().map(row).sum()
}

/// Returns the names of the jobs.
pub(super) fn names(tool: &Tool) -> Result<Vec<String>, Failure> {
    let value = ask(tool, keys::QUERY_NAMESPACES, Vec::new())?;
    let value = value.map_err(|status| {
        let message = format!("the server does not list its jobs ({status})");
        Failure::new(Exit::Negative, status, message)
    })?;
    let text = match value {
        Some(Value::String(Some(text))) => text.to_str_lossy().into_owned(),
        _ => String::new(),
    };
    let names = text.split(',').filter(|name| !name.is_empty());
    // Takes one more than allowed, so that too many names are detected.
    Ok(names.take(MAX_JOBS + 1).map(str::to_owned).collect())
}

/// Returns the processes of a job.
#[allow(
    clippy::type_complexity,
    reason = "the outer error ends the command, the inner error is printed"
)]
pub(super) fn procs(
    tool: &Tool,
    nspace: &str,
) -> Result<Result<Vec<ProcInfo<'static>>, Status>, Failure> {
    let of_job = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    let value = ask(tool, keys::QUERY_PROC_TABLE, of_job)?;
    Ok(value.and_then(|value| match value {
        Some(Value::DataArray(DataArray::ProcInfo(mut procs))) => {
            procs.sort_by_key(|row| row.proc.rank);
            Ok(procs)
        }
        _ => Err(Status::ERR_NOT_FOUND),
    }))
}

/// Returns the processes of a job, or of a launcher, that wait for a debugger, each with its
/// breakpoint.
#[allow(
    clippy::type_complexity,
    reason = "the outer error ends the command, the inner status is printed for the job"
)]
pub(super) fn waiting(
    tool: &Tool,
    nspace: &str,
) -> Result<Result<BTreeMap<Rank, Text<'static>>, Status>, Failure> {
    let of_job = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    let rows = match ask(tool, keys::BREAKPOINT, of_job)? {
        Ok(Some(Value::DataArray(DataArray::Info(rows)))) => rows,
        Ok(_) => Vec::new(),
        Err(status) => return Ok(Err(status)),
    };
    let row = |row: Info<'static>| {
        let Value::DataArray(DataArray::Info(about)) = row.value else {
            return None;
        };
        let (mut rank, mut point) = (None, None);
        for info in about {
            match info.value {
                Value::Proc(proc) if info.key.is(keys::PROCID) => rank = Some(proc.rank),
                Value::String(text) if info.key.is(keys::BREAKPOINT) => point = text,
                _ => {}
            }
        }
        Some((rank?, point?))
    };
    Ok(Ok(rows.into_iter().filter_map(row).collect()))
}

/// Returns the state of the processes of a job in the operating system, and their use of processors, as the kernel
/// reports them to the server.
#[allow(
    clippy::type_complexity,
    reason = "the outer error ends the command, the inner status is printed for the job"
)]
fn usage(tool: &Tool, nspace: &str) -> Result<Result<BTreeMap<Rank, Row>, Status>, Failure> {
    let wanted = [keys::PROC_OS_STATE, keys::PROC_TIME, keys::PROC_PERCENT_CPU];
    let mut figures = vec![Info::new(keys::NSPACE, nspace.to_owned())];
    figures.extend(wanted.map(|key| Info::new(key, true)));
    let rows = match ask(tool, keys::QUERY_PROC_RESOURCE_USAGE, figures)? {
        Ok(Some(Value::DataArray(DataArray::Info(rows)))) => rows,
        Ok(_) => Vec::new(),
        Err(status) => return Ok(Err(status)),
    };
    let rows = rows.iter().filter_map(Row::of);
    Ok(Ok(rows.map(|row| (row.rank(), row)).collect()))
}

/// Returns the figures of the server with the restarts of a job, or of all jobs. Only servers of this project report
/// them.
fn figures(tool: &Tool, nspace: Option<&str>) -> Result<Option<ServerFigures>, Failure> {
    let of_job = nspace.map(|nspace| Info::new(keys::NSPACE, nspace.to_owned()));
    let value = ask(tool, QUERY_FIGURES, of_job.into_iter().collect())?;
    let value = value.ok().flatten();
    Ok(value.map(|value| ServerFigures::of_value(&value)))
}

/// Returns the first requested rank that a job does not have. `procs` are the processes of the job
/// in rank order; if it is empty, the server does not list them.
pub(super) fn missing_rank(
    nspace: &str,
    procs: &[ProcInfo<'_>],
    ranks: Option<&Ranks>,
) -> Option<String> {
    let ranges = ranks.filter(|_| !procs.is_empty())?.0.iter();
    let mut ranks = ranges.flat_map(|(first, last)| *first..=*last);
    let is_missing = |rank: &u32| {
        let found = procs.binary_search_by_key(&Rank::new(*rank), |row| row.proc.rank);
        found.is_err()
    };
    let rank = ranks.find(is_missing)?;
    let number = procs.len();
    Some(format!(
        "job {nspace:?} has no rank {rank}: it has {number} processes"
    ))
}

fn in_json(out: &mut Out, report: &Report) -> Result<(), Failure> {
    let Report { server, jobs, .. } = report;
    let about = |of: Json| {
        let mut line = json!({
            "server": server.uri.server.nspace.as_text().to_str_lossy(),
            "server_pid": server.pid,
        });
        if let (Some(line), Some(owner)) = (line.as_object_mut(), server.owner) {
            line.insert("user".to_owned(), owner.into());
        }
        if let (Some(line), Json::Object(of)) = (line.as_object_mut(), of) {
            line.extend(of);
        }
        line
    };
    let jobs = match jobs {
        Ok(jobs) => jobs,
        Err(failure) => return out.json(&about(failure.to_json())),
    };
    for job in jobs {
        let nspace = &job.nspace;
        let line = match &job.procs {
            Ok(procs) => json!({
                "nspace": nspace,
                "procs": procs.iter().map(|proc| row(proc, job)).collect::<Vec<_>>(),
                "pending": job.pending.as_ref().map(pending::to_json),
            }),
            Err(status) => json!({ "nspace": nspace, "status": status.as_raw() }),
        };
        out.json(&about(line))?;
    }
    Ok(())
}

fn row(proc: &ProcInfo<'_>, job: &Job) -> Json {
    let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.to_str_lossy().into_owned());
    json!({
        "rank": proc.proc.rank.as_raw(),
        "pid": proc.pid,
        "state": state(proc.state),
        "waits_at": job.waiting.get(&proc.proc.rank).map(|point| point.to_str_lossy()),
        "stopped": job.is_stopped(proc.proc.rank),
        "exit_code": is_over(proc.state).then_some(proc.exit_code),
        "node": text(&proc.hostname),
        "program": text(&proc.executable_name),
    })
}

fn in_words(out: &mut Out, report: &Report, has_stacks: bool) -> Result<(), Failure> {
    let Report { server, jobs, .. } = report;
    writeln!(out, "server {}", node::describe(server))?;
    let jobs = match jobs {
        Ok(jobs) => jobs,
        Err(failure) => {
            writeln!(out, "  {}", printable(failure.message().as_bytes()))?;
            return Ok(());
        }
    };
    if jobs.is_empty() {
        writeln!(out, "  no job")?;
    }
    for job in jobs {
        let nspace = printable(job.nspace.as_bytes());
        match &job.procs {
            Err(status) => {
                writeln!(
                    out,
                    "  job {nspace}: the server does not list its processes ({status})"
                )?;
            }
            Ok(procs) => {
                writeln!(out, "  job {nspace}")?;
                table(out, procs, job)?;
                // Only a server whose file is on this node has its processes here. Another user's server may name any
                // process, and a debugger of root would read it.
                let has_stacks = has_stacks && server.pid.is_some() && server.owner.is_none();
                let server = has_stacks.then_some(server);
                write_pending(out, procs, job, server)?;
            }
        }
    }
    Ok(())
}

/// Prints the table of a job's processes.
/// The maximum width of the column of nodes, which a longer name exceeds. A server may state names of any length.
const MOST_NODE_WIDTH: usize = 64;

fn table(out: &mut Out, procs: &[ProcInfo<'_>], job: &Job) -> Result<(), Failure> {
    let text = |text: &Option<Text<'_>>| {
        text.as_ref()
            .map_or_else(|| "-".to_owned(), |text| printable(text.as_bytes()))
    };
    let nodes = procs
        .iter()
        .map(|proc| text(&proc.hostname).chars().count());
    let width = nodes.max().unwrap_or(0).clamp(4, MOST_NODE_WIDTH);
    writeln!(
        out,
        "  {:>6} {:>8} {:<24} {:<width$} program",
        "rank", "pid", "state", "node"
    )?;
    for proc in procs {
        let (rank, pid) = (proc.proc.rank.to_string(), proc.pid);
        let state = job.state_of(proc);
        let (node, program) = (text(&proc.hostname), text(&proc.executable_name));
        writeln!(
            out,
            "  {rank:>6} {pid:>8} {state:<24} {node:<width$} {program}"
        )?;
    }
    Ok(())
}

/// Prints the operations of a job, and the processes for which they wait. With a server, also their stacks.
fn write_pending(
    out: &mut Out,
    procs: &[ProcInfo<'_>],
    job: &Job,
    server: Option<&FoundServer>,
) -> Result<(), Failure> {
    let Some(pending) = job.pending.as_ref().map(pending::shown) else {
        return Ok(());
    };
    for line in pending::lines(&pending, &job.nspace) {
        writeln!(out, "  {line}")?;
    }
    let mut elsewhere = Vec::new();
    for proc in pending::missing(&pending, procs) {
        writeln!(out, "    {}", describe(proc, job))?;
        if server.is_none() {
            continue;
        }
        if job.elsewhere.contains(&proc.proc.rank) {
            elsewhere.push(proc);
            continue;
        }
        for line in pmix_launch::stack_of_process(proc.pid) {
            writeln!(out, "    {}", printable(line.as_bytes()))?;
        }
    }
    let stacks = server.map(|server| stacks::of_elsewhere(server, &elsewhere));
    for line in stacks.into_iter().flatten() {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// Returns the state, process id, node and processor use of a process.
pub(super) fn describe(proc: &ProcInfo<'_>, job: &Job) -> String {
    let (rank, pid, state) = (proc.proc.rank, proc.pid, job.state_of(proc));
    let mut line = format!("rank {rank}: {state}, pid {pid}");
    if let Some(node) = &proc.hostname {
        line += &format!(" on {}", printable(node.as_bytes()));
    }
    let usage = job.usage.as_ref().and_then(|usage| usage.get(&rank));
    if let Some((percent, seconds)) = usage.map(Row::processor_use) {
        line += &format!(", {percent:.1} % of a processor, {seconds:.2} s of processor time");
    }
    line
}

/// Returns `true` if a process in this state has terminated and has an exit code.
pub(super) fn is_over(state: ProcState) -> bool {
    state.as_raw() >= ProcState::TERMINATED.as_raw()
}

/// Returns the Standard's name of a process state in words.
pub(super) fn state(state: ProcState) -> String {
    let name = state.to_string();
    let name = name.strip_prefix("PMIX_PROC_STATE_").unwrap_or(&name);
    name.to_ascii_lowercase().replace('_', " ")
}
