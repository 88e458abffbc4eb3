// SPDX-License-Identifier: MIT OR Apache-2.0
//! A seeded simulation: engines, client cores and a host in one process, with all faults that can occur between them.
//! It is a separate program, because it replaces the panic hook and its seeds take minutes.
//!
//! A seed determines the nodes and jobs, the actions of the processes and the faults. Nothing else has any influence,
//! so a failed run can be repeated. `oracle` has the rules that must hold in every run:
//!
//! - Every request gets one reply in time, or its connection ends. A process that waits for a lost process is notified
//!   soon.
//! - All participants of a collective get the same result, and success only if all have called.
//! - The leaders and the added members of a group receive the same group in the requested order, or the same failure.
//!   They do not wait for processes that will not call.
//! - The invited processes and the leader of a group agree on its formation. Processes that wait for a lost one are
//!   notified.
//! - The members of a group that requested it are notified once of each terminated member, and of no other process.
//! - A get returns the last committed data of its process and never those of another process or an older incarnation.
//!   Data of other processes are for the client and arrive once.
//! - A registered process receives each event once, in the order in which its server processed them.
//! - A tool is admitted with its user and a permitted name, and receives permitted data only. Its loss is reported, its
//!   finalize is not. The host gets each spawn once, and the requestor gets the host's result.
//! - No engine holds more than its configuration allows, and nothing after all processes have disconnected.
//! - Every operation of a client core ends once and in time, with the result of the server. Values that the core
//!   returns from its cache are not older than the client's last message. The core is empty at the end, and does not
//!   panic for any bytes of a server.
//! - The counters and timers of an engine match its contents.
#![allow(clippy::disallowed_methods, reason = "a test begins at some instant")]

mod act;
mod add_members;
mod agenda;
mod carry;
mod client;
mod drive;
mod fault;
mod host;
mod invite;
mod node;
mod oracle;
mod own;
mod planted;
mod process;
mod random;
mod report;
mod spawn;
mod strike;
mod tool;
mod world;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::fault::{Fault, Tally};
use crate::report::{Failure, run};

/// The default number of seeds.
const NUM_SEEDS: u64 = 1_000;

/// The number of seeds from which on every fault and every kind of group must occur.
const NUM_SEEDS_OF_ALL: u64 = 10_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_seed_holds() {
    if let Some(seed) = number("PMIX_SEED") {
        return report::show(seed);
    }
    let num_seeds = number("PMIX_SEEDS").unwrap_or(NUM_SEEDS);
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Tally::default());
    let failures = Mutex::new(Vec::<Failure>::new());
    let work = || {
        let mut own = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= num_seeds || failures.lock().unwrap().len() >= 5 {
                break;
            }
            match run(seed, None, false) {
                Ok(done) => own.add(&done.tally),
                Err(failure) => failures.lock().unwrap().push(failure),
            }
        }
        sum.lock().unwrap().add(&own);
    };
    report::quietly(|| {
        thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    if let Some(first) = failures.first() {
        for failure in &failures {
            eprintln!("seed {}: {}", failure.seed, failure.message);
        }
        report::show(first.seed);
    }
    let sum = sum.into_inner().unwrap();
    let mut out = std::io::stdout().lock();
    let counts = Fault::ALL
        .iter()
        .map(|fault| format!("{fault} {}", sum.of(*fault)));
    let counts: Vec<_> = counts.collect();
    writeln!(out, "\n{num_seeds} seeds, faults: {}", counts.join(", ")).unwrap();
    let unasked = oracle::data::NUM_UNASKED.load(Ordering::Relaxed);
    writeln!(
        out,
        "data of {unasked} processes was sent without a request"
    )
    .unwrap();
    let formed = [&oracle::led::NUM_WITHOUT, &oracle::led::NUM_REPLACED];
    let [without, replaced] = formed.map(|count| count.load(Ordering::Relaxed));
    writeln!(
        out,
        "{without} groups were formed without a member, {replaced} with a new leader"
    )
    .unwrap();
    let constructed = [
        &oracle::add_members::NUM_CONSTRUCTED,
        &oracle::add_members::NUM_SMALLER,
    ];
    let [constructed, smaller] = constructed.map(|count| count.load(Ordering::Relaxed));
    writeln!(
        out,
        "{constructed} groups have added members, {smaller} of them lack one that was lost"
    )
    .unwrap();
    let told = oracle::terminations::NUM_TOLD.load(Ordering::Relaxed);
    writeln!(
        out,
        "{told} members were notified that another has terminated"
    )
    .unwrap();
    if num_seeds >= NUM_SEEDS_OF_ALL {
        assert!(told > 200, "too few cases");
        assert!(constructed > 200 && smaller > 20, "too few cases");
        assert!(without > 20 && replaced > 0, "too few cases");
        assert!(unasked > 100, "too few cases");
        let never = Fault::ALL.iter().filter(|fault| sum.of(**fault) == 0);
        assert_eq!(
            never.collect::<Vec<_>>(),
            Vec::<&Fault>::new(),
            "faults that never happened"
        );
    }
}

#[test]
fn a_run_depends_on_its_seed_only() {
    for seed in 0..50 {
        let [first, second] = [(); 2].map(|()| run(seed, None, false).map(|done| done.digest));
        assert_eq!(first.ok(), second.ok(), "seed {seed}");
    }
}
