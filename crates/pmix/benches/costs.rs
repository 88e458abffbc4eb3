// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of the calls of a client, as one line of JSON for each rank:
//! `tests/server/programs/costs.c` with the client in Rust. `cargo xtask bench client` runs both.
//!
//!     pmix run -n 4 costs [ROUNDS]

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use pmix::client::Client;
use pmix::prelude::*;
use rustix::time::{ClockId, clock_gettime};

/// Bytes that each process puts.
const DATA: usize = 1024;
const THREADS: u32 = 16;
/// Gets of a key that is there, for each timed run and each thread.
const GETS: u32 = 2000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The figures of a rank: times of one call in nanoseconds, memory in KiB.
#[derive(Default)]
struct Figures {
    get_cpu_ns: u64,
    threads_cpu_ns: u64,
    fence_ns: u128,
    peer_get_ns: u128,
    full_kib: u64,
    added_kib: u64,
}

fn main() -> Result<()> {
    let (begun, used) = (Instant::now(), processor_ns());
    let client = Client::init(Settings::from_env()?)?;
    let Value::Uint32(size) = client.get(&client.job(), keys::JOB_SIZE, &[]).wait()? else {
        return Err("the size of the job is no uint32".into());
    };
    let (init_ns, init_cpu_ns) = (begun.elapsed().as_nanos(), processor_ns() - used);
    let idle_kib = memory_kib("Rss:")?;
    let mut figures = Figures::default();
    if let Some(rounds) = std::env::args().nth(1) {
        match rounds.parse()? {
            0 => {}
            rounds => calls(&client, rounds, &mut figures)?,
        }
        exchange(&client, size, &mut figures)?;
    }
    let rank = client.proc().rank;
    let used = processor_ns();
    client.finalize()?;
    drop(client);
    let finalize_cpu_ns = processor_ns() - used;
    let Figures {
        get_cpu_ns,
        threads_cpu_ns,
        fence_ns,
        peer_get_ns,
        full_kib,
        added_kib,
    } = figures;
    // In one write, so that the lines of several processes do not mix.
    let line = format!(
        "{{\"rank\":{rank},\"init_ns\":{init_ns},\"init_cpu_ns\":{init_cpu_ns},\
         \"finalize_cpu_ns\":{finalize_cpu_ns},\"get_cpu_ns\":{get_cpu_ns},\
         \"threads_cpu_ns\":{threads_cpu_ns},\"fence_ns\":{fence_ns},\
         \"peer_get_ns\":{peer_get_ns},\"idle_kib\":{idle_kib},\"full_kib\":{full_kib},\
         \"added_kib\":{added_kib}}}\n"
    );
    Ok(std::io::stdout().write_all(line.as_bytes())?)
}

/// Measures gets of known values, and fences.
fn calls(client: &Client, rounds: u32, figures: &mut Figures) -> Result<()> {
    // All processes ask at once.
    fence(client, false)?;
    get_size(client, 1);
    let used = processor_ns();
    get_size(client, GETS);
    figures.get_cpu_ns = (processor_ns() - used) / u64::from(GETS);
    fence(client, false)?;

    // The threads of one process ask, while the others wait.
    if client.proc().rank == Rank::new(0) {
        let used = processor_ns();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| get_size(client, GETS));
            }
        });
        figures.threads_cpu_ns = (processor_ns() - used) / u64::from(GETS * THREADS);
    }

    // Consecutive fences: the time of a single fence depends on the arrival of the process.
    fence(client, false)?;
    let begun = Instant::now();
    for _ in 0..rounds {
        fence(client, false)?;
    }
    figures.fence_ns = begun.elapsed().as_nanos() / u128::from(rounds);
    Ok(())
}

/// Puts a kilobyte, and gets that of every other process after a fence.
fn exchange(client: &Client, size: u32, figures: &mut Figures) -> Result<()> {
    let own = client.proc().clone();
    let letter = |rank: u32| char::from(b'a' + u8::try_from(rank % 26).unwrap_or(0));
    let data = |rank: u32| letter(rank).to_string().repeat(DATA);
    client.put(Scope::GLOBAL, "costs.data", data(own.rank.as_raw()))?;
    client.commit()?;
    fence(client, true)?;
    let before = memory_kib("Anonymous:")?;
    let begun = Instant::now();
    for turn in 1..size {
        // Each begins behind itself.
        let rank = (own.rank.as_raw() + turn) % size;
        let peer = Proc::new(own.nspace.clone(), Rank::new(rank));
        let said = client.get(&peer, "costs.data", &[]).wait()?;
        assert_eq!(said, Value::from(data(rank)));
    }
    figures.peer_get_ns = begun.elapsed().as_nanos() / u128::from(size.max(2) - 1);
    figures.full_kib = memory_kib("Rss:")?;
    figures.added_kib = memory_kib("Anonymous:")?.saturating_sub(before);
    Ok(())
}

fn fence(client: &Client, collect: bool) -> Result<()> {
    let infos = vec![Info::new(keys::COLLECT_DATA, collect)];
    Ok(client.fence(Vec::new(), infos).wait()?)
}

/// Gets the size of the job, which the process already knows.
fn get_size(client: &Client, count: u32) {
    for _ in 0..count {
        let size = client.get(&client.job(), keys::JOB_SIZE, &[]).wait();
        assert!(matches!(size, Ok(Value::Uint32(_))), "{size:?}");
    }
}

/// Processor time of this process so far.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// A line of what the page tables of this process say of its memory, in KiB.
fn memory_kib(name: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number
        .ok_or("a line is missing in /proc/self/smaps_rollup")?
        .parse()?)
}
