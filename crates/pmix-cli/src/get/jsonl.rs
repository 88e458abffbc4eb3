// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--jsonl`: one request per line, one reply per line, in order.
//!
//! A request has a job and a get. A job that is repeated in consecutive lines is registered once. Requests
//! can refer by name to the jobs of `--job` and to named jobs of earlier lines.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use gds_hash::{Job, LocalNode, Request};
use pmix_types::{Info, Rank, keys};
use preg_core::{Preg, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::jobs::{self, Refusal, Registration};
use super::{subject, value};
use crate::args::{self, Get};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{answer_lines, longest_line};
use crate::output::{Out, json_string};

/// A request. Records of the test vectors are requests, too, so unknown members are ignored.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Line<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    job: Option<&'a RawValue>,
    #[serde(borrow)]
    registered: Option<&'a RawValue>,
    get: Option<GetRequest>,
}

#[derive(Deserialize)]
#[serde(expecting = "a get, {\"key\":…,\"proc\":{\"nspace\":…,\"rank\":…},\"qualifiers\":[…]}")]
struct GetRequest {
    key: Option<String>,
    #[serde(default)]
    proc: Target,
    #[serde(default)]
    qualifiers: Vec<value::Entry>,
}

#[derive(Default, Deserialize)]
struct Target {
    nspace: Option<String>,
    rank: Option<RankForm>,
}

/// A rank as a number or by name.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a rank")]
enum RankForm {
    Number(u32),
    Name(String),
}

/// The id of a request, which the reply has even if the rest of the request is invalid.
#[derive(Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// A registered job, or the reason for which it was not registered.
struct RegisteredJob {
    nspace: String,
    job: Result<Job, gds_hash::Error>,
}

/// The registered jobs.
struct JobRegistry<'s> {
    preg: &'s Preg,
    host: LocalNode,
    named: HashMap<String, Arc<RegisteredJob>>,
    /// The text of the last job in a request, and the registered job.
    last: Option<(String, Arc<RegisteredJob>)>,
}

/// The qualifiers that select a realm or object, and do not distinguish values of a key.
const DIRECTIVES: &[&str] = &[
    keys::SESSION_INFO,
    keys::JOB_INFO,
    keys::APP_INFO,
    keys::NODE_INFO,
    "pmix.proc.info",
    keys::SESSION_ID,
    keys::APPNUM,
    keys::NODEID,
    keys::HOSTNAME,
    keys::OPTIONAL,
    keys::IMMEDIATE,
    keys::TIMEOUT,
    keys::DATA_SCOPE,
    keys::GET_REFRESH_CACHE,
    keys::GET_POINTER_VALUES,
    keys::GET_STATIC_VALUES,
];

pub(super) fn run(context: &mut Context, args: &Get) -> Result<Exit, Failure> {
    let host = subject::host_for_programs(args.host.as_deref());
    let entries = match &args.job {
        Some(path) if path == "-" => {
            return Err(Failure::usage("standard input is used for the requests"));
        }
        Some(path) => jobs::read(context, path)?,
        None => Vec::new(),
    };
    let (preg, out) = (&context.preg, &mut context.out);
    let longest = longest_line(preg.limits());
    let mut registry = JobRegistry {
        preg,
        host,
        named: HashMap::new(),
        last: None,
    };
    for entry in entries {
        let name = entry
            .name
            .unwrap_or_else(|| entry.registration.nspace.clone());
        let known = registry
            .register(&entry.registration)
            .map_err(Failure::data)?;
        registry.named.insert(name, known);
    }
    answer_lines(out, longest, |line, out| match line {
        Some(line) => registry.respond(line, out),
        None => refuse(
            out,
            None,
            &format!("the line is longer than {longest} bytes"),
        ),
    })?;
    Ok(Exit::Ok)
}

impl JobRegistry<'_> {
    /// Handles one request, and writes the reply.
    fn respond(&mut self, line: &[u8], out: &mut Out) -> io::Result<()> {
        // serde would accept an array as the members in order.
        if line.trim_ascii_start().first() != Some(&b'{') {
            let message = "not a request: expected an object, {\"job\":…,\"get\":…}";
            return refuse(out, None, message);
        }
        let line: Line<'_> = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(fault) => {
                let only = serde_json::from_slice(line).ok();
                let id = only.and_then(|only: OnlyId<'_>| only.id);
                return refuse(out, id, &format!("not a valid request: {fault}"));
            }
        };
        let asked = self.find(&line).and_then(|known| {
            let asked = line.get.as_ref().map(|get| self.prepare(get)).transpose()?;
            Ok((known, asked))
        });
        match asked {
            Ok((known, asked)) => answer(out, line.id, &known, asked.as_ref()),
            Err(message) => refuse(out, line.id, &message),
        }
    }

    /// Returns the job of a request.
    fn find(&mut self, line: &Line<'_>) -> Result<Arc<RegisteredJob>, String> {
        let name = line.job.filter(|job| job.get().starts_with('"'));
        let name: Option<String> = name.and_then(|job| serde_json::from_str(job.get()).ok());
        let written = match (line.registered, line.job, &name) {
            (Some(registered), ..) => registered.get(),
            (None, Some(job), None) => job.get(),
            (None, _, Some(name)) => {
                let known = self.named.get(name);
                return known.cloned().ok_or_else(|| format!("unknown job {name}"));
            }
            (None, None, None) => return Err("the request has no \"job\"".to_owned()),
        };
        let known = match &self.last {
            Some((text, known)) if text == written => Arc::clone(known),
            _ => {
                let read = Registration::read(written);
                let (inner, registration) = read.map_err(|e| format!("not a valid job: {e}"))?;
                let known = self.register(&registration)?;
                self.last = Some((written.to_owned(), Arc::clone(&known)));
                if let Some(inner) = inner {
                    self.named.insert(inner, Arc::clone(&known));
                }
                known
            }
        };
        if let Some(name) = name {
            self.named.insert(name, Arc::clone(&known));
        }
        Ok(known)
    }

    fn register(&self, registration: &Registration) -> Result<Arc<RegisteredJob>, String> {
        let job = match registration.register(self.preg, &self.host) {
            Ok(job) => Ok(job),
            Err(Refusal::Job(error)) => Err(error),
            Err(Refusal::Json(message)) => return Err(message),
        };
        Ok(Arc::new(RegisteredJob {
            nspace: registration.nspace.clone(),
            job,
        }))
    }

    fn prepare(&self, get: &GetRequest) -> Result<Prepared, String> {
        let mut qualifiers = value::infos(self.preg, &get.qualifiers)?;
        for info in &mut qualifiers {
            if !DIRECTIVES.iter().any(|key| info.key.is(key)) {
                info.set_qualifier();
            }
        }
        let rank = match &get.proc.rank {
            None => Rank::WILDCARD,
            Some(RankForm::Number(number)) => Rank::new(*number),
            Some(RankForm::Name(name)) => {
                name.parse().map_err(|_| format!("{name} is not a rank"))?
            }
        };
        Ok(Prepared {
            nspace: get.proc.nspace.clone(),
            rank,
            key: get.key.as_deref().map(|key| args::key(key).to_owned()),
            qualifiers,
        })
    }
}

/// A parsed get.
struct Prepared {
    nspace: Option<String>,
    rank: Rank,
    key: Option<String>,
    qualifiers: Vec<Info<'static>>,
}

fn answer(
    out: &mut Out,
    id: Option<&RawValue>,
    known: &RegisteredJob,
    asked: Option<&Prepared>,
) -> io::Result<()> {
    let Some(asked) = asked else {
        // A request with only a job registers the job.
        return match &known.job {
            Ok(_) => finish(out, id, Status::SUCCESS, "null", None),
            Err(error) => finish(out, id, error.status(), "null", Some(&error.to_string())),
        };
    };
    let request = match &asked.key {
        Some(key) => Request::new(asked.rank, key),
        None => Request::all(asked.rank),
    };
    let request = request.with(&asked.qualifiers);
    if let Some(nspace) = asked.nspace.as_ref().filter(|n| **n != known.nspace) {
        let message = format!("no job {nspace} is registered");
        return finish(out, id, Status::ERR_NOT_FOUND, "null", Some(&message));
    }
    if asked.key.is_none() && !asked.rank.is_valid() {
        let message = "all keys can be requested for one process only";
        return finish(out, id, Status::ERR_BAD_PARAM, "null", Some(message));
    }
    match &known.job {
        Ok(job) => match job.get(&request) {
            Ok(value) => {
                let value = value::typed_json(&value).to_string();
                finish(out, id, Status::SUCCESS, &value, None)
            }
            Err(error) => finish(out, id, error.status(), "null", Some(&error.to_string())),
        },
        Err(error) => {
            let message = format!("the job was rejected: {error}");
            write_head(out, id, Status::ERR_NOT_FOUND, "null")?;
            write!(out, ",\"register_status\":{}", error.status().as_raw())?;
            write_error(out, &message)
        }
    }
}

fn finish(
    out: &mut Out,
    id: Option<&RawValue>,
    status: Status,
    value: &str,
    error: Option<&str>,
) -> io::Result<()> {
    write_head(out, id, status, value)?;
    match error {
        Some(error) => write_error(out, error),
        None => out.write_all(b"}\n"),
    }
}

/// Writes `{"id":…,"status":…,"value":…`.
fn write_head(out: &mut Out, id: Option<&RawValue>, status: Status, value: &str) -> io::Result<()> {
    let id = id.map_or("null", RawValue::get);
    write!(
        out,
        "{{\"id\":{id},\"status\":{},\"value\":",
        status.as_raw()
    )?;
    out.json_text(value)
}

fn write_error(out: &mut Out, error: &str) -> io::Result<()> {
    out.write_all(b",\"error\":")?;
    json_string(error.as_bytes(), out)?;
    out.write_all(b"}\n")
}

fn refuse(out: &mut Out, id: Option<&RawValue>, message: &str) -> io::Result<()> {
    finish(out, id, Status::ERR_BAD_PARAM, "null", Some(message))
}
