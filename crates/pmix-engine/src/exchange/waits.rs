// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the gets that wait for data.

use std::collections::BTreeMap;

use pmix_types::{Key, Nspace, Proc};

use super::state::{Exchange, PendingGet, WaitFor};
use crate::cx::Cx;
use crate::waits::{RankRuns, Wait, WaitOperation, Waits, age};

/// A process, and the key of its data; `None` for all data.
type RequestedData<'g> = (&'g Proc<'static>, Option<&'g Key<'static>>);

impl Exchange {
    /// Adds the gets of data of a job, or of any job. Gets of the same data are one operation. A get whose data are
    /// available and whose peer does not read is not described.
    pub(crate) fn describe_waits(&self, cx: &Cx, job: Option<&Nspace<'_>>, waits: &mut Waits) {
        let mut same: BTreeMap<RequestedData<'_>, Vec<(u64, &PendingGet)>> = BTreeMap::new();
        for (id, get) in self.gets.iter() {
            let request = &get.request;
            if job.is_none_or(|job| request.proc.nspace == *job) {
                let data = (&request.proc, request.key.as_ref());
                same.entry(data).or_default().push((id, get));
            }
        }
        let first = |gets: &[(u64, &PendingGet)]| gets.iter().map(|(id, _)| *id).min();
        let mut same: Vec<_> = { same.into_values() }
            .filter_map(|gets| Some((first(&gets)?, gets)))
            .collect();
        // Identifiers increase, so the oldest get has the smallest one; a get that was tried again has a later one.
        same.sort_unstable_by_key(|(id, gets)| (gets.iter().map(|(_, get)| get.began).min(), *id));
        for (num_listed, (id, gets)) in same.into_iter().enumerate() {
            let Some((_, get)) = gets.first() else {
                continue;
            };
            waits.add(num_listed, || describe(cx, id, get, &gets));
        }
    }
}

fn describe(cx: &Cx, id: u64, get: &PendingGet, gets: &[(u64, &PendingGet)]) -> Wait {
    let request = &get.request;
    let began = gets.iter().filter_map(|(_, get)| get.began).min();
    let callers = gets
        .iter()
        .filter_map(|(_, get)| Some(&cx.member(&get.ticket).ok()?.proc));
    // Only a process of this node is known to be the one that the get waits for.
    let is_missing = matches!(get.wait_for, WaitFor::Commit | WaitFor::Key);
    let missing = is_missing.then_some(&request.proc);
    Wait {
        id,
        operation: WaitOperation::Get {
            proc: request.proc.clone(),
            key: request.key.clone(),
        },
        age: age(cx.now, began),
        callers: RankRuns::of(callers.collect()),
        missing: RankRuns::of(missing.into_iter().collect()),
    }
}
