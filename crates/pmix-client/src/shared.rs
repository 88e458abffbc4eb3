// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a client that its clones and threads share: the core behind one lock, the socket, and the threads that
//! read and call back.

mod channel;
mod decision;
mod reply;
mod sending;
mod state;
mod worker;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmix_proto::{Event, PeerForm};
use pmix_types::{Info, Key, Proc, Text, Value};

use crate::core::{Core, Forwarded, result_of};
use crate::get::missing;
use crate::known::{Found, Known};
use crate::socket::Socket;
use crate::{Error, Settings};

pub use self::decision::GroupDecision;
pub(crate) use self::reply::{ReplyReceiver, event_descriptor, no_descriptor};
use self::state::State;
pub(crate) use self::state::{Outcome, Slot};
pub(crate) use self::worker::Loop;
use self::worker::{Job, Listener, Worker};

/// Unsolicited input: an event, a question, output, or the loss of the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// An event.
    Event(Event<'static>),
    /// An event with a question. A process does not take part in a group that this process leads, or the leader of its
    /// group is lost. The [`GroupDecision`] takes the decision. If it is dropped, the group is formed without the
    /// process if `PMIX_GROUP_OPTIONAL` was given, and is aborted otherwise.
    Group(Event<'static>, GroupDecision),
    /// Output that this process pulls.
    Output(Forwarded),
    /// The loss of the server; every later call fails.
    Lost,
}

/// The part that clones and threads share: the core behind one lock, the local data, and the threads that read and call
/// back.
pub(crate) struct Shared {
    /// A reference for jobs that run later.
    own: Weak<Self>,
    /// The id of the process that connected.
    process: u32,
    /// The connection; `None` for a client that never had a server.
    pub(crate) socket: Option<Socket>,
    state: Mutex<State>,
    /// Signaled when a thread stops reading, if there is a reader thread or the connection is being closed.
    free: Condvar,
    /// Signaled when a thread stops sending.
    sent: Condvar,
    /// Signaled for the threads that wait for an event.
    arrived: Arc<Condvar>,
    /// The read buffer of the thread that reads.
    buffer: Mutex<Box<[u8]>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) known: Arc<Known>,
    pub(crate) settings: Settings,
    pub(crate) form: PeerForm,
    /// Held until the server has acknowledged a commit. Another thread that commits then knows if its puts were stored.
    pub(crate) commits: Mutex<()>,
    /// The descriptor that is readable when the program's own loop has work; `None` if threads read.
    pub(crate) ready: Option<OwnedFd>,
}

impl Shared {
    /// Creates the shared part from a core whose init is complete. The program's own loop has a descriptor.
    pub(crate) fn new(
        core: Core,
        socket: Option<Socket>,
        buffer: Box<[u8]>,
        own_loop: Option<(Loop, OwnedFd)>,
    ) -> Arc<Self> {
        let thread_start = core.settings().thread_start.clone();
        let (own_loop, ready) = own_loop.unzip();
        Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            process: std::process::id(),
            socket,
            free: Condvar::new(),
            sent: Condvar::new(),
            arrived: Arc::default(),
            buffer: Mutex::new(buffer),
            thread: Mutex::new(None),
            worker: Worker::new(own_loop, thread_start),
            known: Arc::clone(core.known_data()),
            settings: core.settings().clone(),
            form: *core.form(),
            commits: Mutex::new(()),
            state: Mutex::new(State::new(core)),
            ready,
        })
    }

    /// Returns the end of the time limit of a call, which may have none of its own.
    pub(crate) fn end(&self, limit: Option<Duration>) -> Option<Instant> {
        end_after(limit.or(self.settings.time_limit))
    }

    /// Searches the local data for the value of a key.
    pub(crate) fn find(&self, proc: &Proc<'_>, key: &Key<'_>, infos: &[Info<'_>]) -> Found {
        let Some(name) = key.as_text().as_str() else {
            return Found::Known(Err(missing(proc, &key.to_string())));
        };
        self.known.search(proc, name, infos)
    }

    /// Gets the value of a key and waits for it.
    pub(crate) fn get(&self, proc: &Proc<'_>, key: &str) -> Result<Value<'static>, Error> {
        match self.known.search(proc, key, &[]) {
            Found::Known(known) => known,
            Found::AskServer(call) => {
                result_of(self.wait(self.end(None), |core, end| core.begin_call(*call, end)))
            }
        }
    }

    /// Passes unsolicited input to a function. Input that has arrived before is passed first.
    pub(crate) fn set_listener(&self, listener: Listener) {
        self.worker.set_listener(listener);
        self.change(None, |state| state.has_listener = true);
    }

    /// Runs a function on the callback thread.
    pub(crate) fn later(&self, job: Job) -> Result<(), Error> {
        self.worker.begin()?;
        match self.worker.post(job) {
            true => Ok(()),
            false => Err(state::gone()),
        }
    }

    /// Runs a function on the callback thread at a time.
    pub(crate) fn later_at(&self, time: Instant, job: Job) -> Result<(), Error> {
        self.worker.begin()?;
        match self.worker.post_at(time, job) {
            true => Ok(()),
            false => Err(state::gone()),
        }
    }

    /// Returns the number of events and pieces of output dropped because the queue was full.
    pub(crate) fn num_lost_events(&self) -> u64 {
        lock(&self.state).core.num_lost_events()
    }

    /// Returns the leader of the last unanswered invitation to a group.
    pub(crate) fn invited_by(&self, name: &Text<'_>) -> Result<Proc<'static>, Error> {
        lock(&self.state).core.leader_of(name, None)
    }

    /// Aborts the invitation to a group, or the wait for a group that this process joins. Returns `true` if there is
    /// one.
    pub(crate) fn abort_group(&self, name: &Text<'_>) -> bool {
        let now = Instant::now();
        self.change(None, |state| state.core.abort_group(name, now))
    }

    /// Closes the connection and ends the threads. All due callbacks have been called when it returns.
    pub(crate) fn close(&self) {
        self.close_connection();
        self.worker.end();
    }
}

/// The time for which a read waits for input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Patience {
    None,
    Until(Instant),
    Unlimited,
}

/// Returns `true` if there is a time limit and it has passed.
fn has_passed(end: Option<Instant>) -> bool {
    end.is_some_and(|end| end <= Instant::now())
}

/// Returns the end of a time limit. Limits beyond the range of the clock are none.
fn end_after(limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| Instant::now().checked_add(limit))
}

/// Locks a mutex even after a panic of its holder: no holder leaves the data inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
