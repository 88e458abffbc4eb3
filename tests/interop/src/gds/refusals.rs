// SPDX-License-Identifier: MIT OR Apache-2.0
//! Valid jobs that real releases reject, with the reasons.

use super::node::Named;
use super::plan::{Form, Plan};

/// A reason why a release rejects a job.
pub(super) struct Refusal {
    pub(super) name: &'static str,
    /// Returns `true` if this reason explains the status, or the crash of the server.
    pub(super) explains: fn(&Plan, &Result<i64, String>) -> bool,
}

const BAD_PARAM: i64 = -27;
const TYPE_MISMATCH: i64 = -18;

pub(super) const REFUSALS: &[Refusal] = &[
    Refusal {
        name: "a node array without a name ends the server when there are maps",
        explains: |plan, outcome| {
            let of_apps = plan.apps.iter().flat_map(|app| &app.nodes);
            let stated = of_apps.filter_map(|(place, _)| plan.nodes.get(*place));
            let of_job = plan.nodes.iter().filter(|node| node.has_array());
            outcome.is_err() && of_job.chain(stated).any(|node| node.named == Named::Id)
        },
    },
    Refusal {
        name: "no release has the type PMIX_REGEX2",
        explains: |plan, outcome| plan.form == Form::Regex2 && *outcome == Ok(TYPE_MISMATCH),
    },
    Refusal {
        name: "the type of a map in a job array is not looked at",
        explains: |plan, outcome| plan.form == Form::Regex2 && plan.in_array && outcome.is_err(),
    },
    Refusal {
        name: "a node without processes is dropped from one map only",
        explains: |plan, outcome| {
            plan.nodes.iter().any(|node| node.ranks.is_empty()) && *outcome == Ok(BAD_PARAM)
        },
    },
];
