// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs from JSON: `{"nspace":…,"info":[…]}`, or an object with a name and this object as
//! `registered`.

use std::ffi::OsStr;

use gds_hash::{Job, LocalNode};
use preg_core::Preg;
use serde::Deserialize;

use super::value;
use crate::context::Context;
use crate::excerpt::Excerpt;
use crate::failure::{Exit, Failure};
use crate::input::read_path;

/// A job as registered by a host.
#[derive(Deserialize)]
#[serde(expecting = "a job, {\"nspace\":…,\"info\":[…]}")]
pub(super) struct Registration {
    pub(super) nspace: String,
    #[serde(default)]
    info: Vec<value::Entry>,
}

/// A job with the name by which requests refer to it.
#[derive(Deserialize)]
struct NamedJob {
    job: Option<String>,
    registered: Registration,
}

/// The reason for which a job is not registered.
pub(super) enum Refusal {
    /// The input is not a job.
    Json(String),
    /// The datastore rejects the job.
    Job(gds_hash::Error),
}

impl Registration {
    /// Reads a job in either form.
    pub(super) fn read(json: &str) -> Result<(Option<String>, Self), serde_json::Error> {
        #[derive(Deserialize)]
        struct Form {
            registered: Option<serde::de::IgnoredAny>,
        }
        let form: Form = serde_json::from_str(json)?;
        if form.registered.is_some() {
            let named: NamedJob = serde_json::from_str(json)?;
            return Ok((named.job, named.registered));
        }
        Ok((None, serde_json::from_str(json)?))
    }

    /// Registers the job.
    pub(super) fn register(&self, preg: &Preg, host: &LocalNode) -> Result<Job, Refusal> {
        let infos = value::infos(preg, &self.info).map_err(Refusal::Json)?;
        Job::register(preg, host, self.nspace.clone(), &infos).map_err(Refusal::Job)
    }
}

/// A job of a file.
pub(super) struct Entry {
    origin: String,
    /// The name by which requests refer to the job.
    pub(super) name: Option<String>,
    pub(super) registration: Registration,
}

impl Entry {
    /// Returns `true` if an nspace or a name selects this job.
    pub(super) fn is(&self, name: &str) -> bool {
        self.registration.nspace == name || self.name.as_deref() == Some(name)
    }

    /// Registers the job. Converts an error into a message for users.
    pub(super) fn register(&self, context: &Context, host: &LocalNode) -> Result<Job, Failure> {
        let of = |message: String| format!("{}: {message}", self.origin);
        self.registration
            .register(&context.preg, host)
            .map_err(|refusal| match refusal {
                Refusal::Json(message) => Failure::data(of(message)),
                Refusal::Job(error) => {
                    Failure::new(Exit::Data, error.status(), of(error.to_string()))
                }
            })
    }
}

/// Reads a file of jobs, one per line. Empty lines are ignored.
pub(super) fn read(context: &Context, path: &OsStr) -> Result<Vec<Entry>, Failure> {
    let source = read_path(Some(path))?;
    if source.bytes.len() as u64 > crate::input::longest_line(context.limits()) {
        return Err(Failure::data(format!("{} is too large", source.origin)));
    }
    let Ok(text) = std::str::from_utf8(&source.bytes) else {
        return Err(Failure::data(format!(
            "{} is not valid UTF-8",
            source.origin
        )));
    };
    let mut jobs = Vec::new();
    // The file may consist of one job, formatted over several lines.
    if let Ok((name, registration)) = Registration::read(text) {
        let origin = source.origin;
        return Ok(vec![Entry {
            origin,
            name,
            registration,
        }]);
    }
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if !line.trim().is_empty() {
            let (name, registration) = Registration::read(line).map_err(|fault| {
                let place = start + fault.column().saturating_sub(1).min(line.len());
                Failure::data(format!("not a valid job: {fault}"))
                    .at(Excerpt::new(&source.origin, text.as_bytes(), place))
                    .cure("a job is {\"nspace\":…,\"info\":[{\"key\":…,\"type\":…,\"value\":…},…]}")
            })?;
            let origin = format!("{} line {}", source.origin, number + 1);
            jobs.push(Entry {
                origin,
                name,
                registration,
            });
        }
        start += line.len();
    }
    Ok(jobs)
}
