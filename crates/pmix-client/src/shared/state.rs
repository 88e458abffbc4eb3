// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state behind one lock: the core, the waiters of each operation, and the threads that read and send.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Condvar};
use std::time::Instant;

use crate::Error;
use crate::core::{Answer, Core, OperationId};

/// The outcome of an operation.
pub(super) type Outcome = Result<Answer, Error>;

/// A callback for the outcome of an operation, called on the callback thread.
pub(super) type Then = Box<dyn FnOnce(Outcome) + Send>;

/// The state of a client that its lock protects.
pub(super) struct State {
    pub(super) core: Core,
    pub(super) slots: HashMap<OperationId, Slot>,
    /// `true` while a thread reads or is about to.
    pub(super) is_read: bool,
    /// `true` if there is a reader thread.
    pub(super) has_reader: bool,
    /// `true` while a thread sends. It sends all queued messages.
    pub(super) is_sent: bool,
    /// The number of threads that wait for the sending thread.
    pub(super) num_senders: usize,
    /// `true` once this client closes the connection.
    pub(super) is_closing: bool,
    /// The error after which nothing can be sent.
    pub(super) broken: Option<Error>,
    /// `true` once the program was notified of the loss of the server.
    is_lost: bool,
    /// The number of queued calls for unsolicited input.
    pub(super) num_told: usize,
    /// The next time at which the callback thread checks the time limits of the core.
    pub(super) alarm: Option<Instant>,
}

/// The waiter of an operation.
pub(super) enum Slot {
    /// A thread, and the condition variable that wakes it once it sleeps.
    Thread(Option<Arc<Condvar>>),
    /// The outcome for a thread that has not seen it yet.
    Ended(Outcome),
    /// A callback.
    Callback(Then),
}

/// The callbacks to queue once no lock is held.
pub(super) struct Due {
    pub(super) calls: Vec<(Then, Outcome)>,
    /// The number of new items of unsolicited input.
    pub(super) num_unasked: usize,
    /// `true` if the program must be notified of the loss of the server.
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

    /// Returns the error for new requests, if none are possible.
    pub(super) fn refused(&self) -> Result<(), Error> {
        match (&self.broken, self.core.lost()) {
            (Some(error), _) | (None, Some(error)) => Err(error.clone()),
            (None, None) if self.is_closing => Err(gone()),
            (None, None) => Ok(()),
        }
    }

    /// Wakes the threads whose operations have completed, and returns the due callbacks.
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

    /// Removes and returns the outcome of an operation if it has completed.
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

    /// Returns the condition variable for the thread that waits for an operation.
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
