// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points at which processes of a job stop for a debugger.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Debugger attributes".

use std::collections::BTreeSet;

use pmix_types::{Rank, keys};

/// The local ranks that stop for a debugger, by stop point. A process may stop at several points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugStops {
    /// The ranks that stop before the first instruction of their program (`PMIX_DEBUG_STOP_ON_EXEC`).
    pub on_exec: BTreeSet<Rank>,
    /// The ranks that wait in `PMIx_Init` for their release (`PMIX_DEBUG_STOP_IN_INIT`).
    pub in_init: BTreeSet<Rank>,
    /// The ranks whose program stops at a point of its choice and reports it (`PMIX_DEBUG_STOP_IN_APP`).
    pub in_app: BTreeSet<Rank>,
}

impl DebugStops {
    /// Returns `true` if no process stops.
    pub(crate) fn is_empty(&self) -> bool {
        self.on_exec.is_empty() && self.in_init.is_empty() && self.in_app.is_empty()
    }
}

/// A point at which a process may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopPoint {
    OnExec,
    InInit,
    InApp,
}

impl StopPoint {
    pub(crate) const ALL: [Self; 3] = [Self::OnExec, Self::InInit, Self::InApp];

    /// Returns the attribute that requests the stop.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::OnExec => keys::DEBUG_STOP_ON_EXEC,
            Self::InInit => keys::DEBUG_STOP_IN_INIT,
            Self::InApp => keys::DEBUG_STOP_IN_APP,
        }
    }
}

impl DebugStops {
    /// Returns the ranks that stop at a point.
    pub(crate) fn at(&self, point: StopPoint) -> &BTreeSet<Rank> {
        match point {
            StopPoint::OnExec => &self.on_exec,
            StopPoint::InInit => &self.in_init,
            StopPoint::InApp => &self.in_app,
        }
    }

    /// Returns the ranks that stop at a point, for modification.
    pub(crate) fn at_mut(&mut self, point: StopPoint) -> &mut BTreeSet<Rank> {
        match point {
            StopPoint::OnExec => &mut self.on_exec,
            StopPoint::InInit => &mut self.in_init,
            StopPoint::InApp => &mut self.in_app,
        }
    }

    /// Returns a rank that is to stop but does not run on this node.
    pub(crate) fn stranger(&self, here: &[Rank]) -> Option<Rank> {
        let mut stopping = { StopPoint::ALL.into_iter() }.flat_map(|point| self.at(point));
        stopping
            .find(|rank| here.binary_search(rank).is_err())
            .copied()
    }
}
