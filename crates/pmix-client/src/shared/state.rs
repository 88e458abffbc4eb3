// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all threads share behind one lock: the core, who waits for which operation, who reads and who sends.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Condvar};
use std::time::Instant;

use crate::Error;
use crate::core::{Answer, Core, OperationId};

/// How an operation ended.
pub(super) type Outcome = Result<Answer, Error>;

/// Takes how an operation ended; called by the thread for callbacks.
pub(super) type Then = Box<dyn FnOnce(Outcome) + Send>;

/// What a client is: its core, and who waits for what. One lock is around it.
pub(super) struct State {
    pub(super) core: Core,
    pub(super) slots: HashMap<OperationId, Slot>,
    /// Whether a thread reads, or is about to.
    pub(super) is_read: bool,
    /// Whether there is a thread that does nothing else.
    pub(super) has_reader: bool,
    /// Whether a thread sends, which sends whatever there is.
    pub(super) is_sent: bool,
    /// How many threads wait for that one.
    pub(super) num_senders: usize,
    /// Whether this end closes the connection.
    pub(super) is_closing: bool,
    /// Why nothing can be sent any longer.
    pub(super) broken: Option<Error>,
    /// Whether the program was told that the server is lost.
    is_lost: bool,
    /// How many calls are queued for what came unasked.
    pub(super) num_told: usize,
    /// When the thread for callbacks is to look at the time.
    pub(super) alarm: Option<Instant>,
}

/// Who waits for the end of an operation.
pub(super) enum Slot {
    /// A thread, and what wakes it if it sleeps.
    Thread(Option<Arc<Condvar>>),
    /// A thread, which has not seen yet how it ended.
    Ended(Outcome),
    /// A callback.
    Callback(Then),
}

/// What is to be called back, once no lock is held.
pub(super) struct Due {
    pub(super) calls: Vec<(Then, Outcome)>,
    /// How much came unasked.
    pub(super) num_unasked: usize,
    /// Whether the program is to be told that the server is lost.
    pub(super) is_lost: bool,
    pub(super) alarm: Option<Instant>,
}

impl State {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core,
            slots: HashMap::new(),
            is_read: false,
            has_reader: false,
            is_sent: false,
            num_senders: 0,
            is_closing: false,
            broken: None,
            is_lost: false,
            num_told: 0,
            alarm: None,
        }
    }

    /// Why nothing can be asked, if so.
    pub(super) fn refused(&self) -> Result<(), Error> {
        match (&self.broken, self.core.lost()) {
            (Some(error), _) | (None, Some(error)) => Err(error.clone()),
            (None, None) if self.is_closing => Err(gone()),
            (None, None) => Ok(()),
        }
    }

    /// Wakes the threads whose operations have ended, and takes what is to be called back.
    pub(super) fn settle(&mut self) -> Due {
        let mut calls = Vec::new();
        while let Some((id, outcome)) = self.core.poll_completed() {
            match self.slots.remove(&id) {
                Some(Slot::Callback(then)) => calls.push((then, outcome)),
                Some(Slot::Thread(there)) => {
                    self.slots.insert(id, Slot::Ended(outcome));
                    if let Some(there) = there {
                        there.notify_one();
                    }
                }
                Some(Slot::Ended(_)) | None => {}
            }
        }
        let num_unasked = self.core.num_unasked().saturating_sub(self.num_told);
        self.num_told += num_unasked;
        let is_lost = self.core.lost().is_some() && !self.is_lost;
        self.is_lost |= is_lost;
        let next = self.core.poll_timeout();
        let alarm = next.filter(|next| self.alarm.is_none_or(|alarm| *next < alarm));
        self.alarm = alarm.or(self.alarm);
        Due {
            calls,
            num_unasked,
            is_lost: is_lost && !self.is_closing,
            alarm,
        }
    }

    /// Takes how an operation ended, if it has.
    pub(super) fn take_ended(&mut self, id: OperationId) -> Option<Outcome> {
        match self.slots.get(&id) {
            Some(Slot::Ended(_)) => match self.slots.remove(&id) {
                Some(Slot::Ended(outcome)) => Some(outcome),
                _ => None,
            },
            Some(_) => None,
            None => Some(Err(gone())),
        }
    }

    /// What wakes the thread that waits for an operation.
    pub(super) fn sleeper(&mut self, id: OperationId) -> Option<Arc<Condvar>> {
        match self.slots.get_mut(&id)? {
            Slot::Thread(there) => Some(Arc::clone(there.get_or_insert_default())),
            Slot::Ended(_) | Slot::Callback(_) => None,
        }
    }
}

pub(super) fn gone() -> Error {
    Error::lost(
        "lost the connection to the server",
        ErrorKind::UnexpectedEof.into(),
    )
}
