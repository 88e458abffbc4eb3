// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a link between two processes of a host, without a socket: upcalls, replies, events, ends of processes, and
//! messages of the host's own form.
//!
//! ```text
//! node: UpcallHost ── Link::call ── output ──> bytes ── handle_input ── LinkMessage::Call ── controller
//! node: UntypedCompletion <── LinkMessage::Reply ── handle_input <── bytes <── output ── Link::reply
//! ```
//!
//! The transport is that of the host. It passes received bytes to [`Link::handle_input`] and sends
//! [`Link::output`], both in order and without loss, and authenticates the other end. TCP does the first two. Both ends
//! are one release of this crate.
//!
//! | host | link |
//! | --- | --- |
//! | bytes arrived | [`handle_input`](Link::handle_input), then [`poll_message`](Link::poll_message) until `None` |
//! | the transport takes bytes | [`output`](Link::output), then [`handle_written`](Link::handle_written) |
//! | a stream in nonblocking mode is ready | [`transfer`](Link::transfer) or [`receive`](Link::receive) and [`flush`](Link::flush), instead of these |
//! | `poll_message` returns an error, or the transport ended | [`close`](Link::close); the other end counts as lost |
//!
//! `T` is the host's token of a call, which it gets back with the reply. A node uses the
//! [`UntypedCompletion`](pmix_server::UntypedCompletion) of the upcall. A controller, which sends direct modexes to
//! nodes, uses the number of the node and of its call.
//!
//! Calls are hostile input: the other end holds at most the [`LinkLimits`].
//!
//! ```
//! use pmix_host::link::{Link, LinkMessage};
//! use pmix_server::upcall::{HostReply, Publish};
//! use pmix_types::{Info, Proc, Rank, Status};
//!
//! let (mut node, mut controller) = (Link::default(), Link::<()>::default());
//! let publish = Publish::new(Proc::new("job@1", Rank::new(0)), vec![Info::new("port", 4711_u32)]);
//! node.call(publish, "the completion");
//! controller.handle_input(node.output());
//! let Some(LinkMessage::Call(number, upcall)) = controller.poll_message()? else {
//!     panic!("no call");
//! };
//! assert_eq!(upcall.name(), "Publish");
//! controller.reply(number, &HostReply::Done(Status::SUCCESS));
//! node.handle_input(controller.output());
//! let reply = LinkMessage::Reply("the completion", HostReply::Done(Status::SUCCESS));
//! assert_eq!(node.poll_message()?, Some(reply));
//! # Ok::<(), pmix_host::Error>(())
//! ```
//!
//! Source: this project.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};

use pmix_server::upcall::{HostReply, NotifyEvent, Upcall};
use pmix_types::{Nspace, Proc, Rank, Status};

use crate::Error;
use crate::frames::{Frames, begin_frame};

/// The number of bytes of one read.
const PIECE: usize = 64 << 10;

/// The kinds of messages: the first byte of a frame.
mod kind {
    /// A message of the host's own form.
    pub(super) const OWN: u8 = 0;
    /// The number of a call, and a packed upcall.
    pub(super) const CALL: u8 = 1;
    /// The number of a call, and a packed reply.
    pub(super) const REPLY: u8 = 2;
    /// A packed event, which has no reply.
    pub(super) const EVENT: u8 = 3;
    /// The exit code of a process that has ended, its rank and its nspace.
    pub(super) const ENDED: u8 = 4;
}

/// The number of a call of the other end, for the reply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallNumber(u64);

/// A message of the other end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkMessage<T> {
    /// An upcall, which is answered by [`Link::reply`] once.
    Call(CallNumber, Upcall),
    /// The reply to the call with this token.
    Reply(T, HostReply),
    /// An event for the clients and tools of the node ([`Server::notify`](pmix_server::Server::notify)).
    Event(NotifyEvent),
    /// A process of the node has ended, with this exit code.
    Ended(Proc<'static>, i32),
    /// A message of the host's own form.
    Own(Vec<u8>),
}

/// The limits of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkLimits {
    /// The largest length of a message in bytes, the same at both ends.
    pub message_bytes: usize,
    /// The bytes of output from which on the link counts as broken, because the other end does not read.
    pub unsent_bytes: usize,
    /// The number of calls of the other end that are not answered.
    pub open_calls: usize,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            // The largest are data of many processes, of which a server accepts fewer.
            message_bytes: 1 << 30,
            unsent_bytes: 2 << 30,
            open_calls: 1 << 20,
        }
    }
}

/// One end of a link.
#[derive(Debug)]
pub struct Link<T> {
    limits: LinkLimits,
    frames: Frames,
    output: Vec<u8>,
    /// The number of bytes of `output` that were sent.
    written: usize,
    last_call: u64,
    /// The calls of this end that are not answered.
    calls: BTreeMap<u64, T>,
    /// The replies to calls that could not be sent.
    refused: VecDeque<(T, Status)>,
    /// The number of calls of the other end that are not answered.
    num_received: usize,
    /// The reason for which the link is not usable.
    broken: Option<(Status, String)>,
}

impl<T> Default for Link<T> {
    fn default() -> Self {
        Self::new(LinkLimits::default())
    }
}

impl<T> Link<T> {
    /// Creates one end of a link.
    #[must_use]
    pub const fn new(limits: LinkLimits) -> Self {
        Self {
            limits,
            frames: Frames::new(limits.message_bytes),
            output: Vec::new(),
            written: 0,
            last_call: 0,
            calls: BTreeMap::new(),
            refused: VecDeque::new(),
            num_received: 0,
            broken: None,
        }
    }

    /// Adds received bytes.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        self.frames.handle_input(bytes);
    }

    /// Returns the bytes to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.get(self.written..).unwrap_or_default()
    }

    /// Records that bytes of [`output`](Self::output) were sent.
    pub fn handle_written(&mut self, num_bytes: usize) {
        self.written = self
            .written
            .saturating_add(num_bytes)
            .min(self.output.len());
        // Sent bytes are dropped rarely, because the rest moves.
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        } else if self.written > self.output.len() / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// Receives and sends over a stream in nonblocking mode, without waiting: [`receive`](Self::receive), then
    /// [`flush`](Self::flush) unless the stream has ended. Returns `false` after the end of the stream.
    ///
    /// The host waits for the stream to become readable, or writable while there is [`output`](Self::output).
    ///
    /// # Errors
    ///
    /// Returns the error of the stream, which is not usable any more.
    pub fn transfer(&mut self, stream: &mut (impl Read + Write)) -> io::Result<bool> {
        let is_open = self.receive(|bytes| stream.read(bytes))?;
        if is_open {
            self.flush(|bytes| stream.write(bytes))?;
        }
        Ok(is_open)
    }

    /// Reads at most 64 KiB by one call of a function that does not wait. Returns `false` after the end of the stream;
    /// messages that arrived before can still be taken. The host takes all messages before the next call.
    ///
    /// # Errors
    ///
    /// Returns the error of the function, unless it is `WouldBlock` or `Interrupted`.
    pub fn receive(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        let mut piece = [0; PIECE];
        match read(&mut piece) {
            Ok(num_bytes) => {
                self.handle_input(piece.get(..num_bytes).unwrap_or_default());
                Ok(num_bytes > 0)
            }
            Err(error) if is_temporary(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Writes the output by a function that does not wait, until the function takes no more.
    ///
    /// # Errors
    ///
    /// Returns the error of the function, unless it is `WouldBlock` or `Interrupted`.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while !self.output().is_empty() {
            match write(self.output()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(num_bytes) => self.handle_written(num_bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_temporary(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends an upcall. [`LinkMessage::Reply`] returns the token with the reply; a call that cannot be packed fails in the
    /// same way.
    pub fn call(&mut self, upcall: impl Into<Upcall>, token: T) {
        self.last_call += 1;
        let number = self.last_call;
        let packed = upcall.into().pack().map_err(|error| error.status());
        let sent = packed.and_then(|bytes| {
            let sent = self.push(kind::CALL, Some(number), &bytes);
            sent.map_err(|error| error.status())
        });
        match sent {
            Ok(()) => _ = self.calls.insert(number, token),
            Err(status) => self.refused.push_back((token, status)),
        }
    }

    /// Replies to a call of the other end. A reply that cannot be packed becomes its error.
    pub fn reply(&mut self, number: CallNumber, reply: &HostReply) {
        self.num_received = self.num_received.saturating_sub(1);
        let packed = reply.pack().map_err(|error| error.status());
        let sent = packed.and_then(|bytes| {
            let sent = self.push(kind::REPLY, Some(number.0), &bytes);
            sent.map_err(|error| error.status())
        });
        if let Err(status) = sent {
            tracing::warn!(%status, "cannot send the reply to a call");
            if let Ok(bytes) = HostReply::Done(status).pack() {
                // A status fits in any limit that calls fit in.
                _ = self.push(kind::REPLY, Some(number.0), &bytes);
            }
        }
    }

    /// Sends an event. An event that cannot be packed is dropped with a warning in the log.
    pub fn notify(&mut self, event: NotifyEvent) {
        let packed = Upcall::from(event).pack().map_err(|error| error.status());
        let sent = packed.and_then(|bytes| {
            let sent = self.push(kind::EVENT, None, &bytes);
            sent.map_err(|error| error.status())
        });
        if let Err(status) = sent {
            tracing::warn!(%status, "cannot send an event to another node");
        }
    }

    /// Reports the end of a process with its exit code.
    pub fn proc_ended(&mut self, proc: &Proc<'_>, exit_code: i32) {
        let (code, rank) = (exit_code.to_le_bytes(), proc.rank.as_raw().to_le_bytes());
        let bytes = [&code[..], &rank, proc.nspace.as_bytes()].concat();
        if let Err(error) = self.push(kind::ENDED, None, &bytes) {
            // The controller would wait for the process forever.
            self.broken
                .get_or_insert_with(|| (error.status(), error.to_string()));
        }
    }

    /// Sends a message of the host's own form.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` for a message beyond the limit.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        self.push(kind::OWN, None, message)
    }

    fn push(&mut self, kind: u8, number: Option<u64>, bytes: &[u8]) -> Result<(), Error> {
        let frame = begin_frame(&mut self.output);
        self.output.push(kind);
        if let Some(number) = number {
            self.output.extend_from_slice(&number.to_le_bytes());
        }
        self.output.extend_from_slice(bytes);
        frame.end(&mut self.output, self.limits.message_bytes)?;
        let (num_unsent, most) = (self.output().len(), self.limits.unsent_bytes);
        if num_unsent > most && self.broken.is_none() {
            let message = format!("the other end of the link has not taken {num_unsent} bytes");
            self.broken = Some((Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(())
    }

    /// Returns the next message of the other end, or `None` if none has arrived as a whole.
    ///
    /// # Errors
    ///
    /// Returns the status of the decoder for damaged bytes, `PMIX_ERR_BAD_PARAM` for an unknown or too long message, and
    /// `PMIX_ERR_OUT_OF_RESOURCE` beyond a limit of the link. The link is not usable any more.
    pub fn poll_message(&mut self) -> Result<Option<LinkMessage<T>>, Error> {
        if let Some((token, status)) = self.refused.pop_front() {
            return Ok(Some(LinkMessage::Reply(token, HostReply::Done(status))));
        }
        if let Some((status, message)) = &self.broken {
            return Err(Error::new(*status, message.clone()));
        }
        let read = self.read_message();
        if let Err(error) = &read {
            self.broken = Some((error.status(), error.to_string()));
        }
        read
    }

    fn read_message(&mut self) -> Result<Option<LinkMessage<T>>, Error> {
        loop {
            let Some(frame) = self.frames.next_frame()? else {
                return Ok(None);
            };
            let Some((kind, bytes)) = frame.split_first() else {
                return Err(Error::bad("a message of the link is empty"));
            };
            match *kind {
                kind::OWN => return Ok(Some(LinkMessage::Own(bytes.to_vec()))),
                kind::CALL => {
                    let (number, bytes) = split_number(bytes)?;
                    let upcall = Upcall::unpack(bytes).map_err(damaged)?;
                    if self.num_received >= self.limits.open_calls {
                        let most = self.limits.open_calls;
                        let message = format!("the other end of the link has {most} open calls");
                        return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
                    }
                    self.num_received += 1;
                    return Ok(Some(LinkMessage::Call(CallNumber(number), upcall)));
                }
                kind::REPLY => {
                    let (number, bytes) = split_number(bytes)?;
                    let reply = HostReply::unpack(bytes).map_err(damaged)?;
                    match self.calls.remove(&number) {
                        Some(token) => return Ok(Some(LinkMessage::Reply(token, reply))),
                        None => tracing::warn!(number, "dropped a reply to no call"),
                    }
                }
                kind::EVENT => match Upcall::unpack(bytes).map_err(damaged)? {
                    Upcall::NotifyEvent(event) => return Ok(Some(LinkMessage::Event(event))),
                    other => {
                        let message = format!("an event of the link is a {}", other.name());
                        return Err(Error::bad(message));
                    }
                },
                kind::ENDED => {
                    let ended = split_ended(bytes);
                    let ended = ended.ok_or_else(|| Error::bad("a damaged end of a process"))?;
                    return Ok(Some(ended));
                }
                other => {
                    return Err(Error::bad(format!(
                        "a message of the link has the unknown kind {other}: both ends need the same release"
                    )));
                }
            }
        }
    }

    /// Ends the link. Returns the tokens of the calls that the other end has not answered. A node drops them, which fails
    /// the requests; a controller completes them with `PMIX_ERR_LOST_CONNECTION`.
    #[must_use = "the calls are not answered"]
    pub fn close(self) -> Vec<T> {
        let refused = self.refused.into_iter().map(|(token, _)| token);
        self.calls.into_values().chain(refused).collect()
    }
}

fn is_temporary(error: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind())
}

/// Splits the number of a call from the rest of a message.
fn split_number(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    match bytes.split_first_chunk() {
        Some((number, rest)) => Ok((u64::from_le_bytes(*number), rest)),
        None => Err(Error::bad("a message of the link has no number of a call")),
    }
}

/// Parses the end of a process.
fn split_ended<T>(bytes: &[u8]) -> Option<LinkMessage<T>> {
    let (code, bytes) = bytes.split_first_chunk()?;
    let (rank, nspace) = bytes.split_first_chunk()?;
    let rank = Rank::new(u32::from_le_bytes(*rank));
    let nspace = Nspace::new(nspace.to_vec()).to_shared();
    let proc = Proc::new(nspace, rank);
    Some(LinkMessage::Ended(proc, i32::from_le_bytes(*code)))
}

fn damaged(error: pmix_engine::Error) -> Error {
    Error::new(
        error.status(),
        format!("a damaged message of the link: {error}"),
    )
}

#[cfg(test)]
mod tests;
