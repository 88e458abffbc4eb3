// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix ps`: the processes of the jobs that servers know.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::thread;

use pmix_tool::{FoundServer, Search, Tool};
use pmix_types::{DataArray, Info, ProcInfo, ProcState, Query, Rank, Status, Text, Value, keys};
use serde_json::{Value as Json, json};

use super::{AT_ONCE, attach, find, find_for, is_answer, leave, target};
use crate::args::{Global, Ps, Ranks};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::printable::printable;

/// What a server says of its jobs.
struct Report {
    server: FoundServer,
    jobs: Result<Vec<Job>, Failure>,
}

/// A job and its processes, or the status with which the server refuses to tell them.
struct Job {
    nspace: String,
    procs: Result<Vec<ProcInfo<'static>>, Status>,
    /// What the processes that wait for a debugger call the points where they do.
    waiting: BTreeMap<Rank, Text<'static>>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Ps) -> Result<Exit, Failure> {
    let servers = match target(&args.attach) {
        Some(_) => vec![find(&args.attach)?],
        None => everyone(args)?,
    };
    let is_only = servers.len() == 1;
    let mut reports = ask_all(&servers, args);
    if args.nspace.is_some() {
        // Whoever asks for a job does not want to hear of the servers of others; nor is one without it one without jobs.
        reports.retain(|report| match &report.jobs {
            Ok(jobs) => !jobs.is_empty(),
            Err(_) => is_only,
        });
    }
    let mut out = Out::new();
    match global.json {
        true => in_json(&mut out, &reports)?,
        false => in_words(&mut out, &reports)?,
    }
    out.flush()?;
    let is_missing = |report: &Report| report.jobs.as_ref().is_ok_and(Vec::is_empty);
    let missing = args
        .nspace
        .as_ref()
        .filter(|_| reports.iter().all(is_missing));
    let failed = reports.into_iter().find_map(|report| report.jobs.err());
    match (failed, missing) {
        // Of several servers one may have ended meanwhile.
        (Some(failure), _) if is_only => Err(failure),
        (_, Some(nspace)) => Err(no_job(nspace, "")),
        _ => Ok(Exit::Ok),
    }
}

/// No server has a job; `silent` has a line for each that does not tell.
pub(super) fn no_job(nspace: &str, silent: &str) -> Failure {
    let message = format!("no server that can be asked has a job {nspace:?}{silent}");
    Failure::new(Exit::Negative, Status::ERR_NOT_FOUND, message)
}

/// Every server of the node, or the one that the environment names.
fn everyone(args: &Ps) -> Result<Vec<FoundServer>, Failure> {
    let listing = Search::from_env().list();
    for passed in &listing.passed_over {
        tracing::info!("{}: {}", passed.path.display(), passed.reason);
    }
    match listing.servers.is_empty() {
        // Says what was looked for in vain.
        true => Ok(vec![find_for(&args.attach, args.nspace.as_deref())?]),
        false => Ok(listing.servers),
    }
}

/// Asks servers for their jobs, many at once, so that those that do not answer take the time of one.
fn ask_all(servers: &[FoundServer], args: &Ps) -> Vec<Report> {
    let mut reports = Vec::new();
    for servers in servers.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let ask = |server| {
                let asked = move || jobs(server, args);
                (server, thread::Builder::new().spawn_scoped(scope, asked))
            };
            let asked: Vec<_> = servers.iter().map(ask).collect();
            for (server, thread) in asked {
                let jobs = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // The system has no thread for it.
                    Err(_) => jobs(server, args),
                };
                let server = server.clone();
                reports.push(Report { server, jobs });
            }
        });
    }
    reports
}

fn jobs(server: &FoundServer, args: &Ps) -> Result<Vec<Job>, Failure> {
    let tool = attach(server, &args.attach)?;
    let mut names = names(&tool)?;
    if let Some(only) = &args.nspace {
        names.retain(|name| name == only);
    }
    let jobs = names.into_iter().map(|nspace| {
        let procs = procs(&tool, &nspace)?;
        let waiting = waiting(&tool, &nspace)?.unwrap_or_default();
        Ok(Job {
            nspace,
            procs,
            waiting,
        })
    });
    let jobs = jobs.collect();
    leave(tool);
    jobs
}

/// The names of the jobs.
pub(super) fn names(tool: &Tool) -> Result<Vec<String>, Failure> {
    let value = ask(tool, keys::QUERY_NAMESPACES, Vec::new())?;
    let value = value.map_err(|status| {
        let message = format!("the server does not tell its jobs ({status})");
        Failure::new(Exit::Negative, status, message)
    })?;
    let text = match value {
        Some(Value::String(Some(text))) => text.to_str_lossy().into_owned(),
        _ => String::new(),
    };
    let names = text.split(',').filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// The processes of a job.
#[allow(
    clippy::type_complexity,
    reason = "one failure ends the command, the other is shown"
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

/// The processes of a job, or of a launcher, that wait for a debugger, and where each does.
#[allow(
    clippy::type_complexity,
    reason = "one failure ends the command, the other is an answer"
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

/// Says which rank of those that are named a job does not have, by its processes in the order of their
/// ranks. Where there are none the server does not tell.
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

/// The value of a key, or the status with which the server refuses it.
#[allow(
    clippy::type_complexity,
    reason = "one failure ends the command, the other is shown"
)]
fn ask(
    tool: &Tool,
    key: &'static str,
    qualifiers: Vec<Info<'static>>,
) -> Result<Result<Option<Value<'static>>, Status>, Failure> {
    let query = Query {
        keys: vec![Text::from(key)],
        qualifiers,
    };
    match tool.query(vec![query]) {
        Ok((status, infos)) => {
            let found = infos.into_iter().find(|info| info.key.is(key));
            Ok(match found {
                Some(info) => Ok(Some(info.value)),
                None if status.is_success() => Ok(None),
                None => Err(status),
            })
        }
        Err(error) if is_answer(error.status()) => Ok(Err(error.status())),
        Err(error) => Err(error.into()),
    }
}

fn in_json(out: &mut Out, reports: &[Report]) -> Result<(), Failure> {
    for Report { server, jobs } in reports {
        let about = |of: Json| {
            let mut line = json!({
                "server": server.uri.server.nspace.as_text().to_str_lossy(),
                "server_pid": server.pid,
            });
            if let (Some(line), Json::Object(of)) = (line.as_object_mut(), of) {
                line.extend(of);
            }
            line
        };
        match jobs {
            Err(failure) => out.json(&about(failure.to_json()))?,
            Ok(jobs) => {
                for Job {
                    nspace,
                    procs,
                    waiting,
                } in jobs
                {
                    let line = match procs {
                        Ok(procs) => json!({
                            "nspace": nspace,
                            "procs": procs.iter().map(|proc| row(proc, waiting)).collect::<Vec<_>>(),
                        }),
                        Err(status) => json!({ "nspace": nspace, "status": status.as_raw() }),
                    };
                    out.json(&about(line))?;
                }
            }
        }
    }
    Ok(())
}

fn row(proc: &ProcInfo<'_>, waiting: &BTreeMap<Rank, Text<'_>>) -> Json {
    let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.to_str_lossy().into_owned());
    json!({
        "rank": proc.proc.rank.as_raw(),
        "pid": proc.pid,
        "state": state(proc.state),
        "waits_at": waiting.get(&proc.proc.rank).map(|point| point.to_str_lossy()),
        "exit_code": is_over(proc.state).then_some(proc.exit_code),
        "node": text(&proc.hostname),
        "program": text(&proc.executable_name),
    })
}

fn in_words(out: &mut Out, reports: &[Report]) -> Result<(), Failure> {
    for Report { server, jobs } in reports {
        let name = printable(server.uri.server.nspace.as_bytes());
        let pid = server
            .pid
            .map_or_else(String::new, |pid| format!(", process {pid}"));
        writeln!(out, "server {name}{pid}")?;
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(failure) => {
                writeln!(out, "  {}", printable(failure.message().as_bytes()))?;
                continue;
            }
        };
        if jobs.is_empty() {
            writeln!(out, "  no job")?;
        }
        for Job {
            nspace,
            procs,
            waiting,
        } in jobs
        {
            let nspace = printable(nspace.as_bytes());
            match procs {
                Err(status) => {
                    writeln!(
                        out,
                        "  job {nspace}: the server does not tell its processes ({status})"
                    )?;
                }
                Ok(procs) => {
                    writeln!(out, "  job {nspace}")?;
                    table(out, procs, waiting)?;
                }
            }
        }
    }
    Ok(())
}

/// Of a process that waits for a debugger it says where, in the place of its state.
fn table(
    out: &mut Out,
    procs: &[ProcInfo<'_>],
    waiting: &BTreeMap<Rank, Text<'_>>,
) -> Result<(), Failure> {
    let text = |text: &Option<Text<'_>>| {
        text.as_ref()
            .map_or_else(|| "-".to_owned(), |text| printable(text.as_bytes()))
    };
    let nodes = procs
        .iter()
        .map(|proc| text(&proc.hostname).chars().count());
    let width = nodes.max().unwrap_or(0).max(4);
    writeln!(
        out,
        "  {:>6} {:>8} {:<24} {:<width$} program",
        "rank", "pid", "state", "node"
    )?;
    for proc in procs {
        let (rank, pid) = (proc.proc.rank.to_string(), proc.pid);
        let state = match waiting.get(&proc.proc.rank) {
            Some(point) => format!("waits at {}", printable(point.as_bytes())),
            None => state(proc.state),
        };
        let (node, program) = (text(&proc.hostname), text(&proc.executable_name));
        writeln!(
            out,
            "  {rank:>6} {pid:>8} {state:<24} {node:<width$} {program}"
        )?;
    }
    Ok(())
}

/// Returns whether a process in this state has terminated and has an exit code.
pub(super) fn is_over(state: ProcState) -> bool {
    state.as_raw() >= ProcState::TERMINATED.as_raw()
}

/// The state of a process in words, as the Standard calls it.
fn state(state: ProcState) -> String {
    let name = state.to_string();
    let name = name.strip_prefix("PMIX_PROC_STATE_").unwrap_or(&name);
    name.to_ascii_lowercase().replace('_', " ")
}
