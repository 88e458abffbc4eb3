// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fences of a session, for the timeline of its report.

use std::time::Instant;

use crate::outcome::FenceOutcome;

/// The largest number of fences in the outcome; further ones are only counted.
const MAX_KEPT: usize = 10_000;

/// The completed fences.
#[derive(Default)]
pub(crate) struct Fences {
    /// The times of the first call and of the end, and the number of processes on this node.
    kept: Vec<(Instant, Instant, usize)>,
    num: u64,
}

impl Fences {
    /// Records a fence.
    pub(crate) fn record(&mut self, began: Instant, ended: Instant, num_procs: usize) {
        self.num += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push((began, ended, num_procs));
        }
    }

    /// Returns the fences, and their number. `start` is the start of the first job.
    pub(crate) fn outcomes(&self, start: Instant) -> (Vec<FenceOutcome>, u64) {
        let outcome = |&(began, ended, num_procs): &(Instant, Instant, usize)| FenceOutcome {
            began: began.saturating_duration_since(start),
            ended: ended.saturating_duration_since(start),
            num_procs: u64::try_from(num_procs).unwrap_or(u64::MAX),
        };
        (self.kept.iter().map(outcome).collect(), self.num)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fences_beyond_the_limit_are_counted() {
        let start = Instant::now();
        let mut fences = Fences::default();
        for _ in 0..MAX_KEPT + 3 {
            fences.record(start, start + Duration::from_secs(2), 7);
        }
        let (kept, num) = fences.outcomes(start + Duration::from_secs(1));
        assert_eq!((kept.len(), num), (MAX_KEPT, 10_003));
        let times = (kept[0].began, kept[0].ended, kept[0].num_procs);
        assert_eq!(times, (Duration::ZERO, Duration::from_secs(1), 7));
    }
}
