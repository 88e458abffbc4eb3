// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the active collectives.

use std::collections::HashMap;

use pmix_types::{Nspace, Proc, Rank};

use super::table::{Collectives, EarlyCall, EarlyState};
use super::tracker::{Key, Phase, Slot, Tracker};
use crate::cx::Cx;
use crate::ids::ClientId;
use crate::waits::{RankRuns, Wait, WaitOperation, Waits, age};

impl Collectives {
    /// Adds the active collectives with participants of a job, or of any job.
    pub(crate) fn describe_waits(&self, cx: &Cx, job: Option<&Nspace<'_>>, waits: &mut Waits) {
        let concerns = |key: &Key| job.is_none_or(|job| key.1.has_job(job));
        // No process waits in a failed collective, nor in one that the server called itself.
        let is_open =
            |tracker: &&Tracker| !matches!(tracker.phase, Phase::Failed(_)) && !tracker.is_own_call;
        let trackers = self.trackers.iter();
        let trackers = trackers.filter(|(_, tracker)| is_open(tracker) && concerns(&tracker.key));
        let mut num_listed = 0;
        for (id, tracker) in trackers {
            waits.add(num_listed, |waits| describe(cx, id.0, tracker, waits));
            num_listed += 1;
        }
        let mut early: HashMap<&Key, Vec<&EarlyCall>> = HashMap::new();
        let calls = self.early.calls.values();
        let is_waiting = |call: &&EarlyCall| matches!(call.state, EarlyState::Waiting(_));
        for call in calls.filter(|call| is_waiting(call) && concerns(&call.key)) {
            early.entry(&call.key).or_default().push(call);
        }
        let began = |calls: &[&EarlyCall]| calls.iter().filter_map(|call| call.began).min();
        let mut early: Vec<_> = early.into_iter().collect();
        // The order of the table is random.
        early.sort_by_key(|(_, calls)| began(calls));
        for (key, calls) in early {
            let callers = calls.iter().map(|call| call.client);
            waits.add(num_listed, |waits| Wait {
                // The collective gets its identifier when its job is registered.
                id: 0,
                operation: operation(key),
                age: age(cx.now, began(&calls)),
                callers: runs(cx, callers, waits),
                participants: participants(key, waits),
                missing: RankRuns::default(),
            });
            num_listed += 1;
        }
    }
}

fn describe(cx: &Cx, id: u64, tracker: &Tracker, waits: &mut Waits) -> Wait {
    let has_arrived = |slot: &Slot| matches!(slot, Slot::Arrived(_));
    let callers = tracker.slots.iter().filter(|(_, slot)| has_arrived(slot));
    Wait {
        id,
        operation: operation(&tracker.key),
        age: age(cx.now, tracker.began),
        // First, because users want to know them.
        missing: runs(cx, tracker.missing.iter().copied(), waits),
        callers: runs(cx, callers.map(|(client, _)| *client), waits),
        participants: participants(&tracker.key, waits),
    }
}

fn operation((kind, _, group): &Key) -> WaitOperation {
    WaitOperation::Collective {
        kind: *kind,
        group: group.clone(),
    }
}

fn participants((_, participants, _): &Key, waits: &mut Waits) -> RankRuns {
    let jobs = participants.jobs();
    let procs = jobs.flat_map(|(nspace, ranks)| {
        let ranks = ranks.listed().unwrap_or(&[Rank::WILDCARD]);
        ranks.iter().map(|rank| Proc::new(nspace.clone(), *rank))
    });
    waits.runs_of(procs)
}

fn runs(cx: &Cx, clients: impl Iterator<Item = ClientId>, waits: &mut Waits) -> RankRuns {
    let procs = clients.filter_map(|id| cx.registry.client(id).map(|client| &client.proc));
    waits.runs(procs)
}
