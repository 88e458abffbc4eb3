// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that calls back where there is no client: it begins when it is first needed and ends
//! with the server.

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

/// The thread, and what keeps it from being started.
#[derive(Default)]
struct Holder {
    worker: Option<Worker>,
    /// The number of threads that are ending what calls back. No callback is put off meanwhile.
    num_ending: usize,
    /// The number of threads that are ending a client or tool. No thread is started for it meanwhile.
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

/// The time in which this process ends what calls back.
pub(crate) struct Ending {
    is_client: bool,
}

impl Ending {
    /// Begins to end a client or tool. The caller holds the lock of the state, from which it takes the client next: a
    /// job that does not find the client in the state finds that it ends.
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
        // The child of a fork has begun with none.
        holder.num_ending = holder.num_ending.saturating_sub(1);
        let of_client = usize::from(self.is_client);
        holder.num_clients_ending = holder.num_clients_ending.saturating_sub(of_client);
    }
}

/// Runs a job on the thread that calls back.
///
/// # Errors
/// `PMIX_ERR_OUT_OF_RESOURCE` if the system starts no thread, and `PMIX_ERR_INIT` if the client of this process ends;
/// the job is dropped.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) -> Result<()> {
    queue(job, |holder| holder.num_clients_ending > 0)
}

/// Puts a job off that the thread that calls back has begun and that is not due yet.
///
/// # Errors
/// As [`later`]; `PMIX_ERR_INIT` also if the thread ends, which runs the last jobs now.
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

/// Runs a job on the thread that calls back, or on this thread if the system starts no other: a callback that holds up
/// this thread is better than a lost one.
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

/// Runs all queued jobs, and those that they queue, and ends the thread.
pub(crate) fn end() {
    let _ending = Ending::begin(false);
    loop {
        let ended = holder().worker.take();
        let Some(Worker { queue, thread }) = ended else {
            return;
        };
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

/// Tests that end the thread, or need that it goes on, hold this lock.
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
