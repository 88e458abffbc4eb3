// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs: the same registrations and gets in real servers and in our datastore.
//!
//! Every job is random and queried at every level. Three answers are compared: that of a naive model, which is right by
//! construction, ours, and that of each release. Where a release differs, a rule must state the reason, and each rule
//! must be needed.

mod entry;
mod faulty;
mod generate;
mod keys;
mod model;
mod node;
mod ours;
mod plan;
mod questions;
mod rules;
mod theirs;

use std::collections::BTreeMap;

use serde_json::Value;

use super::peers::Peer;
use super::random::Random;
use super::tally::Tally;
use ours::Ours;
use plan::{Plan, REFUSALS};
use questions::Question;
use rules::{Case, RULES};
use theirs::Server;

/// The default number of jobs.
pub(super) const JOBS: usize = 150;

/// The status of a get that found no value.
const NOT_FOUND: i64 = -46;

/// The reaction of a server to a get.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Theirs {
    Answer(Answer),
    /// The exit status of a server that crashed.
    Crashed(String),
}

/// A status, and the value if the status is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: i64,
    value: Value,
}

impl Answer {
    /// Returns the right answer to a question.
    fn right(question: &Question) -> Self {
        Self::of(question.right.clone())
    }

    /// Returns the answer with this value, or "not found".
    fn of(value: Option<Value>) -> Self {
        match value {
            Some(value) => Self { status: 0, value },
            None => Self {
                status: NOT_FOUND,
                value: Value::Null,
            },
        }
    }

    /// Returns the answer with the infos of an array sorted by key.
    fn in_order(mut self) -> Self {
        let items = self.value.pointer_mut("/data/items");
        if let Some(items) = items.and_then(Value::as_array_mut) {
            items.sort_by(|a, b| a["key"].as_str().cmp(&b["key"].as_str()));
        }
        self
    }

    fn shown(&self) -> String {
        match self.status {
            0 => self.value["data"].to_string(),
            status => status.to_string(),
        }
    }
}

/// A job and its questions.
struct Round {
    plan: Plan,
    questions: Vec<Question>,
}

/// Runs the checks against every peer.
///
/// # Errors
/// Returns a message if a program does not build or start.
pub(super) fn run(
    peers: &[Peer],
    (seed, jobs): (u64, usize),
    profile: &str,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut random = Random::new(seed);
    let rounds: Vec<Round> = (0..jobs)
        .map(|number| {
            let plan = generate::plan(&mut random, number);
            let questions = questions::about(&plan, &mut random);
            Round { plan, questions }
        })
        .collect();
    let ours = Ours::build(profile)?;
    ours::check(&ours, &rounds, tally)?;
    faulty::check(&ours, peers, tally)?;
    let mut needed = BTreeMap::new();
    for peer in peers {
        println!("peer: {}", peer.version);
        check_peer(peer, &rounds, &mut needed, tally)?;
    }
    let names = RULES.iter().map(|rule| rule.name);
    for name in names.chain(REFUSALS.iter().map(|rule| rule.name)) {
        let what = "gds: every rule is needed";
        match needed.get(name) {
            Some(_) => tally.pass(what),
            // A rule must be needed only in a full run with the default seed and both releases.
            None if jobs < JOBS || seed != super::SEED || peers.len() < 2 => {
                tally.leave_out(what, "only the usual run of two releases meets every rule");
            }
            None => tally.fail(what, name),
        }
    }
    for (rule, count) in needed {
        println!("left out {count:5}: {rule}");
    }
    Ok(())
}

fn check_peer(
    peer: &Peer,
    rounds: &[Round],
    needed: &mut BTreeMap<&'static str, usize>,
    tally: &mut Tally,
) -> Result<(), String> {
    let what = format!("gds: {} as the model", peer.version);
    // Every second job has compressed maps if the release can read them.
    let mut servers = [Server::start(peer, false)?, Server::start(peer, true)?];
    for (number, round) in rounds.iter().enumerate() {
        let Some(server) = servers.get_mut(number % 2) else {
            continue;
        };
        let outcome = server.register(&round.plan)?;
        if outcome != Ok(0) {
            let rule = REFUSALS
                .iter()
                .find(|r| (r.explains)(&round.plan, &outcome));
            if let Some(rule) = rule {
                *needed.entry(rule.name).or_default() += 1;
                tally.leave_out(&what, rule.name);
            } else {
                let job = round.plan.json();
                tally.fail(&what, &format!("registering: {outcome:?} for {job}"));
            }
            continue;
        }
        for question in &round.questions {
            let theirs = server.get(&round.plan, question)?;
            let right = Answer::right(question);
            for (question, theirs) in question.parts(theirs, &right) {
                let right = Answer::right(&question);
                if matches!(&theirs, Theirs::Answer(answer) if *answer == right) {
                    tally.pass(&what);
                    continue;
                }
                let case = Case {
                    release: &peer.version,
                    plan: &round.plan,
                    question: &question,
                    theirs: &theirs,
                };
                if let Some(rule) = RULES.iter().find(|rule| (rule.explains)(&case)) {
                    *needed.entry(rule.name).or_default() += 1;
                    tally.leave_out(&what, rule.name);
                } else {
                    tally.fail(&what, &case.shown(&right));
                }
            }
        }
    }
    Ok(())
}
