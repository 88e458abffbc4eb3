// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that wait to be started again, and how long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::Proc;

/// A process that ends in less time has failed at once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long one waits that has failed at once twice in a row; with each further time twice as long.
const FIRST: Duration = Duration::from_millis(10);

/// The time between two looks at the removals that hold processes.
const RETRY: Duration = Duration::from_millis(100);

/// The longest that one waits.
const LONGEST: Duration = Duration::from_secs(5);

/// The processes that wait to be started again, in the order in which their time comes.
///
/// They are handed out one by one, so that whoever starts them does other things between two of them.
#[derive(Debug, Default)]
pub(crate) struct WaitingRestarts {
    waiting: BTreeMap<(Instant, u64), Proc<'static>>,
    /// Processes whose time has come, but whose files are still being removed.
    held: Vec<Proc<'static>>,
    last: u64,
}

impl WaitingRestarts {
    /// Adds a process that is to be started again at that time.
    pub(crate) fn add(&mut self, proc: Proc<'static>, due: Instant) {
        self.last += 1;
        self.waiting.insert((due, self.last), proc);
    }

    /// Holds a process whose time has come until [`Self::release`] is called.
    pub(crate) fn hold(&mut self, proc: Proc<'static>) {
        self.held.push(proc);
    }

    /// Makes all held processes due.
    pub(crate) fn release(&mut self, now: Instant) {
        for proc in std::mem::take(&mut self.held) {
            self.add(proc, now);
        }
    }

    /// Returns when to look again at the removals that hold processes: one that no thread could take wakes nothing.
    pub(crate) fn retry(&self, now: Instant) -> Option<Instant> {
        (!self.held.is_empty()).then(|| now + RETRY)
    }

    /// Returns `true` if no process waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    /// When the next one is to be started.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next one, if its time has come.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Proc<'static>> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Those that are not to be started any more.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&Proc<'_>) -> bool) -> Vec<Proc<'static>> {
        let meant = self.waiting.iter().filter(|(_, proc)| is_meant(proc));
        let meant: Vec<_> = meant.map(|(key, _)| *key).collect();
        let taken = meant.iter().filter_map(|key| self.waiting.remove(key));
        let mut taken: Vec<_> = taken.collect();
        taken.extend(self.held.extract_if(.., |proc| is_meant(proc)));
        taken
    }
}

/// How often in a row a process has failed at once, which did so `before` and failed now after so long.
pub(crate) fn num_at_once(before: u32, ran: Duration) -> u32 {
    match ran < AT_ONCE {
        true => before.saturating_add(1),
        false => 0,
    }
}

/// How long a process waits that has failed at once so often in a row: the first time it does not.
pub(crate) fn delay(num_at_once: u32) -> Duration {
    let Some(doubled) = num_at_once.checked_sub(2) else {
        return Duration::ZERO;
    };
    let factor = 1u32.checked_shl(doubled).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Rank;

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("job", Rank::new(rank))
    }

    #[test]
    fn one_comes_at_a_time_in_the_order_of_their_times() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut waiting = WaitingRestarts::default();
        assert_eq!((waiting.deadline(), waiting.next(now)), (None, None));
        for (rank, due) in [(0, later), (1, now), (2, now)] {
            waiting.add(proc(rank), due);
        }
        assert_eq!(waiting.deadline(), Some(now));
        assert_eq!(waiting.next(now), Some(proc(1)));
        assert_eq!(waiting.next(now), Some(proc(2)));
        assert_eq!((waiting.next(now), waiting.deadline()), (None, Some(later)));
        assert_eq!(waiting.next(later), Some(proc(0)));
    }

    #[test]
    fn those_that_are_given_up_do_not_come() {
        let now = Instant::now();
        let mut waiting = WaitingRestarts::default();
        (0..4).for_each(|rank| waiting.add(proc(rank), now));
        let taken = waiting.take(|proc| proc.rank.as_raw() % 2 == 0);
        assert_eq!(taken, [proc(0), proc(2)]);
        assert_eq!(waiting.next(now), Some(proc(1)));
        assert_eq!(waiting.next(now), Some(proc(3)));
        assert_eq!(waiting.next(now), None);
    }

    #[test]
    fn a_process_that_is_held_comes_once_it_is_released_and_can_be_given_up() {
        let now = Instant::now();
        let mut waiting = WaitingRestarts::default();
        waiting.hold(proc(1));
        waiting.hold(proc(2));
        assert_eq!((waiting.deadline(), waiting.next(now)), (None, None));
        assert_eq!(waiting.take(|held| *held == proc(1)), [proc(1)]);
        assert!(!waiting.is_empty());
        assert_eq!(waiting.retry(now), Some(now + RETRY));
        waiting.release(now);
        assert_eq!(waiting.retry(now), None);
        assert_eq!(waiting.deadline(), Some(now));
        assert_eq!(waiting.next(now), Some(proc(2)));
        assert!(waiting.is_empty());
    }

    #[test]
    fn who_fails_again_and_again_at_once_waits_longer_and_longer() {
        let delays = [0, 1, 2, 3, 4, 12, 40, u32::MAX].map(|number| delay(number).as_millis());
        assert_eq!(delays, [0, 0, 10, 20, 40, 5000, 5000, 5000]);
        assert_eq!(num_at_once(7, AT_ONCE / 2), 8);
        assert_eq!(num_at_once(7, AT_ONCE), 0);
        assert_eq!(num_at_once(u32::MAX, Duration::ZERO), u32::MAX);
    }
}
