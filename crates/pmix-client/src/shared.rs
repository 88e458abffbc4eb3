// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client for many threads. Each thread waits for its own reply or passes a callback.
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

/// The connection of a process to its server, for many threads at once. Clones share the connection.
///
/// A thread that waits for its reply reads the connection, and passes on the replies of others. So no thread waits for
/// the reply of another. The first call with a callback, registration for events or pull of output starts a thread that
/// reads ([`listen`](Self::listen)). It also starts a second thread for callbacks, so a callback may call the client
/// and wait.
///
/// When the last clone is dropped, the connection is closed, and the server treats the process as crashed unless
/// [`finalize`](Self::finalize) was called. Pending callbacks are called with an error, unless the program's own loop
/// makes the callbacks. Then the callbacks and the listener are dropped.
#[derive(Clone)]
pub struct SharedClient(Arc<Handles>);

/// The part that all clones of the program own and the threads of the client do not.
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

/// The part that clones and threads share: the core behind one lock, the local data, and the threads that read and call
/// back.
struct Shared {
    /// A reference for jobs that run later.
    own: Weak<Self>,
    /// The id of the process that connected.
    process: u32,
    socket: Socket,
    state: Mutex<State>,
    /// Signaled when a thread stops reading, if there is a reader thread or the connection is being closed.
    free: Condvar,
    /// Signaled when a thread stops sending.
    sent: Condvar,
    /// The read buffer of the thread that reads.
    buffer: Mutex<Box<[u8]>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    worker: Arc<Worker>,
    known: Arc<Known>,
    settings: Settings,
    /// Held until the server has acknowledged a commit. Another thread that commits then knows if its puts were stored.
    commits: Mutex<()>,
    /// `true` if the program's own loop reads in place of a thread.
    is_driven: bool,
    /// The descriptor that is readable when the program's own loop has work.
    ready: OnceLock<OwnedFd>,
}

/// The receiving end of an answer, and a descriptor that becomes readable with it if the program's own loop may bring
/// it.
type Receiver<T> = (mpsc::Receiver<T>, Option<Arc<OwnedFd>>);

/// The sending end of an answer. Another thread may hold it.
struct Sender<T> {
    answer: Option<mpsc::SyncSender<T>>,
    answered: Option<Arc<OwnedFd>>,
}

impl<T> Sender<T> {
    fn send(self, answer: T) {
        if let Some(sender) = &self.answer {
            // The receiver waits until the answer has arrived.
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
    /// Connects to a server and requests the job info (`PMIx_Init`). The callback thread passes unsolicited input to
    /// `listener`. The next call notices the loss of the server; if a thread reads ([`listen`](Self::listen)), it is
    /// noticed at once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::init`].
    pub fn init(
        settings: Settings,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        Self::begin(settings, listener, None)
    }

    /// Creates the client of a tool whose server is a launcher, over the connection that the launcher made.
    /// [`ToolConnection`](crate::ToolConnection) is the launcher's side, which expects no further replies. `settings`
    /// has the launcher as the server and the name of this process. Its `layout` is that of the launcher's hello, its
    /// `server_version` the `PMIX_VERSION` in the launcher's environment. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be used, and `PMIX_ERR_BAD_PARAM` for settings without a server.
    pub fn with_launcher(
        settings: Settings,
        stream: TcpStream,
        listener: impl FnMut(ClientEvent) + Send + 'static,
    ) -> Result<Self, Error> {
        let core = Core::with_launcher(settings)?;
        Self::around(core, Socket::Server(stream), listener, None)
    }

    /// Connects as [`init`](Self::init), for a program with its own loop (`PMIX_EXTERNAL_PROGRESS`). No thread is
    /// started. The program waits until [`fd`](AsFd::as_fd) is readable or the time returned by [`drive`](Self::drive)
    /// has passed, and then calls `drive`. `listener` and all callbacks are called by `drive`. Blocking calls are
    /// possible, too.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::init`], or an error if the system has no descriptor left.
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
        // No other thread has the client yet, so the descriptor is unset.
        client.0.ready.get_or_init(|| ready);
        Ok(client)
    }

    /// Reads without waiting and makes all due callbacks, for a client of [`init_driven`](Self::init_driven). Returns
    /// the latest time for the next call, if there is one. A callback may call the client, including functions that
    /// wait.
    pub fn drive(&self, now: Instant) -> Option<Instant> {
        let ready = self.0.ready.get()?;
        if !self.0.drive() {
            // A closed connection stays readable, which would make the program's loop spin.
            let _ = epoll::delete(ready, &self.0.socket);
        }
        self.0.worker.drive(now)
    }

    /// Waits for an answer from a callback. Meanwhile it does the work of the program's own loop.
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
            // An interrupted poll only causes another iteration.
            let fds = [ready.as_fd(), answered.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let _ = poll(&mut fds, left.as_ref());
        };
        // The loop of the program does not know the timers that this thread has taken.
        self.0.worker.wake();
        received
    }

    /// Returns the two ends for an answer that a callback sends.
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
        // Events may have arrived during init.
        shared.change(|_| ());
        Ok(Self(Arc::new(Handles(shared))))
    }

    /// Returns the name of this process.
    #[must_use]
    pub fn proc(&self) -> &Proc<'static> {
        &self.0.settings.proc
    }

    /// Returns the own job as a process name (nspace and `PMIX_RANK_WILDCARD`), for gets of job info.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        Proc::new(self.proc().nspace.clone(), Rank::WILDCARD)
    }

    /// Returns the name of the server, or `None` if no launcher started this process.
    #[must_use]
    pub fn server(&self) -> Option<&Proc<'static>> {
        self.0.settings.server.as_ref().map(|uri| &uri.server)
    }

    /// Returns `true` if no launcher started this process. It then has no server and is a job of its own
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

    /// Puts a value for the processes in `scope` (`PMIx_Put`). Reserved keys are accepted: Open MPI 4 puts
    /// `PMIX_HOSTNAME` of its processes, and no other library rejects them.
    ///
    /// # Errors
    ///
    /// Returns one of these errors, without a change of the stored data:
    ///
    /// - `PMIX_ERR_BAD_PARAM` for an undefined scope, for an empty or too long key, and for arrays nested more than 64
    ///   deep;
    /// - `PMIX_ERR_OUT_OF_RESOURCE` for a value that does not fit into a message of 64 MiB;
    /// - `PMIX_ERR_NOT_SUPPORTED` for the removal (`PMIX_DEL_GLOBAL` and its like) of a committed key, if the server
    ///   cannot remove keys (see [`Settings::removes_keys`](crate::Settings::removes_keys));
    /// - a pack error if the value has no form in the layout of the server.
    pub fn put(&self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        self.0.known.put(scope, info)
    }

    /// Stores a value about a process in this client only (`PMIx_Store_internal`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an empty or too long key.
    pub fn store(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        self.0.known.store(proc, info)
    }

    /// Sends the values put since the last commit to the server (`PMIx_Commit`). Sends nothing if there are none. After
    /// a failure, values that the server has not stored are part of the next commit. The call waits for a commit of
    /// another thread, and sends the values that it failed to store.
    ///
    /// # Errors
    ///
    /// Returns a pack error, the server's status if it rejects the data, or an error if no reply arrives.
    pub fn commit(&self) -> Result<(), Error> {
        // The commit of another thread may contain puts of this one. If the server rejects it, they are sent again
        // here.
        let _answered = lock(&self.0.commits);
        if self.0.known.has_uncommitted() {
            self.0.wait(|core| core.commit(None))?;
        }
        Ok(())
    }

    /// Returns the infos of a get that select or qualify the value. The others control the search.
    #[must_use]
    pub fn qualifiers<'i>(infos: &[Info<'i>]) -> Vec<Info<'i>> {
        let asked = infos.iter().filter(|info| !is_directive(info));
        asked.cloned().collect()
    }

    /// Searches the local data for the value of a key (`PMIx_Get`); see [`Client::get`].
    #[must_use]
    pub fn find(&self, proc: &Proc<'_>, key: &Key<'_>, infos: &[Info<'_>]) -> Found {
        self.0.find(proc, key, infos)
    }

    /// Returns the value of a key (`PMIx_Get`); see [`Client::get`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::get`].
    pub fn get(
        &self,
        proc: &Proc<'_>,
        key: &Key<'_>,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        self.0.get(proc, key, infos)
    }

    /// Returns all local values of a process: its own puts and stored values, and those from the server (`PMIx_Get`
    /// without a key). The only possible request is one for the job info, if init did not request it.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a whole job, and `PMIX_ERR_NOT_FOUND` if there are no values.
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
            // This key does not exist, so the get requests the job info before it fails.
            let optional = [Info::new(keys::OPTIONAL, true)];
            match self.get(proc, &"pmix.all".into(), &optional) {
                Err(error) if error.status() != Status::ERR_NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        known.all(proc, infos)
    }

    /// Sends a request and waits for its reply. Other threads are not blocked.
    ///
    /// # Errors
    ///
    /// Returns a pack error, the server's status if it rejects the request, or `PMIX_ERR_UNREACH` if it is lost.
    pub fn wait<T>(&self, ask: Ask<'_, T>) -> Result<T, Error> {
        self.0.ask(ask)
    }

    /// Sends a request. The callback thread calls `then` once, with the result.
    ///
    /// # Errors
    ///
    /// Returns a pack error, or `PMIX_ERR_UNREACH` if the connection to the server is lost. `then` is not called then.
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

    /// Starts a thread that reads the connection at all times, if there is none. Calls that need it do so themselves. A
    /// program calls it to notice the loss of the server at once.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the system cannot start the thread.
    pub fn listen(&self) -> Result<(), Error> {
        self.0.listen()
    }

    /// Runs a function on the callback thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start the thread or the client has ended. The function is dropped then.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.0.worker.begin()?;
        match self.0.worker.post(Box::new(job)) {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    /// Runs a function on the callback thread at a time. If the client ends before, the function is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start the thread or the client has ended.
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

    /// Returns the number of events and pieces of output dropped because the queue for the listener was full: 4,096
    /// events, or 64 MiB of events and output (4 MiB more for events).
    #[must_use]
    pub fn num_lost_events(&self) -> u64 {
        lock(&self.0.state).core.num_lost_events()
    }

    /// Sends a heartbeat (`PMIx_Heartbeat`), for a server that monitors this process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection to the server is lost.
    pub fn heartbeat(&self) -> Result<(), Error> {
        self.0.say(Core::heartbeat)
    }

    /// Deregisters from events. The message has no reply.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection to the server is lost.
    pub fn deregister_events(&self, codes: &[Status]) -> Result<(), Error> {
        self.0.say(|core| core.deregister_events(codes))
    }

    /// Disconnects from the server (`PMIx_Finalize`). When it returns, all due callbacks have been called. There are
    /// two exceptions: it was called by a callback, or another thread is in a callback of [`drive`](Self::drive).
    ///
    /// # Errors
    ///
    /// Returns the server's status or `PMIX_ERR_UNREACH` if it is lost. The threads have ended in each case.
    pub fn finalize(&self) -> Result<(), Error> {
        let left = self.wait(Ask::done(Request::Finalize));
        self.close();
        left
    }

    /// Disconnects from the server as [`finalize`](Self::finalize), with a time limit for the reply.
    ///
    /// # Errors
    ///
    /// Returns the server's status, `PMIX_ERR_UNREACH` if it is lost, and `PMIX_ERR_TIMEOUT` if it does not reply
    /// within `limit`. The threads have ended in each case.
    pub fn finalize_within(&self, limit: Duration) -> Result<(), Error> {
        let (sender, answers) = mpsc::sync_channel(1);
        let asked = self.start(Ask::done(Request::Finalize), move |answer| {
            // An error means that the time limit has passed and the receiver is dropped.
            let _ = sender.send(answer);
        });
        let late = |_| Err(Error::timeout("PMIx_Finalize"));
        let left = asked.and_then(|()| answers.recv_timeout(limit).unwrap_or_else(late));
        self.close();
        left
    }

    /// Closes the connection and ends the threads as [`finalize`](Self::finalize), without a message. The server treats
    /// the process as lost.
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

/// The descriptor for the loop of the program, readable when [`SharedClient::drive`] has work. For a client with
/// threads it is the socket, which only these threads read.
impl AsFd for SharedClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let ready = self.0.ready.get().map(AsFd::as_fd);
        ready.unwrap_or_else(|| self.0.socket.as_fd())
    }
}

/// Locks a mutex even after a panic of its holder: no holder leaves the data inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
