// SPDX-License-Identifier: MIT OR Apache-2.0
//! A naive model that derives the right answer to each question from the whole plan.
//!
//! Values of the host take precedence over values derived from the maps, per key and per process, node or job.

use serde_json::{Value, json};

use super::entry::{Entry, Given, THIS_HOST, stated};
use super::keys;
use super::node::{self, Node};
use super::plan::{Form, Plan, listed};

/// Returns the value of a job-level key.
pub(super) fn job(plan: &Plan, key: &str) -> Option<Value> {
    let given = stated(&plan.job, key).map(Given::answer);
    given.or_else(|| derived_of_job(plan, key))
}

/// Returns the value of a job-level key that the maps imply.
pub(super) fn derived_of_job(plan: &Plan, key: &str) -> Option<Value> {
    let nodes = u32::try_from(plan.mapped().len()).unwrap_or(u32::MAX);
    let derived = match key {
        keys::JOB_SIZE | keys::MAX_PROCS => Given::Number(plan.size()),
        keys::NUM_NODES => Given::Number(nodes),
        keys::NODE_LIST => Given::Text(plan.names()),
        keys::ANL_MAP if plan.form == Form::Anl => Given::Text(node::blocks(&plan.mapped())),
        keys::NUM_APPS if !plan.apps.is_empty() => {
            Given::Number(u32::try_from(plan.apps.len()).unwrap_or(u32::MAX))
        }
        _ => return None,
    };
    Some(derived.answer())
}

/// Returns the value of a key of the node at this place of the map.
pub(super) fn node(plan: &Plan, place: usize, key: &str) -> Option<Value> {
    let node = plan.nodes.get(place)?;
    let own = node.name == THIS_HOST;
    let given = stated(&node.values, key)
        .or_else(|| stated(&plan.own, key).filter(|_| own))
        .map(Given::answer);
    given.or_else(|| derived_of_node(plan, node, key))
}

/// Returns the value of a key that the maps imply for the node at this place.
pub(super) fn derived(plan: &Plan, place: usize, key: &str) -> Option<Value> {
    derived_of_node(plan, plan.nodes.get(place)?, key)
}

/// Returns the value of a key that the maps imply for a node with these ranks.
pub(super) fn derived_of_node(plan: &Plan, node: &Node, key: &str) -> Option<Value> {
    let size = u32::try_from(node.ranks.len()).unwrap_or(u32::MAX);
    let derived = match key {
        keys::LOCAL_PEERS => Given::Text(listed(&node.ranks)),
        keys::LOCAL_LEADER => Given::Rank(*node.ranks.first()?),
        keys::LOCAL_SIZE => Given::Number(size),
        keys::HOST_NAME => Given::Text(node.name.clone()),
        keys::NODE_ID => Given::Number(node.id),
        keys::ALIASES if !node.aliases.is_empty() => Given::Text(node.aliases.join(",")),
        keys::LOCAL_PROCS => {
            let proc = |rank: &u32| json!({"nspace": plan.nspace, "rank": rank});
            let procs: Vec<_> = node.ranks.iter().map(proc).collect();
            let array = json!({"array_of": "PMIX_PROC", "items": procs});
            return Some(json!({"data": array, "type": "PMIX_DATA_ARRAY", "type_id": 39}));
        }
        _ => return None,
    };
    Some(derived.answer())
}

/// Returns the value of a key of one process.
pub(super) fn rank(plan: &Plan, rank: u32, key: &str) -> Option<Value> {
    plan.place(rank)?;
    let values = plan.procs.iter().find(|(r, _)| *r == rank);
    if let Some(given) = values.and_then(|(_, values)| stated(values, key)) {
        return Some(given.answer());
    }
    derived_of_rank(plan, rank, key)
}

/// Returns the value of a key that the maps imply for a process.
pub(super) fn derived_of_rank(plan: &Plan, rank: u32, key: &str) -> Option<Value> {
    let (place, on_node) = plan.place(rank)?;
    let node = plan.nodes.get(place)?;
    let on_node = u16::try_from(on_node).unwrap_or(u16::MAX);
    let derived = match key {
        keys::HOST_NAME => Given::Text(node.name.clone()),
        keys::NODE_ID => Given::Number(node.id),
        keys::LOCAL_RANK | keys::NODE_RANK => Given::Short(on_node),
        keys::APP_NUM => Given::Number(number_of(plan, rank)?),
        keys::APP_RANK => {
            let app = plan.apps.get(usize::try_from(app_of(plan, rank)?).ok()?)?;
            Given::Rank(rank.checked_sub(app.first)?)
        }
        keys::GLOBAL_RANK => match stated(&plan.job, keys::OFFSET)? {
            Given::Rank(offset) => Given::Rank(offset + rank),
            _ => return None,
        },
        _ => return None,
    };
    Some(derived.answer())
}

/// The keys that the maps imply for a process.
const OF_PROC: [&str; 7] = [
    keys::HOST_NAME,
    keys::NODE_ID,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::APP_NUM,
    keys::APP_RANK,
    keys::GLOBAL_RANK,
];

/// Returns all values of a process by key.
pub(super) fn whole(plan: &Plan, rank: u32) -> Vec<(&'static str, Value)> {
    let stated = plan.procs.iter().filter(|(r, _)| *r == rank);
    let stated = stated.flat_map(|(_, values)| values);
    let mut keys: Vec<_> = stated.map(|e: &Entry| e.key).chain(OF_PROC).collect();
    keys.sort_unstable();
    keys.dedup();
    let value = |key: &'static str| Some((key, self::rank(plan, rank, key)?));
    keys.into_iter().filter_map(value).collect()
}

/// Returns the application that contains the rank, according to the arrays.
fn number_of(plan: &Plan, rank: u32) -> Option<u32> {
    let has = |app: &super::plan::App| (app.first..app.first + app.size).contains(&rank);
    u32::try_from(plan.apps.iter().position(has)?).ok()
}

/// Returns the application of a process.
pub(super) fn app_of(plan: &Plan, rank: u32) -> Option<u32> {
    let values = plan.procs.iter().find(|(r, _)| *r == rank);
    match values.and_then(|(_, values)| stated(values, keys::APP_NUM)) {
        Some(Given::Number(number)) => Some(*number),
        _ => number_of(plan, rank),
    }
}

/// Returns the value of a key of an application.
pub(super) fn app(plan: &Plan, number: u32, key: &str) -> Option<Value> {
    let app = plan.apps.get(usize::try_from(number).ok()?)?;
    let given = match key {
        keys::APP_SIZE => Given::Number(app.size),
        keys::APP_LEADER => Given::Rank(app.first),
        _ => stated(&app.values, key)?.clone(),
    };
    Some(given.answer())
}

/// Returns the value that an application states about a node.
pub(super) fn app_node(plan: &Plan, number: u32, place: usize, key: &str) -> Option<Value> {
    let app = plan.apps.get(usize::try_from(number).ok()?)?;
    let (_, values) = app.nodes.iter().find(|(p, _)| *p == place)?;
    stated(values, key).map(Given::answer)
}

/// Returns the value of a key of the session.
pub(super) fn session(plan: &Plan, key: &str) -> Option<Value> {
    let session = plan.session.as_ref();
    if key == keys::SESSION_ID {
        return session.map(|s| Given::Number(s.id).answer());
    }
    session
        .and_then(|s| stated(&s.values, key))
        .or_else(|| stated(&plan.job, key))
        .map(Given::answer)
}
