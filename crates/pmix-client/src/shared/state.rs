// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state behind one lock: the core, the waiters of each operation, and the threads that read and send.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Condvar};
use std::time::Instant;

use crate::Error;
use crate::core::{Answer, Core, OperationId};

/// The outcome of an operation.
pub(crate) type Outcome = Result<Answer, Error>;

/// A callback for the outcome of an operation, called on the callback thread.
pub(crate) type Then = Box<dyn FnOnce(Outcome) + Send>;

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
    /// A message whose sender has reached its time limit, and the number of its bytes that are sent.
    pub(super) unsent: Option<(Vec<u8>, usize)>,
    /// The number of threads that wait for an event.
    pub(super) num_event_waiters: usize,
    /// `true` once this client closes the connection.
    pub(super) is_closing: bool,
    /// The error after which nothing can be sent.
    pub(super) broken: Option<Error>,
    /// `true` if unsolicited input goes to a listener and is not queued for `Client::next_event`.
    pub(super) has_listener: bool,
    /// `true` once the listener was notified of the loss of the server.
    is_loss_delivered: bool,
    /// The number of queued calls of the listener.
    pub(super) num_deliveries: usize,
    /// The next time at which the callback thread checks the time limits of the core.
    pub(super) alarm: Option<Instant>,
}

/// The waiter of an operation.
pub(crate) enum Slot {
    /// A thread, and the condition variable that wakes it once it sleeps.
    Thread(Option<Arc<Condvar>>),
    /// The outcome for a thread that has not seen it yet.
    Ended(Outcome),
    /// A callback.
    Callback(Then),
}

/// The callbacks and wake-ups that follow a change of the core, once no lock is held.
pub(super) struct Effects {
    pub(super) calls: Vec<(Then, Outcome)>,
    /// The number of new items of unsolicited input for the listener.
    pub(super) num_deliveries: usize,
    /// `true` if the listener must be notified of the loss of the server.
    pub(super) is_lost: bool,
    /// `true` if threads that wait for an event must check again.
    pub(super) wakes_event_waiters: bool,
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
            unsent: None,
            num_event_waiters: 0,
            is_closing: false,
            broken: None,
            has_listener: false,
            is_loss_delivered: false,
            num_deliveries: 0,
            alarm: None,
        }
    }

    /// Returns the error for new requests, if none are possible.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match (&self.broken, self.core.lost()) {
            (Some(error), _) | (None, Some(error)) => Err(error.clone()),
            (None, None) if self.is_closing => Err(gone()),
            (None, None) => Ok(()),
        }
    }

    /// Wakes the threads whose operations have completed. Returns the callbacks and wake-ups for which the lock is free.
    pub(super) fn settle(&mut self) -> Effects {
        if !self.has_listener && self.core.num_unsolicited() > 0 {
            self.resolve_without_listener();
        }
        let mut calls = Vec::new();
        while let Some((id, outcome)) = self.core.poll_completed() {
            match self.slots.remove(&id) {
                Some(Slot::Callback(then)) => calls.push((then, outcome)),
                Some(Slot::Thread(sleeper)) => {
                    self.slots.insert(id, Slot::Ended(outcome));
                    if let Some(sleeper) = sleeper {
                        sleeper.notify_one();
                    }
                }
                Some(Slot::Ended(_)) | None => {}
            }
        }
        let (num_unsolicited, is_lost) = (self.core.num_unsolicited(), self.core.lost().is_some());
        let num_deliveries = match self.has_listener {
            true => num_unsolicited.saturating_sub(self.num_deliveries),
            false => 0,
        };
        self.num_deliveries += num_deliveries;
        let delivers_loss = is_lost && self.has_listener && !self.is_loss_delivered;
        self.is_loss_delivered |= delivers_loss;
        let next = self.core.poll_timeout();
        let alarm = next.filter(|next| self.alarm.is_none_or(|alarm| *next < alarm));
        self.alarm = alarm.or(self.alarm);
        Effects {
            calls,
            num_deliveries,
            is_lost: delivers_loss && !self.is_closing,
            wakes_event_waiters: self.num_event_waiters > 0 && (num_unsolicited > 0 || is_lost),
            alarm,
        }
    }

    /// Resolves questions without a decision and drops output: without a listener the program cannot receive them.
    fn resolve_without_listener(&mut self) {
        while let Some((question, _)) = self.core.poll_question() {
            // The directives of the invitation apply, so an error has no consequence.
            let _ = self.core.decide(&question, None, Instant::now());
        }
        while self.core.poll_output().is_some() {}
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
            Slot::Thread(sleeper) => Some(Arc::clone(sleeper.get_or_insert_default())),
            Slot::Ended(_) | Slot::Callback(_) => None,
        }
    }
}

pub(crate) fn gone() -> Error {
    Error::lost(
        "lost the connection to the server",
        ErrorKind::UnexpectedEof.into(),
    )
}
