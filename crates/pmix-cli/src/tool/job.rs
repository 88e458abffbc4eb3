// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search for the server of a job, and `pmix kill` and `pmix release`, which control processes
//! of a job. All servers of the node are queried concurrently, because one of them may be stopped.

use std::io::Write as _;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pmix_tool::{Control, FoundServer, Tool};
use pmix_types::{Proc, Rank, Status};
use serde_json::json;

use super::{AT_ONCE, attach, attach_within, find, find_for, is_answer, leave, ps, search, target};
use crate::args::{Attach, Global, Kill, Ranks, Release};
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// The time limit for further replies after the first server has reported the job.
const OTHERS: Duration = Duration::from_secs(3);

/// The time limit for the replies of all servers, as a multiple of the limit for one reply, if some belong to other
/// users.
const OTHERS_LIMITS: u32 = 4;

/// The reply of a server about a job.
enum JobReply {
    HasJob,
    NoJob,
    /// The server no longer listens. The text is the reason.
    Ended(String),
    /// The server did not list its jobs. The text is the reason.
    Failed(String),
}

/// Finds the server that has a job: the one that the options select, or else the only one with this
/// job.
pub(super) fn find_job(args: &Attach, nspace: Option<&str>) -> Result<FoundServer, Failure> {
    let (None, Some(nspace)) = (target(args), nspace) else {
        return find(args);
    };
    let servers = search().list().servers;
    if servers.len() < 2 {
        return find_for(args, Some(nspace));
    }
    let answers = ask_all(&servers, nspace, args.timeout);
    let has_others = servers.iter().any(|server| server.owner.is_some());
    // Servers of other users that do not reply must not delay root forever.
    let limit = has_others.then(|| args.timeout.saturating_mul(OTHERS_LIMITS));
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let said = collect(servers.len(), &answers, until);
    let is_own = |server: &FoundServer| server.owner.is_none();
    let of_own = |is_it: fn(&JobReply) -> bool| {
        { servers.iter().zip(&said) }.any(|(server, said)| is_own(server) && is_it(said))
    };
    // Any user can claim to have a job of root, so a server of root comes first, and is not replaced while it is silent.
    let has_own = of_own(|said| matches!(said, JobReply::HasJob));
    if !has_own && has_others && of_own(|said| matches!(said, JobReply::Failed(_))) {
        return Err(none_has(nspace, &servers, &said));
    }
    let mut having = { servers.iter().zip(&said) }
        .filter(|(server, _)| !has_own || is_own(server))
        .filter_map(|(server, said)| matches!(said, JobReply::HasJob).then_some(server));
    match (having.next(), having.next()) {
        (Some(only), None) => Ok(only.clone()),
        (None, _) => other(args, &servers, &said).ok_or_else(|| none_has(nspace, &servers, &said)),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(having);
            Err(several_have(nspace, all))
        }
    }
}

/// Queries servers for a job. Each reply comes with the index of its server.
fn ask_all(servers: &[FoundServer], nspace: &str, limit: Duration) -> Receiver<(usize, JobReply)> {
    let (sender, answers) = mpsc::channel();
    let servers = servers.to_vec();
    let number = servers.len().min(AT_ONCE);
    let left = Arc::new(Mutex::new(servers.into_iter().enumerate()));
    for _ in 0..number {
        let (left, sender, nspace) = (Arc::clone(&left), sender.clone(), nspace.to_owned());
        let next = move || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        // Nothing waits for this thread. It ends with the command.
        let begun = thread::Builder::new().spawn(move || {
            while let Some((place, server)) = next() {
                let said = ask(&server, &nspace, limit);
                if sender.send((place, said)).is_err() {
                    break;
                }
            }
        });
        if let Err(error) = begun {
            tracing::debug!(%error, "cannot start a thread; fewer servers are queried concurrently");
            break;
        }
    }
    answers
}

/// Queries one server for a job.
fn ask(server: &FoundServer, nspace: &str, limit: Duration) -> JobReply {
    let names = attach_within(server, limit, |_| {}).and_then(|tool: Tool| {
        let names = ps::names(&tool);
        leave(tool);
        names
    });
    match names {
        Ok(names) if names.iter().any(|name| name == nspace) => JobReply::HasJob,
        Ok(_) => JobReply::NoJob,
        // The launcher of root may have ended meanwhile, for example by the same command.
        Err(failure) if failure.status() == Status::ERR_UNREACH => {
            JobReply::Ended(failure.message().to_owned())
        }
        Err(failure) => JobReply::Failed(failure.message().to_owned()),
    }
}

/// Returns the replies of `number` servers. The first server that has the job shortens the time limit of the
/// others.
fn collect(
    number: usize,
    answers: &Receiver<(usize, JobReply)>,
    mut until: Option<Instant>,
) -> Vec<JobReply> {
    let late = || JobReply::Failed("no reply within the time limit".to_owned());
    let mut said: Vec<_> = std::iter::repeat_with(late).take(number).collect();
    loop {
        let come = match until {
            None => answers.recv().ok(),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                answers.recv_timeout(left).ok()
            }
        };
        let Some((place, one)) = come else {
            return said;
        };
        if matches!(one, JobReply::HasJob) {
            let soon = Instant::now() + OTHERS;
            until = Some(until.map_or(soon, |until| until.min(soon)));
        }
        if let Some(known) = said.get_mut(place) {
            *known = one;
        }
    }
}

/// Returns the default server unless it reported that it does not have the job. The environment may name a
/// server of another node, and some servers do not list their jobs.
fn other(args: &Attach, servers: &[FoundServer], said: &[JobReply]) -> Option<FoundServer> {
    let found = find(args).ok()?;
    let has_not = { servers.iter().zip(said) }
        .any(|(server, said)| server.uri == found.uri && matches!(said, JobReply::NoJob));
    (!has_not).then_some(found)
}

fn none_has(nspace: &str, servers: &[FoundServer], said: &[JobReply]) -> Failure {
    let silent = servers.iter().zip(said).filter_map(|(server, said)| {
        let (JobReply::Failed(why) | JobReply::Ended(why)) = said else {
            return None;
        };
        Some(format!("\n  {}: {why}", named(server)))
    });
    ps::no_job(nspace, &silent.collect::<String>())
        .cure("`pmix ps` lists the running jobs; the job may have ended")
}

fn several_have<'s>(nspace: &str, servers: impl Iterator<Item = &'s FoundServer>) -> Failure {
    let lines: Vec<_> = servers
        .map(|server| format!("\n  {}", named(server)))
        .collect();
    let message = format!(
        "{} servers have a job {nspace:?}; select one with --pid:{}",
        lines.len(),
        lines.concat()
    );
    Failure::new(Exit::Negative, Status::ERR_BAD_PARAM, message).cure("use --pid N")
}

fn named(server: &FoundServer) -> String {
    let name = &server.uri.server.nspace;
    match server.pid {
        Some(pid) => match server.owner {
            Some(owner) => format!("pid {pid}, {name}, user {owner}"),
            None => format!("pid {pid}, {name}"),
        },
        None => format!("{name}, {}", server.uri.address),
    }
}

/// Runs the command.
pub(crate) fn kill(global: &Global, args: &Kill) -> Result<Exit, Failure> {
    if let [nspace] = &args.nspaces[..] {
        return kill_one(global, args, nspace).map(|()| Exit::Ok);
    }
    let mut failures = Vec::new();
    for nspace in &args.nspaces {
        let Err(failure) = kill_one(global, args, nspace) else {
            continue;
        };
        if global.json && !failure.is_answered() {
            let mut line = failure.to_json();
            if let Some(line) = line.as_object_mut() {
                line.insert("nspace".to_owned(), nspace.as_str().into());
            }
            let mut out = Out::new();
            out.json(&line)?;
            out.flush()?;
        }
        failures.push(failure);
    }
    let Some(first) = failures.first() else {
        return Ok(Exit::Ok);
    };
    let status = first.status();
    let texts: Vec<_> = failures.iter().map(Failure::message).collect();
    let (failed, all) = (failures.len(), args.nspaces.len());
    let message = format!("{failed} of {all} jobs: {}", texts.join("\n  "));
    Err(match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message)
            .cure("`pmix ps` lists the running jobs; those that have no error here were signaled"),
    })
}

/// Controls one job.
fn kill_one(global: &Global, args: &Kill, nspace: &str) -> Result<(), Failure> {
    let control = control(args);
    let targets = Ranks::procs(args.ranks.as_ref(), nspace);
    let tool = attach(&find_job(&args.attach, Some(nspace))?, &args.attach)?;
    // The server signals the ranks that it has and does not name the others, so missing ranks are checked first.
    let listed = args.ranks.as_ref().map(|_| ps::procs(&tool, nspace));
    let listed = listed.and_then(|procs| procs.ok()?.ok());
    let missing = listed.and_then(|procs| ps::missing_rank(nspace, &procs, args.ranks.as_ref()));
    let status = match &missing {
        Some(_) => Status::ERR_NOT_FOUND,
        None => match tool.control(targets, control) {
            Ok(()) => Status::SUCCESS,
            Err(error) if is_answer(error.status()) => error.status(),
            Err(error) => return Err(error.into()),
        },
    };
    leave(tool);
    if global.json {
        let mut out = Out::new();
        let (what, signal) = name(control);
        out.json(&json!({
            "nspace": nspace,
            "ranks": args.ranks.as_ref().map(|ranks| &ranks.0),
            "control": what,
            "signal": signal,
            "status": status.as_raw(),
        }))?;
        out.flush()?;
    }
    if status.is_success() {
        return Ok(());
    }
    let message = match status {
        Status::ERR_NOT_FOUND => match &missing {
            Some(missing) => format!("{missing} ({status})"),
            None => format!("job {nspace:?} has no such running process ({status})"),
        },
        _ => format!("the server rejected the request for job {nspace:?} ({status})"),
    };
    Err(match global.json {
        true => Failure::answer(status, message),
        false => {
            let failure = Failure::new(Exit::Negative, status, message);
            match missing {
                Some(_) => failure.cure(format!(
                    "`pmix ps {nspace}` lists the ranks; no process was signaled"
                )),
                None => failure,
            }
        }
    })
}

/// Returns the requested control.
fn control(args: &Kill) -> Control {
    match args.signal {
        Some(number) => Control::Signal(number),
        None if args.kill => Control::Kill,
        None if args.pause => Control::Pause,
        None if args.resume => Control::Resume,
        None => Control::Terminate,
    }
}

/// Returns the name of a control, and its signal.
fn name(control: Control) -> (&'static str, Option<i32>) {
    match control {
        Control::Kill => ("kill", None),
        Control::Pause => ("pause", None),
        Control::Resume => ("resume", None),
        Control::Signal(number) => ("signal", Some(number)),
        _ => ("terminate", None),
    }
}

/// Runs the command.
pub(crate) fn release(global: &Global, args: &Release) -> Result<Exit, Failure> {
    let nspace = &args.nspace;
    let tool = attach(&find_job(&args.attach, Some(nspace))?, &args.attach)?;
    // For a server, an event without recipients is not an error, so missing targets are checked here.
    let missing = missing(&tool, args)?;
    let status = match missing {
        None => match tool.release(Ranks::procs(args.ranks.as_ref(), nspace)) {
            Ok(()) => Status::SUCCESS,
            Err(error) if is_answer(error.status()) => error.status(),
            Err(error) => return Err(error.into()),
        },
        Some(_) => Status::ERR_NOT_FOUND,
    };
    leave(tool);
    if global.json {
        let mut out = Out::new();
        out.json(&json!({
            "nspace": nspace,
            "ranks": args.ranks.as_ref().map(|ranks| &ranks.0),
            "status": status.as_raw(),
        }))?;
        out.flush()?;
    }
    if status.is_success() {
        return Ok(Exit::Ok);
    }
    let what =
        missing.unwrap_or_else(|| format!("the server rejected the release of job {nspace:?}"));
    let message = format!("{what} ({status})");
    Err(match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message),
    })
}

/// Returns a message if the job or a rank does not exist, or `None` if the server does not list its
/// jobs or processes.
fn missing(tool: &Tool, args: &Release) -> Result<Option<String>, Failure> {
    let nspace = &args.nspace;
    // A waiting launcher has the name of its server, or the name that the server that started it assigned.
    let of_server = |server: &Proc<'_>| server.nspace.as_bytes() == nspace.as_bytes();
    let is_server = tool.servers().first().is_some_and(of_server);
    let is_no_job = match ps::names(tool) {
        Ok(names) => !names.iter().any(|name| name == nspace),
        Err(_) => false,
    };
    if is_server || is_no_job {
        return Ok(match ps::waiting(tool, nspace)? {
            Ok(waiting) if !waiting.is_empty() => {
                let is_other = |rank: &u32| !waiting.contains_key(&Rank::new(*rank));
                let ranges = args.ranks.iter().flat_map(|ranks| &ranks.0);
                let mut ranks = ranges.flat_map(|(first, last)| *first..=*last);
                ranks.find(is_other).map(|rank| {
                    format!("launcher {nspace:?} has no rank {rank} that is waiting for a release")
                })
            }
            Err(Status::ERR_NOT_SUPPORTED) if is_server => None,
            _ if is_server => Some(format!(
                "the launcher of {nspace:?} is not waiting for a release"
            )),
            _ => Some(format!("the server has no job {nspace:?}")),
        });
    }
    if args.ranks.is_none() {
        return Ok(None);
    }
    let procs = ps::procs(tool, nspace)?.unwrap_or_default();
    Ok(ps::missing_rank(nspace, &procs, args.ranks.as_ref()))
}
