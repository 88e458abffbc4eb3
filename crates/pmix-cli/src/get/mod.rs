// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix get`: what a server answers about a job.

mod all;
mod ask;
pub(crate) mod host;
mod jobs;
mod jsonl;
pub(crate) mod show;
mod subject;
mod value;

use gds_hash::{Job, LocalNode};
pub(crate) use value::of_text;

use crate::args::Get;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::read_job;

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
        true => all::run(context, args, &jobs),
        false => ask::run(context, args, &jobs),
    }
}

/// Reads and registers the selected jobs.
fn read_jobs(context: &Context, args: &Get) -> Result<Vec<Job>, Failure> {
    let host = host::for_people(args.host.as_deref());
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
