// SPDX-License-Identifier: MIT OR Apache-2.0
//! An ordered list with insertion between any two items, and access and removal by place without a search.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// The distance between appended places. A gap can be halved 64 times before places are assigned again.
const STEP: i128 = 1 << 64;

/// The place of an item. Items are in ascending order of their places.
pub(super) type Place = i128;

/// A gap for a new item, bounded by the neighboring places if there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    behind: Option<Place>,
    before: Option<Place>,
}

impl Gap {
    /// Returns a place in the gap, or `None` if there is none left.
    pub(super) fn middle(self) -> Option<Place> {
        match (self.behind, self.before) {
            (None, None) => Some(0),
            (Some(behind), None) => behind.checked_add(STEP),
            (None, Some(before)) => before.checked_sub(STEP),
            (Some(behind), Some(before)) => {
                let half = before.checked_sub(behind)? / 2;
                (half > 0).then(|| behind + half)
            }
        }
    }
}

/// Items by place.
#[derive(Clone, Debug)]
pub(super) struct Places<T>(BTreeMap<Place, T>);

impl<T> Places<T> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &T)> {
        self.0.iter().map(|(place, one)| (*place, one))
    }

    pub(super) fn get(&self, place: Place) -> Option<&T> {
        self.0.get(&place)
    }

    pub(super) fn first(&self) -> Option<(Place, &T)> {
        self.0.first_key_value().map(|(place, one)| (*place, one))
    }

    pub(super) fn last(&self) -> Option<(Place, &T)> {
        self.0.last_key_value().map(|(place, one)| (*place, one))
    }

    pub(super) fn insert(&mut self, place: Place, one: T) {
        self.0.insert(place, one);
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<T> {
        self.0.remove(&place)
    }

    /// Returns the gap before all items.
    pub(super) fn before_all(&self) -> Gap {
        let before = self.first().map(|(place, _)| place);
        Gap {
            behind: None,
            before,
        }
    }

    /// Returns the gap after all items.
    pub(super) fn behind_all(&self) -> Gap {
        let behind = self.last().map(|(place, _)| place);
        Gap {
            behind,
            before: None,
        }
    }

    /// Returns the gap immediately before an item.
    pub(super) fn before(&self, place: Place) -> Gap {
        let behind = self.0.range(..place).next_back();
        Gap {
            behind: behind.map(|(place, _)| *place),
            before: Some(place),
        }
    }

    /// Returns the gap immediately after an item.
    pub(super) fn behind(&self, place: Place) -> Gap {
        let before = self.0.range((Excluded(place), Unbounded)).next();
        Gap {
            behind: Some(place),
            before: before.map(|(place, _)| *place),
        }
    }

    /// Assigns new places with the full distance to all items, and calls `moved` with each.
    pub(super) fn spread(&mut self, mut moved: impl FnMut(Place, &T)) {
        let mut next = 0;
        for (_, one) in std::mem::take(&mut self.0) {
            moved(next, &one);
            self.0.insert(next, one);
            next += STEP;
        }
    }
}
