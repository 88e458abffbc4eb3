// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of its own: it replaces the panic hook, and its seeds take minutes.
//!
//! A seeded simulation: engines, the cores of clients and a host in one process, and everything that can go
//! wrong between them.
//!
//! A seed says how many nodes and jobs there are, what the processes do and which faults happen;
//! nothing else has any influence, so that a run that fails can be had again. What has to be true
//! in all of them is in `oracle`:
//!
//! - Every request is answered once, in time, or its connection ends. Who waits for a process that is
//!   gone is told soon.
//! - All participants of a collective are told the same, and success only if all have come.
//! - Who leads a group, and who is added to it, are told of the same group, in the order that they want, or that
//!   there is none; nobody waits for those who will not call.
//! - Who was invited to a group, and who leads it, agree whether it is formed; who waits for one that is
//!   gone is told so.
//! - Who is in a group that asked for it is told, once, of each member that ends, and of no other.
//! - A get brings what its process committed last, never another's or an older life's. What it brings of
//!   others is for who asks, and comes once.
//! - Who listens to events hears each once, in the order in which its server took them in.
//! - A tool is let in as the user and under the name that it may have, and hears what it may hear. Its loss is
//!   told, and that it left is not. The host is asked once for each spawn, and who asked is told what it said.
//! - No engine holds more than its configuration allows, and nothing once everybody has left.
//! - Every operation of a client's core ends once and in time, with what its server answered. What the
//!   core says by itself is not older than what the client has heard. Nothing is left in it at the end, and
//!   whatever a server sends, it does not panic.
//! - What an engine counts is what it holds, and each of its timers is that of something it holds.
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

/// How many seeds are tried where nobody says another number.
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
    writeln!(out, "{unasked} processes were told of unasked").unwrap();
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
    writeln!(out, "{told} members were told that another has ended").unwrap();
    if num_seeds >= NUM_SEEDS_OF_ALL {
        assert!(told > 200, "hardly any");
        assert!(constructed > 200 && smaller > 20, "hardly any");
        assert!(without > 20 && replaced > 0, "hardly any");
        assert!(unasked > 100, "hardly any");
        let never = Fault::ALL.iter().filter(|fault| sum.of(**fault) == 0);
        assert_eq!(
            never.collect::<Vec<_>>(),
            Vec::<&Fault>::new(),
            "faults that never happened"
        );
    }
}

#[test]
fn a_seed_says_all() {
    for seed in 0..50 {
        let [first, second] = [(); 2].map(|()| run(seed, None, false).map(|done| done.digest));
        assert_eq!(first.ok(), second.ok(), "seed {seed}");
    }
}
