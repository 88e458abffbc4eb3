// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how the cost of an operation grows with its size.
//!
//! The time alone is unreliable on a busy machine. So a test compares the processor time of this
//! thread for three sizes. Sixteen times the size may cost up to 64 times as much: noise by caches
//! and other processes stays below that, and quadratic growth exceeds it.

use rustix::time::{ClockId, clock_gettime};

/// The factors of the three sizes.
const FACTORS: [usize; 3] = [1, 4, 16];

/// The maximum factor of the cost for sixteen times the size.
const MOST: f64 = 64.0;

/// The number of repetitions, of which the fastest counts.
const RUNS: usize = 3;

fn processor_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
    let seconds = u32::try_from(now.tv_sec).unwrap_or_default();
    f64::from(seconds) + f64::from(nanos) * 1e-9
}

/// Checks that the cost of `run` is about proportional to the size for which `prepare` creates the
/// input.
///
/// `first` must be large enough that `run` takes at least a millisecond.
pub(crate) fn is_linear<T>(
    what: &str,
    first: usize,
    prepare: impl Fn(usize) -> T,
    mut run: impl FnMut(&mut T),
) {
    let cost = FACTORS.map(|factor| {
        let seconds = (0..RUNS).map(|_| {
            let mut input = prepare(first * factor);
            let start = processor_seconds();
            run(&mut input);
            processor_seconds() - start
        });
        seconds.fold(f64::INFINITY, f64::min)
    });
    let [small, middle, large] = cost.map(|seconds| seconds.max(1e-4));
    assert!(
        large / small < MOST,
        "{what}: {first} cost {small:.4} s, 4 times as much {middle:.4} s, 16 times {large:.4} s"
    );
}
