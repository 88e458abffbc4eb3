// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mail from the server's thread to the one that watches the job.

use std::sync::mpsc::{Receiver, Sender, channel};

use mio::{Registry, Token, Waker};

use super::Letter;
use crate::Error;

/// Where letters are put in.
pub(crate) struct Mailbox {
    letters: Sender<Letter>,
    waker: Waker,
}

/// Where they come out.
pub(crate) struct Mail {
    letters: Receiver<Letter>,
}

/// A box, and the mail that is put into it. Each letter wakes who polls.
pub(crate) fn mailbox(registry: &Registry, token: Token) -> Result<(Mailbox, Mail), Error> {
    let waker = Waker::new(registry, token);
    let waker = waker.map_err(|e| Error::system("cannot poll", e))?;
    let (sender, receiver) = channel();
    let mailbox = Mailbox {
        letters: sender,
        waker,
    };
    Ok((mailbox, Mail { letters: receiver }))
}

impl Mailbox {
    /// Puts a letter in. When nobody reads any more it is dropped, and its completion says so.
    pub(super) fn send(&self, letter: Letter) {
        if self.letters.send(letter).is_ok()
            && let Err(e) = self.waker.wake()
        {
            tracing::error!("the launcher cannot be woken: {e}");
        }
    }
}

impl Mail {
    /// The next letter, if there is one.
    pub(crate) fn next(&self) -> Option<Letter> {
        self.letters.try_recv().ok()
    }
}
