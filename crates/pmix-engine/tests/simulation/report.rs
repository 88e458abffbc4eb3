// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs, and the reports of failed ones.

use std::panic::{self, AssertUnwindSafe};

use crate::fault::{Fault, Plan, Tally};
use crate::world::World;

/// The number of printed lines of a trace.
const MAX_LINES: usize = 120;

/// A successful run.
pub(crate) struct Done {
    pub(crate) tally: Tally,
    pub(crate) digest: u64,
}

/// A failed run.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) message: String,
    plan: Plan,
    trace: Vec<String>,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, plan: Option<Plan>, is_traced: bool) -> Result<Done, Failure> {
    let mut world = World::new(seed, plan, is_traced);
    let result = panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    match result {
        Ok(()) => Ok(Done {
            tally: world.tally,
            digest: world.digest,
        }),
        Err(reason) => Err(Failure {
            seed,
            message: message(&*reason),
            plan: world.plan,
            trace: world.trace.unwrap_or_default(),
        }),
    }
}

fn message(reason: &(dyn std::any::Any + Send)) -> String {
    let text = reason.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| reason.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// Runs code that may panic, without the message on the terminal.
pub(crate) fn quietly(work: impl FnOnce()) {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    work();
    panic::set_hook(hook);
}

/// Runs a failing seed with as few kinds of faults as possible, and prints the trace.
pub(crate) fn show(seed: u64) {
    let Err(mut failure) = run(seed, None, true) else {
        println!("seed {seed} succeeds");
        return;
    };
    quietly(|| {
        for fault in Fault::ALL {
            if failure.plan.has(*fault)
                && let Err(smaller) = run(seed, Some(failure.plan.without(*fault)), true)
            {
                failure = smaller;
            }
        }
    });
    let skipped = failure.trace.len().saturating_sub(MAX_LINES);
    eprintln!("seed {seed} with {}; {skipped} lines before", failure.plan);
    for line in &failure.trace[skipped..] {
        eprintln!("{line}");
    }
    panic!(
        "{}\nagain: PMIX_SEED={seed} cargo test -p pmix-engine --test simulation",
        failure.message
    );
}
