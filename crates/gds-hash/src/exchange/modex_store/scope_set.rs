// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of scopes: which processes see a value, for storing and for fetching alike.

use std::ops::{BitAnd, BitOr};

use pmix_types::Scope;

/// Who sees a value, seen from the process that put it: a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeSet(u8);

/// What a put does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Store,
    Remove,
}

impl ScopeSet {
    /// The process alone.
    pub(crate) const OWN: Self = Self(1);
    /// The other processes of its node.
    pub(crate) const LOCAL: Self = Self(2);
    /// The processes of other nodes.
    pub(crate) const REMOTE: Self = Self(4);
    /// All other processes.
    pub(crate) const GLOBAL: Self = Self(2 | 4);
    pub(crate) const ALL: Self = Self(1 | 2 | 4);
    pub(crate) const NONE: Self = Self(0);

    /// Whose data a fetch with this scope finds.
    ///
    /// DEVIATION: in the global scope there is nothing that a process put for itself alone;
    /// OpenPMIx finds that too, though the Standard shares it with nobody;
    /// `what_is_internal_is_seen_by_its_process_alone`.
    pub(super) const fn seen_in(scope: Scope) -> Option<Self> {
        match scope {
            Scope::LOCAL => Some(Self::LOCAL),
            Scope::REMOTE => Some(Self::REMOTE),
            Scope::GLOBAL => Some(Self::GLOBAL),
            Scope::INTERNAL | Scope::UNDEF => Some(Self::ALL),
            _ => None,
        }
    }

    /// Where someone finds that a value exists who is not to see it.
    pub(super) fn other_side(self) -> Option<Self> {
        match self {
            Self::LOCAL => Some(Self::REMOTE),
            Self::REMOTE => Some(Self::LOCAL),
            _ => None,
        }
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self & other != Self::NONE
    }

    /// Whether it is more than one.
    pub(super) const fn is_several(self) -> bool {
        self.0.count_ones() > 1
    }

    /// How near to the process the nearest is that is in both; less is nearer.
    pub(super) const fn nearest(self, other: Self) -> u32 {
        (self.0 & other.0).trailing_zeros()
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Action {
    /// What a put with this scope does, and for whom.
    pub(super) const fn of(scope: Scope) -> Option<(Self, ScopeSet)> {
        Some(match scope {
            Scope::LOCAL => (Self::Store, ScopeSet::LOCAL),
            Scope::REMOTE => (Self::Store, ScopeSet::REMOTE),
            Scope::GLOBAL => (Self::Store, ScopeSet::GLOBAL),
            Scope::INTERNAL => (Self::Store, ScopeSet::OWN),
            Scope::DEL_LOCAL => (Self::Remove, ScopeSet::LOCAL),
            Scope::DEL_REMOTE => (Self::Remove, ScopeSet::REMOTE),
            Scope::DEL_GLOBAL => (Self::Remove, ScopeSet::GLOBAL),
            Scope::DEL_INTERNAL => (Self::Remove, ScopeSet::OWN),
            _ => return None,
        })
    }
}

impl BitAnd for ScopeSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for ScopeSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
