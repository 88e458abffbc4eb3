// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of the datastore for the jobs and nodes of a query.

use std::collections::HashSet;

use gds_hash::Request;
use pmix_types::{DataArray, Info, Nspace, Proc, Rank, Text, Value, keys};

use super::nodes::Nodes;
use super::target::may_see;
use crate::cx::Cx;
use crate::peers::Member;

/// Returns the value of a key. Lists of processes are merged for all jobs and nodes of the query. Any other value is
/// returned only if it is equal for all that have one, because the reply cannot say which job or node it belongs to.
pub(super) fn stored(
    cx: &Cx,
    member: &Member,
    jobs: &[Nspace<'static>],
    rank: Rank,
    key: &str,
    nodes: &Nodes<'_>,
) -> Option<Value<'static>> {
    let mut seen = jobs.iter().filter(|nspace| may_see(cx, member, nspace));
    match key {
        keys::LOCAL_PROCS => {
            let all = seen.flat_map(|nspace| values(cx, nspace, rank, key, nodes));
            procs(all)
        }
        // Ranks are ambiguous for several jobs.
        keys::LOCAL_PEERS if jobs.len() == 1 => {
            let nspace = seen.next()?;
            ranks(values(cx, nspace, rank, key, nodes))
        }
        _ => {
            let mut all = seen.flat_map(|nspace| values(cx, nspace, rank, key, nodes));
            let first = all.next()?;
            all.all(|value| value == first).then_some(first)
        }
    }
}

/// Returns the value of a key for each node that has one.
fn values(
    cx: &Cx,
    nspace: &Nspace<'static>,
    rank: Rank,
    key: &str,
    nodes: &Nodes<'_>,
) -> impl Iterator<Item = Value<'static>> + use<> {
    let one = |qualifiers: &[Info<'_>]| {
        let request = Request::new(rank, key).with(qualifiers);
        cx.store.get(nspace, &request).ok()
    };
    nodes.for_each(one).into_iter().flatten()
}

/// Returns the distinct processes of lists.
fn procs(lists: impl Iterator<Item = Value<'static>>) -> Option<Value<'static>> {
    let (mut all, mut seen) = (None::<Vec<Proc<'static>>>, HashSet::new());
    for list in lists {
        let Value::DataArray(DataArray::Proc(procs)) = list else {
            continue;
        };
        let new = procs.into_iter().filter(|proc| seen.insert(proc.clone()));
        all.get_or_insert_default().extend(new);
    }
    all.map(Value::from)
}

/// Returns the distinct ranks of lists such as `0,1`.
fn ranks(lists: impl Iterator<Item = Value<'static>>) -> Option<Value<'static>> {
    let (mut all, mut seen) = (None::<Vec<u8>>, HashSet::new());
    for list in lists {
        let Value::String(Some(list)) = list else {
            continue;
        };
        let all = all.get_or_insert_default();
        let words = list.as_bytes().split(|byte| *byte == b',');
        for word in words.filter(|word| !word.is_empty()) {
            if seen.insert(word.to_vec()) {
                if !all.is_empty() {
                    all.push(b',');
                }
                all.extend_from_slice(word);
            }
        }
    }
    all.map(|list| Value::String(Some(Text::new(list))))
}
