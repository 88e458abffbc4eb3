// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending, without a deadlock with a server that waits for its own messages to be read.

use std::sync::PoisonError;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::{Shared, lock};
use crate::Error;

/// The kind of a sending thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sender {
    /// The thread that reads. It must not wait for another sender.
    Reader,
    Other,
}

/// The time after which a thread that waits to send checks if another thread still reads.
const ROOM_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

impl Shared {
    /// Sends all messages in the order in which they were packed. One thread sends at a time. The thread that reads
    /// returns if another one sends.
    pub(super) fn transmit(&self, sender: Sender) -> Result<(), Error> {
        let mut state = lock(&self.state);
        while state.is_sent {
            if sender == Sender::Reader {
                return Ok(());
            }
            state.num_senders += 1;
            state = { self.sent.wait(state) }.unwrap_or_else(PoisonError::into_inner);
            state.num_senders -= 1;
        }
        let mut outcome = state.broken.clone().map_or(Ok(()), Err);
        state.is_sent = true;
        while outcome.is_ok()
            && let Some(bytes) = state.core.poll_transmit()
        {
            // No lock is held while the socket is full: the server may first wait for its own messages to be read, and
            // that needs the lock.
            drop(state);
            outcome = self.send(&bytes, sender);
            state = lock(&self.state);
            if let Err(error) = &outcome {
                state.broken = Some(error.clone());
                // Messages from the server can still be read; then the stream ends.
                let _ = self.socket.shutdown();
            }
        }
        state.is_sent = false;
        if state.num_senders > 0 {
            self.sent.notify_all();
        }
        outcome
    }

    fn send(&self, bytes: &[u8], sender: Sender) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, rest, flags) {
                Ok(len) => rest = rest.get(len..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_for_room(sender)?,
                Err(error) => {
                    return Err(Error::lost(
                        "lost the connection to the server",
                        error.into(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Waits until the socket accepts more data. A server may stop reading until its own messages are read. So this
    /// thread reads them if no other does.
    fn wait_for_room(&self, sender: Sender) -> Result<(), Error> {
        let is_reader = sender == Sender::Reader;
        let reads = {
            let mut state = lock(&self.state);
            if let Some(lost) = state.core.lost() {
                return Err(lost.clone());
            }
            is_reader || !std::mem::replace(&mut state.is_read, true)
        };
        // The next send reports an error of the connection.
        let _ = match reads {
            true => {
                let wanted = PollFlags::IN | PollFlags::OUT;
                poll(&mut [PollFd::new(&self.socket, wanted)], None)
            }
            // The thread that reads may stop without another thread to wake, so this wait has a limit.
            false => poll(
                &mut [PollFd::new(&self.socket, PollFlags::OUT)],
                Some(&ROOM_TIME),
            ),
        };
        if reads {
            self.read(RecvFlags::DONTWAIT);
        }
        if reads && !is_reader {
            let mut state = lock(&self.state);
            self.stop_reading(&mut state);
            self.pass_on(&state);
        }
        Ok(())
    }
}
