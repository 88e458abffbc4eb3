// SPDX-License-Identifier: MIT OR Apache-2.0
//! The channel from the host callbacks to the session that runs the jobs.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::HostMessage;

/// The sending end of the channel.
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
