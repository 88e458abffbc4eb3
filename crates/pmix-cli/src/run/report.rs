// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a job, for people and for programs.

use std::time::Duration;

use pmix_launch::{Ending, Outcome, Plan, RankOutcome};
use serde_json::{Value as Json, json};

/// One line for each process.
pub(super) fn table(outcome: &Outcome) -> String {
    let host = String::from_utf8_lossy(&outcome.host);
    let nspace = &outcome.nspace;
    let mut text = format!(
        "{nspace} on {host}: {:.3} s\n",
        outcome.elapsed.as_secs_f64()
    );
    let cpus: Vec<String> = outcome.ranks.iter().map(cpus_of).collect();
    let width = cpus
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("cpus".len());
    text += &format!(
        "{:>6}  {:>3}  {:>8}  {:<width$}  {:>9}  {:>9}  end\n",
        "rank", "app", "pid", "cpus", "start", "time"
    );
    for (rank, cpus) in outcome.ranks.iter().zip(&cpus) {
        text += &format!(
            "{:>6}  {:>3}  {:>8}  {cpus:<width$}  {:>7.3} s  {:>7.3} s  {}\n",
            rank.rank.to_string(),
            rank.app,
            rank.pid,
            rank.started.as_secs_f64(),
            rank.elapsed.as_secs_f64(),
            rank.ending,
        );
    }
    text
}

fn cpus_of(rank: &RankOutcome) -> String {
    let bound = rank.cpus.as_ref();
    bound.map_or_else(|| "any".to_owned(), ToString::to_string)
}

/// The job in JSON.
pub(super) fn summary(plan: &Plan, outcome: &Outcome) -> Json {
    let words = |app: &pmix_launch::App| -> Vec<String> {
        let words = std::iter::once(&app.program).chain(&app.args);
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    let apps = plan
        .apps
        .iter()
        .map(|app| json!({"num_procs": app.num_procs, "argv": words(app)}));
    json!({
        "nspace": outcome.nspace,
        "host": String::from_utf8_lossy(&outcome.host),
        "num_procs": plan.layout.num_procs(),
        "exit_code": outcome.exit_code(),
        "cause": outcome.cause.as_ref().map(ToString::to_string),
        "seconds": seconds(outcome.elapsed),
        "cpu_seconds": seconds(outcome.processor_time),
        "apps": apps.collect::<Vec<_>>(),
        "ranks": outcome.ranks.iter().map(of_rank).collect::<Vec<_>>(),
    })
}

fn of_rank(rank: &RankOutcome) -> Json {
    let signal = match rank.ending {
        Ending::Exited(_) => None,
        Ending::Signalled { signal, .. } => Some(signal),
    };
    json!({
        "rank": rank.rank.as_raw(),
        "app": rank.app,
        "pid": rank.pid,
        "cpus": rank.cpus.as_ref().map(ToString::to_string),
        "start": seconds(rank.started),
        "seconds": seconds(rank.elapsed),
        "exit_code": rank.ending.exit_code(),
        "signal": signal,
    })
}

/// To the microsecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}
