// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of one turn of the driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Token};
use pmix_engine::{Engine, EngineEvent, Origin, PeerId, Upcall};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::Driver;
use super::acceptor::Arrival;
use super::connection::{Connection, Input};
use super::outbox::Written;
use crate::engine_handle::{NewConnection, Work};
use crate::host::{self, ServerEvent};

/// The time for which peers are read, and for which their messages are handled, in one turn.
const SHARE: Duration = Duration::from_millis(5);

/// The time after a message that took longer than [`SHARE`] in which no further message of its peer is handled. A fence
/// is several messages, each sent after a reply, so without a rest it would wait for one long message after another.
const REST: Duration = SHARE;

/// Maximum number of messages handled in one turn after one of each peer. Peers that send a message only
/// after each reply wait meanwhile.
const MORE: usize = 64;
const MORE_TIME: Duration = Duration::from_millis(1);

/// The duration of a turn after which the remaining output waits for the next one.
const TURN: Duration = Duration::from_millis(15);

/// The approximate number of bytes written to a peer before others are served.
const BURST: usize = 1 << 20;

/// The time that peers of a finalizing server have to make progress. Their output must not be lost: an event
/// about the end of a job follows the output of the job.
const PATIENCE: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(3);

/// Duration from which the handling of a message is logged.
const LONG: Duration = Duration::from_millis(50);

/// The longest time charged to a peer for a message. The clock also runs while the server is stopped or has no
/// processor, for which the peer is not responsible.
const MOST_CHARGED: Duration = Duration::from_millis(100);

impl Driver {
    /// Handles all pending input, output and calls.
    pub(super) fn serve(&mut self, now: Instant) {
        let handle = Arc::clone(&self.handle);
        let mut work = std::mem::take(&mut self.work);
        // The lookup of the users of new connections may be slow, so it precedes the lock of the engine.
        let arrivals = self.acceptor.accept(now, self.connections.len());
        let input = |engine: &mut Engine, now| {
            self.report(engine, now);
            engine.handle_timeout(now);
            self.open(engine, arrivals, now);
            self.read(engine, now);
            self.handle_messages(engine, now);
        };
        let mut serves = handle.progress(now, input, &mut work);
        loop {
            self.take_given(&mut work);
            self.hand_over();
            // The host prepares data for a client before the handshake of the client completes.
            let connects = work.calls.iter().any(|call| is_of_client(&call.upcall));
            let called_first = connects && self.call_host(&mut work);
            self.write(&mut work);
            let called = self.call_host(&mut work) | self.notify_host(&mut work) | called_first;
            let is_done = !called && self.broken.is_empty() && self.written.is_empty();
            if !serves || is_done {
                break;
            }
            // Written output makes room for further replies. Without this limit, a peer that reads as fast as they are
            // produced would block the others.
            if !called && now.elapsed() > TURN {
                break;
            }
            serves = handle.progress(now, |engine, now| self.report(engine, now), &mut work);
        }
        self.work = work;
        for token in std::mem::take(&mut self.ended) {
            self.close(token);
        }
        self.close_dropped(SHARE);
        self.refusals.end_period(now);
    }

    /// Reports written bytes and closed connections to the engine.
    fn report(&mut self, engine: &mut Engine, now: Instant) {
        for (peer, num_bytes) in self.written.drain(..) {
            engine.handle_written(peer, num_bytes);
        }
        for peer in self.broken.drain(..) {
            engine.handle_closed(peer, now);
        }
        // A connection is idle only after its written bytes were reported.
        self.give_up(engine, now);
        self.resume_all(engine);
        self.plan_messages(engine, now);
    }

    /// Sets the time from which the next message can be handled.
    fn plan_messages(&mut self, engine: &Engine, now: Instant) {
        let next = engine.next_queued();
        self.messages_from =
            next.map(|peer| self.rest_of(peer).map_or(now, |until| until.max(now)));
    }

    /// Returns the time until which a peer rests after a message that took long.
    fn rest_of(&self, peer: PeerId) -> Option<Instant> {
        // A peer rests for as long as its message took at least, so the list is short.
        let found = { self.resting.iter().rev() }.find(|(resting, _)| *resting == peer);
        found.map(|(_, until)| *until)
    }

    fn open(&mut self, engine: &mut Engine, arrivals: Vec<Arrival>, now: Instant) {
        for mut arrival in arrivals {
            let token = self.connections.next_token();
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.registry();
            if let Err(error) = registry.register(&mut arrival.stream, token, interest) {
                tracing::warn!(%error, from = %arrival.from, "cannot poll a connection");
                continue;
            }
            let Arrival {
                stream,
                from,
                uid,
                same_node,
            } = arrival;
            let origin = Origin {
                uid,
                gid: None,
                loopback: same_node,
            };
            let peer = engine.open(origin, now);
            tracing::debug!(%peer, %from, uid, "connected");
            self.connections
                .insert(token, Connection::new(stream, peer, from, uid));
            self.readable.push(token);
        }
    }

    /// Polls connections that the host made.
    fn take_given(&mut self, work: &mut Work) {
        for given in work.given.drain(..) {
            let NewConnection {
                peer,
                stream,
                from,
                uid,
            } = given;
            let token = self.connections.next_token();
            let interest = Interest::READABLE | Interest::WRITABLE;
            let mut stream = TcpStream::from_std(stream);
            if let Err(error) = (self.poll.registry()).register(&mut stream, token, interest) {
                tracing::warn!(%error, %from, "cannot poll a connection");
                self.broken.push(peer);
                continue;
            }
            let connection = Connection::new(stream, peer, from, Some(uid));
            self.connections.insert(token, connection);
            self.readable.push(token);
        }
    }

    /// Reads a share of the available input of each connection for a bounded time. Connections that remain unread are
    /// the first in the next turn. A connection with unhandled messages is not read.
    fn read(&mut self, engine: &mut Engine, now: Instant) {
        let began = Instant::now();
        let mut tokens = std::mem::take(&mut self.readable).into_iter();
        for token in &mut tokens {
            let Some(connection) = self.connections.get_mut(token) else {
                continue;
            };
            let peer = connection.peer;
            // The peer has unhandled messages. Its further bytes stay in the kernel, whose flow control slows it down.
            if !engine.wants_input(peer) {
                connection.is_paused = true;
                continue;
            }
            let observer = &mut self.observer;
            let take = |bytes: &[u8]| {
                if let Some(observer) = observer {
                    observer.received(peer, bytes);
                }
                engine.queue_input(peer, bytes);
                engine.wants_input(peer)
            };
            match connection.read(&mut self.buffer, take) {
                Input::Drained => {}
                Input::More => self.readable.push(token),
                Input::Closed => {
                    engine.handle_closed(peer, now);
                    self.ended.push(token);
                }
            }
            if began.elapsed() > SHARE {
                break;
            }
        }
        // Connections without their share come first, so that busy ones cannot starve them.
        let more = std::mem::take(&mut self.readable);
        self.readable = tokens.chain(more).collect();
    }

    /// Lets the engine handle messages for a bounded time, each from the peer that was served least. So the caller of
    /// the driver gets control in time regardless of the peers. A peer with costly messages waits until the others were
    /// served for as long, and rests after each that took long. Once as many messages were handled as peers had one, only
    /// a few more follow before the peers get their replies and are read again.
    fn handle_messages(&mut self, engine: &mut Engine, now: Instant) {
        let began = Instant::now();
        self.resting.retain(|(_, until)| *until > began);
        let mut last = began;
        let mut num_first = engine.num_to_handle();
        let mut num_more = 0;
        let mut until = began + SHARE;
        while let Some(next) = engine.next_queued() {
            if self.rest_of(next).is_some_and(|until| until > last) {
                break;
            }
            let Some(peer) = engine.handle_queued(now) else {
                break;
            };
            let done = Instant::now();
            let took = done.saturating_duration_since(last);
            if took > LONG {
                tracing::debug!(%peer, "a message kept the server busy for {} ms", took.as_millis());
            }
            engine.charge(peer, took.min(MOST_CHARGED));
            // Without other peers there is no exchange to let through.
            if took > SHARE && self.connections.len() > 1 {
                self.resting.push((peer, done + REST));
            }
            // The end of a message is the beginning of the next one, so each costs one look at the clock.
            last = done;
            if engine.wants_input(peer) {
                self.resume(peer);
            }
            match num_first {
                0 => num_more += 1,
                1 => until = until.min(done + MORE_TIME),
                _ => {}
            }
            num_first = num_first.saturating_sub(1);
            if done > until || num_more == MORE {
                break;
            }
        }
        self.resume_all(engine);
        self.plan_messages(engine, last);
    }

    /// Resumes reading connections after the engine has room for their messages.
    fn resume_all(&mut self, engine: &mut Engine) {
        while let Some(peer) = engine.poll_resumed() {
            self.resume(peer);
        }
    }

    /// Resumes reading a connection whose messages were handled.
    fn resume(&mut self, peer: PeerId) {
        let Some(token) = self.connections.token(peer) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(token)
            && std::mem::take(&mut connection.is_paused)
        {
            self.readable.push(token);
        }
    }

    /// Queues the output of the engine and writes as much as possible.
    fn write(&mut self, work: &mut Work) {
        for transmit in work.transmits.drain(..) {
            if let Some(observer) = &mut self.observer {
                let bytes = &transmit.bytes;
                observer.sent(transmit.peer, bytes.head(), bytes.payload());
            }
            let Some(token) = self.connections.token(transmit.peer) else {
                continue;
            };
            if let Some(connection) = self.connections.get_mut(token)
                && connection.push(transmit.bytes)
            {
                self.writable.push(token);
            }
        }
        self.write_writable();
    }

    /// Writes pending output: first to the peers with little of it, then to the others for a bounded time. A few
    /// hundred peers with long events must not block the replies to others.
    fn write_writable(&mut self) {
        let began = Instant::now();
        let tokens = std::mem::take(&mut self.writable);
        let (quick, long): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| {
            let connection = self.connections.get_mut(*token);
            connection.is_some_and(|connection| connection.is_quick_to_write())
        });
        for token in quick {
            self.write_to(token, BURST);
        }
        let mut long = long.into_iter();
        for token in &mut long {
            self.write_to(token, BURST);
            if began.elapsed() > SHARE {
                break;
            }
        }
        // Peers that were already served in this turn and accept more come after the others.
        let more = std::mem::take(&mut self.writable);
        self.writable = long.chain(more).collect();
    }

    /// Writes at most about `most` bytes to a peer. A peer that accepts more stays queued for the next turn,
    /// because the edge-triggered poll does not report it again.
    fn write_to(&mut self, token: Token, most: usize) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let peer = connection.peer;
        match connection.write(most) {
            Ok(Written {
                num_bytes,
                takes_more,
            }) => {
                if takes_more {
                    self.writable.push(token);
                }
                if num_bytes > 0 {
                    self.written.push((peer, num_bytes));
                    if connection.resumes() {
                        self.readable.push(token);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection failed");
                self.broken.push(peer);
                self.close(token);
            }
        }
    }

    /// Calls the host. Returns `true` if there was a call.
    fn call_host(&mut self, work: &mut Work) -> bool {
        let any = !(work.calls.is_empty() && work.modexes.is_empty());
        for call in work.calls.drain(..) {
            host::call(&*self.host, &self.own, call, &self.handle);
        }
        for (callback, result) in work.modexes.drain(..) {
            host::guarded("dmodex_request", || callback(result));
        }
        any
    }

    /// Reports events to the host. Returns `true` if there was one. Output of a connection is written before it is
    /// closed.
    fn notify_host(&mut self, work: &mut Work) -> bool {
        let any = !work.events.is_empty();
        for event in work.events.drain(..) {
            self.handle_event(event);
        }
        any
    }

    fn handle_event(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Close(peer) => {
                self.dropped.extend(self.connections.token(peer));
            }
            EngineEvent::Refused { peer, reason } => {
                self.log_refusal(peer, &reason, "a connection was rejected");
                let reason = reason.into();
                host::server_event(&*self.host, ServerEvent::Refused { reason });
            }
            EngineEvent::Denied { peer, reason } => {
                self.log_refusal(peer, &reason, "a request was rejected");
            }
            EngineEvent::Ignored { peer, reason } => {
                self.log_refusal(peer, &reason, "parts of a request are ignored");
            }
            other => {
                if let Some(event) = server_event(other) {
                    host::server_event(&*self.host, event);
                }
            }
        }
    }

    fn log_refusal(&mut self, peer: PeerId, reason: &pmix_engine::Error, what: &str) {
        let token = self.connections.token(peer);
        let connection = token.and_then(|token| self.connections.get_mut(token));
        let from = connection.as_ref().map(|connection| connection.from);
        let uid = connection.and_then(|connection| connection.uid);
        if self.refusals.count(uid, reason.status(), Instant::now()) {
            tracing::warn!(%peer, ?from, uid, %reason, "{what}");
        }
    }

    /// Closes connections whose peers the engine has dropped, for a bounded time. The kernel frees their output, so
    /// closing a few hundred of them at once would block the replies to others.
    fn close_dropped(&mut self, limit: Duration) {
        let began = Instant::now();
        while let Some(token) = self.dropped.pop_front() {
            // The reason of a refusal is the last output.
            self.write_to(token, usize::MAX);
            self.close(token);
            if began.elapsed() > limit {
                break;
            }
        }
    }

    /// Closes a connection. Its descriptor may be the one that waiting connections need.
    fn close(&mut self, token: Token) {
        if let Some(closed) = self.connections.remove(token) {
            self.acceptor.resume();
            if let Some(observer) = &mut self.observer {
                observer.closed(closed.peer);
            }
        }
    }

    /// Delivers pending events to the host of a finalized server, and writes pending output while peers
    /// accept it.
    pub(crate) fn finish_output(mut self) {
        let mut work = std::mem::take(&mut self.work);
        self.handle.progress(Instant::now(), |_, _| (), &mut work);
        self.write(&mut work);
        // Replies to calls would be too late, but events must reach the host.
        for event in work.events.drain(..) {
            self.handle_event(event);
        }
        self.close_dropped(Duration::MAX);
        self.refusals.write();
        self.write_last();
        for connection in self.connections.iter_mut() {
            if let Some(observer) = &mut self.observer {
                observer.closed(connection.peer);
            }
        }
    }

    /// Writes pending output while peers make progress.
    fn write_last(&mut self) {
        let mut now = Instant::now();
        let end = now + LAST;
        let mut patience = now + PATIENCE;
        loop {
            let mut progress = false;
            for connection in self.connections.iter_mut().filter(|c| c.has_output()) {
                match connection.write(usize::MAX) {
                    Ok(written) => progress |= written.num_bytes > 0,
                    // The service has stopped, so a failure cannot be reported.
                    Err(_) => connection.discard_output(),
                }
            }
            if progress {
                patience = now + PATIENCE;
            }
            let waiting = { self.connections.iter_mut() }.filter(|c| c.has_output());
            let mut fds: Vec<_> = { waiting }
                .map(|connection| PollFd::new(&connection.stream, PollFlags::OUT))
                .collect();
            now = Instant::now();
            let left = end.min(patience).saturating_duration_since(now);
            if fds.is_empty() || left.is_zero() {
                return;
            }
            match poll(&mut fds, left.try_into().ok().as_ref()) {
                Ok(0) => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return tracing::debug!("dropping the messages that wait for peers: {e}"),
            }
        }
    }
}

/// Returns `true` for an upcall that reports the connection of a client.
fn is_of_client(upcall: &Upcall) -> bool {
    matches!(upcall, Upcall::ClientConnected(_))
}

/// Returns the event for the host, unless the driver itself handles it.
fn server_event(event: EngineEvent) -> Option<ServerEvent> {
    Some(match event {
        EngineEvent::ProcessLost {
            proc,
            incarnation,
            is_tool,
        } => ServerEvent::ProcessLost {
            proc,
            incarnation,
            is_tool,
        },
        EngineEvent::CleanupRegistered {
            target,
            user,
            cleanup,
        } => ServerEvent::CleanupRegistered {
            target,
            user,
            cleanup,
        },
        EngineEvent::ToolFinalized { proc } => ServerEvent::ToolFinalized { proc },
        EngineEvent::Cleanup {
            target,
            user,
            cleanup,
        } => ServerEvent::Cleanup {
            target,
            user,
            cleanup,
        },
        EngineEvent::Group { name, change } => ServerEvent::Group { name, change },
        EngineEvent::FenceMissing {
            operation,
            group,
            procs,
            missing,
            status,
        } => ServerEvent::FenceMissing {
            operation,
            group,
            procs,
            missing,
            status,
        },
        EngineEvent::FenceCompleted { began, num_procs } => {
            ServerEvent::FenceCompleted { began, num_procs }
        }
        EngineEvent::FenceAcrossJobs { procs } => ServerEvent::FenceAcrossJobs { procs },
        other => {
            tracing::debug!(event = ?other, "no handler for an event");
            return None;
        }
    })
}
