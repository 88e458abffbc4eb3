// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our side of a job that is registered twice. The command cannot express it, so the datastore is called directly.

use gds_hash::{Job, LocalNode, Request};
use pmix_types::json::List;
use pmix_types::{DataArray, Info, Rank, RegexBytes, Value as Datum};
use preg_core::{Params, Preg};
use serde_json::{Value, json};

use super::entry::{Entry, Given, THIS_HOST};
use super::plan::Plan;
use super::questions::{Level, Question};
use super::{Answer, NOT_FOUND};

/// Returns our answers to questions about a job that two registrations made.
///
/// # Errors
/// Returns a message if a registration is refused.
pub(super) fn answers(
    preg: &Preg,
    plan: &Plan,
    questions: &[Question],
) -> Result<Vec<Answer>, String> {
    let mut job: Option<Job> = None;
    for entries in plan.registrations() {
        let infos: Vec<_> = entries.iter().map(info).collect();
        let next = match &job {
            None => Job::register(
                preg,
                &LocalNode::new(THIS_HOST),
                plan.nspace.clone(),
                &infos,
            ),
            Some(job) => job.updated(preg, &infos),
        };
        job = Some(next.map_err(|error| format!("{error} in {}", plan.json()))?);
    }
    let job = job.ok_or("a job without a registration")?;
    Ok(questions.iter().map(|q| answer(&job, q)).collect())
}

fn answer(job: &Job, question: &Question) -> Answer {
    let qualifiers: Vec<_> = question.qualifiers.iter().map(info).collect();
    let rank = Rank::new(question.rank);
    let request = match question.level {
        Level::Whole => Request::all(rank),
        _ => Request::new(rank, question.key),
    };
    let nobody = question.level == Level::OtherJob;
    match job.get(&request.with(&qualifiers)) {
        Ok(value) if !nobody => Answer {
            status: 0,
            value: shown(&value),
        },
        Err(error) if !nobody => Answer {
            status: error.status().as_raw().into(),
            value: Value::Null,
        },
        _ => Answer {
            status: NOT_FOUND,
            value: Value::Null,
        },
    }
}

fn info(entry: &Entry) -> Info<'static> {
    let value = match &entry.given {
        Given::Text(text) | Given::Nodes(text) | Given::Procs(text) | Given::Regex2(text) => {
            Datum::from(text.clone())
        }
        Given::Short(number) => Datum::Uint16(*number),
        Given::Number(number) => Datum::Uint32(*number),
        Given::Rank(rank) => Datum::Rank(Rank::new(*rank)),
        Given::Flag(flag) => Datum::Bool(*flag),
        Given::Regex(map) => Datum::Regex(RegexBytes(map.clone().into_bytes().into())),
        Given::Infos(infos) => Datum::DataArray(DataArray::Info(infos.iter().map(info).collect())),
    };
    let mut info = Info::new(entry.key, value);
    if entry.qualifier {
        info.set_qualifier();
    }
    info
}

/// Returns a value in the form of the vectors.
fn shown(value: &Datum<'_>) -> Value {
    let data = match value {
        Datum::DataArray(array) => {
            let items = match array {
                DataArray::Info(infos) => infos.iter().map(member).collect(),
                array => serde_json::to_value(List(array)).unwrap_or_default(),
            };
            json!({"array_of": array.data_type().to_string(), "items": items})
        }
        value => serde_json::to_value(value).unwrap_or_default()["data"].take(),
    };
    let data_type = value.data_type();
    json!({"data": data, "type": data_type.to_string(), "type_id": data_type.as_raw()})
}

fn member(info: &Info<'_>) -> Value {
    json!({"key": info.key.as_text().to_str_lossy(), "value": shown(&info.value)})
}

/// Opens the encoders that a host has.
///
/// # Errors
/// Returns a message if none can be opened.
pub(super) fn preg() -> Result<Preg, String> {
    pmix_builtin::open_preg(&Params::default()).map_err(|e| e.to_string())
}
