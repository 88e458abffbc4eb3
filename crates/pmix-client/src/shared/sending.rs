// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending, without a deadlock with a server that waits for its own messages to be read.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::state::gone;
use super::{Patience, Shared, has_passed, lock};
use crate::Error;
use crate::socket::Socket;

/// The kind of a sending thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sender {
    /// The thread that reads. It must not wait for another sender.
    Reader,
    Other,
}

/// The time after which a thread that waits to send checks if another thread still reads.
const ROOM_TIME: Duration = Duration::from_millis(20);

impl Shared {
    /// Sends all messages in the order in which they were packed. One thread sends at a time. The thread that reads
    /// returns if another one sends. Returns `false` if the server does not read them until `end`; the rest of a
    /// partial message is sent first the next time.
    pub(super) fn transmit(&self, sender: Sender, end: Option<Instant>) -> Result<bool, Error> {
        let mut state = lock(&self.state);
        while state.is_sent {
            // A server may stop reading until its own messages are read, so the thread that reads never waits here.
            if sender == Sender::Reader {
                return Ok(true);
            }
            state.num_senders += 1;
            state = match end {
                None => { self.sent.wait(state) }.unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    let woken = self.sent.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.num_senders -= 1;
            if state.is_sent && has_passed(end) {
                return Ok(false);
            }
        }
        let mut outcome = state.broken.clone().map_or(Ok(true), Err);
        state.is_sent = true;
        while outcome == Ok(true) {
            let next = state.unsent.take();
            let next = next.or_else(|| state.core.poll_transmit().map(|bytes| (bytes, 0)));
            let Some((bytes, mut num_sent)) = next else {
                break;
            };
            // No lock is held while the socket is full: the server may first wait for its own messages to be read, and
            // that needs the lock.
            drop(state);
            outcome = self.send(&bytes, &mut num_sent, sender, end);
            state = lock(&self.state);
            match &outcome {
                Ok(true) => {}
                Ok(false) => state.unsent = Some((bytes, num_sent)),
                Err(error) => {
                    state.broken = Some(error.clone());
                    // Messages from the server can still be read; then the stream ends.
                    self.shutdown();
                }
            }
        }
        state.is_sent = false;
        if state.num_senders > 0 {
            self.sent.notify_all();
        }
        outcome
    }

    /// Sends a message from the byte `num_sent` on. Returns `false` if the server does not read all of it until `end`.
    fn send(
        &self,
        bytes: &[u8],
        num_sent: &mut usize,
        sender: Sender,
        end: Option<Instant>,
    ) -> Result<bool, Error> {
        let socket = self.socket.as_ref().ok_or_else(gone)?;
        while let Some(rest) = bytes.get(*num_sent..)
            && !rest.is_empty()
        {
            // A lost server must fail the call and not end the process with `SIGPIPE`.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(socket, rest, flags) {
                Ok(len) => *num_sent += len,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if has_passed(end) => return Ok(false),
                Err(Errno::AGAIN) => self.wait_for_room(socket, sender, end)?,
                Err(error) => {
                    return Err(Error::lost(
                        "lost the connection to the server",
                        error.into(),
                    ));
                }
            }
        }
        Ok(true)
    }

    /// Waits until the socket accepts more data. A server may stop reading until its own messages are read. So this
    /// thread reads them if no other does.
    fn wait_for_room(
        &self,
        socket: &Socket,
        sender: Sender,
        end: Option<Instant>,
    ) -> Result<(), Error> {
        let is_reader = sender == Sender::Reader;
        let reads = {
            let mut state = lock(&self.state);
            if let Some(lost) = state.core.lost() {
                return Err(lost.clone());
            }
            is_reader || !std::mem::replace(&mut state.is_read, true)
        };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let (flags, left) = match reads {
            true => (PollFlags::IN | PollFlags::OUT, left),
            // The thread that reads may stop without another thread to wake, so this wait has a limit.
            false => (
                PollFlags::OUT,
                Some(left.map_or(ROOM_TIME, |left| left.min(ROOM_TIME))),
            ),
        };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // The next send reports an error of the connection.
        let _ = poll(&mut [PollFd::new(socket, flags)], left.as_ref());
        if reads {
            self.read(Patience::None);
        }
        if reads && !is_reader {
            let mut state = lock(&self.state);
            self.stop_reading(&mut state);
            self.pass_on(&state);
        }
        Ok(())
    }
}
