// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the gets that wait for data.

use std::collections::BTreeMap;

use pmix_types::{Key, Nspace, Proc};

use super::state::{Exchange, PendingGet, WaitFor};
use crate::cx::Cx;
use crate::waits::{MAX_GETS, RankRuns, Wait, WaitOperation, Waits, age};

/// A process, and the key of its data; `None` for all data.
type RequestedData<'g> = (&'g Proc<'static>, Option<&'g Key<'static>>);

impl Exchange {
    /// Adds the gets of data of a job or by its processes, or all gets. Gets of the same data are one operation. A get
    /// whose data are available and whose peer does not read is not described.
    pub(crate) fn describe_waits(&self, cx: &Cx, job: Option<&Nspace<'_>>, waits: &mut Waits) {
        let mut same: BTreeMap<RequestedData<'_>, Vec<(u64, &PendingGet)>> = BTreeMap::new();
        let concerns = |get: &PendingGet| {
            let caller = || cx.member(&get.ticket).ok();
            job.is_none_or(|job| {
                get.request.proc.nspace == *job
                    || caller().is_some_and(|caller| caller.proc.nspace == *job)
            })
        };
        let mut gets = self.gets.iter().filter(|(_, get)| concerns(get));
        for (id, get) in gets.by_ref().take(MAX_GETS) {
            let data = (&get.request.proc, get.request.key.as_ref());
            same.entry(data).or_default().push((id, get));
        }
        waits.num_more += gets.count();
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
            waits.add(num_listed, |waits| describe(cx, id, get, &gets, waits));
        }
    }
}

fn describe(
    cx: &Cx,
    id: u64,
    get: &PendingGet,
    gets: &[(u64, &PendingGet)],
    waits: &mut Waits,
) -> Wait {
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
        participants: RankRuns::default(),
        callers: waits.runs(callers),
        missing: waits.runs(missing.into_iter()),
    }
}
