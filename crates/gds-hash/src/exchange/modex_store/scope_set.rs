// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of scopes: the processes that see a value, for both storing and fetching.

use std::ops::{BitAnd, BitOr};

use pmix_types::Scope;

/// The set of processes that see a value, relative to the process that put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeSet(u8);

/// The action of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Store,
    Remove,
}

impl ScopeSet {
    /// The process itself.
    pub(crate) const OWN: Self = Self(1);
    /// The other processes of its node.
    pub(crate) const LOCAL: Self = Self(2);
    /// The processes of other nodes.
    pub(crate) const REMOTE: Self = Self(4);
    /// All other processes.
    pub(crate) const GLOBAL: Self = Self(2 | 4);
    pub(crate) const ALL: Self = Self(1 | 2 | 4);
    pub(crate) const NONE: Self = Self(0);

    /// Returns the scopes whose data a fetch with this scope finds.
    ///
    /// DEVIATION: a fetch in the global scope does not find internal data; OpenPMIx finds them,
    /// although the Standard does not share them with any process;
    /// `internal_data_are_seen_only_by_their_process`.
    pub(super) const fn seen_in(scope: Scope) -> Option<Self> {
        match scope {
            Scope::LOCAL => Some(Self::LOCAL),
            Scope::REMOTE => Some(Self::REMOTE),
            Scope::GLOBAL => Some(Self::GLOBAL),
            Scope::INTERNAL | Scope::UNDEF => Some(Self::ALL),
            _ => None,
        }
    }

    /// Returns the scopes in which a value may exist that a fetch with these scopes must not see.
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

    /// Returns `true` if the set has more than one scope.
    pub(super) const fn is_several(self) -> bool {
        self.0.count_ones() > 1
    }

    /// Returns the distance of the nearest scope in both sets; less is nearer.
    pub(super) const fn nearest(self, other: Self) -> u32 {
        (self.0 & other.0).trailing_zeros()
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Action {
    /// Returns the action of a put with this scope, and its set of scopes.
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
