// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our side: `pmix get --jsonl`, as programs in other languages use it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use gds_hash::{Job, LocalNode, Request};
use pmix_types::json::List;
use pmix_types::{DataArray, Info, Rank, RegexBytes, Value as Datum};
use preg_core::{Params, Preg};
use serde_json::{Value, json};
use xtask::install;

use super::entry::{Entry, Given, THIS_HOST};
use super::plan::Plan;
use super::questions::{Level, Question};
use super::{Answer, NOT_FOUND, Round};
use crate::tally::Tally;

/// The command that answers questions about jobs.
pub(super) struct Ours {
    program: PathBuf,
}

impl Ours {
    /// Builds the command with a cargo profile.
    ///
    /// # Errors
    /// Returns a message if the build fails.
    pub(super) fn build(profile: &str) -> Result<Self, String> {
        let program = crate::ours::Ours::build(profile)?.program;
        Ok(Self { program })
    }

    /// Returns our status for each of these registrations.
    ///
    /// # Errors
    /// Returns a message if the command failed as a whole.
    pub(super) fn try_register(&self, jobs: &[&[Entry]]) -> Result<Vec<i64>, String> {
        let line = |(id, infos): (usize, &&[Entry])| {
            let infos: Vec<_> = infos.iter().map(Entry::json).collect();
            let job = json!({"nspace": "refused@1", "info": infos});
            format!("{}\n", json!({"id": id, "job": job}))
        };
        let answers = self.answers(jobs.iter().enumerate().map(line).collect(), None)?;
        Ok(answers.into_iter().map(|answer| answer.status).collect())
    }

    /// Asks all questions in one run of the command.
    fn ask(&self, rounds: &[&Round], limit: Option<&str>) -> Result<Vec<Answer>, String> {
        self.answers(requests(rounds), limit)
    }

    fn answers(&self, requests: Vec<String>, limit: Option<&str>) -> Result<Vec<Answer>, String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PMIX_") {
                command.env_remove(name);
            }
        }
        if let Some(limit) = limit {
            command.env("PMIX_MCA_pcompress_base_limit", limit);
        }
        // Run outside of the source tree, so that the tree's plugins.toml is not read.
        command.current_dir(install::scratch("interop")?);
        let mut child = command
            .args(["get", "--jsonl"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the command has no pipes".to_owned());
        };
        let count = requests.len();
        let writer = std::thread::spawn(move || input.write_all(requests.concat().as_bytes()));
        let mut text = String::new();
        output
            .read_to_string(&mut text)
            .map_err(|e| e.to_string())?;
        let status = child.wait().map_err(|e| e.to_string())?;
        let written = writer.join().map_err(|_| "the writer panicked")?;
        written.map_err(|e| format!("pmix get stopped reading ({status}): {e}"))?;
        let answers = text.lines().enumerate().map(|(id, line)| answer(id, line));
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        if answers.len() == count {
            Ok(answers)
        } else {
            let got = answers.len();
            Err(format!("{count} requests, {got} answers ({status})"))
        }
    }
}

/// Returns a numbered request for each question.
fn requests(rounds: &[&Round]) -> Vec<String> {
    let mut lines = Vec::new();
    for round in rounds {
        let job = round.plan.json();
        for question in &round.questions {
            let id = lines.len();
            let get = question.json(&round.plan);
            lines.push(format!("{}\n", json!({"id": id, "job": job, "get": get})));
        }
    }
    lines
}

/// Reads an answer and checks its number.
fn answer(id: usize, line: &str) -> Result<Answer, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("{line:.200}: {e}"))?;
    let status = value["status"].as_i64();
    match status {
        Some(status) if value["id"] == json!(id) => Ok(Answer {
            status,
            value: value["value"].clone(),
        }),
        _ => Err(format!("expected the answer to request {id}: {line:.200}")),
    }
}

/// Compares our answers with those of the model.
///
/// # Errors
/// Returns a message if the command failed as a whole.
pub(super) fn check(ours: &Ours, rounds: &[Round], tally: &mut Tally) -> Result<(), String> {
    let what = "gds: ours as the model";
    let preg = preg()?;
    for (odd, limit) in [(0, None), (1, Some("64"))] {
        let mine = rounds.iter().skip(odd).step_by(2);
        let (once, twice): (Vec<_>, Vec<_>) = mine.partition(|r| r.plan.kept.is_none());
        let mut answers = ours.ask(&once, limit)?;
        for round in &twice {
            answers.extend(updated_answers(&preg, &round.plan, &round.questions)?);
        }
        let asked = once
            .iter()
            .chain(&twice)
            .flat_map(|round| round.questions.iter().map(move |q| (round, q)));
        for ((round, question), ours) in asked.zip(answers) {
            let (ours, right) = (ours.in_order(), Answer::right(question));
            if ours == right {
                tally.pass(what);
            } else {
                let (ours, right) = (ours.shown(), right.shown());
                let plan = &round.plan;
                let get = question.json(plan);
                let job = plan.json();
                tally.fail(what, &format!("{get}: {ours}, not {right}, in {job}"));
            }
        }
    }
    Ok(())
}

/// Returns our answers to questions about a job that two registrations made.
///
/// # Errors
/// Returns a message if a registration is refused.
pub(super) fn updated_answers(
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
    Ok(questions.iter().map(|q| updated_answer(&job, q)).collect())
}

fn updated_answer(job: &Job, question: &Question) -> Answer {
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
