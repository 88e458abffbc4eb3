// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix get`: the values of a job that a server would return.

mod jobs;
mod jsonl;
mod subject;
mod value;

use std::borrow::Cow;
use std::io::Write;

use gds_hash::{Job, LocalNode, Request};
use pmix_types::{Attribute, Value};
use preg_core::Status;
use serde_json::{Map, Value as Json, json};

use crate::args::{self, Get};
use crate::context::Context;
use crate::dictionary;
use crate::failure::{Exit, Failure};
use crate::input::read_job;
use crate::output::Out;
use subject::{NodeRef, Subject};

pub(crate) use subject::host_name;
pub(crate) use value::{of_text, plain_text, typed_json};

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Get) -> Result<Exit, Failure> {
    if args.jsonl {
        return jsonl::run(context, args);
    }
    if args.keys.is_empty() && !args.all {
        let cure = "for example JOB_SIZE, or --all for all known values";
        return Err(Failure::usage("missing key").cure(cure));
    }
    let jobs = read_jobs(context, args)?;
    match args.all {
        true => print_all(context, args, &jobs),
        false => print_keys(context, args, &jobs),
    }
}

/// Reads and registers the selected jobs.
fn read_jobs(context: &Context, args: &Get) -> Result<Vec<Job>, Failure> {
    let host = subject::host_for_people(args.host.as_deref());
    match (&args.job, &args.nodes) {
        (Some(path), _) => {
            let jobs = jobs::read(context, path)?;
            let wanted = |job: &&jobs::Entry| args.nspace.as_ref().is_none_or(|n| job.is(n));
            let found: Vec<_> = jobs.iter().filter(wanted).collect();
            if found.is_empty() {
                let what = args.nspace.as_deref().map_or_else(
                    || "the file has no job".to_owned(),
                    |nspace| format!("the file has no job {nspace}"),
                );
                return Err(Failure::data(what));
            }
            let register = |entry: &jobs::Entry| entry.register(context, &host);
            found.into_iter().map(register).collect()
        }
        (None, Some(nodes)) => {
            let procs = args.procs.as_deref();
            let (list, map) = read_job(&context.preg, nodes, procs, &args.layout)?;
            let nspace = args.nspace.clone().unwrap_or_else(|| "job".to_owned());
            Ok(vec![of_maps(&host, nspace, list, map)?])
        }
        _ => {
            let cure = "give --nodes and --procs, or --job with a file";
            Err(Failure::usage("no job is given").cure(cure))
        }
    }
}

fn of_maps(
    host: &LocalNode,
    nspace: String,
    list: pmix_map::NodeList,
    map: pmix_map::ProcMap,
) -> Result<Job, Failure> {
    Job::of_maps(host, nspace, list, map).map_err(|error| {
        Failure::new(Exit::Data, error.status(), error.to_string())
            .cure("`pmix map verify` lists the errors of two maps")
    })
}

/// Prints one line for each value. For several subjects, each line begins with the subject.
fn print_all(context: &mut Context, args: &Get, jobs: &[Job]) -> Result<Exit, Failure> {
    let named = args.rank.is_some() || args.node.is_some() || args.app.is_some();
    let mut any = false;
    for job in jobs {
        let prefix = (jobs.len() > 1).then_some(job);
        if named {
            any |= one(context, job, prefix, &Subject::of(args, job), false)?;
            continue;
        }
        any |= one(context, job, prefix, &Subject::Session, true)?;
        any |= one(context, job, prefix, &Subject::Job, true)?;
        for app in job.apps() {
            any |= one(context, job, prefix, &Subject::App(app), true)?;
        }
        for node in job.nodes() {
            let by_id = node.id.map(NodeRef::Id);
            if let Some(node) = node.name.map(NodeRef::Name).or(by_id) {
                any |= one(context, job, prefix, &Subject::Node(None, node), true)?;
            }
        }
        for rank in job.ranks() {
            any |= one(context, job, prefix, &Subject::Rank(rank), true)?;
        }
    }
    context.out.flush()?;
    match any {
        true => Ok(Exit::Ok),
        false => {
            let cure = "`pmix get --all` without --rank, --node and --app prints the values of the whole job";
            Err(Failure::answer(Status::ERR_NOT_FOUND, "no values").cure(cure))
        }
    }
}

/// Prints all values of a subject. Returns `true` if there are any.
fn one(
    context: &mut Context,
    job: &Job,
    prefix: Option<&Job>,
    subject: &Subject,
    labelled: bool,
) -> Result<bool, Failure> {
    let qualifiers = subject.qualifiers();
    let request = Request::all(subject.rank()).with(&qualifiers);
    let infos = job.known(&request).unwrap_or_default();
    for info in &infos {
        let key = info.key.as_text().to_str_lossy();
        if context.json {
            let mut line = head(job, subject, &key);
            line.insert("status".to_owned(), json!(Status::SUCCESS.as_raw()));
            line.insert("value".to_owned(), typed_json(&info.value));
            context.out.json(&Json::Object(line))?;
            continue;
        }
        if let Some(job) = prefix {
            context.out.foreign(job.nspace().as_bytes())?;
            context.out.write_all(b"\t")?;
        }
        if labelled {
            context.out.foreign(&subject.label())?;
            context.out.write_all(b"\t")?;
        }
        context.out.foreign(Attribute::name_of(&key).as_bytes())?;
        context.out.write_all(b"\t")?;
        write_value(&mut context.out, &info.value)?;
    }
    Ok(!infos.is_empty())
}

/// Prints the value of every key for every job. A single value is printed without its key.
fn print_keys(context: &mut Context, args: &Get, jobs: &[Job]) -> Result<Exit, Failure> {
    let mut absent = Vec::new();
    for job in jobs {
        let subject = Subject::of(args, job);
        let qualifiers = subject.qualifiers();
        for word in &args.keys {
            let key = args::key(word);
            let request = Request::new(subject.rank(), key).with(&qualifiers);
            let answer = job
                .get(&request)
                .map(Cow::into_owned)
                .or_else(|error| subject.name_of_node(job, key).ok_or(error));
            if context.json {
                let line = line(job, &subject, key, &answer);
                context.out.json(&line)?;
            } else if let Ok(value) = &answer {
                if jobs.len() > 1 {
                    context.out.foreign(job.nspace().as_bytes())?;
                    context.out.write_all(b"\t")?;
                }
                if args.keys.len() > 1 {
                    write!(context.out, "{}\t", Attribute::name_of(key))?;
                }
                write_value(&mut context.out, value)?;
            }
            if let Err(error) = answer {
                absent.push((error.status(), reason(job, &subject, &error), key));
            }
        }
    }
    context.out.flush()?;
    let mut absent = absent.into_iter();
    match (absent.next(), absent.len()) {
        (None, _) => Ok(Exit::Ok),
        (Some((status, message, key)), 0) => Err(negative(status, message, key)),
        (Some((status, message, key)), more) => Err(negative(
            status,
            format!("{message}; {more} more keys were not found"),
            key,
        )),
    }
}

/// Returns the message for a missing value, or for a rank that the job does not have.
fn reason(job: &Job, subject: &Subject, error: &gds_hash::Error) -> String {
    let rank = subject.rank();
    match error.status() == Status::ERR_NOT_FOUND && rank.is_valid() && !job.has_rank(rank) {
        true => format!("the job has no rank {rank}: it has {}", job.num_ranks()),
        false => error.to_string(),
    }
}

fn negative(status: Status, message: String, key: &str) -> Failure {
    let failure = Failure::answer(status, message);
    if status != Status::ERR_NOT_FOUND {
        return failure;
    }
    // A key need not belong to an attribute, so similar names are only a suggestion.
    let near = match (Attribute::by_key(key), Attribute::by_name(key)) {
        (Some(_), _) => Vec::new(),
        (None, Some(named)) => vec![named.full_name().to_owned()],
        (None, None) => dictionary::near_attributes(key),
    };
    match near.as_slice() {
        [] => failure.cure(
            "--all prints all known values; --rank, --node and --app select a process, node \
        or application",
        ),
        near => failure.cure(format!("did you mean {}?", near.join(" or "))),
    }
}

/// Writes a value and the end of its line.
fn write_value(out: &mut Out, value: &Value<'_>) -> Result<(), Failure> {
    out.foreign(&plain_text(value))?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Prints one result in JSON.
fn line(
    job: &Job,
    subject: &Subject,
    key: &str,
    answer: &Result<Value<'static>, gds_hash::Error>,
) -> Json {
    let mut line = head(job, subject, key);
    let status = answer
        .as_ref()
        .map_or_else(gds_hash::Error::status, |_| Status::SUCCESS);
    line.insert("status".to_owned(), json!(status.as_raw()));
    let value = answer.as_ref().map_or(Json::Null, typed_json);
    line.insert("value".to_owned(), value);
    if let Err(error) = answer {
        line.insert("error".to_owned(), json!(error.to_string()));
    }
    Json::Object(line)
}

/// Returns the JSON members for the job, the subject and the key of a value.
fn head(job: &Job, subject: &Subject, key: &str) -> Map<String, Json> {
    let mut line = Map::new();
    let nspace = job.nspace().as_text().to_str_lossy();
    line.insert("nspace".to_owned(), json!(nspace));
    subject.members(&mut line);
    line.insert("key".to_owned(), json!(key));
    let name = Attribute::by_key(key).map(|_| Attribute::name_of(key));
    line.insert("name".to_owned(), json!(name));
    line
}
