// SPDX-License-Identifier: MIT OR Apache-2.0
//! The channel from the host callbacks to the agent, and the messages that wait at its end for the agent or the
//! controller.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::HostMessage;

/// The sending end of the channel.
#[derive(Clone)]
pub(crate) struct HostSender {
    messages: Sender<HostMessage>,
}

/// The receiving end of the channel.
pub(crate) struct HostReceiver {
    messages: Receiver<HostMessage>,
    /// The message that [`is_waiting`](Self::is_waiting) took out of the channel and that was not yet returned.
    first: Option<HostMessage>,
}

pub(crate) fn host_channel() -> (HostSender, HostReceiver) {
    let (sender, receiver) = channel();
    (
        HostSender { messages: sender },
        HostReceiver {
            messages: receiver,
            first: None,
        },
    )
}

impl HostSender {
    /// Sends a message. If the receiver was dropped, the message is dropped too, and its completion replies with an
    /// error.
    pub(super) fn send(&self, message: HostMessage) {
        let _ = self.messages.send(message);
    }
}

impl HostReceiver {
    /// Returns the next message, if there is one.
    pub(crate) fn next(&mut self) -> Option<HostMessage> {
        self.first.take().or_else(|| self.messages.try_recv().ok())
    }

    /// Returns `true` if there is a message.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.first = self.next();
        self.first.is_some()
    }
}

/// The upcalls that were not handled yet.
pub(crate) struct Mailbox {
    receiver: HostReceiver,
    /// The messages that were received and wait for the controller, in their order.
    ready: VecDeque<HostMessage>,
    /// The messages of processes whose start was not reported yet, in their order.
    early: Vec<HostMessage>,
}

impl Mailbox {
    pub(crate) fn new(receiver: HostReceiver) -> Self {
        Self {
            receiver,
            ready: VecDeque::new(),
            early: Vec::new(),
        }
    }

    /// Returns the next message that is ready, or that was received.
    pub(crate) fn next(&mut self) -> Option<HostMessage> {
        self.ready.pop_front().or_else(|| self.receiver.next())
    }

    /// Keeps a message for the controller.
    pub(crate) fn keep(&mut self, message: HostMessage) {
        self.ready.push_back(message);
    }

    /// Keeps a message until the start of its process was reported.
    pub(crate) fn keep_early(&mut self, message: HostMessage) {
        self.early.push(message);
    }

    /// Makes the early messages ready that are not early any more.
    pub(crate) fn release_early(&mut self, is_early: impl Fn(&HostMessage) -> bool) {
        for message in std::mem::take(&mut self.early) {
            match is_early(&message) {
                true => self.early.push(message),
                false => self.ready.push_back(message),
            }
        }
    }

    /// Returns `true` if [`Self::next`] has a message.
    pub(crate) fn has_next(&mut self) -> bool {
        !self.ready.is_empty() || self.receiver.is_waiting()
    }
}
