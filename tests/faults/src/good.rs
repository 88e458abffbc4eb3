// SPDX-License-Identifier: MIT OR Apache-2.0
//! Well-behaved clients, which the faults of other peers must not disturb.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pmix_client::{Client, Error, Settings, Uri};
use pmix_types::{Info, Proc, Rank, Scope, keys};

use super::server::{Server, processor_time};
use super::wait::Times;
use crate::server::files;
use crate::wait::shown;
use crate::{Field, Verdict};

/// The time limit of every call. A client that reaches it fails the scenario.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connects as a process of a job.
///
/// # Errors
/// Returns the error of [`Client`] if the server refuses the process.
pub(super) fn connect(uri: &Uri, job: &str, rank: u32) -> Result<Client, Error> {
    let proc = Proc::new(job.to_owned(), Rank::new(rank));
    let mut settings = Settings::new(proc, uri.clone());
    settings.time_limit = Some(PATIENCE);
    Client::init(settings)
}

/// Clients of one job that fence in a loop.
pub(super) struct Fencing {
    threads: Vec<JoinHandle<Result<Times, String>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The number of the last fence, which rank 0 stores before that fence.
    last: AtomicU64,
}

impl Fencing {
    /// Connects every process of the job and runs fences until [`stop`](Self::stop); every second fence collects data.
    pub(super) fn start(uri: &Uri, job: &str, num_procs: u32) -> Self {
        Self::start_all(uri, None, job, num_procs)
    }

    /// Starts clients as [`start`](Self::start) does, but counts at most the server's processor time during a fence.
    /// Other load of the machine is thus not counted.
    pub(super) fn start_beside(server: &Server, job: &str, num_procs: u32) -> Self {
        Self::start_all(&server.uri, Some(server.pid()), job, num_procs)
    }

    fn start_all(uri: &Uri, pid: Option<u32>, job: &str, num_procs: u32) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            last: AtomicU64::new(u64::MAX),
        });
        let threads = (0..num_procs).map(|rank| {
            let (uri, job, shared) = (uri.clone(), job.to_owned(), Arc::clone(&shared));
            thread::spawn(move || {
                let fences = fences(&uri, pid, &job, rank, &shared);
                fences.map_err(|e| format!("rank {rank}: {e} ({})", e.status()))
            })
        });
        Self {
            threads: threads.collect(),
            shared,
        }
    }

    /// Stops the clients and returns the duration of each fence at each client.
    ///
    /// # Errors
    /// Returns the error of the first client that failed.
    pub(super) fn stop(self) -> Result<Times, String> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut all = Times::default();
        let mut first = None;
        for thread in self.threads {
            match thread.join().unwrap_or_else(|_| Err("panicked".to_owned())) {
                Ok(times) => all.extend(times),
                Err(why) => first = first.or(Some(why)),
            }
        }
        match first {
            None => Ok(all),
            Some(why) => Err(format!("a good client failed: {why}")),
        }
    }
}

/// The duration below which a fence is not compared with the server's processor time.
const SHORT: Duration = Duration::from_millis(10);

fn fences(
    uri: &Uri,
    pid: Option<u32>,
    job: &str,
    rank: u32,
    shared: &Shared,
) -> Result<Times, Error> {
    let server_time = || pid.map_or(Duration::MAX, processor_time);
    let client = connect(uri, job, rank)?;
    client.put(Scope::GLOBAL, "card", format!("ib0:{rank}"))?;
    client.commit()?;
    let mut times = Times::default();
    for number in 1.. {
        // Every process must enter the last fence, so rank 0 fixes its number before it enters.
        if rank == 0 && shared.stop.load(Ordering::SeqCst) {
            shared.last.store(number, Ordering::SeqCst);
        }
        let collect = match number % 2 {
            0 => Vec::new(),
            _ => vec![Info::new(keys::COLLECT_DATA, true)],
        };
        let (begun, before) = (Instant::now(), server_time());
        client.fence([], collect).wait()?;
        let took = begun.elapsed();
        let worked = match pid {
            Some(_) if took > SHORT => server_time().saturating_sub(before),
            _ => took,
        };
        times.push(took.min(worked));
        // Rank 0 took part in this fence, so a `last` that it stored before the fence is visible here.
        if number >= shared.last.load(Ordering::SeqCst) {
            break;
        }
    }
    client.finalize()?;
    Ok(times)
}

/// The limit of the server's memory growth in KiB, which allows for rounding by the allocator.
const MOST_GROWTH: u64 = 512;

/// Registers many jobs, connects a client to each and deregisters them.
pub(super) fn churn(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("churn", &[])?;
    let count = field.count(10_000, 1_000);
    jobs(&mut server, 0..count / 4)?;
    let base = server.figures()?;
    let there = files(&server.directory);
    let begun = Instant::now();
    jobs(&mut server, 0..count)?;
    let took = begun.elapsed();
    let after = server.settle(base.descriptors)?;
    let left = files(&server.directory);
    if left != there {
        return Err(format!("files before: {there:?}, after: {left:?}"));
    }
    server.end()?;
    let growth = after.memory.saturating_sub(base.memory);
    let figures = format!(
        "{count} jobs in {}: growth {growth} KiB of {}; descriptors {} and {}; {} files",
        shown(took),
        base.memory,
        base.descriptors,
        after.descriptors,
        left.len(),
    );
    match growth < MOST_GROWTH {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

fn jobs(server: &mut Server, numbers: std::ops::Range<usize>) -> Result<(), String> {
    for number in numbers {
        let job = format!("job-{number}");
        server.job(&job, 2)?;
        used(server, &job).map_err(|e| format!("{job}: {e} ({})", e.status()))?;
        server.tell(&format!("forget {job}"))?;
    }
    Ok(())
}

/// Runs one client of the job through its usual calls.
fn used(server: &Server, job: &str) -> Result<(), pmix_client::Error> {
    let client = connect(&server.uri, job, 0)?;
    client.get_of_job(keys::JOB_SIZE).wait()?;
    client.put(Scope::GLOBAL, "card", job)?;
    client.commit()?;
    let own = client.proc().clone();
    client.get(&own, "card", &[]).wait()?;
    client.finalize()
}
