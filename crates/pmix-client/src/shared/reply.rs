// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of a program's own loop, also while a thread waits for the reply that a callback sends.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

use super::Shared;
use crate::Error;

/// The sending end of a reply. Another thread may hold it.
pub(crate) struct ReplySender<T> {
    sender: Option<mpsc::SyncSender<T>>,
    wake: Option<Arc<OwnedFd>>,
}

/// The receiving end of a reply, and a descriptor that becomes readable with it if the program's own loop may bring it.
pub(crate) struct ReplyReceiver<T> {
    receiver: mpsc::Receiver<T>,
    wake: Option<Arc<OwnedFd>>,
}

impl<T> ReplySender<T> {
    pub(crate) fn send(self, reply: T) {
        if let Some(sender) = &self.sender {
            // The receiver waits until the reply has arrived.
            let _ = sender.send(reply);
        }
    }
}

impl<T> Drop for ReplySender<T> {
    fn drop(&mut self) {
        // The receiver must find the channel closed when it wakes.
        self.sender = None;
        if let Some(wake) = &self.wake {
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }
}

impl<T> ReplyReceiver<T> {
    /// Returns the two ends for a reply that a callback sends.
    pub(crate) fn channel(shared: &Shared) -> Result<(ReplySender<T>, Self), Error> {
        let wake = shared.ready.as_ref().map(|_| event_descriptor());
        let wake = wake.transpose()?.map(Arc::new);
        let (sender, receiver) = mpsc::sync_channel(1);
        let sender = ReplySender {
            sender: Some(sender),
            wake: wake.clone(),
        };
        Ok((sender, Self { receiver, wake }))
    }

    /// Waits for the reply. Meanwhile it does the work of the program's own loop. Returns `None` if the sender was
    /// dropped.
    pub(crate) fn receive(&self, shared: &Shared) -> Option<T> {
        let (Some(ready), Some(wake)) = (&shared.ready, &self.wake) else {
            return self.receiver.recv().ok();
        };
        let received = loop {
            let next = shared.drive(Instant::now());
            match self.receiver.try_recv() {
                Ok(reply) => break Some(reply),
                Err(TryRecvError::Disconnected) => break None,
                Err(TryRecvError::Empty) => {}
            }
            let left = next.map(|next| next.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // An interrupted poll only causes another iteration.
            let fds = [ready.as_fd(), wake.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let _ = poll(&mut fds, left.as_ref());
        };
        // The loop of the program does not know the timers that this thread has taken.
        shared.worker.wake();
        received
    }
}

impl Shared {
    /// Reads without waiting and makes all due callbacks, for a program with its own loop. Returns the time of the next
    /// timer.
    pub(crate) fn drive(&self, now: Instant) -> Option<Instant> {
        if !self.read_available()
            && let (Some(ready), Some(socket)) = (&self.ready, &self.socket)
        {
            // A closed connection stays readable, which would make the program's loop spin.
            let _ = epoll::delete(ready, socket);
        }
        self.worker.drive(now)
    }
}

/// Creates a descriptor that becomes readable by a write.
pub(crate) fn event_descriptor() -> Result<OwnedFd, Error> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_descriptor)
}

/// Converts the error of a descriptor that the system could not create.
pub(crate) fn no_descriptor(error: Errno) -> Error {
    Error::lost("cannot create an event descriptor", error.into())
}
