// SPDX-License-Identifier: MIT OR Apache-2.0
//! The callback thread, which starts on first use, or the queue of callbacks for the program's own loop.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

use super::{ClientEvent, lock};
use crate::{Error, ThreadStart};

/// The stack size of the threads. Callbacks of the program run on the stack and need some of it.
pub(super) const STACK_BYTES: usize = 512 << 10;

/// The largest number of callbacks in one turn of the program's own loop.
const MOST_CALLS: usize = 4096;

/// The number of queued calls that may precede a timer that is due.
const MOST_BEFORE_TIMERS: u64 = 64;

/// A function for the callback thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// An entry of the queue.
enum Queued {
    Now(Job),
    At(Instant, Job),
}

/// The program's receiver of unsolicited input.
pub(super) type Listener = Box<dyn FnMut(ClientEvent) + Send>;

/// Jobs with a time, in the order of their times.
#[derive(Default)]
struct Timers {
    jobs: BTreeMap<(Instant, u64), Job>,
    last: u64,
}

impl Timers {
    fn add(&mut self, time: Instant, job: Job) {
        self.last += 1;
        self.jobs.insert((time, self.last), job);
    }

    /// Returns the time of the next job.
    fn next(&self) -> Option<Instant> {
        self.jobs.first_key_value().map(|((time, _), _)| *time)
    }

    /// Removes and returns the next job if its time has come.
    fn take(&mut self, now: Instant) -> Option<Job> {
        let first = self.jobs.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// The state that replaces the thread if the program's own loop makes the callbacks.
pub(crate) struct Loop {
    /// An eventfd, readable while jobs are queued.
    wake: OwnedFd,
    /// The number of queued jobs.
    num_queued: AtomicUsize,
    timers: Mutex<Timers>,
    /// The threads that are in a callback; a thread is listed once for each nested call.
    by: Mutex<Vec<ThreadId>>,
}

impl Loop {
    pub(crate) fn new(wake: OwnedFd) -> Self {
        Self {
            wake,
            num_queued: AtomicUsize::new(0),
            timers: Mutex::default(),
            by: Mutex::default(),
        }
    }
}

/// The callback thread or its replacement.
pub(crate) struct Worker {
    queue: Mutex<Option<Sender<Queued>>>,
    /// The receiving end of the queue until the thread starts, or for good if there is no thread.
    receiver: Mutex<Option<Receiver<Queued>>>,
    own_loop: Option<Loop>,
    /// The function that the thread calls first.
    thread_start: Option<ThreadStart>,
    thread: Mutex<Option<JoinHandle<()>>>,
    listener: Mutex<Listening>,
}

/// The listener and its queued input.
struct Listening {
    /// `None` during a call, and before the program has set one.
    listener: Option<Listener>,
    waiting: VecDeque<ClientEvent>,
}

/// A guard that puts the listener back when it is dropped, even after a panic.
struct ListenerCall<'w> {
    worker: &'w Worker,
    listener: Option<Listener>,
}

impl Drop for ListenerCall<'_> {
    fn drop(&mut self) {
        let mut listening = lock(&self.worker.listener);
        // The listener may have replaced itself during the call.
        if listening.listener.is_none() {
            listening.listener = self.listener.take();
        }
    }
}

impl Worker {
    pub(super) fn new(own_loop: Option<Loop>, thread_start: Option<ThreadStart>) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel();
        Arc::new(Self {
            queue: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            own_loop,
            thread_start,
            thread: Mutex::new(None),
            listener: Mutex::new(Listening {
                listener: None,
                waiting: VecDeque::new(),
            }),
        })
    }

    /// Replaces the listener.
    pub(super) fn set_listener(&self, listener: Listener) {
        let last = lock(&self.listener).listener.replace(listener);
        // The last listener may hold objects of the program, so it is dropped without the lock.
        drop(last);
    }

    /// Starts the thread if it does not run yet.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        if self.own_loop.is_some() {
            return Ok(());
        }
        let mut unstarted = lock(&self.receiver);
        let Some(receiver) = unstarted.take() else {
            return Ok(());
        };
        let named = thread::Builder::new().name("pmix-callbacks".to_owned());
        // If the thread cannot start, the receiver and its queue are put back.
        let handed = Arc::new(Mutex::new(Some(receiver)));
        let taken = Arc::clone(&handed);
        let start = self.thread_start.clone();
        let begun = named.stack_size(STACK_BYTES).spawn(move || {
            if let Some(start) = start {
                start.call();
            }
            let receiver = lock(&taken).take();
            if let Some(receiver) = receiver {
                run(&receiver);
            }
        });
        match begun {
            Ok(thread) => {
                *lock(&self.thread) = Some(thread);
                Ok(())
            }
            Err(error) => {
                *unstarted = lock(&handed).take();
                Err(Error::no_thread(
                    "cannot start a thread for callbacks",
                    error,
                ))
            }
        }
    }

    /// Queues a job. Returns `false` if the thread has ended.
    pub(crate) fn post(&self, job: Job) -> bool {
        self.send(Queued::Now(job))
    }

    /// Queues a job for a time. Returns `false` if the thread has ended.
    pub(crate) fn post_at(&self, time: Instant, job: Job) -> bool {
        self.send(Queued::At(time, job))
    }

    fn send(&self, queued: Queued) -> bool {
        let queue = lock(&self.queue);
        // The thread runs as long as the sending end exists.
        let refused = match queue.as_ref() {
            Some(queue) => {
                // The job is counted first, since the program's loop may take it as soon as it is queued.
                self.count(|num_queued| num_queued.fetch_add(1, Ordering::AcqRel));
                queue.send(queued).err().map(|refused| refused.0)
            }
            None => Some(queued),
        };
        drop(queue);
        self.wake();
        // A rejected job may hold objects of the program, whose drop may call the client. So it is dropped without a
        // lock.
        refused.is_none()
    }

    /// Changes the number of jobs queued for the program's own loop.
    fn count(&self, change: impl FnOnce(&AtomicUsize) -> usize) {
        if let Some(own_loop) = &self.own_loop {
            change(&own_loop.num_queued);
        }
    }

    /// Wakes the program's own loop, so that it makes callbacks and gets the next time.
    pub(crate) fn wake(&self) {
        if let Some(own_loop) = &self.own_loop {
            // The write fails if the counter is full; the descriptor is readable then as well.
            let _ = rustix::io::write(&own_loop.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Makes the due callbacks if there is no thread for them. Returns the time of the next timer.
    pub(crate) fn drive(&self, now: Instant) -> Option<Instant> {
        let own_loop = self.own_loop.as_ref()?;
        // The limit returns control to the program even if the server sends without end or a job queues itself again.
        let most = own_loop.num_queued.load(Ordering::Acquire).min(MOST_CALLS);
        self.call_back(now, most)
    }

    /// Runs at most `most` queued jobs, and the timers that are due. If jobs are left, the descriptor stays readable.
    fn call_back(&self, now: Instant, most: usize) -> Option<Instant> {
        let own_loop = self.own_loop.as_ref()?;
        let mut num_left = most;
        // A job queued from here on makes the descriptor readable again.
        let _ = rustix::io::read(&own_loop.wake, &mut [0; 8]);
        let own = thread::current().id();
        lock(&own_loop.by).push(own);
        loop {
            // Queued jobs precede timers, since a reply among them may make a timeout obsolete.
            let next = match num_left {
                0 => None,
                _ => lock(&self.receiver).as_ref().map(Receiver::try_recv),
            };
            if let Some(Ok(_)) = next {
                num_left -= 1;
                self.count(|num_queued| num_queued.fetch_sub(1, Ordering::AcqRel));
            }
            let job = match next {
                Some(Ok(Queued::Now(job))) => job,
                Some(Ok(Queued::At(time, job))) => {
                    lock(&own_loop.timers).add(time, job);
                    continue;
                }
                _ => match lock(&own_loop.timers).take(now) {
                    Some(job) => job,
                    None => break,
                },
            };
            call(job);
        }
        if own_loop.num_queued.load(Ordering::Acquire) > 0 {
            self.wake();
        }
        {
            let mut by = lock(&own_loop.by);
            if let Some(place) = by.iter().position(|other| *other == own) {
                by.swap_remove(place);
            }
        }
        lock(&own_loop.timers).next()
    }

    /// Returns `true` if the caller is in a callback.
    pub(crate) fn is_current(&self) -> bool {
        let own = thread::current().id();
        match &self.own_loop {
            Some(own_loop) => lock(&own_loop.by).contains(&own),
            None => {
                let thread = lock(&self.thread);
                { thread.as_ref() }.is_some_and(|thread| thread.thread().id() == own)
            }
        }
    }

    /// Calls the listener on the current thread. If the listener is in a call, possibly on this thread, the event is
    /// queued until it returns.
    pub(super) fn deliver(&self, event: ClientEvent) {
        lock(&self.listener).waiting.push_back(event);
        loop {
            let (event, listener) = {
                let mut listening = lock(&self.listener);
                if listening.listener.is_none() {
                    return;
                }
                let Some(event) = listening.waiting.pop_front() else {
                    return;
                };
                (event, listening.listener.take())
            };
            let mut called = ListenerCall {
                worker: self,
                listener,
            };
            if let Some(listener) = &mut called.listener {
                listener(event);
            }
        }
    }

    /// Queues a call of the listener, and starts the thread if necessary.
    pub(super) fn client_event(self: &Arc<Self>, event: ClientEvent) {
        if let Err(error) = self.begin() {
            tracing::warn!("an event is lost: {error}");
            return;
        }
        let worker = Arc::clone(self);
        self.post(Box::new(move || worker.deliver(event)));
    }

    /// Runs all queued calls and ends the thread.
    pub(crate) fn end(&self) {
        // No further job can be queued from here on.
        drop(lock(&self.queue).take());
        self.call_back(Instant::now(), usize::MAX);
        if let Some(own_loop) = &self.own_loop {
            // Timers may hold references to the client, so they are dropped without the lock.
            let timers = std::mem::take(&mut *lock(&own_loop.timers));
            drop(timers);
        }
        drop(lock(&self.receiver).take());
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the callbacks panicked");
        }
    }
}

fn run(receiver: &Receiver<Queued>) {
    let mut timers = Timers::default();
    let mut num_calls = 0_u64;
    loop {
        let left = { timers.next() }.map(|time| time.saturating_duration_since(Instant::now()));
        let next = match left {
            Some(left) => receiver.recv_timeout(left),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Queued::Now(job)) => {
                call(job);
                // A queue that is never empty must not delay timers without end.
                num_calls += 1;
                if num_calls.is_multiple_of(MOST_BEFORE_TIMERS)
                    && let Some(job) = timers.take(Instant::now())
                {
                    call(job);
                }
            }
            Ok(Queued::At(time, job)) => timers.add(time, job),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(job) = timers.take(Instant::now()) {
                    call(job);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn call(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a callback panicked");
    }
}
