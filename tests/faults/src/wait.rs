// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for what others do, and how long things took.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until there is something, at most so long.
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

/// A time as it is read best.
pub(super) fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        1.0.. => format!("{seconds:.1} s"),
        0.001.. => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.0} us", seconds * 1e6),
    }
}

/// How long something took that was done many times.
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

    /// The time that so many in a hundred did not exceed.
    pub(super) fn percentile(&mut self, percent: usize) -> Duration {
        self.0.sort_unstable();
        let at = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(at).copied().unwrap_or_default()
    }

    /// The longest.
    pub(super) fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
