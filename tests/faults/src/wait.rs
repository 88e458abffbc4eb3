// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting with a time limit, and measured times.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Polls until there is a result, for `limit` at most.
pub(super) fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if begun.elapsed() > limit {
            return None;
        }
        sleep(Duration::from_millis(1));
    }
}

/// A clock that does not count the time in which its threads wait for a processor. Work, sleep and
/// waits for a disk count. Other load of the machine does not.
pub(super) struct FairClock {
    threads: Vec<u32>,
    begun: Instant,
    first: Vec<Scheduled>,
    last: Vec<Scheduled>,
}

/// Times of a thread since its start, as far as the kernel has accounted for them.
#[derive(Clone, Copy, Default)]
struct Scheduled {
    /// The time on a processor.
    worked: Duration,
    /// The time for which the thread was runnable without a processor.
    delayed: Duration,
}

impl FairClock {
    /// Starts a clock for threads that wait for each other, given as process IDs of their main threads.
    pub(super) fn start(threads: &[u32]) -> Self {
        let first: Vec<_> = threads
            .iter()
            .map(|thread| Scheduled::of(*thread).unwrap_or_default())
            .collect();
        Self {
            threads: threads.to_vec(),
            begun: Instant::now(),
            last: first.clone(),
            first,
        }
    }

    /// Returns the counted time. A thread that has exited counts with its last known figures.
    pub(super) fn elapsed(&mut self) -> Duration {
        let took = self.begun.elapsed();
        let (mut worked, mut delayed) = (Duration::ZERO, Duration::ZERO);
        for (number, thread) in self.threads.iter().enumerate() {
            self.last[number] = Scheduled::of(*thread).unwrap_or(self.last[number]);
            let (first, last) = (self.first[number], self.last[number]);
            worked += last.worked.saturating_sub(first.worked);
            delayed += last.delayed.saturating_sub(first.delayed);
        }
        // The kernel accounts for a delay when it ends, and it may have begun before the clock.
        took.saturating_sub(delayed).max(worked.min(took))
    }
}

impl Scheduled {
    fn of(thread: u32) -> Option<Self> {
        let said = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
        let mut numbers = said.split_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten().map(Duration::from_nanos);
        Some(Self {
            worked: next()?,
            delayed: next()?,
        })
    }
}

/// Formats a time with a suitable unit.
pub(super) fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        1.0.. => format!("{seconds:.1} s"),
        0.001.. => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.0} us", seconds * 1e6),
    }
}

/// Durations of repeated operations.
#[derive(Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the duration that `percent` of all operations did not exceed.
    pub(super) fn percentile(&mut self, percent: usize) -> Duration {
        self.0.sort_unstable();
        let at = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(at).copied().unwrap_or_default()
    }

    /// Returns the longest duration.
    pub(super) fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_clock_counts_sleep_and_work() {
        let time = Duration::from_millis(20);
        let mut clock = FairClock::start(&[std::process::id()]);
        sleep(time);
        assert!(clock.elapsed() <= clock.begun.elapsed());
        // No thread has this ID, so the clock knows of no delays.
        let mut clock = FairClock::start(&[u32::MAX]);
        sleep(time);
        assert!(clock.elapsed() >= time);
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Times::default();
        assert_eq!(times.percentile(99), Duration::ZERO);
        for ms in (1..=200).rev() {
            times.push(Duration::from_millis(ms));
        }
        assert_eq!(times.percentile(99), Duration::from_millis(198));
        assert_eq!(times.percentile(100), times.worst());
        assert_eq!(times.percentile(50), Duration::from_millis(100));
    }
}
