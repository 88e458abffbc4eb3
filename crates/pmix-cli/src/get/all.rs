// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--all`: everything that is known, level by level.

use std::io::Write;

use gds_hash::{Job, Request};
use pmix_types::Attribute;
use preg_core::Status;
use serde_json::{Value as Json, json};

use super::ask::{head, write_value};
use super::show;
use super::subject::{NodeRef, Subject};
use crate::args::Get;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Prints one line a value; where several are asked about, whose it is in front.
pub(super) fn run(context: &mut Context, args: &Get, jobs: &[Job]) -> Result<Exit, Failure> {
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
        false => Err(Failure::answer(Status::ERR_NOT_FOUND, "no values")),
    }
}

/// Prints all of one subject; says whether there was anything.
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
            line.insert("value".to_owned(), show::typed(&info.value));
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
