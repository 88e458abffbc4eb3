// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mail from the host to the job that is watched.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::Letter;

/// Where letters are put in.
pub(crate) struct Mailbox {
    letters: Sender<Letter>,
}

/// Where they come out.
pub(crate) struct Mail {
    letters: Receiver<Letter>,
}

/// A box, and the mail that is put into it.
pub(crate) fn mailbox() -> (Mailbox, Mail) {
    let (sender, receiver) = channel();
    (Mailbox { letters: sender }, Mail { letters: receiver })
}

impl Mailbox {
    /// Puts a letter in. When nobody reads any more it is dropped, and its completion says so.
    pub(super) fn send(&self, letter: Letter) {
        let _ = self.letters.send(letter);
    }
}

impl Mail {
    /// The next letter, if there is one.
    pub(crate) fn next(&self) -> Option<Letter> {
        self.letters.try_recv().ok()
    }
}
