// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs: the same registration in real servers and in us, the same questions, the same answers.
//!
//! Every job is random and asked about at every level. Three answers are compared: the plainest
//! possible store's, which is right by construction, ours, and each release's. Where a release
//! answers otherwise there is a rule that says why, and every rule must be needed.

mod entry;
mod fold;
mod generate;
mod keys;
mod model;
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
use plan::Plan;
use questions::Question;
use rules::{Case, RULES};
use theirs::{Server, Theirs};

/// How many jobs there are unless told otherwise.
pub(super) const JOBS: usize = 150;

/// The status of a get that found nothing.
const NOT_FOUND: i64 = -46;

/// A status and the value that comes with 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: i64,
    value: Value,
}

impl Answer {
    /// The answer that a question calls for.
    fn right(question: &Question) -> Self {
        match &question.right {
            Some(value) => Self {
                status: 0,
                value: value.clone(),
            },
            None => Self {
                status: NOT_FOUND,
                value: Value::Null,
            },
        }
    }

    fn shown(&self) -> String {
        match self.status {
            0 => self.value["data"].to_string(),
            status => status.to_string(),
        }
    }
}

/// A job and what is asked about it.
struct Round {
    plan: Plan,
    questions: Vec<Question>,
}

/// Runs the checks against every peer.
///
/// # Errors
/// A program does not build or does not start.
pub(super) fn run(peers: &[Peer], seed: u64, jobs: usize, tally: &mut Tally) -> Result<(), String> {
    let mut random = Random::new(seed);
    let rounds: Vec<Round> = (0..jobs)
        .map(|number| {
            let plan = generate::plan(&mut random, number);
            let questions = questions::about(&plan, &mut random);
            Round { plan, questions }
        })
        .collect();
    ours::check(&Ours::build()?, &rounds, tally)?;
    let mut needed = BTreeMap::new();
    for peer in peers {
        println!("peer: {}", peer.version);
        check_peer(peer, &rounds, &mut needed, tally)?;
    }
    for name in RULES.iter().map(|rule| rule.name).chain([rules::NAMELESS]) {
        let what = "gds: every rule is needed";
        match needed.get(name) {
            Some(_) => tally.pass(what),
            // A short run need not meet everything, and a release that is missing neither.
            None if jobs < JOBS || peers.len() < 2 => tally.leave_out(what),
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
    // Every other job has its maps compressed where the release can read that.
    let mut servers = [Server::start(peer, false)?, Server::start(peer, true)?];
    for (number, round) in rounds.iter().enumerate() {
        let Some(server) = servers.get_mut(number % 2) else {
            continue;
        };
        match server.register(&round.plan)? {
            Ok(0) => {}
            Err(_) if rules::is_nameless(&round.plan) => {
                *needed.entry(rules::NAMELESS).or_default() += 1;
                tally.leave_out(&what);
                continue;
            }
            other => {
                let job = &round.plan.nspace;
                tally.fail(
                    &what,
                    &format!("{job}: registering: {other:?} for {}", round.plan.json()),
                );
                continue;
            }
        }
        for question in &round.questions {
            let theirs = server.get(&round.plan, question)?;
            let right = Answer::right(question);
            if matches!(&theirs, Theirs::Answer(answer) if *answer == right) {
                tally.pass(&what);
                continue;
            }
            let case = Case {
                release: &peer.version,
                plan: &round.plan,
                question,
                theirs: &theirs,
            };
            if let Some(rule) = RULES.iter().find(|rule| (rule.explains)(&case)) {
                *needed.entry(rule.name).or_default() += 1;
                tally.leave_out(&what);
            } else {
                tally.fail(&what, &case.shown(&right));
            }
        }
    }
    Ok(())
}
