// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client for many threads: each waits for its own reply, or gives a callback.
//!
//! Source: PMIx Standard, the functions whose names end in `_nb`, in the chapter of each.

mod asks;
mod channel;
mod groups;
mod worker;

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use gds_hash::{Codec, ModexStore};
use pmix_proto::{Event, Request, request};
use pmix_types::{Info, IofChannel, Key, Proc, Rank, Scope, Status, Value, keys};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

use crate::cache::JobCache;
use crate::core::Parts;
use crate::get::{is_directive, says, take_prefetched};
use crate::inflate::inflated;
use crate::prefetch::Prefetch;
use crate::{Client, Error, Settings};

pub use asks::{Answers, Ask};
use channel::Channel;
pub use groups::GroupDecision;
use groups::SharedGroups;
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

/// Holds forwarded output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forwarded {
    /// The number that this client gave the pull.
    pub local_id: u64,
    /// The process that wrote it.
    pub source: Proc<'static>,
    /// The stream that it wrote to.
    pub channel: IofChannel,
    /// Directives for showing it.
    pub infos: Vec<Info<'static>>,
    /// The bytes; none are the end of the stream.
    pub data: Vec<u8>,
}

/// Connects a process with its server, for many threads at once. Clones are handles of the same
/// one.
///
/// A thread that waits for an answer reads what the server sends and hands the answers of others to
/// them, so nobody waits for the answer of another. From the first call with a callback, registration
/// for events or pull of output on, a thread of the client reads ([`listen`](Self::listen)). What has to
/// be called back is called by another thread, which begins with the first such call: a callback may
/// call the client and wait.
#[derive(Clone)]
pub struct SharedClient(Arc<Shared>);

/// What all handles share.
pub(crate) struct Shared {
    channel: Arc<Channel>,
    worker: Arc<Worker>,
    pub(crate) cache: JobCache,
    own: Mutex<ModexStore>,
    prefetch: Arc<Prefetch>,
    groups: Arc<SharedGroups>,
    settings: Settings,
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

/// Says whether a value is known here or the server has to be asked.
pub enum Found {
    /// The value, or the error that it is nowhere.
    Known(Result<Value<'static>, Error>),
    /// The request to send to the server.
    AskServer(Box<Ask<'static, Value<'static>>>),
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
        let no_fd = |error: Errno| Error::lost("no descriptor for the loop", error.into());
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
        watch(client.0.channel.stream().as_fd()).map_err(no_fd)?;
        // Nobody else can have it yet.
        client.0.ready.get_or_init(|| ready);
        Ok(client)
    }

    /// Reads what the server has sent, without waiting, and calls back all that is due, where the client
    /// was made by [`init_driven`](Self::init_driven). Returns when it is to be called next at the
    /// latest, if there is such a time. A callback may call the client, also functions that wait.
    pub fn drive(&self, now: Instant) -> Option<Instant> {
        let ready = self.0.ready.get()?;
        if !self.0.channel.drive() {
            // A connection that is closed is readable for ever.
            let _ = epoll::delete(ready, self.0.channel.stream());
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
        let no_fd = |error: Errno| Error::lost("no descriptor to wait for", error.into());
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
        mut listener: impl FnMut(ClientEvent) + Send + 'static,
        own_loop: Option<Loop>,
    ) -> Result<Self, Error> {
        let (parts, stream) = Client::init(settings)?.into_parts()?;
        let Parts {
            connection,
            cache,
            own,
            prefetch,
            groups,
            settings,
            events,
        } = parts;
        let prefetch = Arc::new(prefetch);
        let prefetched = Arc::clone(&prefetch);
        let groups = Arc::new(SharedGroups::new(groups));
        let hearing = Arc::clone(&groups);
        let filter = move |event: &ClientEvent| hearing.hear(event);
        let tell = move |event| {
            prefetched.clear();
            listener(event);
        };
        let is_driven = own_loop.is_some();
        let worker = Worker::new(Box::new(filter), Box::new(tell), own_loop);
        let channel = Channel::open((stream, connection), events, Arc::clone(&worker), is_driven)?;
        let shared = Arc::new(Shared {
            channel,
            worker,
            cache,
            own: Mutex::new(own),
            prefetch,
            groups,
            settings,
            ready: OnceLock::new(),
        });
        shared.groups.belong_to(&shared);
        Ok(Self(shared))
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
    /// `PMIX_ERR_BAD_PARAM` for a scope that is none, and for a key that is empty or too long.
    pub fn put(&self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        Ok(self.0.own().put(self.proc().rank, scope, info)?)
    }

    /// Stores a value about a process in this client alone (`PMIx_Store_internal`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a key that is empty or too long.
    pub fn store(&self, proc: &Proc<'_>, info: Info<'_>) -> Result<(), Error> {
        if *proc == *self.proc() {
            return Ok(self.0.own().put(proc.rank, Scope::INTERNAL, info)?);
        }
        self.0.cache.store(proc, info)
    }

    /// Hands what was put to the server (`PMIx_Commit`). Nothing is sent if nothing was put.
    ///
    /// # Errors
    ///
    /// What cannot be packed, what the server answers, or that it was lost.
    pub fn commit(&self) -> Result<(), Error> {
        let wire = Codec::new(self.0.channel.form().layout);
        let blocks = self.0.own().commit_message(&wire, self.proc().rank)?;
        match blocks.is_empty() {
            true => Ok(()),
            false => self.wait(Ask::done(Request::Commit(request::Commit {
                blocks: &blocks,
            }))),
        }
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
        let Some(name) = key.as_text().as_str() else {
            let error = Error::not_found(format!("{key} of {} rank {}", proc.nspace, proc.rank));
            return Found::Known(Err(error));
        };
        if says(infos, keys::GET_REFRESH_CACHE) {
            self.0.cache.forget(proc);
            self.0.prefetch.take(proc.rank);
        } else if let Some(value) = self.0.find(proc, name, infos) {
            return Found::Known(self.0.whole(name, value));
        } else if Key::from(name).is_reserved()
            && self.0.cache.is_to_ask()
            && let Some(value) = self.learn(proc, name, infos)
        {
            return Found::Known(self.0.whole(name, value));
        }
        if says(infos, keys::OPTIONAL) {
            return Found::Known(Err(missing(proc, name)));
        }
        Found::AskServer(Box::new(Ask::get(&self.0, proc, name, infos)))
    }

    /// Asks for the job info that was not asked for at init, and looks again.
    fn learn(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Value<'static>> {
        let learnt = self.wait(Ask::job_info());
        // Whoever asks the server next is told what is wrong.
        learnt
            .inspect_err(|error| tracing::debug!("the job info was not learnt: {error}"))
            .ok()?;
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
        match self.find(proc, key, infos) {
            Found::Known(found) => found,
            Found::AskServer(ask) => self.wait(*ask),
        }
    }

    /// Sends a request and waits for its reply; other threads go on meanwhile.
    ///
    /// # Errors
    ///
    /// What cannot be packed, what the server answers, or that it was lost.
    pub fn wait<T>(&self, ask: Ask<'_, T>) -> Result<T, Error> {
        if let Request::RegisterEvents(_) | Request::IofPull(_) = ask.request {
            self.listen()?;
        }
        let payload = self.0.channel.wait(&ask.request)?;
        self.0.answered(&ask.request);
        (ask.read)(&self.0, &payload)
    }

    /// Sends a request. The callback thread calls `then` once, with the reply.
    ///
    /// # Errors
    ///
    /// What cannot be packed, or that the server was lost. `then` is not called then.
    pub fn start<T: 'static>(
        &self,
        ask: Ask<'_, T>,
        then: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let (shared, read) = (Arc::clone(&self.0), ask.read);
        let worker = Arc::clone(&self.0.worker);
        worker.begin()?;
        let is_get = matches!(ask.request, Request::Get(_));
        let waiter = move |payload: Result<Vec<u8>, Error>| {
            worker.post(Box::new(move || {
                if !is_get {
                    shared.prefetch.clear();
                }
                then(payload.and_then(|payload| read(&shared, &payload)));
            }));
        };
        self.0.channel.ask(&ask.request, Box::new(waiter))
    }

    /// Has a thread read what the server sends, whether anybody waits for it or not. Calls that need
    /// it do so by themselves; a program that wants to know at once when the server is lost may.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub fn listen(&self) -> Result<(), Error> {
        self.0.channel.listen()
    }

    /// Runs a function on the callback thread.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.0.worker.begin()?;
        self.0.worker.post(Box::new(job));
        Ok(())
    }

    /// Returns how many events and pieces of output were dropped because 4,096 events, or 64 MiB of both,
    /// waited for the listener.
    #[must_use]
    pub fn num_lost_events(&self) -> u64 {
        self.0.worker.num_lost()
    }

    /// Sends a heartbeat, to a server that was asked to monitor the process.
    ///
    /// # Errors
    ///
    /// If the server was lost.
    pub fn heartbeat(&self) -> Result<(), Error> {
        self.0.channel.heartbeat()
    }

    /// Takes back the registration for events; the server does not reply.
    ///
    /// # Errors
    ///
    /// If the server was lost.
    pub fn deregister_events(&self, codes: &[Status]) -> Result<(), Error> {
        let codes = match codes.is_empty() {
            true => vec![request::DeregisterEvents::DEFAULT],
            false => codes.to_vec(),
        };
        self.0
            .channel
            .say(&Request::DeregisterEvents(request::DeregisterEvents {
                codes,
            }))
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
        self.0.channel.close();
        // Who waits for a group waits for no reply.
        let groups = Arc::clone(&self.0.groups);
        self.0.worker.post(Box::new(move || {
            groups.hear(&ClientEvent::Lost);
        }));
        self.0.worker.end();
        left
    }
}

/// The descriptor that a loop of the program waits for: readable when [`SharedClient::drive`] has
/// something to do. Of a client that has threads it is the socket, which only these read.
impl AsFd for SharedClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let ready = self.0.ready.get().map(AsFd::as_fd);
        ready.unwrap_or_else(|| self.0.channel.stream().as_fd())
    }
}

impl Shared {
    fn own(&self) -> MutexGuard<'_, ModexStore> {
        lock(&self.own)
    }

    /// The value as it was put, if it was compressed for the wire.
    fn whole(&self, key: &str, value: Value<'static>) -> Result<Value<'static>, Error> {
        inflated(value, self.settings.max_string_bytes)
            .map_err(|error| Error::new(error.status(), format!("{key}: {}", error.message())))
    }

    /// The server has answered: unless it was a get, others may have put their keys again before.
    fn answered(&self, request: &Request<'_>) {
        if !matches!(request, Request::Get(_)) {
            self.prefetch.clear();
        }
    }

    /// What is known here.
    fn find(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Option<Value<'static>> {
        let qualifiers = SharedClient::qualifiers(infos);
        let own = (*proc == self.settings.proc).then(|| {
            let own = self.own();
            own.get(proc.rank, Scope::INTERNAL, key, &qualifiers)
                .ok()
                .map(Cow::into_owned)
        });
        if let Some(value) = own.flatten() {
            return Some(value);
        }
        let put = |qualifiers| self.cache.put_value(proc, key, qualifiers);
        match Key::from(key).is_reserved() {
            true => self
                .cache
                .job_value(proc, key, &qualifiers)
                .or_else(|| put(&[])),
            false => put(&qualifiers).or_else(|| {
                take_prefetched(&self.cache, &self.prefetch, &self.settings.proc, proc)?;
                put(&qualifiers)
            }),
        }
    }
}

fn missing(proc: &Proc<'_>, key: &str) -> Error {
    Error::not_found(format!("{key} of {} rank {}", proc.nspace, proc.rank))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
