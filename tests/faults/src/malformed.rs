// SPDX-License-Identifier: MIT OR Apache-2.0
//! Malformed hellos and messages by the ten thousand, while well-behaved clients fence.

mod attack;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use bfrops::Layout;
use pmix_client::Uri;

use crate::good::Fencing;
use crate::raw::{self, Peer};
use crate::wait::shown;
use crate::{Field, Verdict};
use attack::{Armoury, Tail};

pub(crate) use attack::attack_server;
use pmix_interop::captures;
use pmix_interop::random::Random;

/// The number of well-behaved clients.
const GOOD: u32 = 16;

/// The number of attackers at the same time.
const WORKERS: u32 = 4;

/// The first rank of the attackers, above the ranks in the captured hellos.
const FIRST: u32 = 8;

/// The limit of the server's memory growth, in KiB.
const MOST_GROWTH: u64 = 4096;

/// The limit of the server's log, in lines.
const MOST_LINES: usize = 1000;

/// Attacks with every kind of malformed hello and message.
pub(crate) fn run(field: &Field) -> Result<Verdict, String> {
    let armoury = Armoury::read()?;
    let mut server = field.server("malformed", &[])?;
    server.job("good", GOOD)?;
    for job in &armoury.jobs {
        server.job(job, FIRST + WORKERS)?;
    }
    // Read the figures after the registration: each job has a descriptor for its shared data.
    let before = server.figures()?;
    let good = Fencing::start(&server.uri, "good", GOOD);
    let count = field.count(100_000, 10_000);
    // Warm up: memory that the server keeps for reuse must not count as growth.
    let warm = attack(&server.uri, &armoury, count / 10, field.seed);
    let base = server.figures();
    let begun = Instant::now();
    let attacked = attack(&server.uri, &armoury, count, field.seed + 1);
    let took = begun.elapsed();
    let fences = good.stop();
    warm.and(attacked)?;
    let fences = fences?;
    let after = server.settle(before.descriptors)?;
    let growth = after.memory.saturating_sub(base?.memory);
    let log = server.end()?;
    let lines = log.lines().count();
    let figures = format!(
        "{count} in {}; {} good fences, worst {}; growth {growth} KiB; descriptors {} and {}; \
         {} refusals in {lines} lines of log",
        shown(took),
        fences.len() / GOOD as usize,
        shown(fences.worst()),
        before.descriptors,
        after.descriptors,
        refusals(&log),
    );
    match growth < MOST_GROWTH && lines < MOST_LINES {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Returns the number of refusals in a log: those logged in full, and those only counted.
fn refusals(log: &str) -> u64 {
    let of_line = |line: &str| match line.split_once(" more=") {
        Some((_, more)) => more.split(' ').next()?.parse().ok(),
        None => line.contains(" was rejected").then_some(1),
    };
    log.lines().filter_map(of_line).sum()
}

/// Attacks `count` times, each time by a connection or by several messages on one connection.
fn attack(uri: &Uri, armoury: &Armoury, count: usize, seed: u64) -> Result<(), String> {
    let left = AtomicUsize::new(count);
    let fault = Mutex::new(None);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (left, fault) = (&left, &fault);
            scope.spawn(move || {
                let mut random = Random::new(seed << 8 | u64::from(worker));
                let result = work(uri, armoury, worker, left, &mut random);
                if let (Err(why), Ok(mut fault)) = (result, fault.lock()) {
                    *fault = Some(why);
                }
            });
        }
    });
    match fault.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(why),
        Err(_) => Err("an attacker panicked".to_owned()),
    }
}

fn work(
    uri: &Uri,
    armoury: &Armoury,
    worker: u32,
    left: &AtomicUsize,
    random: &mut Random,
) -> Result<(), String> {
    let layouts = captures::layouts();
    let take = |number: usize| {
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            (left > 0).then(|| left.saturating_sub(number))
        });
        taken.is_ok()
    };
    loop {
        let messages = usize::try_from(random.within(1, 8)).unwrap_or(1);
        for _ in 0..messages {
            if !take(1) {
                return Ok(());
            }
            let hello = armoury.hello(random);
            let stream = raw::connect(uri.address).map_err(|e| e.to_string())?;
            raw::say_and_leave(stream, &hello).map_err(|e| format!("{e}; after {hello:02x?}"))?;
        }
        if !take(messages) {
            return Ok(());
        }
        let job = random.pick(&armoury.jobs);
        let layout = *random.pick(&layouts);
        let peer = enter(uri, job, FIRST + worker, layout)?;
        misbehave(peer, armoury, messages, random)?;
    }
}

/// Connects with a well-formed hello, and retries. By chance a malformed one may have registered with the same name,
/// until its connection is closed.
fn enter(uri: &Uri, job: &str, rank: u32, layout: Layout) -> Result<Peer, String> {
    let mut last = String::new();
    for _ in 0..100 {
        match Peer::client(uri.address, job, rank, layout) {
            Ok(peer) => return Ok(peer),
            Err(why) => last = format!("{job} {rank}, {layout:?}: {why}"),
        }
        thread::yield_now();
    }
    Err(last)
}

/// Sends malformed messages, then waits until the server has handled them.
fn misbehave(
    mut peer: Peer,
    armoury: &Armoury,
    messages: usize,
    random: &mut Random,
) -> Result<(), String> {
    let form = peer.form;
    let said: Vec<u8> = (0..messages)
        .flat_map(|_| armoury.message(&form, random))
        .collect();
    let fault = |e: String| format!("{e}; {:?} after {said:02x?}", form.layout);
    // The write may fail: the server may have disconnected already.
    let _ = peer.stream.write_all(&said);
    match armoury.tail(&form, random) {
        Tail::Whole => peer.ping().map(drop).map_err(fault),
        Tail::Broken(bytes) => raw::say_and_leave(peer.stream, &bytes)
            .map(drop)
            .map_err(fault),
    }
}
