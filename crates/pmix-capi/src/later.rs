// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that calls back where there is no client: it begins when it is first needed and ends
//! with the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use pmix_types::Status;

use crate::memory::Result;
use crate::per_process::PerProcess;
use crate::state::client;

type Job = Box<dyn FnOnce() + Send>;

struct Worker {
    queue: Sender<Job>,
    thread: JoinHandle<()>,
}

static WORKER: PerProcess<Mutex<Option<Worker>>> = PerProcess::new(Mutex::new(None));

fn worker() -> MutexGuard<'static, Option<Worker>> {
    WORKER.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job on the thread that calls back.
///
/// # Errors
/// `PMIX_ERR_OUT_OF_RESOURCE` if the system starts no thread; the job is dropped.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) -> Result<()> {
    if let Ok(client) = client() {
        return client.later(job).map_err(|error| error.status());
    }
    let mut worker = worker();
    if worker.is_none() {
        let (queue, due) = mpsc::channel();
        let named = thread::Builder::new().name("pmix-callbacks".to_owned());
        let begun = named.stack_size(512 << 10).spawn(move || run(&due));
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
        tracing::warn!("no thread for callbacks can be started ({status}): this thread calls back");
        job();
    }
}

/// Runs all queued jobs and ends the thread.
pub(crate) fn end() {
    let ended = worker().take();
    if let Some(Worker { queue, thread, .. }) = ended {
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
