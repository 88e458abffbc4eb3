// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine shared by the progress thread and the callers of [`Server`](crate::Server); every call locks it.
//!
//! Callers pass their requests to the engine under the lock. Writing to sockets and calling the host is left
//! to the progress thread, which is woken only if there is work for it. Registering a job and its processes
//! therefore wakes no thread. A host can call the server from one of its methods, because the progress thread
//! holds the lock only while the engine works.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mio::Waker;
use pmix_engine::{
    CallId, DirectModexId, Engine, EngineEvent, HostCall, HostReply, PeerId, Transmit, Verified,
};
use pmix_proto::PeerForm;
use pmix_types::{Proc, Status};

use crate::Error;
use crate::shared::SharedTables;

/// The callback for the data of a direct modex request of the host.
pub(crate) type ModexCallback = Box<dyn FnOnce(Result<Vec<u8>, Status>) + Send>;

/// The engine, and the work that calls left to the progress thread.
pub(crate) struct EngineHandle {
    core: Mutex<Core>,
    waker: Waker,
    /// `true` while the progress thread waits or is about to wait. The caller that clears it must wake the
    /// thread.
    waits: AtomicBool,
    /// The connections to hand to the host once their processes wait for no reply, and their number.
    requested: Mutex<Vec<RequestedConnection>>,
    num_requested: AtomicUsize,
    /// `true` if a connection was requested since the progress thread last began to wait; the client may
    /// already be connected.
    has_new_request: AtomicBool,
}

/// A connection to hand to the host, with the callback that takes it.
pub(crate) struct RequestedConnection {
    pub(crate) proc: Proc<'static>,
    pub(crate) take: Taker,
}

/// The callback that takes a connection from the server.
pub(crate) type Taker = Box<dyn FnOnce(TcpStream, PeerForm) + Send>;

struct Core {
    state: State,
    work: Work,
    shared: Arc<SharedTables>,
    modexes: HashMap<DirectModexId, ModexCallback>,
    /// The latest time passed to the engine. Calls of several threads are not ordered, but the engine's time
    /// must never go back.
    clock: Instant,
    /// The time at which the progress thread wakes without a notification.
    wakes_at: Option<Instant>,
}

enum State {
    /// The server has not been started.
    New(Engine),
    Running(Engine),
    Finalized,
}

/// The next step of the progress thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Wait for events, at most until this time.
    Until(Option<Instant>),
    /// There is work to do first.
    Not,
    /// The server is finalized.
    Over,
}

/// The work outside the lock, in this order.
#[derive(Default)]
pub(crate) struct Work {
    /// The bytes to write.
    pub(crate) transmits: VecDeque<Transmit>,
    /// The calls of the host to make.
    pub(crate) calls: VecDeque<HostCall>,
    /// Results of direct modex requests of the host.
    pub(crate) modexes: VecDeque<(ModexCallback, Result<Vec<u8>, Status>)>,
    /// Other events.
    pub(crate) events: VecDeque<EngineEvent>,
    /// Connections that the host made, to be polled.
    pub(crate) given: Vec<NewConnection>,
}

/// A connection that the host made, with its name in the engine.
pub(crate) struct NewConnection {
    pub(crate) peer: PeerId,
    pub(crate) stream: TcpStream,
    pub(crate) from: SocketAddr,
    pub(crate) uid: u32,
}

impl Work {
    pub(crate) fn is_empty(&self) -> bool {
        self.transmits.is_empty()
            && self.calls.is_empty()
            && self.modexes.is_empty()
            && self.events.is_empty()
            && self.given.is_empty()
    }
}

impl EngineHandle {
    pub(crate) fn new(engine: Engine, waker: Waker, shared: Arc<SharedTables>) -> Self {
        let core = Core {
            state: State::New(engine),
            work: Work::default(),
            shared,
            modexes: HashMap::new(),
            clock: Instant::now(),
            wakes_at: None,
        };
        Self {
            core: Mutex::new(core),
            waker,
            // The progress thread does not run yet; a notification before its first turn must not be lost.
            waits: AtomicBool::new(true),
            requested: Mutex::default(),
            num_requested: AtomicUsize::new(0),
            has_new_request: AtomicBool::new(false),
        }
    }

    /// Requests that a connection is handed to the host when its process has its job info and waits for no reply.
    pub(crate) fn request_connection(&self, requested: RequestedConnection) {
        let mut all = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(requested);
        self.num_requested.store(all.len(), Ordering::SeqCst);
        drop(all);
        // The entry is there before the flag, so a thread that sees the flag finds the entry.
        self.has_new_request.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Removes and returns the requested connections for which `find` returns a value, with their callbacks.
    pub(crate) fn take_requested<T>(
        &self,
        mut find: impl FnMut(&Proc<'static>) -> Option<T>,
    ) -> Vec<(T, Taker)> {
        // Without a request, the usual case, no lock is taken.
        if self.num_requested.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut all = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        for requested in std::mem::take(&mut *all) {
            match find(&requested.proc) {
                Some(found) => taken.push((found, requested.take)),
                None => all.push(requested),
            }
        }
        self.num_requested.store(all.len(), Ordering::SeqCst);
        taken
    }

    /// Drops the requested connections of jobs that were deregistered.
    pub(crate) fn drop_requested(&self, is_gone: impl Fn(&Proc<'static>) -> bool) {
        let mut all = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (gone, left) = std::mem::take(&mut *all)
            .into_iter()
            .partition(|requested| is_gone(&requested.proc));
        *all = left;
        self.num_requested.store(all.len(), Ordering::SeqCst);
        drop(all);
        // The callbacks are code of the host, which may call the server, so they are dropped outside the lock.
        drop::<Vec<RequestedConnection>>(gone);
    }

    /// Starts the service.
    pub(crate) fn start(&self) {
        let mut core = self.lock();
        let state = std::mem::replace(&mut core.state, State::Finalized);
        core.state = match state {
            State::New(engine) => State::Running(engine),
            other => other,
        };
    }

    /// Stops the service.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if it was stopped before.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let mut core = self.lock();
        let state = std::mem::replace(&mut core.state, State::Finalized);
        let left = std::mem::take(&mut core.modexes);
        // No change reaches the tables any more, so clients must not find them.
        core.shared.close_all();
        drop(core);
        if matches!(state, State::Finalized) {
            return Err(finalized());
        }
        // Pending callbacks run code of the host when dropped, so they are dropped outside the lock.
        drop(left);
        self.drop_requested(|_| true);
        self.wake();
        Ok(())
    }

    /// Calls the engine for the host.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, otherwise the error of `request`.
    pub(crate) fn request<R, E: Into<Error>>(
        &self,
        request: impl FnOnce(&mut Engine, Instant) -> Result<R, E>,
    ) -> Result<R, Error> {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        let engine = core.engine()?;
        // Timeouts of the request start now, not at the time of the last event.
        engine.handle_timeout(now);
        let result = request(engine, now).map_err(Into::into);
        self.release(core);
        result
    }

    /// Calls the engine like [`Self::request`], for the data of a process. `callback` gets them later.
    ///
    /// # Errors
    /// Returns the errors of [`Self::request`].
    pub(crate) fn request_modex<E: Into<Error>>(
        &self,
        request: impl FnOnce(&mut Engine, Instant) -> Result<DirectModexId, E>,
        callback: ModexCallback,
    ) -> Result<(), Error> {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        let id = request(core.engine()?, now).map_err(Into::into)?;
        // The data may be there already. `release` matches them with the callback.
        core.modexes.insert(id, callback);
        self.release(core);
        Ok(())
    }

    /// Adds a connection, which `request` announces to the engine. The progress thread receives it before any
    /// output for it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::request`].
    pub(crate) fn give(
        &self,
        request: impl FnOnce(&mut Engine, Instant) -> Result<NewConnection, Error>,
    ) -> Result<(), Error> {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        let given = request(core.engine()?, now)?;
        core.work.given.push(given);
        self.release(core);
        Ok(())
    }

    /// Passes the reply of the host to the engine.
    pub(crate) fn reply(&self, call: CallId, reply: HostReply) {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        if let State::Running(engine) = &mut core.state {
            engine.handle_host(call, reply, now);
        }
        self.release(core);
    }

    /// Passes the result of a security module about the credential of a peer to the engine.
    pub(crate) fn verified(&self, peer: PeerId, verified: Result<Verified, pmix_engine::Error>) {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        if let State::Running(engine) = &mut core.state {
            engine.handle_verified(peer, verified, now);
        }
        self.release(core);
    }

    /// Passes input to the engine, and moves the resulting work to `work`. Returns `false` if the server is finalized,
    /// so no further work follows.
    pub(crate) fn progress(
        &self,
        now: Instant,
        input: impl FnOnce(&mut Engine, Instant),
        work: &mut Work,
    ) -> bool {
        let mut core = self.lock();
        let now = core.at(now);
        let serves = match &mut core.state {
            State::Running(engine) => {
                input(engine, now);
                true
            }
            _ => false,
        };
        core.settle();
        // Both are empty at this point; swapping reuses their memory.
        std::mem::swap(&mut core.work, work);
        serves
    }

    /// Records that the progress thread is about to wait. Returns its next step.
    pub(crate) fn begin_wait(&self) -> Wait {
        // The flag is set before the work is checked. A caller that adds work after the check sees the flag and wakes
        // the thread.
        self.waits.store(true, Ordering::SeqCst);
        let has_new_request = self.has_new_request.swap(false, Ordering::SeqCst);
        let mut core = self.lock();
        core.settle();
        let State::Running(engine) = &core.state else {
            return match core.state {
                State::Finalized => Wait::Over,
                _ => Wait::Until(None),
            };
        };
        core.wakes_at = engine.poll_timeout();
        if core.work.is_empty() && !has_new_request {
            Wait::Until(core.wakes_at)
        } else {
            Wait::Not
        }
    }

    /// Records that the progress thread has stopped waiting.
    pub(crate) fn end_wait(&self) {
        self.waits.store(false, Ordering::SeqCst);
    }

    /// Wakes the progress thread, if it waits.
    pub(crate) fn wake(&self) {
        // Of several callers, only the first one writes to the waker.
        if self.waits.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake the progress thread");
        }
    }

    /// Releases the lock, and wakes the progress thread if there is work for it.
    fn release(&self, mut core: MutexGuard<'_, Core>) {
        core.settle();
        let timeout = match &core.state {
            State::Running(engine) => engine.poll_timeout(),
            _ => None,
        };
        // The progress thread reads the next time limit only before it waits, so an earlier one must wake it.
        let earlier = match (timeout, core.wakes_at) {
            (Some(new), Some(known)) => new < known,
            (new, None) => new.is_some(),
            (None, _) => false,
        };
        let wake = earlier || !core.work.is_empty();
        // The lock is released first, so that the woken thread does not block on it.
        drop(core);
        if wake {
            self.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Returns a time for the engine that is never earlier than a previous one.
    fn at(&mut self, now: Instant) -> Instant {
        self.clock = self.clock.max(now);
        self.clock
    }

    fn engine(&mut self) -> Result<&mut Engine, Error> {
        match &mut self.state {
            State::Running(engine) => Ok(engine),
            State::New(_) => Err(Error::new(Status::ERR_INIT, "the server is not started")),
            State::Finalized => Err(finalized()),
        }
    }

    /// Moves the messages, upcalls and events of the engine to the pending work.
    fn settle(&mut self) {
        let State::Running(engine) = &mut self.state else {
            return;
        };
        let work = &mut self.work;
        // Shared memory is updated first, so that no client receives data that contradicts it.
        self.shared.apply(engine);
        work.transmits
            .extend(std::iter::from_fn(|| engine.poll_transmit()));
        work.calls
            .extend(std::iter::from_fn(|| engine.poll_host_call()));
        while let Some(event) = engine.poll_event() {
            let EngineEvent::DirectModex { request, result } = event else {
                work.events.push_back(event);
                continue;
            };
            if let Some(callback) = self.modexes.remove(&request) {
                work.modexes.push_back((callback, result));
            }
        }
    }
}

fn finalized() -> Error {
    Error::new(Status::ERR_INIT, "the server is finalized")
}
