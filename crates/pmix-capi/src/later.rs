// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that calls back where there is no client: it begins when it is first needed and ends
//! with the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// Has something done by the thread that calls back.
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

/// Has all that is queued done and ends the thread.
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
