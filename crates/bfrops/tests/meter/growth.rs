// SPDX-License-Identifier: MIT OR Apache-2.0
//! How what something costs grows with its size.
//!
//! Time alone says nothing on a busy machine, so three sizes of one run are compared, in the time
//! that this thread had the processor: sixteen times the size may cost up to 64 times as much,
//! which no noise of a cache or of a neighbour reaches and every square does.

use rustix::time::{ClockId, clock_gettime};

/// The sizes of a cost test: the first and four and sixteen times as much.
const FACTORS: [usize; 3] = [1, 4, 16];

/// What sixteen times the size may cost: four times as much as in proportion.
const MOST: f64 = 64.0;

/// Runs of which the fastest counts.
const RUNS: usize = 3;

fn processor_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
    let seconds = u32::try_from(now.tv_sec).unwrap_or_default();
    f64::from(seconds) + f64::from(nanos) * 1e-9
}

/// Fails unless the cost of `run` is about in proportion to what `prepare` makes of a size.
///
/// `first` is so large that a run takes a millisecond or more.
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
