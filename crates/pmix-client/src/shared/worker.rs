// SPDX-License-Identifier: MIT OR Apache-2.0
//! The callback thread, which is started when it is first needed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

use super::lock;
use crate::Error;

pub(super) use super::ClientEvent;

/// The threads need little: what they call back may be a program's, so it is not less.
pub(super) const STACK_BYTES: usize = 512 << 10;

/// Something to be done by the thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// What is queued for the thread.
enum Due {
    Now(Job),
    At(Instant, Job),
}

/// Takes what comes unasked.
type Listener = Box<dyn FnMut(ClientEvent) + Send>;

/// Sees it first, and tells whether the listener is not to hear of it.
type Filter = Box<dyn Fn(&ClientEvent) -> bool + Send + Sync>;

/// The thread that calls back.
pub(super) struct Worker {
    queue: Mutex<Option<Sender<Due>>>,
    /// What is queued before the thread begins waits here.
    due: Mutex<Option<Receiver<Due>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    filter: Filter,
    listener: Mutex<Listener>,
}

impl Worker {
    pub(super) fn new(filter: Filter, listener: Listener) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel();
        Arc::new(Self {
            queue: Mutex::new(Some(sender)),
            due: Mutex::new(Some(receiver)),
            thread: Mutex::new(None),
            filter,
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

    /// Has something done; tells whether it will be.
    pub(super) fn post(&self, job: Job) -> bool {
        self.send(Due::Now(job))
    }

    /// Has something done at a time, unless the thread has ended by then.
    pub(super) fn post_at(&self, time: Instant, job: Job) {
        self.send(Due::At(time, job));
    }

    fn send(&self, due: Due) -> bool {
        let queue = lock(&self.queue);
        // The thread is there as long as the queue is.
        queue.as_ref().is_some_and(|queue| queue.send(due).is_ok())
    }

    /// Whether the caller is called back by the thread.
    pub(super) fn is_current(&self) -> bool {
        let own: Option<ThreadId> = lock(&self.thread).as_ref().map(|own| own.thread().id());
        own == Some(thread::current().id())
    }

    /// Calls the listener; the caller is the thread.
    pub(super) fn tell(&self, event: ClientEvent) {
        lock(&self.listener)(event);
    }

    /// Queues a call of the listener, on the thread that this starts if nothing else has.
    pub(super) fn client_event(self: &Arc<Self>, event: ClientEvent) {
        if let Err(error) = self.begin() {
            tracing::warn!("an event is lost: {error}");
            return;
        }
        let worker = Arc::clone(self);
        self.post(Box::new(move || {
            if !(worker.filter)(&event) {
                worker.tell(event);
            }
        }));
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

fn run(due: &Receiver<Due>) {
    let mut timers = BTreeMap::new();
    let mut num_timers = 0_u64;
    loop {
        let next = timers.first_key_value().map(|((time, _), _)| *time);
        let left = next.map(|time: Instant| time.saturating_duration_since(Instant::now()));
        let come = match left {
            Some(left) => due.recv_timeout(left),
            None => due.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let job = match come {
            Ok(Due::Now(job)) => job,
            Ok(Due::At(time, job)) => {
                num_timers += 1;
                timers.insert((time, num_timers), job);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => match timers.pop_first() {
                Some((_, job)) => job,
                None => continue,
            },
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a callback panicked");
        }
    }
}
