// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things in an order in which any is put between two others, and found and taken out by its place without
//! going through the others.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// How far from the last place the next one is: so often others can be put between two halfway.
const STEP: i128 = 1 << 64;

/// Where something stands; what is before it has a smaller number.
pub(super) type Place = i128;

/// Where something may be put: behind one place and before another, where there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    behind: Option<Place>,
    before: Option<Place>,
}

impl Gap {
    /// A place in it; none if the two follow each other.
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

/// Holds things by their places.
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

    /// Before all others.
    pub(super) fn before_all(&self) -> Gap {
        let before = self.first().map(|(place, _)| place);
        Gap {
            behind: None,
            before,
        }
    }

    /// Behind all others.
    pub(super) fn behind_all(&self) -> Gap {
        let behind = self.last().map(|(place, _)| place);
        Gap {
            behind,
            before: None,
        }
    }

    /// Just before one.
    pub(super) fn before(&self, place: Place) -> Gap {
        let behind = self.0.range(..place).next_back();
        Gap {
            behind: behind.map(|(place, _)| *place),
            before: Some(place),
        }
    }

    /// Just behind one.
    pub(super) fn behind(&self, place: Place) -> Gap {
        let before = self.0.range((Excluded(place), Unbounded)).next();
        Gap {
            behind: Some(place),
            before: before.map(|(place, _)| *place),
        }
    }

    /// Gives all new places, far from each other, and says which.
    pub(super) fn spread(&mut self, mut moved: impl FnMut(Place, &T)) {
        let mut next = 0;
        for (_, one) in std::mem::take(&mut self.0) {
            moved(next, &one);
            self.0.insert(next, one);
            next += STEP;
        }
    }
}
