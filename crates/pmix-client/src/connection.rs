// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket to the server, and waiting on it.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pmix_proto::{ClientConnection, Event, Frame, Hello, PeerForm, Request, Tag, Welcome};
use pmix_types::IntoOwned;

use crate::{Error, Settings};

/// The socket to the server, and waiting on it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    session: ClientConnection,
    buffer: Box<[u8]>,
    events: EventQueue,
    /// What the session handed out, and how much of it the server took.
    unsent: (Vec<u8>, usize),
}

/// Until when to wait; for ever if there is no such time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Until then, or until another time if that is sooner.
    pub(crate) fn or_before(self, other: Option<Instant>) -> Self {
        Self(self.0.into_iter().chain(other).min())
    }

    /// The time itself.
    pub(crate) const fn at(self) -> Option<Instant> {
        self.0
    }

    /// What is left; a zero limit would mean none to the system.
    fn left(self) -> Option<Duration> {
        let left = self.0?.saturating_duration_since(Instant::now());
        Some(left.max(Duration::from_millis(1)))
    }

    fn has_passed(self) -> bool {
        self.0.is_some_and(|end| end <= Instant::now())
    }
}

impl Connection {
    /// Connects and says hello; the server has answered when this returns.
    pub(crate) fn open(
        settings: &Settings,
        hello: &Hello<'_>,
        end: Deadline,
    ) -> Result<Self, Error> {
        let server = &settings.server;
        let unreachable = |error: io::Error| {
            let address = server.address;
            Error::lost(
                format_args!("the server at {address} cannot be reached"),
                error,
            )
        };
        let stream = match end.left() {
            Some(left) => TcpStream::connect_timeout(&server.address, left),
            None => TcpStream::connect(server.address),
        };
        let stream = stream.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let mut link = Self {
            stream,
            session: ClientConnection::connect(hello, settings.max_reply_bytes)?,
            buffer: vec![0; 16 << 10].into_boxed_slice(),
            events: EventQueue::default(),
            unsent: (Vec::new(), 0),
        };
        while link.session.welcome().is_none() {
            if !link.transmit(end)? || !link.receive(end)? {
                return Err(Error::timeout("the hello"));
            }
        }
        Ok(link)
    }

    /// The socket, what is said over it and the events that came already, for another who waits.
    pub(crate) fn into_parts(mut self) -> (TcpStream, ClientConnection, Vec<Event<'static>>) {
        let events = std::iter::from_fn(|| self.events.pop()).collect();
        (self.stream, self.session, events)
    }

    /// The answer of the server to the hello.
    pub(crate) const fn welcome(&self) -> Option<&Welcome<'static>> {
        self.session.welcome()
    }

    pub(crate) const fn form(&self) -> &PeerForm {
        self.session.form()
    }

    /// Asks and waits for the reply.
    pub(crate) fn ask(&mut self, request: &Request<'_>, end: Deadline) -> Result<Vec<u8>, Error> {
        let late = || Error::timeout(request.command());
        // Requests do not pile up before a server that takes none.
        if !self.transmit(end)? {
            return Err(late());
        }
        let tag = self.session.request(request, None)?;
        if !self.transmit(end)? {
            return Err(late());
        }
        loop {
            while let Some(response) = self.session.poll_reply() {
                // The reply to what was given up on is nobody's.
                if response.tag == tag {
                    return Ok(response.payload);
                }
            }
            if !self.receive(end)? {
                return Err(late());
            }
        }
    }

    /// Says something that has no reply.
    pub(crate) fn say(&mut self, request: &Request<'_>, end: Deadline) -> Result<(), Error> {
        if self.transmit(end)? {
            self.session.request(request, None)?;
            if self.transmit(end)? {
                return Ok(());
            }
        }
        Err(Error::timeout(request.command()))
    }

    /// Says that the process is alive.
    pub(crate) fn heartbeat(&mut self, end: Deadline) -> Result<(), Error> {
        if self.transmit(end)? {
            self.session.heartbeat()?;
            if self.transmit(end)? {
                return Ok(());
            }
        }
        Err(Error::timeout("a heartbeat"))
    }

    /// How many events came that there was no room for.
    pub(crate) const fn num_lost_events(&self) -> u64 {
        self.events.num_lost
    }

    /// The next event, if one comes in time.
    pub(crate) fn event(&mut self, end: Deadline) -> Result<Option<Event<'static>>, Error> {
        loop {
            if let Some(event) = self.events.pop() {
                return Ok(Some(event));
            }
            if !self.receive(end)? {
                return Ok(None);
            }
        }
    }

    /// The next event of a kind, if one comes in time; the others wait.
    pub(crate) fn event_of(
        &mut self,
        end: Deadline,
        is_wanted: impl Fn(&Event<'static>) -> bool,
    ) -> Result<Option<Event<'static>>, Error> {
        loop {
            if let Some(event) = self.events.take(&is_wanted) {
                return Ok(Some(event));
            }
            if !self.receive(end)? {
                return Ok(None);
            }
        }
    }

    /// Keeps an event that did not come from the server.
    pub(crate) fn keep(&mut self, event: Event<'static>) {
        match self.events.has_room(0) {
            true => self.events.push(event, 0),
            false => self.events.lose(),
        }
    }

    /// Sends what the session has for the server; false if the server did not take it in time.
    ///
    /// What is left is sent first the next time, so that a frame is never cut short.
    fn transmit(&mut self, end: Deadline) -> Result<bool, Error> {
        let lost = |error: io::Error| Error::lost("the server was lost", error);
        loop {
            let (bytes, sent) = &mut self.unsent;
            let rest = bytes.get(*sent..).unwrap_or_default();
            if rest.is_empty() {
                let Some(next) = self.session.poll_transmit() else {
                    self.unsent = (Vec::new(), 0);
                    return Ok(true);
                };
                self.unsent = (next, 0);
                continue;
            }
            let limited = self.stream.set_write_timeout(end.left());
            limited.map_err(lost)?;
            match self.stream.write(rest) {
                Ok(0) => return Err(lost(io::ErrorKind::WriteZero.into())),
                Ok(len) => *sent += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => return Ok(false),
                Err(error) => return Err(lost(error)),
            }
            // A server that takes a byte now and then does not make the time longer.
            if end.has_passed() && bytes.len() > *sent {
                return Ok(false);
            }
        }
    }

    /// Waits for bytes and takes them; false if none came in time.
    fn receive(&mut self, end: Deadline) -> Result<bool, Error> {
        let lost = |error: io::Error| Error::lost("the server was lost", error);
        let len = loop {
            if end.has_passed() {
                return Ok(false);
            }
            let limited = self.stream.set_read_timeout(end.left());
            limited.map_err(lost)?;
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(len) => break len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => return Ok(false),
                Err(error) => return Err(lost(error)),
            }
        };
        let came = self.buffer.get(..len).unwrap_or_default();
        self.session.handle_input(came)?;
        while let Some(notice) = self.session.poll_unsolicited() {
            self.notice(&notice);
        }
        Ok(true)
    }

    /// Keeps events; other messages that nobody asked for are not for a client like this.
    fn notice(&mut self, notice: &Frame) {
        let tag = notice.header.tag;
        if tag != Tag::EVENT {
            return tracing::debug!("ignored a message with tag {tag}");
        }
        let len = notice.payload.len();
        if !self.events.has_room(len) {
            return self.events.lose();
        }
        match Event::decode(self.form(), None, &notice.payload) {
            Ok(event) => self.events.push(event.into_owned(), len),
            Err(error) => tracing::warn!("an event cannot be read: {error}"),
        }
    }
}

/// Events that wait to be asked for, which a server that sends them without end cannot make
/// many.
#[derive(Debug, Default)]
struct EventQueue {
    /// With the bytes that each took on the wire.
    events: VecDeque<(Event<'static>, usize)>,
    bytes: usize,
    num_lost: u64,
}

impl EventQueue {
    /// Most events that wait.
    const MAX_EVENTS: usize = 4096;
    /// Most bytes that they took on the wire.
    const MAX_BYTES: usize = 16 << 20;

    fn has_room(&self, len: usize) -> bool {
        self.events.len() < Self::MAX_EVENTS && self.bytes.saturating_add(len) <= Self::MAX_BYTES
    }

    fn push(&mut self, event: Event<'static>, len: usize) {
        self.events.push_back((event, len));
        self.bytes = self.bytes.saturating_add(len);
    }

    fn pop(&mut self) -> Option<Event<'static>> {
        let (event, len) = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(len);
        Some(event)
    }

    /// The first event of a kind.
    fn take(&mut self, is_wanted: impl Fn(&Event<'static>) -> bool) -> Option<Event<'static>> {
        let place = self.events.iter().position(|(event, _)| is_wanted(event))?;
        let (event, len) = self.events.remove(place)?;
        self.bytes = self.bytes.saturating_sub(len);
        Some(event)
    }

    fn lose(&mut self) {
        if self.num_lost == 0 {
            let (most, bytes) = (Self::MAX_EVENTS, Self::MAX_BYTES);
            tracing::warn!(
                "events are lost: {most} events or {bytes} bytes of them wait to be asked for"
            );
        }
        self.num_lost = self.num_lost.saturating_add(1);
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}
