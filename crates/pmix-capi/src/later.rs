// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that runs callbacks if there is no client. It starts when it is first needed and ends with the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use pmix_types::Status;

use crate::binding::thread_start;
use crate::memory::Result;
use crate::per_process::PerProcess;
use crate::state::client;

type Job = Box<dyn FnOnce() + Send>;

struct Worker {
    queue: Sender<Job>,
    thread: JoinHandle<()>,
}

/// The thread, and the counters that prevent it from being started.
#[derive(Default)]
struct Holder {
    worker: Option<Worker>,
    /// The number of threads that are finalizing a server, client or tool. No callback is put off while it is not 0.
    num_ending: usize,
    /// The number of threads that are finalizing a client or tool. No thread is started for its callbacks while it is
    /// not 0.
    num_clients_ending: usize,
}

static HOLDER: PerProcess<Mutex<Holder>> = PerProcess::new(Mutex::new(Holder {
    worker: None,
    num_ending: 0,
    num_clients_ending: 0,
}));

fn holder() -> MutexGuard<'static, Holder> {
    HOLDER.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that exists while this process finalizes a server, client or tool.
pub(crate) struct Ending {
    is_client: bool,
}

impl Ending {
    /// Begins to finalize a client or tool. The caller must hold the lock of the state and take the client from it
    /// afterwards: a job that finds no client in the state then also finds that the client is ending.
    pub(crate) fn of_client() -> Self {
        Self::begin(true)
    }

    fn begin(is_client: bool) -> Self {
        let mut holder = holder();
        holder.num_ending += 1;
        holder.num_clients_ending += usize::from(is_client);
        Self { is_client }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut holder = holder();
        // After a fork the child has a new `Holder`, whose counters are 0.
        holder.num_ending = holder.num_ending.saturating_sub(1);
        let of_client = usize::from(self.is_client);
        holder.num_clients_ending = holder.num_clients_ending.saturating_sub(of_client);
    }
}

/// Runs a job on the thread that runs callbacks.
///
/// # Errors
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the system cannot start a thread, and `PMIX_ERR_INIT` if the client of this
/// process is ending. The job is dropped.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) -> Result<()> {
    queue(job, |holder| holder.num_clients_ending > 0)
}

/// Queues a job again that the thread has taken but that is not due yet.
///
/// # Errors
/// Returns the errors of [`later`], and `PMIX_ERR_INIT` if the thread is ending, because it runs its last jobs now.
pub(crate) fn put_off(job: impl FnOnce() + Send + 'static) -> Result<()> {
    queue(job, |holder| holder.num_ending > 0)
}

fn queue(
    job: impl FnOnce() + Send + 'static,
    is_refused: impl FnOnce(&Holder) -> bool,
) -> Result<()> {
    if let Ok(client) = client() {
        return client.later(job).map_err(|error| error.status());
    }
    let start = thread_start();
    let mut holder = holder();
    if is_refused(&holder) {
        return Err(Status::ERR_INIT);
    }
    let worker = &mut holder.worker;
    if worker.is_none() {
        let (queue, due) = mpsc::channel();
        let named = thread::Builder::new().name("pmix-callbacks".to_owned());
        let begun = named.stack_size(512 << 10).spawn(move || {
            if let Some(start) = start {
                start.call();
            }
            run(&due);
        });
        let thread = begun.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        *worker = Some(Worker { queue, thread });
    }
    let queued = worker
        .as_ref()
        .map(|worker| worker.queue.send(Box::new(job)));
    match queued {
        Some(Ok(())) => Ok(()),
        _ => Err(Status::ERR_OUT_OF_RESOURCE),
    }
}

/// Runs a job on the thread that runs callbacks, or on this thread if the system cannot start another: a callback
/// that blocks this thread is better than a lost one.
pub(crate) fn later_or_now(job: impl FnOnce() + Send + 'static) {
    let job = Arc::new(Mutex::new(Some(job)));
    let take = |job: &Mutex<Option<_>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
    let queued = Arc::clone(&job);
    let started = later(move || {
        if let Some(job) = take(&queued) {
            job();
        }
    });
    if let Err(status) = started
        && let Some(job) = take(&job)
    {
        tracing::warn!(
            "cannot start a thread for callbacks ({status}); calling back on this thread"
        );
        job();
    }
}

/// Runs all queued jobs and the jobs that they queue, then ends the thread.
pub(crate) fn end() {
    let _ending = Ending::begin(false);
    loop {
        let ended = holder().worker.take();
        let Some(Worker { queue, thread }) = ended else {
            return;
        };
        // Closing the queue ends the thread after its last job. A callback that calls finalize runs on that thread,
        // which must not join itself.
        drop(queue);
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread of the callbacks panicked");
        }
    }
}

fn run(due: &Receiver<Job>) {
    while let Ok(job) = due.recv() {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a callback panicked");
        }
    }
}

/// The lock of tests that end the thread or need it to keep running.
#[cfg(test)]
pub(crate) static ENDS: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn jobs_that_jobs_queue_are_run_before_the_thread_has_ended() {
        fn queue_next(count: &Arc<AtomicUsize>) {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let count = Arc::clone(count);
            if number < 10 {
                later(move || queue_next(&count)).unwrap();
            }
        }
        let _lock = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = Arc::new(AtomicUsize::new(0));
        queue_next(&count);
        end();
        assert_eq!(count.load(Ordering::SeqCst), 11);
        assert!(holder().worker.is_none());
    }

    #[test]
    fn no_thread_begins_while_a_client_ends() {
        let _lock = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let _ending = Ending::of_client();
            assert_eq!(later(|| {}), Err(Status::ERR_INIT));
            assert_eq!(put_off(|| {}), Err(Status::ERR_INIT));
            assert!(holder().worker.is_none());
        }
        later(|| {}).unwrap();
        end();
    }
}
