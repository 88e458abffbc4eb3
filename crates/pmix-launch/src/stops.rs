// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the processes of a job stop for a debugger.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger attributes".

use std::collections::BTreeSet;

use pmix_types::{Rank, keys};

/// The ranks that stop for a debugger, of those that are started here, for each point where they may. A
/// process may stop at several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugStops {
    /// Those that are stopped before the first instruction of their program (`PMIX_DEBUG_STOP_ON_EXEC`).
    pub on_exec: BTreeSet<Rank>,
    /// Those that wait in `PMIx_Init` until they are released (`PMIX_DEBUG_STOP_IN_INIT`).
    pub in_init: BTreeSet<Rank>,
    /// Those whose program stops where it chooses, and says so (`PMIX_DEBUG_STOP_IN_APP`).
    pub in_app: BTreeSet<Rank>,
}

/// A point where a process may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopPoint {
    OnExec,
    InInit,
    InApp,
}

impl StopPoint {
    pub(crate) const ALL: [Self; 3] = [Self::OnExec, Self::InInit, Self::InApp];

    /// The attribute that asks for it.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::OnExec => keys::DEBUG_STOP_ON_EXEC,
            Self::InInit => keys::DEBUG_STOP_IN_INIT,
            Self::InApp => keys::DEBUG_STOP_IN_APP,
        }
    }
}

impl DebugStops {
    /// The ranks that stop at a point.
    pub(crate) fn at(&self, point: StopPoint) -> &BTreeSet<Rank> {
        match point {
            StopPoint::OnExec => &self.on_exec,
            StopPoint::InInit => &self.in_init,
            StopPoint::InApp => &self.in_app,
        }
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, point: StopPoint) -> &mut BTreeSet<Rank> {
        match point {
            StopPoint::OnExec => &mut self.on_exec,
            StopPoint::InInit => &mut self.in_init,
            StopPoint::InApp => &mut self.in_app,
        }
    }

    /// A rank that stops and is not among those that are started here.
    pub(crate) fn stranger(&self, here: &[Rank]) -> Option<Rank> {
        let mut stopping = { StopPoint::ALL.into_iter() }.flat_map(|point| self.at(point));
        stopping
            .find(|rank| here.binary_search(rank).is_err())
            .copied()
    }
}
