// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver: sockets and the clock around the engine, and no policy of its own.
//!
//! One turn: wait, accept, read available input into the engine, write its output, call the host, and repeat
//! until nothing is left. The driving thread calls the host while it holds no lock.

mod acceptor;
mod connection;
mod outbox;
mod turn;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use pmix_engine::{Engine, PeerId};
use pmix_proto::PeerForm;

use self::acceptor::{Acceptor, RefusalLog};
use self::connection::{Connections, HOST, LISTENER, WAKER};
use crate::Error;
use crate::engine_handle::{EngineHandle, Taker, Wait, Work};
use crate::host::{self, Host, OwnUpcalls, WireObserver};
use crate::rendezvous::Rendezvous;
use crate::shared::SharedTables;
use connection::Connection;

/// Maximum number of readiness events of one poll.
const EVENTS: usize = 256;

/// Duration of a wait if the poll fails.
const FAILED: Duration = Duration::from_millis(100);

/// Size of the read buffer; pages that are never filled take no memory.
const BUFFER: usize = 64 << 10;

/// The sockets of a server and the pending work on them.
pub(crate) struct Driver {
    poll: Poll,
    events: Events,
    handle: Arc<EngineHandle>,
    host: Arc<dyn Host>,
    own: OwnUpcalls,
    acceptor: Acceptor,
    /// `true` if the host registered a descriptor; then `true` while that descriptor is ready.
    watches_host: bool,
    host_news: bool,
    connections: Connections,
    /// Connections to be read in this turn or the next.
    readable: Vec<Token>,
    /// The time from which the messages that were read can be handled; `None` if there are none.
    messages_from: Option<Instant>,
    /// The peers whose next message waits after one that took long, each until a time.
    resting: Vec<(PeerId, Instant)>,
    /// Connections to be written in this turn or the next.
    writable: Vec<Token>,
    /// Connections that the other end closed in this turn. They are kept until its end, since the log needs their
    /// addresses.
    ended: Vec<Token>,
    /// The connections whose peers the engine has dropped. They are closed after their last output was written.
    dropped: VecDeque<Token>,
    /// Notifications for the engine: bytes written and failed connections.
    written: Vec<(PeerId, usize)>,
    broken: Vec<PeerId>,
    /// Connections that the engine gave up, with the callbacks that take them.
    given_up: Vec<(std::net::TcpStream, PeerForm, Taker)>,
    buffer: Box<[u8]>,
    work: Work,
    refusals: RefusalLog,
    observer: Option<Box<dyn WireObserver>>,
    /// `true` after the poll has failed, so that the failure is logged only once.
    has_failed: bool,
    /// The rendezvous files, which are removed when the driver is dropped.
    _rendezvous: Rendezvous,
}

/// The parts of a driver.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) shared: Arc<SharedTables>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) own: OwnUpcalls,
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) rendezvous: Rendezvous,
    pub(crate) observer: Option<Box<dyn WireObserver>>,
}

impl Driver {
    /// Creates a driver.
    ///
    /// # Errors
    /// Returns an error if the kernel has no descriptors left.
    pub(crate) fn new(parts: Parts) -> Result<Self, Error> {
        let fault = |e: io::Error| Error::io("waiting for connections", e);
        let poll = Poll::new().map_err(fault)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(fault)?;
        let mut acceptor = Acceptor::new(parts.listener, parts.address);
        let listener = &mut acceptor.listener;
        let registered = poll
            .registry()
            .register(listener, LISTENER, Interest::READABLE);
        registered.map_err(fault)?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            handle: Arc::new(EngineHandle::new(parts.engine, waker, parts.shared)),
            host: parts.host,
            own: parts.own,
            acceptor,
            watches_host: false,
            host_news: false,
            connections: Connections::new(),
            readable: Vec::new(),
            messages_from: None,
            resting: Vec::new(),
            writable: Vec::new(),
            ended: Vec::new(),
            dropped: VecDeque::new(),
            written: Vec::new(),
            broken: Vec::new(),
            given_up: Vec::new(),
            buffer: vec![0; BUFFER].into(),
            work: Work::default(),
            refusals: RefusalLog::default(),
            observer: parts.observer,
            has_failed: false,
            _rendezvous: parts.rendezvous,
        })
    }

    pub(crate) fn handle(&self) -> &Arc<EngineHandle> {
        &self.handle
    }

    /// Returns a descriptor that becomes readable when there is something to do.
    ///
    /// # Errors
    /// Returns an error if there are no descriptors left.
    pub(crate) fn fd(&self) -> Result<OwnedFd, Error> {
        let fd = self.poll.registry().as_fd().try_clone_to_owned();
        fd.map_err(|e| Error::io("waiting for connections", e))
    }

    /// Adds a descriptor of the host to the poll.
    pub(crate) fn watch(&mut self, fd: RawFd) -> io::Result<()> {
        if self.watches_host {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&fd), HOST, Interest::READABLE)?;
        self.watches_host = true;
        Ok(())
    }

    /// Runs turns until the server is finalized.
    pub(crate) fn run(mut self) {
        while self.turn(None).is_some() {}
        self.finish_output();
    }

    /// Runs one turn, which first waits for events until the given time. Returns `Some(true)` if the
    /// descriptor of the host is ready, and `None` if the server is finalized.
    pub(crate) fn turn(&mut self, until: Option<Instant>) -> Option<bool> {
        let now = Instant::now();
        let until = match self.handle.begin_wait() {
            Wait::Over => return None,
            Wait::Not => Some(now),
            // The previous turn may already have seen the event of the host's descriptor.
            Wait::Until(_) if self.host_news => Some(now),
            Wait::Until(deadline) => earliest(until, earliest(deadline, self.own_deadline(now))),
        };
        self.wait(until.map(|until| until.saturating_duration_since(now)));
        self.handle.end_wait();
        self.serve(Instant::now());
        Some(std::mem::take(&mut self.host_news))
    }

    /// Runs one turn without waiting. Returns if and until when the next turn can wait.
    pub(crate) fn drive(&mut self, now: Instant) -> Wait {
        self.handle.end_wait();
        // An edge-triggered poll of the host reports an event only once, so all events are consumed.
        let more = self.wait(Some(Duration::ZERO)).then_some(now);
        self.serve(now);
        match self.handle.begin_wait() {
            Wait::Until(deadline) => {
                Wait::Until(earliest(more, earliest(deadline, self.own_deadline(now))))
            }
            other => other,
        }
    }

    /// Waits for events within the timeout. Returns `true` if there may be more events than were taken.
    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == io::ErrorKind::Interrupted;
            if !interrupted {
                // A program that closes all descriptors also closes this one. Every poll then fails at once, so this
                // sleeps.
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(%error, "cannot wait for connections");
                }
                std::thread::sleep(timeout.unwrap_or(FAILED).min(FAILED));
            }
            return interrupted;
        }
        let mut taken = 0;
        for event in &self.events {
            taken += 1;
            let token = event.token();
            match token {
                LISTENER => self.acceptor.ready(),
                WAKER => {}
                HOST => self.host_news = true,
                _ => {
                    let Some(connection) = self.connections.get_mut(token) else {
                        continue;
                    };
                    if event.is_readable() || event.is_error() {
                        connection.readable = true;
                        // The event arrives once, possibly together with the last bytes.
                        connection.is_ending |= event.is_read_closed();
                        self.readable.push(token);
                    }
                    if event.is_writable() {
                        self.writable.push(token);
                    }
                }
            }
        }
        taken == EVENTS
    }

    /// Returns the time of the next turn without an event.
    fn own_deadline(&self, now: Instant) -> Option<Instant> {
        let is_reported = self.written.is_empty() && self.broken.is_empty();
        let is_written = self.writable.is_empty() && self.dropped.is_empty();
        let is_left = !is_reported || !is_written || !self.readable.is_empty();
        let unread = earliest(is_left.then_some(now), self.messages_from);
        earliest(
            earliest(unread, self.acceptor.due(now)),
            self.refusals.due(),
        )
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Driver {
    /// Removes the requested connections that the engine gives up. The engine has handled all their input, and no
    /// output is pending.
    fn give_up(&mut self, engine: &mut Engine, now: Instant) {
        let handle = Arc::clone(&self.handle);
        // The engine is locked, so no input arrives between its check and the removal of the socket.
        let found = handle.take_requested(|proc| engine.give_up(proc, now));
        for ((peer, form), take) in found {
            let token = self.connections.token(peer);
            let Some(connection) = token.and_then(|token| self.connections.remove(token)) else {
                continue;
            };
            self.acceptor.resume();
            if let Some(observer) = &mut self.observer {
                observer.closed(peer);
            }
            match self.socket(connection) {
                Ok(stream) => self.given_up.push((stream, form, take)),
                // Dropping the callback notifies the requester that the connection will not be passed on.
                Err(error) => tracing::warn!(%peer, %error, "cannot close a connection"),
            }
        }
    }

    /// Passes the connections to the host with no lock held.
    fn hand_over(&mut self) {
        for (stream, form, take) in self.given_up.drain(..) {
            host::guarded("take_connection", || take(stream, form));
        }
    }

    /// Returns the blocking socket of a connection, which this driver no longer polls.
    fn socket(&self, mut connection: Connection) -> io::Result<TcpStream> {
        self.poll.registry().deregister(&mut connection.stream)?;
        let stream = TcpStream::from(connection.stream.as_fd().try_clone_to_owned()?);
        // The new owner expects a socket as the standard library opens it.
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}
