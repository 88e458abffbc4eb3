// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket to the server, and waiting on it.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pmix_proto::{Event, Frame, Hello, PeerForm, Request, Session, Tag};
use pmix_types::IntoOwned;

use crate::{Error, Uri};

/// Replies are as large as the job; what a server of ours or of OpenPMIx sends is far below it.
const MAX_PAYLOAD: u32 = 1 << 30;

/// The socket to the server, and waiting on it.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    session: Session,
    buffer: Box<[u8]>,
    events: VecDeque<Event<'static>>,
}

/// Until when to wait; for ever if there is no such time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
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

impl Link {
    /// Connects and says hello; the server has answered when this returns.
    pub(crate) fn open(server: &Uri, hello: &Hello<'_>, end: Deadline) -> Result<Self, Error> {
        let unreachable = |error: &io::Error| {
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
        let stream = stream.map_err(|error| unreachable(&error))?;
        stream
            .set_nodelay(true)
            .map_err(|error| unreachable(&error))?;
        let mut link = Self {
            stream,
            session: Session::connect(hello, MAX_PAYLOAD)?,
            buffer: vec![0; 16 << 10].into_boxed_slice(),
            events: VecDeque::new(),
        };
        while link.session.welcome().is_none() {
            link.transmit()?;
            if !link.receive(end)? {
                return Err(Error::timeout("the hello"));
            }
        }
        Ok(link)
    }

    pub(crate) const fn form(&self) -> &PeerForm {
        self.session.form()
    }

    /// Asks and waits for the reply.
    pub(crate) fn ask(&mut self, request: &Request<'_>, end: Deadline) -> Result<Vec<u8>, Error> {
        let tag = self.session.request(request, None)?;
        self.transmit()?;
        loop {
            while let Some(response) = self.session.poll_reply() {
                // The reply to what was given up on is nobody's.
                if response.tag == tag {
                    return Ok(response.payload);
                }
            }
            if !self.receive(end)? {
                return Err(Error::timeout(request.command()));
            }
        }
    }

    /// Says something that has no reply.
    pub(crate) fn say(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.session.request(request, None)?;
        self.transmit()
    }

    /// Says that the process is alive.
    pub(crate) fn heartbeat(&mut self) -> Result<(), Error> {
        self.session.heartbeat()?;
        self.transmit()
    }

    /// The next event, if one comes in time.
    pub(crate) fn event(&mut self, end: Deadline) -> Result<Option<Event<'static>>, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if !self.receive(end)? {
                return Ok(None);
            }
        }
    }

    fn transmit(&mut self) -> Result<(), Error> {
        while let Some(bytes) = self.session.poll_transmit() {
            let written = self.stream.write_all(&bytes);
            written.map_err(|error| Error::lost("the server was lost", &error))?;
        }
        Ok(())
    }

    /// Waits for bytes and takes them; false if none came in time.
    fn receive(&mut self, end: Deadline) -> Result<bool, Error> {
        let lost = |error: &io::Error| Error::lost("the server was lost", error);
        if end.has_passed() {
            return Ok(false);
        }
        let limited = self.stream.set_read_timeout(end.left());
        limited.map_err(|error| lost(&error))?;
        let len = loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(lost(&io::ErrorKind::UnexpectedEof.into())),
                Ok(len) => break len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => return Ok(false),
                Err(error) => return Err(lost(&error)),
            }
        };
        let came = self.buffer.get(..len).unwrap_or_default();
        self.session.handle_input(came)?;
        while let Some(notice) = self.session.poll_notice() {
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
        match Event::decode(self.form(), None, &notice.payload) {
            Ok(event) => self.events.push_back(event.into_owned()),
            Err(error) => tracing::warn!("an event cannot be read: {error}"),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}
