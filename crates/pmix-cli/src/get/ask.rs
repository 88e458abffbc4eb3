// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys by name, each answered on a line.

use std::borrow::Cow;
use std::io::Write;

use gds_hash::{Job, Request};
use pmix_types::{Attribute, Value};
use preg_core::Status;
use serde_json::{Map, Value as Json, json};

use super::show;
use super::subject::Subject;
use crate::args::{self, Get};
use crate::context::Context;
use crate::dictionary::attr;
use crate::failure::{Exit, Failure};
use crate::output::Out;

/// Answers every key for every job: one alone bare, several with their names.
pub(super) fn run(context: &mut Context, args: &Get, jobs: &[Job]) -> Result<Exit, Failure> {
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
    // A key may be anybody's, so one that no attribute has may be meant all the same.
    let near = match (Attribute::by_key(key), Attribute::by_name(key)) {
        (Some(_), _) => Vec::new(),
        (None, Some(named)) => vec![named.full_name().to_owned()],
        (None, None) => attr::near(key),
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
pub(super) fn write_value(out: &mut Out, value: &Value<'_>) -> Result<(), Failure> {
    out.foreign(&show::plain(value))?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Prints one answer in JSON.
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
    let value = answer.as_ref().map_or(Json::Null, show::typed);
    line.insert("value".to_owned(), value);
    if let Err(error) = answer {
        line.insert("error".to_owned(), json!(error.to_string()));
    }
    Json::Object(line)
}

/// Returns the members that say what a value is and whose.
pub(super) fn head(job: &Job, subject: &Subject, key: &str) -> Map<String, Json> {
    let mut line = Map::new();
    let nspace = job.nspace().as_text().to_str_lossy();
    line.insert("nspace".to_owned(), json!(nspace));
    subject.members(&mut line);
    line.insert("key".to_owned(), json!(key));
    let name = Attribute::by_key(key).map(|_| Attribute::name_of(key));
    line.insert("name".to_owned(), json!(name));
    line
}
