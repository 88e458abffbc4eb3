// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of rejected connections, with a bound on the lines that peers can cause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::Status;

/// Number of rejections of a user and a status that are logged in full before they are only counted.
const IN_FULL: u64 = 8;

/// Interval at which counts are logged and reset.
const PERIOD: Duration = Duration::from_secs(5);

/// The rejections in the current period, by user and status. Rejections that are not logged in full are
/// counted, and the counts are logged.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    /// The counts by user and number of the status.
    counts: BTreeMap<(Option<u32>, i32), u64>,
    /// The end of the period, which the first rejection starts.
    until: Option<Instant>,
}

impl RefusalLog {
    /// Counts a rejection. Returns `true` if it is to be logged in full.
    pub(super) fn count(&mut self, uid: Option<u32>, status: Status, now: Instant) -> bool {
        // A server without rejections has no period, so it does not wake up to end one.
        self.until.get_or_insert_with(|| now + PERIOD);
        let count = self.counts.entry((uid, status.as_raw())).or_default();
        *count += 1;
        *count <= IN_FULL
    }

    /// Returns the time to call [`Self::end_period`].
    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Logs and resets the counts if the period is over.
    pub(super) fn end_period(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.write();
        }
    }

    /// Logs and resets the counts.
    pub(super) fn write(&mut self) {
        for ((uid, status), more) in self.take() {
            tracing::warn!(uid, %status, more, "more connections were rejected");
        }
    }

    /// Returns the counts by user and status, and resets them.
    fn take(&mut self) -> impl Iterator<Item = ((Option<u32>, Status), u64)> {
        self.until = None;
        let counts = std::mem::take(&mut self.counts).into_iter();
        counts.filter_map(|((uid, status), count)| {
            let more = count.checked_sub(IN_FULL).filter(|&more| more > 0)?;
            Some(((uid, Status::from_raw(status)), more))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_user_and_status_are_written_in_full() {
        let now = Instant::now();
        let mut refusals = RefusalLog::default();
        assert_eq!(refusals.due(), None);
        let mut in_full = |uid, status| {
            let all = (0..100).filter(|_| refusals.count(uid, status, now));
            all.count() as u64
        };
        assert_eq!(in_full(Some(1), Status::ERR_BAD_PARAM), IN_FULL);
        assert_eq!(in_full(Some(1), Status::ERR_TIMEOUT), IN_FULL);
        assert_eq!(in_full(None, Status::ERR_BAD_PARAM), IN_FULL);
        assert_eq!(in_full(Some(1), Status::ERR_BAD_PARAM), 0);
        assert_eq!(refusals.due(), Some(now + PERIOD));
        refusals.end_period(now);
        assert!(!refusals.count(Some(1), Status::ERR_TIMEOUT, now));
        refusals.end_period(now + PERIOD);
        assert_eq!(refusals.due(), None);
        assert!(refusals.count(Some(1), Status::ERR_TIMEOUT, now + PERIOD));
    }

    #[test]
    fn rejections_beyond_the_limit_are_counted() {
        let now = Instant::now();
        let mut refusals = RefusalLog::default();
        for _ in 0..IN_FULL + 34 {
            refusals.count(Some(7), Status::ERR_BAD_PARAM, now);
        }
        refusals.count(Some(8), Status::ERR_BAD_PARAM, now);
        let counted = [((Some(7), Status::ERR_BAD_PARAM), 34)];
        assert_eq!(refusals.take().collect::<Vec<_>>(), counted);
        assert_eq!(refusals.due(), None);
        assert_eq!(refusals.take().count(), 0, "each is counted once");
    }
}
