// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket that all threads share. A thread that waits for a reply reads it unless another thread does, and passes
//! on the replies of others. The first call without a waiting thread starts a reader thread: a call with a callback, a
//! registration for events, or a pull of output.

use std::io::{self, ErrorKind};
use std::sync::{Arc, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::sending::Sender;
use super::state::{Due, Outcome, Slot, State};
use super::worker::STACK_BYTES;
use super::{ClientEvent, GroupDecision, Shared, lock};
use crate::Error;
use crate::core::{Core, OperationId, Unasked};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Read {
    Bytes,
    Nothing,
}

/// The number of reads in one turn of the program's own loop.
const MOST_READS: usize = 64;

impl Shared {
    /// Changes the core, sends the resulting messages and queues the resulting callbacks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, due) = {
            let mut state = lock(&self.state);
            let changed = change(&mut state);
            (changed, state.settle())
        };
        self.call_back(due);
        // A failure to send closes the socket, so the thread that reads handles the loss.
        let _ = self.transmit(Sender::Other);
        changed
    }

    /// Begins an operation with its waiter.
    pub(super) fn begin(
        &self,
        slot: Slot,
        begin: impl FnOnce(&mut Core) -> Result<OperationId, Error>,
    ) -> Result<OperationId, Error> {
        let mut slot = Some(slot);
        // A slot that is not used is dropped without the lock, since it may hold a callback of the program.
        self.change(|state| {
            state.refused()?;
            let id = begin(&mut state.core)?;
            state.slots.extend(slot.take().map(|slot| (id, slot)));
            Ok(id)
        })
    }

    /// Begins an operation and waits until it completes.
    pub(super) fn wait(
        &self,
        begin: impl FnOnce(&mut Core) -> Result<OperationId, Error>,
    ) -> Outcome {
        let id = self.begin(Slot::Thread(None), begin)?;
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = state.take_ended(id) {
                return outcome;
            }
            // Another thread reads. It completes this operation, or wakes this thread to read in its place.
            if state.is_read {
                if let Some(here) = state.sleeper(id) {
                    state = { here.wait(state) }.unwrap_or_else(PoisonError::into_inner);
                }
                continue;
            }
            state.is_read = true;
            drop(state);
            self.read(RecvFlags::empty());
            let _ = self.transmit(Sender::Reader);
            state = lock(&self.state);
            self.stop_reading(&mut state);
            if let Some(outcome) = state.take_ended(id) {
                // A thread that sleeps must read for the operations that are still open.
                self.pass_on(&state);
                return outcome;
            }
        }
    }

    /// Sends a message that has no reply.
    pub(super) fn say(
        &self,
        say: impl FnOnce(&mut Core) -> Result<(), Error>,
    ) -> Result<(), Error> {
        {
            let mut state = lock(&self.state);
            state.refused()?;
            say(&mut state.core)?;
        }
        self.transmit(Sender::Other)
    }

    /// Starts the reader thread if it does not run yet.
    pub(super) fn listen(&self) -> Result<(), Error> {
        // A singleton has no server to read from.
        if self.is_driven || self.settings.server.is_none() {
            return Ok(());
        }
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return Ok(());
        }
        let Some(shared) = self.own.upgrade() else {
            return Ok(());
        };
        {
            let mut state = lock(&self.state);
            if state.is_closing {
                return Ok(());
            }
            state.has_reader = true;
        }
        let named = thread::Builder::new().name("pmix-client".to_owned());
        let begun = named.stack_size(STACK_BYTES).spawn(move || {
            if let Some(start) = &shared.settings.thread_start {
                start.call();
            }
            shared.run();
        });
        *thread = Some(begun.map_err(|error| {
            let mut state = lock(&self.state);
            state.has_reader = false;
            // Another thread may have passed on the reading in the meantime.
            if !state.is_read {
                self.pass_on(&state);
            }
            Error::no_thread("cannot start the thread that reads from the server", error)
        })?);
        Ok(())
    }

    /// Closes the connection and ends the reader thread. All waiting operations have completed when it returns.
    pub(super) fn close(&self) {
        lock(&self.state).is_closing = true;
        // An error means that the connection is closed already.
        let _ = self.socket.shutdown();
        self.free.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads from the server panicked");
        }
        let due = {
            let mut state = lock(&self.state);
            // Another thread that reads returns soon, since the socket is shut down. It may still have received replies
            // to pass on.
            while state.is_read {
                state = { self.free.wait(state) }.unwrap_or_else(PoisonError::into_inner);
            }
            state.core.handle_closed(ErrorKind::UnexpectedEof.into());
            state.settle()
        };
        self.call_back(due);
    }

    /// Closes the connection after the program has dropped its last handle. The reader thread has a reference of its
    /// own, and ends.
    pub(super) fn abandon(&self) {
        {
            let mut state = lock(&self.state);
            state.is_closing = true;
            // Without a reader thread the drop of this object closes the connection. A child of a fork has no thread,
            // and the connection belongs to its parent.
            if !state.has_reader || self.process != std::process::id() {
                return;
            }
        }
        // An error means that the connection is closed already.
        let _ = self.socket.shutdown();
        self.free.notify_all();
    }

    /// Reads available input unless another thread reads. Returns `false` if the connection is closed.
    pub(super) fn drive(&self) -> bool {
        {
            let mut state = lock(&self.state);
            let is_lost = state.core.lost().is_some();
            if is_lost || state.is_read {
                return !is_lost;
            }
            state.is_read = true;
        }
        // The limit returns control to the program even if the server sends without end.
        let mut reads = (0..MOST_READS).map(|_| {
            let read = self.read(RecvFlags::DONTWAIT);
            let _ = self.transmit(Sender::Reader);
            read
        });
        let last = reads.find(|read| *read != Some(Read::Bytes));
        let mut state = lock(&self.state);
        self.stop_reading(&mut state);
        self.pass_on(&state);
        last != Some(None)
    }

    /// Reads until the connection is closed, once no other thread reads.
    fn run(&self) {
        {
            let mut state = lock(&self.state);
            while state.is_read && state.core.lost().is_none() && !state.is_closing {
                state = { self.free.wait(state) }.unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_read {
                return;
            }
            state.is_read = true;
        }
        while self.read(RecvFlags::empty()).is_some() {
            let _ = self.transmit(Sender::Reader);
        }
        self.stop_reading(&mut lock(&self.state));
    }

    /// Records that no thread reads.
    pub(super) fn stop_reading(&self, state: &mut State) {
        state.is_read = false;
        if state.is_closing {
            self.free.notify_all();
        }
    }

    /// Wakes another thread to read. A thread that does not sleep checks for itself.
    pub(super) fn pass_on(&self, state: &State) {
        if state.has_reader || state.is_closing {
            return self.free.notify_all();
        }
        let waits = |slot: &Slot| match slot {
            Slot::Thread(Some(there)) => Some(Arc::clone(there)),
            Slot::Thread(None) | Slot::Ended(_) | Slot::Callback(_) => None,
        };
        if let Some(there) = state.slots.values().find_map(waits) {
            there.notify_one();
        }
    }

    /// Reads and handles input. Returns `None` if the connection is closed. The caller has set `is_read`.
    pub(super) fn read(&self, flags: RecvFlags) -> Option<Read> {
        let mut buffer = lock(&self.buffer);
        let read = loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], flags) {
                Ok((0, _)) => break Err(ErrorKind::UnexpectedEof.into()),
                Ok((len, _)) => break Ok(buffer.get(..len).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Some(Read::Nothing),
                Err(error) => break Err(io::Error::from(error)),
            }
        };
        let (is_open, due) = {
            let mut state = lock(&self.state);
            match read {
                Ok(bytes) => state.core.handle_input(bytes, Instant::now()),
                Err(error) => state.core.handle_closed(error),
            }
            let is_open = state.core.lost().is_none();
            if !is_open {
                self.free.notify_all();
            }
            (is_open, state.settle())
        };
        self.call_back(due);
        is_open.then_some(Read::Bytes)
    }

    /// Queues callbacks. No lock is held, since a rejected callback is dropped here and may hold objects of the
    /// program.
    fn call_back(&self, due: Due) {
        for (then, outcome) in due.calls {
            self.worker.post(Box::new(move || then(outcome)));
        }
        if due.num_unasked > 0 {
            self.tell(due.num_unasked);
        }
        if due.is_lost {
            self.worker.client_event(ClientEvent::Lost);
        }
        if let Some(alarm) = due.alarm {
            let own = Weak::clone(&self.own);
            let tick = move || {
                if let Some(shared) = own.upgrade() {
                    shared.tick(alarm);
                }
            };
            self.worker.post_at(alarm, Box::new(tick));
        }
    }

    /// Queues a call of the listener for each item of unsolicited input.
    fn tell(&self, number: usize) {
        if let Err(error) = self.worker.begin() {
            tracing::warn!("cannot deliver an event now: {error}");
            let mut state = lock(&self.state);
            state.num_told = state.num_told.saturating_sub(number);
            return;
        }
        for _ in 0..number {
            let own = Weak::clone(&self.own);
            let tell = move || {
                if let Some(shared) = own.upgrade()
                    && let Some(event) = shared.next_event()
                {
                    shared.worker.tell(event);
                }
            };
            self.worker.post(Box::new(tell));
        }
    }

    /// Returns the next item for the listener.
    fn next_event(&self) -> Option<ClientEvent> {
        let mut state = lock(&self.state);
        state.num_told = state.num_told.saturating_sub(1);
        Some(match state.core.poll_unasked()? {
            Unasked::Event(event) => ClientEvent::Event(event),
            Unasked::Output(output) => ClientEvent::Output(output),
            Unasked::Question(question, event) => {
                ClientEvent::Group(event, GroupDecision::new(&self.own, question))
            }
        })
    }

    /// Handles the time limits of the core.
    fn tick(&self, alarm: Instant) {
        self.change(|state| {
            // An earlier time may have replaced this one.
            if state.alarm == Some(alarm) {
                state.alarm = None;
                state.core.handle_timeout(Instant::now());
            }
        });
    }
}
