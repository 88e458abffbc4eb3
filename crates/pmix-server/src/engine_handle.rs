// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares one engine between the progress thread and the callers of [`Server`](crate::Server);
//! every call locks it.
//!
//! Callers hand their requests to the engine themselves, under the lock; what follows from them,
//! writing to sockets and calling the host, is left for the progress thread, which is woken only if
//! there is something for it. So registering a job and its processes wakes nobody, and a host that
//! calls the server from one of its methods is not in its own way: the progress thread holds the
//! lock only while the engine works.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mio::Waker;
use pmix_engine::{
    Answer, CallId, DirectModexId, Engine, EngineEvent, HostCall, PeerId, Transmit, Verified,
};
use pmix_proto::PeerForm;
use pmix_types::{Proc, Status};

use crate::Error;
use crate::shared::SharedTables;

/// Takes the data of a direct modex request of the host.
pub(crate) type ModexCallback = Box<dyn FnOnce(Result<Vec<u8>, Status>) + Send>;

/// Shares the engine, and holds the work that it left to the progress thread.
pub(crate) struct EngineHandle {
    core: Mutex<Core>,
    waker: Waker,
    /// The progress thread waits, or is about to; whoever clears it wakes it.
    waits: AtomicBool,
    /// The connections that are to be handed to the host when their processes wait for nothing, and how many there are.
    wanted: Mutex<Vec<Wanted>>,
    num_wanted: AtomicUsize,
    /// Whether one was asked for since the progress thread began to wait last: it may be there by now.
    has_new_wanted: AtomicBool,
}

/// A connection that is to be handed to the host, and what takes it.
pub(crate) struct Wanted {
    pub(crate) proc: Proc<'static>,
    pub(crate) take: Taker,
}

/// Takes a connection that the server gave up.
pub(crate) type Taker = Box<dyn FnOnce(TcpStream, PeerForm) + Send>;

struct Core {
    state: State,
    work: Work,
    shared: Arc<SharedTables>,
    modexes: HashMap<DirectModexId, ModexCallback>,
    /// The latest time that the engine was told: callers of several threads come in any order, and
    /// its time never goes back.
    clock: Instant,
    /// When the progress thread wakes by itself.
    wakes_at: Option<Instant>,
}

enum State {
    /// Not started yet.
    New(Engine),
    Running(Engine),
    Finalized,
}

/// Says whether the progress thread may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Wait for news, at most until then.
    Until(Option<Instant>),
    /// There is work to do first.
    Not,
    /// The server is finalized.
    Over,
}

/// Holds the work to do outside the lock, in this order.
#[derive(Default)]
pub(crate) struct Work {
    /// Bytes to write.
    pub(crate) transmits: VecDeque<Transmit>,
    /// Calls to make.
    pub(crate) calls: VecDeque<HostCall>,
    /// Data that the host asked for.
    pub(crate) modexes: VecDeque<(ModexCallback, Result<Vec<u8>, Status>)>,
    /// What else happened.
    pub(crate) events: VecDeque<EngineEvent>,
    /// Connections that the host made, to be watched.
    pub(crate) given: Vec<Given>,
}

/// A connection that the host made, with the name that the engine gave it.
pub(crate) struct Given {
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
            // Nobody turns yet: news before the first turn are to be noticed too.
            waits: AtomicBool::new(true),
            wanted: Mutex::default(),
            num_wanted: AtomicUsize::new(0),
            has_new_wanted: AtomicBool::new(false),
        }
    }

    /// Has a connection handed to the host when its process has its job info and waits for nothing.
    pub(crate) fn want(&self, wanted: Wanted) {
        let mut all = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(wanted);
        self.num_wanted.store(all.len(), Ordering::SeqCst);
        drop(all);
        self.has_new_wanted.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Removes and returns the wanted connections that `find` finds, with what takes each.
    pub(crate) fn take_wanted<T>(
        &self,
        mut find: impl FnMut(&Proc<'static>) -> Option<T>,
    ) -> Vec<(T, Taker)> {
        if self.num_wanted.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut all = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        for wanted in std::mem::take(&mut *all) {
            match find(&wanted.proc) {
                Some(found) => taken.push((found, wanted.take)),
                None => all.push(wanted),
            }
        }
        self.num_wanted.store(all.len(), Ordering::SeqCst);
        taken
    }

    /// Forgets what was wanted of a job that is gone.
    pub(crate) fn forget_wanted(&self, is_gone: impl Fn(&Proc<'static>) -> bool) {
        let mut all = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let (gone, left) = std::mem::take(&mut *all)
            .into_iter()
            .partition(|wanted| is_gone(&wanted.proc));
        *all = left;
        self.num_wanted.store(all.len(), Ordering::SeqCst);
        drop(all);
        // What takes them is code of the host, and dropped outside the lock.
        drop::<Vec<Wanted>>(gone);
    }

    /// From now on requests are served.
    pub(crate) fn start(&self) {
        let mut core = self.lock();
        let state = std::mem::replace(&mut core.state, State::Finalized);
        core.state = match state {
            State::New(engine) => State::Running(engine),
            other => other,
        };
    }

    /// From now on nothing is served.
    ///
    /// # Errors
    /// `PMIX_ERR_INIT` if that is so already.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let mut core = self.lock();
        let state = std::mem::replace(&mut core.state, State::Finalized);
        let left = std::mem::take(&mut core.modexes);
        core.shared.close_all();
        drop(core);
        if matches!(state, State::Finalized) {
            return Err(finalized());
        }
        // What the host waits for is code of the host, and dropped outside the lock.
        drop(left);
        self.forget_wanted(|_| true);
        self.wake();
        Ok(())
    }

    /// Lets the engine do something for the host.
    ///
    /// # Errors
    /// `PMIX_ERR_INIT` if the server is not started or finalised; what `request` says.
    pub(crate) fn request<R, E: Into<Error>>(
        &self,
        request: impl FnOnce(&mut Engine, Instant) -> Result<R, E>,
    ) -> Result<R, Error> {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        let engine = core.engine()?;
        // What follows from the request happens now, not when something happened last.
        engine.handle_timeout(now);
        let result = request(engine, now).map_err(Into::into);
        self.release(core);
        result
    }

    /// As [`Self::request`], for the data of a process, which come later.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(crate) fn request_modex<E: Into<Error>>(
        &self,
        request: impl FnOnce(&mut Engine, Instant) -> Result<DirectModexId, E>,
        callback: ModexCallback,
    ) -> Result<(), Error> {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        let id = request(core.engine()?, now).map_err(Into::into)?;
        core.modexes.insert(id, callback);
        self.release(core);
        Ok(())
    }

    /// Adds a connection, which the engine is told of by `request`. The progress thread has it before it has anything to
    /// write there.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(crate) fn give(
        &self,
        request: impl FnOnce(&mut Engine, Instant) -> Result<Given, Error>,
    ) -> Result<(), Error> {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        let given = request(core.engine()?, now)?;
        core.work.given.push(given);
        self.release(core);
        Ok(())
    }

    /// Hands the engine an answer of the host.
    pub(crate) fn answer(&self, call: CallId, answer: Answer) {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        if let State::Running(engine) = &mut core.state {
            engine.handle_host(call, answer, now);
        }
        self.release(core);
    }

    /// Hands the engine what a security module says of the credential of a peer.
    pub(crate) fn verified(&self, peer: PeerId, answer: Result<Verified, pmix_engine::Error>) {
        let mut core = self.lock();
        let now = core.at(Instant::now());
        if let State::Running(engine) = &mut core.state {
            engine.handle_verified(peer, answer, now);
        }
        self.release(core);
    }

    /// Lets the engine take what the progress thread has for it, and hands over what is left to
    /// do. False if the server is finalised: nothing new comes of it then.
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
        // Both are empty or emptied by now; their memory is used again.
        std::mem::swap(&mut core.work, work);
        serves
    }

    /// Says that the progress thread is about to wait: whether it may, and until when.
    pub(crate) fn begin_wait(&self) -> Wait {
        self.waits.store(true, Ordering::SeqCst);
        let has_new_wanted = self.has_new_wanted.swap(false, Ordering::SeqCst);
        let mut core = self.lock();
        core.settle();
        let State::Running(engine) = &core.state else {
            return match core.state {
                State::Finalized => Wait::Over,
                _ => Wait::Until(None),
            };
        };
        core.wakes_at = engine.poll_timeout();
        if core.work.is_empty() && !has_new_wanted {
            Wait::Until(core.wakes_at)
        } else {
            Wait::Not
        }
    }

    /// Says that the progress thread does not wait any longer.
    pub(crate) fn end_wait(&self) {
        self.waits.store(false, Ordering::SeqCst);
    }

    /// Wakes the progress thread, if it waits.
    pub(crate) fn wake(&self) {
        if self.waits.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "the progress thread cannot be woken");
        }
    }

    /// Unlocks, and wakes the progress thread if there is something for it.
    fn release(&self, mut core: MutexGuard<'_, Core>) {
        core.settle();
        let timeout = match &core.state {
            State::Running(engine) => engine.poll_timeout(),
            _ => None,
        };
        let earlier = match (timeout, core.wakes_at) {
            (Some(new), Some(known)) => new < known,
            (new, None) => new.is_some(),
            (None, _) => false,
        };
        let wake = earlier || !core.work.is_empty();
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
    /// A time for the engine, and never an earlier one afterwards.
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

    /// Moves what the engine has to give out to the work to be done.
    fn settle(&mut self) {
        let State::Running(engine) = &mut self.state else {
            return;
        };
        let work = &mut self.work;
        // Nobody is sent anything that contradicts what is shared.
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
    Error::new(Status::ERR_INIT, "the server is finalised")
}
