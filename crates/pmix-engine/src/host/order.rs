// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of group members, which a host and its servers must compute identically.

use std::collections::HashMap;

use pmix_types::{Nspace, Proc, Rank};

/// Returns members in the order of `PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`: first the listed ones, a whole job by rank,
/// then the others in their previous order. The members are single processes.
#[must_use]
pub fn in_final_order(members: Vec<Proc<'static>>, order: &[Proc<'static>]) -> Vec<Proc<'static>> {
    let mut places: HashMap<(&Nspace<'_>, Rank), usize> = HashMap::new();
    for (place, proc) in order.iter().enumerate() {
        places.entry((&proc.nspace, proc.rank)).or_insert(place);
    }
    let place = |proc: &Proc<'static>| {
        let named = |rank| places.get(&(&proc.nspace, rank)).copied();
        match named(proc.rank) {
            Some(place) => (place, Rank::new(0)),
            None => match named(Rank::WILDCARD) {
                Some(place) => (place, proc.rank),
                None => (usize::MAX, Rank::new(0)),
            },
        }
    };
    let mut placed: Vec<_> = members
        .into_iter()
        .map(|proc| (place(&proc), proc))
        .collect();
    // The sort is stable, so members that are not listed keep their order.
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, proc)| proc).collect()
}
