// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of processes that no leader has added yet.

use std::collections::BTreeMap;

use pmix_types::{Proc, Text};

use super::call::ConstructCall;
use super::construct::GroupConstruct;
use super::index::{Id, Index};

/// The call of a process that waits until a leader adds it.
#[derive(Debug)]
pub(super) struct EarlyCall<T> {
    pub(super) name: Text<'static>,
    pub(super) call: ConstructCall<T>,
}

impl<T> EarlyCall<T> {
    /// Removes the call from the index.
    pub(super) fn forget(&self, id: Id, index: &mut Index) {
        index.settle(id, &self.call.proc, self.call.until);
        if let Some(proc) = &self.call.proc {
            index.end_wait(id, &self.name, proc);
        }
    }
}

/// Moves the early calls of these processes into a construct that adds them.
pub(super) fn take_early<T>(
    construct: &mut GroupConstruct<T>,
    procs: &[Proc<'static>],
    waiting: &mut BTreeMap<Id, EarlyCall<T>>,
    index: &mut Index,
) {
    for proc in procs {
        for other in index.waiting(&construct.name, proc) {
            if let Some(early) = waiting.get(&other)
                && !construct.refuse_other_user(&early.call)
                && construct.awaits_participant(&early.call)
                && let Some(early) = waiting.remove(&other)
            {
                early.forget(other, index);
                construct.add_participant(early.call);
            }
        }
    }
}

/// Moves the early calls of refused processes into the construct that refused them, so that they get its failure.
pub(super) fn take_refused<T>(
    construct: &mut GroupConstruct<T>,
    waiting: &mut BTreeMap<Id, EarlyCall<T>>,
    index: &mut Index,
) {
    // A refused list may name more processes than may be looked up one by one; the early calls are fewer.
    if construct.refused_bytes() == 0 {
        return;
    }
    let is_of = |early: &EarlyCall<T>| {
        early.name == construct.name && construct.awaits_participant(&early.call)
    };
    let found = waiting.iter().filter(|(_, early)| is_of(early));
    let found: Vec<_> = found.map(|(id, _)| *id).collect();
    for id in found {
        if let Some(early) = waiting.remove(&id) {
            early.forget(id, index);
            construct.add_participant(early.call);
        }
    }
}
