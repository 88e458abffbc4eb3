// SPDX-License-Identifier: MIT OR Apache-2.0
//! The callback thread, which is started when it is first needed, or the queue of what the program's own
//! loop is to call.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

use super::lock;
use crate::{Error, ThreadStart};

pub(super) use super::ClientEvent;

/// The threads need little: what they call back may be a program's, so it is not less.
pub(super) const STACK_BYTES: usize = 512 << 10;

/// How much the program's own loop calls back before it goes on.
const MOST_CALLS: usize = 4096;

/// How many queued calls are made before one whose time has come.
const MOST_BEFORE_TIMERS: u64 = 64;

/// Something to be done by the thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// What is queued for the thread.
enum Due {
    Now(Job),
    At(Instant, Job),
}

/// Takes what comes unasked.
type Listener = Box<dyn FnMut(ClientEvent) + Send>;

/// Jobs that are due at a time, in the order of their times.
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

    /// When the next is due.
    fn next(&self) -> Option<Instant> {
        self.jobs.first_key_value().map(|((time, _), _)| *time)
    }

    /// Takes the next that is due by now.
    fn take(&mut self, now: Instant) -> Option<Job> {
        let first = self.jobs.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// What there is in place of a thread where the program's own loop calls back.
pub(super) struct Loop {
    /// An event descriptor of the system, readable while something is queued.
    wake: OwnedFd,
    /// The number of jobs that are queued.
    num_queued: AtomicUsize,
    timers: Mutex<Timers>,
    /// The threads that call back at the moment, one again for each call from a callback.
    by: Mutex<Vec<ThreadId>>,
}

impl Loop {
    pub(super) fn new(wake: OwnedFd) -> Self {
        Self {
            wake,
            num_queued: AtomicUsize::new(0),
            timers: Mutex::default(),
            by: Mutex::default(),
        }
    }
}

/// What calls back.
pub(super) struct Worker {
    queue: Mutex<Option<Sender<Due>>>,
    /// What is queued before the thread begins waits here, and all where there is no thread.
    due: Mutex<Option<Receiver<Due>>>,
    own_loop: Option<Loop>,
    /// The function that the thread calls first.
    thread_start: Option<ThreadStart>,
    thread: Mutex<Option<JoinHandle<()>>>,
    listener: Mutex<Listening>,
}

/// The listener, and what it has still to hear.
struct Listening {
    /// None while it is called.
    listener: Option<Listener>,
    waiting: VecDeque<ClientEvent>,
}

/// Puts the listener back, also where it panics.
struct Called<'w> {
    worker: &'w Worker,
    listener: Option<Listener>,
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        lock(&self.worker.listener).listener = self.listener.take();
    }
}

impl Worker {
    pub(super) fn new(
        listener: Listener,
        own_loop: Option<Loop>,
        thread_start: Option<ThreadStart>,
    ) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel();
        Arc::new(Self {
            queue: Mutex::new(Some(sender)),
            due: Mutex::new(Some(receiver)),
            own_loop,
            thread_start,
            thread: Mutex::new(None),
            listener: Mutex::new(Listening {
                listener: Some(listener),
                waiting: VecDeque::new(),
            }),
        })
    }

    /// Starts the thread if it has not begun.
    pub(super) fn begin(&self) -> Result<(), Error> {
        if self.own_loop.is_some() {
            return Ok(());
        }
        let mut due = lock(&self.due);
        let Some(receiver) = due.take() else {
            return Ok(());
        };
        let named = thread::Builder::new().name("pmix-callbacks".to_owned());
        // What is queued is not lost with a thread that does not begin.
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
                *due = lock(&handed).take();
                Err(Error::no_thread(
                    "cannot start a thread for callbacks",
                    error,
                ))
            }
        }
    }

    /// Has something done; tells whether it will be.
    pub(super) fn post(&self, job: Job) -> bool {
        self.send(Due::Now(job))
    }

    /// Queues a job for a time, before which the thread must not have ended. Returns `false` if the thread has ended.
    pub(super) fn post_at(&self, time: Instant, job: Job) -> bool {
        self.send(Due::At(time, job))
    }

    fn send(&self, due: Due) -> bool {
        let queue = lock(&self.queue);
        // The thread is there as long as the queue is.
        let refused = match queue.as_ref() {
            Some(queue) => {
                // A job is counted before a turn of the program's loop can take it.
                self.count(|num_queued| num_queued.fetch_add(1, Ordering::AcqRel));
                queue.send(due).err().map(|refused| refused.0)
            }
            None => Some(due),
        };
        drop(queue);
        self.wake();
        // What a refused one holds is dropped with no lock held: it may be the program's.
        refused.is_none()
    }

    /// Changes the number of jobs that are queued for the program's own loop.
    fn count(&self, change: impl FnOnce(&AtomicUsize) -> usize) {
        if let Some(own_loop) = &self.own_loop {
            change(&own_loop.num_queued);
        }
    }

    /// Has the program's own loop call back, and ask when to do so next.
    pub(super) fn wake(&self) {
        if let Some(own_loop) = &self.own_loop {
            // A full counter is readable, too.
            let _ = rustix::io::write(&own_loop.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Calls back what is due, where there is no thread for it, and says when something is due next.
    pub(super) fn drive(&self, now: Instant) -> Option<Instant> {
        let own_loop = self.own_loop.as_ref()?;
        // Neither a server that sends without end nor a job that queues itself again keeps the program.
        let most = own_loop.num_queued.load(Ordering::Acquire).min(MOST_CALLS);
        self.call_back(now, most)
    }

    /// Runs at most `most` of the queued jobs, and those whose time has come. The program's loop drives again for the
    /// others.
    fn call_back(&self, now: Instant, most: usize) -> Option<Instant> {
        let own_loop = self.own_loop.as_ref()?;
        let mut num_left = most;
        // What is queued from here on makes the descriptor readable again.
        let _ = rustix::io::read(&own_loop.wake, &mut [0; 8]);
        let own = thread::current().id();
        lock(&own_loop.by).push(own);
        loop {
            // What is queued comes first: it may be what ends the wait of a timer.
            let come = match num_left {
                0 => None,
                _ => lock(&self.due).as_ref().map(Receiver::try_recv),
            };
            if let Some(Ok(_)) = come {
                num_left -= 1;
                self.count(|num_queued| num_queued.fetch_sub(1, Ordering::AcqRel));
            }
            let job = match come {
                Some(Ok(Due::Now(job))) => job,
                Some(Ok(Due::At(time, job))) => {
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

    /// Whether the caller is called back.
    pub(super) fn is_current(&self) -> bool {
        let own = thread::current().id();
        match &self.own_loop {
            Some(own_loop) => lock(&own_loop.by).contains(&own),
            None => {
                let thread = lock(&self.thread);
                { thread.as_ref() }.is_some_and(|thread| thread.thread().id() == own)
            }
        }
    }

    /// Calls the listener; the caller is the thread. A listener that is being called, which may be by
    /// this thread, hears it when it returns.
    pub(super) fn tell(&self, event: ClientEvent) {
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
            let mut called = Called {
                worker: self,
                listener,
            };
            if let Some(listener) = &mut called.listener {
                listener(event);
            }
        }
    }

    /// Queues a call of the listener, on the thread that this starts if nothing else has.
    pub(super) fn client_event(self: &Arc<Self>, event: ClientEvent) {
        if let Err(error) = self.begin() {
            tracing::warn!("an event is lost: {error}");
            return;
        }
        let worker = Arc::clone(self);
        self.post(Box::new(move || worker.tell(event)));
    }

    /// Runs all queued calls and ends the thread.
    pub(super) fn end(&self) {
        // Nothing is queued behind what is called last.
        drop(lock(&self.queue).take());
        self.call_back(Instant::now(), usize::MAX);
        if let Some(own_loop) = &self.own_loop {
            // What waits for its time holds the client.
            let timers = std::mem::take(&mut *lock(&own_loop.timers));
            drop(timers);
        }
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
    let mut timers = Timers::default();
    let mut num_calls = 0_u64;
    loop {
        let left = { timers.next() }.map(|time| time.saturating_duration_since(Instant::now()));
        let come = match left {
            Some(left) => due.recv_timeout(left),
            None => due.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match come {
            Ok(Due::Now(job)) => {
                call(job);
                // What is queued without end does not keep a time from coming.
                num_calls += 1;
                if num_calls.is_multiple_of(MOST_BEFORE_TIMERS)
                    && let Some(job) = timers.take(Instant::now())
                {
                    call(job);
                }
            }
            Ok(Due::At(time, job)) => timers.add(time, job),
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
