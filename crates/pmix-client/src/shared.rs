// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client for many threads: each waits for its own reply, or gives a callback.
//!
//! Source: PMIx Standard, the functions whose names end in `_nb`, in the chapter of each.

mod channel;
mod groups;
mod sending;
mod state;
mod worker;

use std::net::TcpStream;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmix_proto::{Event, Request};
use pmix_types::{Info, Key, Proc, Rank, Scope, Status, Value, keys};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

use crate::ask::{Ask, Found, taken};
use crate::cache::JobCache;
use crate::core::{Core, Forwarded};
use crate::get::{is_directive, missing};
use crate::known::Known;
use crate::socket::Socket;
use crate::{Client, Error, Settings};

pub use groups::GroupDecision;
use state::{Slot, State, gone};
use worker::{Loop, Worker};

/// Holds what happens to a client unasked: an event, or the loss of its server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// An event.
    Event(Event<'static>),
    /// A process that was invited to a group of this one declined or was lost, or the leader of a group
    /// that this one joins was lost. The [`GroupDecision`] takes the program's decision; if it is dropped, the
    /// group is formed without the process where `PMIX_GROUP_OPTIONAL` was given, and is given up otherwise.
    Group(Event<'static>, GroupDecision),
    /// Output of another process, which this one pulls.
    Output(Forwarded),
    /// The server was lost; every call fails from now on.
    Lost,
}

/// Connects a process with its server, for many threads at once. Clones are handles of the same
/// one.
///
/// A thread that waits for an answer reads what the server sends and hands the answers of others to
/// them, so nobody waits for the answer of another. From the first call with a callback, registration
/// for events or pull of output on, a thread of the client reads ([`listen`](Self::listen)). What has to
/// be called back is called by another thread, which begins with the first such call: a callback may
/// call the client and wait.
///
/// When the last handle is dropped the connection ends, as if the process had ended without
/// [`finalize`](Self::finalize). Callbacks that wait are called with an error, unless the program's own loop
/// calls back, and then what they and the listener hold is dropped.
#[derive(Clone)]
pub struct SharedClient(Arc<Handles>);

/// What the program's handles have in common, which the threads of the client do not have.
struct Handles(Arc<Shared>);

impl Deref for Handles {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What all handles share: the core of the connection behind one lock, what is known beside it, and the
/// threads that read and call back.
struct Shared {
    /// For what the threads do later.
    own: Weak<Self>,
    /// The process that connected.
    process: u32,
    socket: Socket,
    state: Mutex<State>,
    /// Told when nobody reads any longer, while there is a thread for it or this end closes.
    free: Condvar,
    /// Told when nobody sends any longer.
    sent: Condvar,
    /// What was read last; for the thread that reads.
    buffer: Mutex<Box<[u8]>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    worker: Arc<Worker>,
    known: Arc<Known>,
    settings: Settings,
    /// Held until the server has answered a commit: whoever else commits learns then whether its puts were stored.
    commits: Mutex<()>,
    /// Whether the program's own loop reads in place of a thread.
    is_driven: bool,
    /// Readable when there is something to do for the program's own loop.
    ready: OnceLock<OwnedFd>,
}

/// Where an answer comes, and what is readable then if it may be the program's own loop that brings it.
type Receiver<T> = (mpsc::Receiver<T>, Option<Arc<OwnedFd>>);

/// Hands an answer to the thread that waits for it. It may be another that calls back.
struct Sender<T> {
    answer: Option<mpsc::SyncSender<T>>,
    answered: Option<Arc<OwnedFd>>,
}

impl<T> Sender<T> {
    fn send(self, answer: T) {
        if let Some(sender) = &self.answer {
            // Who asked is there until the answer is.
            let _ = sender.send(answer);
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.answer = None;
        if let Some(answered) = &self.answered {
            let _ = rustix::io::write(answered, &1_u64.to_ne_bytes());
        }
    }
}

impl SharedClient {
    /// Connects to a server and asks it for the job info (`PMIx_Init`). The callback thread hands
    /// unasked messages to `listener`. That the server is lost is noticed by the next call, or at once
    /// where a thread reads ([`listen`](Self::listen)).
    ///
    /// # Errors
    ///
    /// As [`Client::init`].
    pub fn init(
        settings: Settings,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        Self::begin(settings, listener, None)
    }

    /// Makes a launcher the server of this process, which is its tool, over the connection that the launcher made with
    /// it ([`ToolConnection`](crate::ToolConnection) is the launcher's side). The launcher awaits no replies on it any
    /// more. `settings` name the launcher as the server, and this process; `layout` is what the launcher's hello said,
    /// `server_version` the `PMIX_VERSION` in the launcher's environment. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The socket cannot be used; `PMIX_ERR_BAD_PARAM` for settings without a server.
    pub fn with_launcher(
        settings: Settings,
        stream: TcpStream,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        let core = Core::with_launcher(settings)?;
        Self::around(core, Socket::Server(stream), listener, None)
    }

    /// Connects as [`init`](Self::init) does, for a program with a loop of its own
    /// (`PMIX_EXTERNAL_PROGRESS`): no thread is ever started. The program waits until
    /// [`fd`](AsFd::as_fd) is readable or the time that [`drive`](Self::drive) returned has come, and
    /// calls `drive`, which hands out what came: `listener` and all callbacks are called from there.
    /// Calls that wait may be made, too.
    ///
    /// # Errors
    ///
    /// As [`Client::init`]; the system has no descriptor for it.
    pub fn init_driven(
        settings: Settings,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        let no_fd = |error: Errno| Error::lost("cannot create an event descriptor", error.into());
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(no_fd)?;
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_fd)?;
        let watch = |fd: BorrowedFd<'_>| {
            epoll::add(
                &ready,
                fd,
                epoll::EventData::new_u64(0),
                epoll::EventFlags::IN,
            )
        };
        watch(wake.as_fd()).map_err(no_fd)?;
        let client = Self::begin(settings, listener, Some(Loop::new(wake)))?;
        watch(client.0.socket.as_fd()).map_err(no_fd)?;
        // Nobody else can have it yet.
        client.0.ready.get_or_init(|| ready);
        Ok(client)
    }

    /// Reads what the server has sent, without waiting, and calls back all that is due, where the client
    /// was made by [`init_driven`](Self::init_driven). Returns when it is to be called next at the
    /// latest, if there is such a time. A callback may call the client, also functions that wait.
    pub fn drive(&self, now: Instant) -> Option<Instant> {
        let ready = self.0.ready.get()?;
        if !self.0.drive() {
            // A connection that is closed is readable for ever.
            let _ = epoll::delete(ready, &self.0.socket);
        }
        self.0.worker.drive(now)
    }

    /// Waits for what a callback sends; does what the program's own loop would do meanwhile.
    fn receive<T>(&self, (answers, answered): &Receiver<T>) -> Option<T> {
        let (Some(ready), Some(answered)) = (self.0.ready.get(), answered) else {
            return answers.recv().ok();
        };
        let received = loop {
            let next = self.drive(Instant::now());
            match answers.try_recv() {
                Ok(answer) => break Some(answer),
                Err(TryRecvError::Disconnected) => break None,
                Err(TryRecvError::Empty) => {}
            }
            let left = next.map(|next| next.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // An interruption is a turn more.
            let fds = [ready.as_fd(), answered.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let _ = poll(&mut fds, left.as_ref());
        };
        // The program's loop has not seen the timers that were taken here.
        self.0.worker.wake();
        received
    }

    /// What a callback sends, for a thread that waits for it.
    fn sender<T>(&self) -> Result<(Sender<T>, Receiver<T>), Error> {
        let answered = self.0.ready.get().map(|_| {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            eventfd(0, flags).map(Arc::new)
        });
        let no_fd = |error: Errno| Error::lost("cannot create an event descriptor", error.into());
        let answered = answered.transpose().map_err(no_fd)?;
        let (answer, answers) = mpsc::sync_channel(1);
        let sender = Sender {
            answer: Some(answer),
            answered: answered.clone(),
        };
        Ok((sender, (answers, answered)))
    }

    fn begin(
        settings: Settings,
        listener: impl FnMut(ClientEvent) + Send + 'static,
        own_loop: Option<Loop>,
    ) -> Result<Self, Error> {
        let (core, socket) = Client::init(settings)?.into_parts();
        Self::around(core, socket, listener, own_loop)
    }

    fn around(
        core: Core,
        socket: Socket,
        listener: impl FnMut(ClientEvent) + Send + 'static,
        own_loop: Option<Loop>,
    ) -> Result<Self, Error> {
        let broken = |error: std::io::Error| Error::lost("cannot poll the connection", error);
        socket
            .set_write_timeout(None)
            .and_then(|()| socket.set_read_timeout(None))
            .map_err(broken)?;
        let is_driven = own_loop.is_some();
        let thread_start = core.settings().thread_start.clone();
        let shared = Arc::new_cyclic(|own| Shared {
            own: Weak::clone(own),
            process: std::process::id(),
            socket,
            free: Condvar::new(),
            sent: Condvar::new(),
            buffer: Mutex::new(vec![0; 16 << 10].into_boxed_slice()),
            thread: Mutex::new(None),
            worker: Worker::new(Box::new(listener), own_loop, thread_start),
            known: Arc::clone(core.known_data()),
            settings: core.settings().clone(),
            commits: Mutex::new(()),
            state: Mutex::new(State::new(core)),
            is_driven,
            ready: OnceLock::new(),
        });
        // Events may have come during init.
        shared.change(|_| ());
        Ok(Self(Arc::new(Handles(shared))))
    }

    /// Returns the name of this process.
    #[must_use]
    pub fn proc(&self) -> &Proc<'static> {
        &self.0.settings.proc
    }

    /// Returns the job of this process as a whole (the wildcard rank), of which job info is asked.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        Proc::new(self.proc().nspace.clone(), Rank::WILDCARD)
    }

    /// Returns the name of the server; none if no launcher started this process.
    #[must_use]
    pub fn server(&self) -> Option<&Proc<'static>> {
        self.0.settings.server.as_ref().map(|uri| &uri.server)
    }

    /// Returns `true` if no launcher started this process, which then has no server and is a job of its own
    /// ([`Settings::singleton`]).
    #[must_use]
    pub fn is_singleton(&self) -> bool {
        self.0.settings.server.is_none()
    }

    /// Returns the settings that the client was created with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Puts a value for the processes that the scope names (`PMIx_Put`). Reserved keys are taken, too:
    /// Open MPI 4 puts `PMIX_HOSTNAME` of its processes, and no other library refuses them.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a scope that is none, for a key that is empty or too long, and for arrays of which
    /// more than 64 stand in one another; what cannot be packed for the server; `PMIX_ERR_OUT_OF_RESOURCE` for a
    /// value that a message of 64 MiB has no room for; `PMIX_ERR_NOT_SUPPORTED` for the removal (`PMIX_DEL_GLOBAL`
    /// and its like) of a key that was committed, if the server removes no keys (see
    /// [`Settings::removes_keys`](crate::Settings::removes_keys)). Nothing has changed then.
    pub fn put(&self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        self.0.known.put(scope, info)
    }

    /// Stores a value about a process in this client alone (`PMIx_Store_internal`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a key that is empty or too long.
    pub fn store(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        self.0.known.store(proc, info)
    }

    /// Hands what was put since the last commit to the server (`PMIx_Commit`). Nothing is sent if nothing was put. If
    /// it fails in any way, what the server has not stored is part of the next commit. It waits for the commit of
    /// another thread, and sends what that one could not have stored.
    ///
    /// # Errors
    ///
    /// What cannot be packed, what the server answers, or that it was lost.
    pub fn commit(&self) -> Result<(), Error> {
        // What another thread commits at this time may have been put by this one. If the server refuses it, it is
        // sent again here.
        let _answered = lock(&self.0.commits);
        if self.0.known.has_uncommitted() {
            self.0.wait(|core| core.commit(None))?;
        }
        Ok(())
    }

    /// Returns those of the infos of a get that are part of what is asked for; the others say how.
    #[must_use]
    pub fn qualifiers<'i>(infos: &[Info<'i>]) -> Vec<Info<'i>> {
        let asked = infos.iter().filter(|info| !is_directive(info));
        asked.cloned().collect()
    }

    /// Looks for the value of a key in what this client knows (`PMIx_Get`); see [`Client::get`].
    #[must_use]
    pub fn find(&self, proc: &Proc<'_>, key: &Key<'_>, infos: &[Info<'_>]) -> Found {
        self.0.find(proc, key, infos)
    }

    /// Returns the value of a key (`PMIx_Get`); see [`Client::get`].
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn get(
        &self,
        proc: &Proc<'_>,
        key: &Key<'_>,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        self.0.get(proc, key, infos)
    }

    /// Returns all that this client knows of a process: what it put or stored, and what its server said (`PMIx_Get`
    /// without a key). The server is asked for the job info if that has not come yet, and for nothing else.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a whole job; `PMIX_ERR_NOT_FOUND` if nothing is known of the process.
    pub fn get_all(
        &self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        if proc.rank == Rank::WILDCARD {
            let message = "a request without a key is possible only for a single process";
            return Err(Error::new(Status::ERR_BAD_PARAM, message));
        }
        let known = &self.0.known;
        if known.cache().is_some_and(JobCache::is_to_ask) {
            // A key that no server knows: the job info comes before the answer that it is not there.
            let optional = [Info::new(keys::OPTIONAL, true)];
            match self.get(proc, &"pmix.all".into(), &optional) {
                Err(error) if error.status() != Status::ERR_NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        known.all(proc, infos)
    }

    /// Sends a request and waits for its reply; other threads go on meanwhile.
    ///
    /// # Errors
    ///
    /// What cannot be packed, what the server answers, or that it was lost.
    pub fn wait<T>(&self, ask: Ask<'_, T>) -> Result<T, Error> {
        self.0.ask(ask)
    }

    /// Sends a request. The callback thread calls `then` once, with the reply.
    ///
    /// # Errors
    ///
    /// What cannot be packed, or the loss of the connection to the server. `then` is not called then.
    pub fn start<T: 'static>(
        &self,
        ask: Ask<'_, T>,
        then: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.0.worker.begin()?;
        self.listen()?;
        let take = ask.take;
        let then = Slot::Callback(Box::new(move |answer| then(taken(take, answer))));
        self.0.begin(then, |core| core.ask(ask, None))?;
        Ok(())
    }

    /// Has a thread read what the server sends, whether anybody waits for it or not. Calls that need
    /// it do so by themselves; a program that wants to know at once when the server is lost may.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub fn listen(&self) -> Result<(), Error> {
        self.0.listen()
    }

    /// Runs a function on the callback thread.
    ///
    /// # Errors
    ///
    /// The system has no thread for it, or the client has ended: the function is dropped.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.0.worker.begin()?;
        match self.0.worker.post(Box::new(job)) {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    /// Has the callback thread do something at a time. It is dropped undone if the client ends before.
    ///
    /// # Errors
    ///
    /// The thread cannot begin, or the client has ended.
    pub fn later_at(
        &self,
        time: Instant,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        self.0.worker.begin()?;
        match self.0.worker.post_at(time, Box::new(job)) {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    /// Returns how many events and pieces of output were dropped because 4,096 events, or 64 MiB of both
    /// and 4 MiB more of events, waited for the listener.
    #[must_use]
    pub fn num_lost_events(&self) -> u64 {
        lock(&self.0.state).core.num_lost_events()
    }

    /// Sends a heartbeat, to a server that was asked to monitor the process.
    ///
    /// # Errors
    ///
    /// If the connection to the server is lost.
    pub fn heartbeat(&self) -> Result<(), Error> {
        self.0.say(Core::heartbeat)
    }

    /// Takes back the registration for events; the server does not reply.
    ///
    /// # Errors
    ///
    /// If the connection to the server is lost.
    pub fn deregister_events(&self, codes: &[Status]) -> Result<(), Error> {
        self.0.say(|core| core.deregister_events(codes))
    }

    /// Disconnects from the server (`PMIx_Finalize`). All callbacks that were due have been called
    /// when this returns, unless a callback calls it, or another thread is in [`drive`](Self::drive) and
    /// in the middle of one.
    ///
    /// # Errors
    ///
    /// What the server answers, or that it was lost; the threads have ended all the same.
    pub fn finalize(&self) -> Result<(), Error> {
        let left = self.wait(Ask::done(Request::Finalize));
        self.close();
        left
    }

    /// Disconnects from the server as [`finalize`](Self::finalize) does, also if the server does not answer in time.
    ///
    /// # Errors
    ///
    /// What the server answers, or that it was lost; `PMIX_ERR_TIMEOUT` if it did not answer within `limit`. The threads
    /// have ended in each case.
    pub fn finalize_within(&self, limit: Duration) -> Result<(), Error> {
        let (sender, answers) = mpsc::sync_channel(1);
        let asked = self.start(Ask::done(Request::Finalize), move |answer| {
            // Who no longer waits does not want it.
            let _ = sender.send(answer);
        });
        let late = |_| Err(Error::timeout("PMIx_Finalize"));
        let left = asked.and_then(|()| answers.recv_timeout(limit).unwrap_or_else(late));
        self.close();
        left
    }

    /// Ends the connection and the threads as [`finalize`](Self::finalize) does, without telling the server: to the
    /// server this process is lost.
    pub fn close(&self) {
        self.0.close();
        self.0.worker.end();
    }
}

impl Shared {
    fn find(&self, proc: &Proc<'_>, key: &Key<'_>, infos: &[Info<'_>]) -> Found {
        let Some(name) = key.as_text().as_str() else {
            return Found::Known(Err(missing(proc, &key.to_string())));
        };
        self.known.look(proc, name, infos)
    }

    fn get(
        &self,
        proc: &Proc<'_>,
        key: &Key<'_>,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        match self.find(proc, key, infos) {
            Found::Known(found) => found,
            Found::AskServer(ask) => self.ask(*ask),
        }
    }

    fn ask<T>(&self, ask: Ask<'_, T>) -> Result<T, Error> {
        if let Request::RegisterEvents(_) | Request::IofPull(_) = ask.request {
            self.listen()?;
        }
        let take = ask.take;
        taken(take, self.wait(|core| core.ask(ask, None)))
    }
}

/// The descriptor that a loop of the program waits for: readable when [`SharedClient::drive`] has
/// something to do. Of a client that has threads it is the socket, which only these read.
impl AsFd for SharedClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let ready = self.0.ready.get().map(AsFd::as_fd);
        ready.unwrap_or_else(|| self.0.socket.as_fd())
    }
}

/// Locks, also behind a thread that panicked with the lock: nothing here is left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
