// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a debugged job that have reached a stop point, and those that wait there.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{BREAKPOINT_IN_INIT, Rank, Text};

use crate::stops::{DebugStops, StopPoint};

/// The breakpoint name for the stop on exec. It is not from the Standard.
pub(crate) const ON_EXEC: &[u8] = b"exec";

/// The largest number of bytes that are kept of the name of a breakpoint.
const MAX_NAME: usize = 255;

/// The progress of a job's processes towards their stop points.
#[derive(Debug, Default)]
pub(crate) struct Debugging {
    on_exec: Awaited,
    in_init: Awaited,
    in_app: Awaited,
    /// The processes that wait for their release, with their breakpoints. The process table has those that are
    /// stopped on exec.
    waiting: BTreeMap<Rank, Text<'static>>,
    /// The processes that were released before they stopped: their next stop ends at once.
    released: BTreeSet<Rank>,
}

/// The processes that will stop at one point.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    missing: BTreeSet<Rank>,
    /// `true` if at least one has stopped.
    has_any: bool,
}

impl Awaited {
    fn new(ranks: &BTreeSet<Rank>) -> Self {
        Self {
            missing: ranks.clone(),
            has_any: false,
        }
    }

    /// Records that a process stopped. Returns `true` if it was the last one.
    pub(crate) fn add(&mut self, rank: Rank) -> bool {
        let is_new = self.missing.remove(&rank);
        self.has_any |= is_new;
        is_new && self.missing.is_empty()
    }

    /// Records that a process ended. Returns `true` if all others have stopped, and there is at least one.
    pub(crate) fn remove(&mut self, rank: Rank) -> bool {
        self.missing.remove(&rank) && self.missing.is_empty() && self.has_any
    }
}

impl Debugging {
    pub(crate) fn new(stops: &DebugStops) -> Self {
        Self {
            on_exec: Awaited::new(&stops.on_exec),
            in_init: Awaited::new(&stops.in_init),
            in_app: Awaited::new(&stops.in_app),
            waiting: BTreeMap::new(),
            released: BTreeSet::new(),
        }
    }

    /// Records that a process waits at a breakpoint, unless it was already released.
    pub(crate) fn add_waiting(&mut self, rank: Rank, breakpoint: &[u8]) {
        if !self.released.remove(&rank) {
            let name = breakpoint.get(..MAX_NAME).unwrap_or(breakpoint);
            self.waiting.insert(rank, Text::new(name.to_vec()));
        }
    }

    /// Releases a process from its current stop, or from its next one if it does not wait yet.
    pub(crate) fn release(&mut self, rank: Rank) {
        let is_awaited = |awaited: &Awaited| awaited.missing.contains(&rank);
        if self.waiting.remove(&rank).is_none()
            && (is_awaited(&self.in_init) || is_awaited(&self.in_app))
        {
            self.released.insert(rank);
        }
    }

    /// Removes a process that has ended.
    pub(crate) fn remove(&mut self, rank: Rank) {
        self.waiting.remove(&rank);
        self.released.remove(&rank);
    }

    /// Returns the breakpoint at which a process waits.
    pub(crate) fn breakpoint_of(&self, rank: Rank) -> Option<&Text<'static>> {
        self.waiting.get(&rank)
    }

    pub(crate) fn at(&mut self, point: StopPoint) -> &mut Awaited {
        match point {
            StopPoint::OnExec => &mut self.on_exec,
            StopPoint::InInit => &mut self.in_init,
            StopPoint::InApp => &mut self.in_app,
        }
    }

    /// Records that a process stopped at a breakpoint. Returns the stop point if all its processes have stopped.
    pub(crate) fn add_stopped(&mut self, rank: Rank, breakpoint: &[u8]) -> Option<StopPoint> {
        let point = match breakpoint == BREAKPOINT_IN_INIT.as_bytes()
            && self.in_init.missing.contains(&rank)
        {
            true => StopPoint::InInit,
            false => StopPoint::InApp,
        };
        self.at(point).add(rank).then_some(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_INIT: &[u8] = BREAKPOINT_IN_INIT.as_bytes();

    #[test]
    fn a_stop_point_is_ready_once_when_every_process_has_stopped_or_ended() {
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank::new).collect();
        let mut debugging = Debugging::new(&DebugStops {
            in_init: ranks(&[0, 1, 2]),
            in_app: ranks(&[1]),
            ..DebugStops::default()
        });
        let rank = Rank::new;
        assert_eq!(debugging.add_stopped(rank(1), IN_INIT), None);
        assert_eq!(
            debugging.add_stopped(rank(1), b"main loop"),
            Some(StopPoint::InApp)
        );
        assert_eq!(debugging.add_stopped(rank(1), b"main loop"), None);
        assert_eq!(debugging.add_stopped(rank(9), IN_INIT), None);
        assert!(!debugging.at(StopPoint::InInit).remove(rank(2)));
        assert_eq!(
            debugging.add_stopped(rank(0), IN_INIT),
            Some(StopPoint::InInit)
        );
        assert_eq!(debugging.add_stopped(rank(0), IN_INIT), None);
        assert!(!debugging.at(StopPoint::InInit).remove(rank(0)));
    }

    #[test]
    fn a_stopped_process_waits_until_it_is_released_or_ends() {
        let ranks: BTreeSet<_> = [0, 1, 2].map(Rank::new).into();
        let mut debugging = Debugging::new(&DebugStops {
            in_init: ranks,
            ..DebugStops::default()
        });
        let rank = Rank::new;
        let named = |debugging: &Debugging| {
            [0, 1, 2].map(|at| {
                debugging
                    .breakpoint_of(rank(at))
                    .map(|name| name.as_bytes().len())
            })
        };
        debugging.release(rank(1));
        for at in 0..3 {
            debugging.add_stopped(rank(at), IN_INIT);
            debugging.add_waiting(rank(at), IN_INIT);
        }
        assert_eq!(named(&debugging), [Some(9), None, Some(9)]);
        debugging.release(rank(0));
        debugging.remove(rank(2));
        assert_eq!(named(&debugging), [None; 3]);
        // This stop is a new one, for which there is no release yet.
        debugging.add_waiting(rank(0), &[b'x'; 4096]);
        assert_eq!(named(&debugging), [Some(MAX_NAME), None, None]);
        debugging.release(rank(0));
        debugging.add_waiting(rank(0), b"again");
        assert_eq!(named(&debugging), [Some(5), None, None]);
    }

    #[test]
    fn a_stop_point_is_not_ready_when_all_processes_ended_first() {
        let mut debugging = Debugging::new(&DebugStops {
            in_init: [Rank::new(0)].into(),
            ..DebugStops::default()
        });
        assert!(!debugging.at(StopPoint::InInit).remove(Rank::new(0)));
    }
}
