// SPDX-License-Identifier: MIT OR Apache-2.0
//! The callback thread, which is started when it is first needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::lock;
use crate::Error;

pub(super) use super::ClientEvent;

/// The threads need little: what they call back may be a program's, so it is not less.
pub(super) const STACK_BYTES: usize = 512 << 10;

/// Something to be done by the thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Takes what comes unasked.
type Listener = Box<dyn FnMut(ClientEvent) + Send>;

/// The thread that calls back.
pub(super) struct Worker {
    queue: Mutex<Option<Sender<Job>>>,
    /// What is queued before the thread begins waits here.
    due: Mutex<Option<Receiver<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    listener: Mutex<Listener>,
}

impl Worker {
    pub(super) fn new(listener: Listener) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel();
        Arc::new(Self {
            queue: Mutex::new(Some(sender)),
            due: Mutex::new(Some(receiver)),
            thread: Mutex::new(None),
            listener: Mutex::new(listener),
        })
    }

    /// Starts the thread if it has not begun.
    pub(super) fn begin(&self) -> Result<(), Error> {
        let mut due = lock(&self.due);
        let Some(receiver) = due.take() else {
            return Ok(());
        };
        let named = thread::Builder::new().name("pmix-callbacks".to_owned());
        let begun = named.stack_size(STACK_BYTES).spawn(move || run(&receiver));
        let begun = begun.map_err(|error| Error::lost("no thread for callbacks", error))?;
        *lock(&self.thread) = Some(begun);
        Ok(())
    }

    /// Has something done.
    pub(super) fn post(&self, job: Job) {
        if let Some(queue) = &*lock(&self.queue) {
            // The thread is there as long as the queue is.
            let _ = queue.send(job);
        }
    }

    /// Queues a call of the listener, on the thread that this starts if nothing else has.
    pub(super) fn client_event(self: &Arc<Self>, event: ClientEvent) {
        if let Err(error) = self.begin() {
            tracing::warn!("an event is lost: {error}");
            return;
        }
        let worker = Arc::clone(self);
        self.post(Box::new(move || lock(&worker.listener)(event)));
    }

    /// Runs all queued calls and ends the thread.
    pub(super) fn end(&self) {
        drop(lock(&self.queue).take());
        drop(lock(&self.due).take());
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
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
