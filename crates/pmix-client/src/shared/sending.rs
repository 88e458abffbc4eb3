// SPDX-License-Identifier: MIT OR Apache-2.0
//! How what the core packs gets to the server, while the server may wait for its own answers to be read.

use std::sync::PoisonError;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::{Shared, lock};
use crate::Error;

/// Who has something sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sender {
    /// The thread that reads, which waits for nobody.
    Reader,
    Other,
}

/// How long a thread waits for room before it looks whether anybody reads.
const ROOM_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

impl Shared {
    /// Sends what there is, in the order in which it was packed. One thread sends at a time; who reads leaves
    /// it to that one.
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
            drop(state);
            outcome = self.send(&bytes, sender);
            state = lock(&self.state);
            if let Err(error) = &outcome {
                state.broken = Some(error.clone());
                // What the server has sent can still be read; then the stream ends.
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

    /// Waits until the server takes more. A server that is owed the reading of its answers takes none, so
    /// they are read meanwhile if nobody else does.
    fn wait_for_room(&self, sender: Sender) -> Result<(), Error> {
        let is_reader = sender == Sender::Reader;
        let reads = {
            let mut state = lock(&self.state);
            if let Some(lost) = state.core.lost() {
                return Err(lost.clone());
            }
            is_reader || !std::mem::replace(&mut state.is_read, true)
        };
        // What goes wrong shows when more is sent.
        let _ = match reads {
            true => {
                let wanted = PollFlags::IN | PollFlags::OUT;
                poll(&mut [PollFd::new(&self.socket, wanted)], None)
            }
            // Who reads may stop, and have nobody else to wake.
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
