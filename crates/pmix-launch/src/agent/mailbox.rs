// SPDX-License-Identifier: MIT OR Apache-2.0
//! The upcalls of the server of a node that wait for the agent or the controller.

use std::collections::VecDeque;

use crate::host::{HostMessage, HostReceiver};

/// The upcalls that were not handled yet.
pub(super) struct Mailbox {
    receiver: HostReceiver,
    /// The messages that were received and wait for the controller, in their order.
    ready: VecDeque<HostMessage>,
    /// The messages of processes whose start was not reported yet, in their order.
    early: Vec<HostMessage>,
}

impl Mailbox {
    pub(super) fn new(receiver: HostReceiver) -> Self {
        Self {
            receiver,
            ready: VecDeque::new(),
            early: Vec::new(),
        }
    }

    /// Returns the next message that is ready, or that was received.
    pub(super) fn next(&mut self) -> Option<HostMessage> {
        self.ready.pop_front().or_else(|| self.receiver.next())
    }

    /// Keeps a message for the controller.
    pub(super) fn keep(&mut self, message: HostMessage) {
        self.ready.push_back(message);
    }

    /// Keeps a message until the start of its process was reported.
    pub(super) fn keep_early(&mut self, message: HostMessage) {
        self.early.push(message);
    }

    /// Makes the early messages ready that are not early any more.
    pub(super) fn release_early(&mut self, is_early: impl Fn(&HostMessage) -> bool) {
        for message in std::mem::take(&mut self.early) {
            match is_early(&message) {
                true => self.early.push(message),
                false => self.ready.push_back(message),
            }
        }
    }

    /// Returns `true` if [`Self::next`] has a message.
    pub(super) fn has_next(&mut self) -> bool {
        !self.ready.is_empty() || self.receiver.is_waiting()
    }
}
