// SPDX-License-Identifier: MIT OR Apache-2.0
//! The channel from the host to the job that is watched.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::HostMessage;

/// The sending end of the channel.
pub(crate) struct HostSender {
    messages: Sender<HostMessage>,
}

/// The receiving end of the channel.
pub(crate) struct HostReceiver {
    messages: Receiver<HostMessage>,
    /// The one that was looked at and not taken.
    first: Option<HostMessage>,
}

/// Makes a channel.
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
    /// Sends a message. When nobody reads any more it is dropped, and its completion says so.
    pub(super) fn send(&self, message: HostMessage) {
        let _ = self.messages.send(message);
    }
}

impl HostReceiver {
    /// The next message, if there is one.
    pub(crate) fn next(&mut self) -> Option<HostMessage> {
        self.first.take().or_else(|| self.messages.try_recv().ok())
    }

    /// Whether there is a message.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.first = self.next();
        self.first.is_some()
    }
}
