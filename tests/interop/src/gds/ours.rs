// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our side: `pmix get --jsonl`, as programs in other languages use it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::entry::Entry;
use super::{Answer, Round, updated};
use crate::tally::Tally;
use xtask::install;

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
    let preg = updated::preg()?;
    for (odd, limit) in [(0, None), (1, Some("64"))] {
        let mine = rounds.iter().skip(odd).step_by(2);
        let (once, twice): (Vec<_>, Vec<_>) = mine.partition(|r| r.plan.kept.is_none());
        let mut answers = ours.ask(&once, limit)?;
        for round in &twice {
            answers.extend(updated::answers(&preg, &round.plan, &round.questions)?);
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
