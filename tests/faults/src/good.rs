// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that keep to the rules: whom nobody's faults may disturb.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pmix_client::{Client, Error, Fence, Settings, Uri};
use pmix_types::{Proc, Rank, Scope};

use super::server::{Server, processor_time};
use super::wait::Times;

/// How long a client waits for anything; one that has to is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connects as a process of a job.
///
/// # Errors
/// The server does not want it.
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
    /// How many fences there will have been; rank 0 says it before the last one.
    last: AtomicU64,
}

impl Fencing {
    /// Lets every process of a job connect and fence, every other fence with data, until they are
    /// stopped.
    pub(super) fn start(uri: &Uri, job: &str, num_procs: u32) -> Self {
        Self::start_all(uri, None, job, num_procs)
    }

    /// As [`start`](Self::start). A fence during which the server had the processor for less than the fence took counts
    /// that time: others on the machine are not to be counted.
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

    /// Stops them: how long each fence took each of them.
    ///
    /// # Errors
    /// What the first of them says that failed.
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

/// Below this a fence is short, whatever the server did meanwhile.
const SHORT: Duration = Duration::from_millis(10);

fn fences(
    uri: &Uri,
    pid: Option<u32>,
    job: &str,
    rank: u32,
    shared: &Shared,
) -> Result<Times, Error> {
    let server_time = || pid.map_or(Duration::MAX, processor_time);
    let mut client = connect(uri, job, rank)?;
    client.put(Scope::GLOBAL, "card", format!("ib0:{rank}"))?;
    client.commit()?;
    let mut times = Times::default();
    for number in 1.. {
        if rank == 0 && shared.stop.load(Ordering::SeqCst) {
            shared.last.store(number, Ordering::SeqCst);
        }
        let fence = match number % 2 {
            0 => Fence::new(),
            _ => Fence::new().collect(),
        };
        let (begun, before) = (Instant::now(), server_time());
        client.fence(&fence)?;
        let took = begun.elapsed();
        let worked = match pid {
            Some(_) if took > SHORT => server_time().saturating_sub(before),
            _ => took,
        };
        times.push(took.min(worked));
        // Rank 0 was in this fence too, so what it said before is seen.
        if number >= shared.last.load(Ordering::SeqCst) {
            break;
        }
    }
    client.finalize()?;
    Ok(times)
}
