// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket that all threads share. A thread that waits for a reply reads it unless another thread does, and passes
//! on the replies of others. The first call without a waiting thread starts a reader thread: a call with a callback, and
//! a registration for events or a pull of output once there is a listener.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::sending::Sender;
use super::state::{Effects, Outcome, Slot, State};
use super::worker::STACK_BYTES;
use super::{ClientEvent, GroupDecision, Patience, Shared, has_passed, lock};
use crate::Error;
use crate::core::{Core, OperationId, Unsolicited};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Read {
    Bytes,
    Nothing,
}

/// The number of reads in one turn of the program's own loop.
const MOST_READS: usize = 64;

impl Shared {
    /// Changes the core, sends the resulting messages and queues the resulting callbacks. What is not sent at `end`
    /// goes out with the next messages.
    pub(super) fn change<T>(
        &self,
        end: Option<Instant>,
        change: impl FnOnce(&mut State) -> T,
    ) -> T {
        let (changed, effects) = {
            let mut state = lock(&self.state);
            let changed = change(&mut state);
            (changed, state.settle())
        };
        self.apply(effects);
        // A failure to send closes the socket, so the thread that reads handles the loss.
        let _ = self.transmit(Sender::Other, end);
        changed
    }

    /// Begins an operation with its waiter and its time limit.
    pub(crate) fn begin(
        &self,
        slot: Slot,
        end: Option<Instant>,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> Result<OperationId, Error> {
        // Without this wait, requests would pile up in memory for a server that does not read.
        let has_unsent = lock(&self.state).unsent.is_some();
        if has_unsent && !self.transmit(Sender::Other, end)? {
            return Err(Error::timeout("an earlier request"));
        }
        let mut slot = Some(slot);
        // A slot that is not used is dropped without the lock, since it may hold a callback of the program.
        self.change(end, |state| {
            state.check_open()?;
            let id = begin(&mut state.core, end)?;
            state.slots.extend(slot.take().map(|slot| (id, slot)));
            Ok(id)
        })
    }

    /// Begins an operation and waits until it completes.
    pub(crate) fn wait(
        &self,
        end: Option<Instant>,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> Outcome {
        let id = self.begin(Slot::Thread(None), end, begin)?;
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = state.take_ended(id) {
                self.pass_on(&state);
                return outcome;
            }
            state = self.read_or_sleep(state, None, |state| state.sleeper(id));
        }
    }

    /// Waits for an event that `take` removes from the core. Returns `None` at `end`.
    pub(crate) fn wait_for_event<T>(
        &self,
        end: Option<Instant>,
        mut take: impl FnMut(&mut Core) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut state = lock(&self.state);
        state.num_event_waiters += 1;
        let event = loop {
            // Events that arrived before the loss of the server are still returned.
            if let Some(event) = take(&mut state.core) {
                break Ok(Some(event));
            }
            if let Some(error) = state.core.lost() {
                break Err(error.clone());
            }
            if has_passed(end) {
                break Ok(None);
            }
            state = self.read_or_sleep(state, end, |_| Some(Arc::clone(&self.arrived)));
        };
        state.num_event_waiters -= 1;
        self.pass_on(&state);
        event
    }

    /// Reads once, or sleeps until the thread that reads wakes this one: at most until `end` or the next time limit of
    /// the core, whose operations then complete.
    fn read_or_sleep<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        end: Option<Instant>,
        sleeper: impl FnOnce(&mut State) -> Option<Arc<Condvar>>,
    ) -> MutexGuard<'s, State> {
        let limit = state.core.poll_timeout();
        if has_passed(limit) {
            drop(state);
            self.handle_timeout();
            return lock(&self.state);
        }
        let end = limit.into_iter().chain(end).min();
        // Another thread reads. It completes this operation, or wakes this thread to read in its place.
        if state.is_read {
            let Some(sleeper) = sleeper(&mut state) else {
                return state;
            };
            return match end {
                None => { sleeper.wait(state) }.unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    let woken = sleeper.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.is_read = true;
        let has_unsent = state.unsent.is_some();
        drop(state);
        // While the server does not read the rest of a message, the sending reads its messages.
        if !has_unsent {
            self.read(end.map_or(Patience::Unlimited, Patience::Until));
        }
        let _ = self.transmit(Sender::Reader, end);
        let mut state = lock(&self.state);
        self.stop_reading(&mut state);
        state
    }

    /// Completes the operations of the core whose time limits have passed.
    fn handle_timeout(&self) {
        let now = Instant::now();
        // The messages that follow are sent only as far as the server reads them at once, since nothing waits for them.
        self.change(Some(now), |state| state.core.handle_timeout(now));
    }

    /// Sends a message that has no reply. `name` is its name in the error of a server that does not read it in time.
    pub(crate) fn send_unanswered(
        &self,
        name: &str,
        queue: impl FnOnce(&mut Core) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let end = self.end(None);
        let has_unsent = lock(&self.state).unsent.is_some();
        if has_unsent && !self.transmit(Sender::Other, end)? {
            return Err(Error::timeout(name));
        }
        {
            let mut state = lock(&self.state);
            state.check_open()?;
            queue(&mut state.core)?;
        }
        match self.transmit(Sender::Other, end)? {
            true => Ok(()),
            false => Err(Error::timeout(name)),
        }
    }

    /// Starts the reader thread if it does not run yet.
    pub(crate) fn listen(&self) -> Result<(), Error> {
        // A singleton has no server to read from.
        if self.ready.is_some() || self.settings.server.is_none() {
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
            // The thread is announced before it runs, so that another thread that stops reading wakes it.
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
            self.pass_on(&state);
            Error::no_thread("cannot start the thread that reads from the server", error)
        })?);
        Ok(())
    }

    /// Starts the reader thread if there is a listener, which expects input while no thread waits.
    pub(crate) fn listen_for_listener(&self) -> Result<(), Error> {
        let has_listener = lock(&self.state).has_listener;
        if has_listener { self.listen() } else { Ok(()) }
    }

    /// Returns `true` if callbacks may take decisions while a thread waits: there is a listener, or the program's own
    /// loop makes the callbacks.
    pub(crate) fn calls_back(&self) -> bool {
        self.ready.is_some() || lock(&self.state).has_listener
    }

    /// Closes the connection and ends the reader thread. All waiting operations have completed when it returns.
    pub(super) fn close_connection(&self) {
        // The flag precedes the shutdown, so the listener is not notified of a lost server.
        lock(&self.state).is_closing = true;
        self.shutdown();
        self.free.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads from the server panicked");
        }
        let effects = {
            let mut state = lock(&self.state);
            // Another thread that reads returns soon, since the socket is shut down. It may still have received replies
            // to pass on.
            while state.is_read {
                state = { self.free.wait(state) }.unwrap_or_else(PoisonError::into_inner);
            }
            state.core.handle_closed(ErrorKind::UnexpectedEof.into());
            state.settle()
        };
        self.apply(effects);
    }

    /// Closes the connection after the program has dropped its last handle. The reader thread has a reference of its
    /// own, and ends.
    pub(crate) fn abandon(&self) {
        {
            let mut state = lock(&self.state);
            state.is_closing = true;
            // Without a reader thread the drop of this object closes the connection. A child of a fork has no thread,
            // and the connection belongs to its parent.
            if !state.has_reader || self.process != std::process::id() {
                return;
            }
        }
        self.shutdown();
        self.free.notify_all();
    }

    /// Ends the connection in both directions, which wakes the thread that reads.
    pub(super) fn shutdown(&self) {
        if let Some(socket) = &self.socket {
            // An error means that the connection is closed already.
            let _ = socket.shutdown();
        }
    }

    /// Reads available input unless another thread reads. Returns `false` if the connection is closed.
    pub(super) fn read_available(&self) -> bool {
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
            let read = self.read(Patience::None);
            let _ = self.transmit(Sender::Reader, None);
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
        let mut limit = {
            let mut state = lock(&self.state);
            while state.is_read && state.core.lost().is_none() && !state.is_closing {
                state = { self.free.wait(state) }.unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_read {
                return;
            }
            state.is_read = true;
            state.core.poll_timeout()
        };
        while self
            .read(limit.map_or(Patience::Unlimited, Patience::Until))
            .is_some()
        {
            let _ = self.transmit(Sender::Reader, None);
            // Input may have brought a time limit for which no thread waits. Those of calls wake their own threads.
            limit = lock(&self.state).core.poll_timeout();
            if has_passed(limit) {
                self.handle_timeout();
                limit = lock(&self.state).core.poll_timeout();
            }
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

    /// Wakes another thread to read if no thread does. A thread that does not sleep checks for itself.
    pub(super) fn pass_on(&self, state: &State) {
        if state.is_read {
            return;
        }
        if state.has_reader || state.is_closing {
            return self.free.notify_all();
        }
        let sleeper = |slot: &Slot| match slot {
            Slot::Thread(Some(sleeper)) => Some(Arc::clone(sleeper)),
            Slot::Thread(None) | Slot::Ended(_) | Slot::Callback(_) => None,
        };
        if let Some(sleeper) = state.slots.values().find_map(sleeper) {
            sleeper.notify_one();
        } else if state.num_event_waiters > 0 {
            self.arrived.notify_all();
        }
    }

    /// Reads and handles input. Returns `None` if the connection is closed. The caller has set `is_read`.
    pub(super) fn read(&self, patience: Patience) -> Option<Read> {
        let socket = self.socket.as_ref()?;
        let flags = match patience {
            Patience::Unlimited => RecvFlags::empty(),
            Patience::None => RecvFlags::DONTWAIT,
            Patience::Until(end) => {
                let left = end.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).ok();
                // An interrupted poll only causes another iteration of the caller.
                let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], left.as_ref());
                RecvFlags::DONTWAIT
            }
        };
        let mut buffer = lock(&self.buffer);
        let read = loop {
            match rustix::net::recv(socket, &mut buffer[..], flags) {
                Ok((0, _)) => break Err(ErrorKind::UnexpectedEof.into()),
                Ok((len, _)) => break Ok(buffer.get(..len).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Some(Read::Nothing),
                Err(error) => break Err(io::Error::from(error)),
            }
        };
        let (is_open, effects) = {
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
        self.apply(effects);
        is_open.then_some(Read::Bytes)
    }

    /// Queues callbacks and wakes threads. No lock is held, since a rejected callback is dropped here and may hold
    /// objects of the program.
    fn apply(&self, effects: Effects) {
        for (then, outcome) in effects.calls {
            self.worker.post(Box::new(move || then(outcome)));
        }
        if effects.num_deliveries > 0 {
            self.deliver(effects.num_deliveries);
        }
        if effects.is_lost {
            self.worker.client_event(ClientEvent::Lost);
        }
        if effects.wakes_event_waiters {
            self.arrived.notify_all();
        }
        if let Some(alarm) = effects.alarm {
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
    fn deliver(&self, number: usize) {
        if let Err(error) = self.worker.begin() {
            tracing::warn!("cannot deliver an event now: {error}");
            let mut state = lock(&self.state);
            // The items stay in the queue, and the next change of the core tries again.
            state.num_deliveries = state.num_deliveries.saturating_sub(number);
            return;
        }
        for _ in 0..number {
            let own = Weak::clone(&self.own);
            let deliver = move || {
                if let Some(shared) = own.upgrade()
                    && let Some(event) = shared.take_for_listener()
                {
                    shared.worker.deliver(event);
                }
            };
            self.worker.post(Box::new(deliver));
        }
    }

    /// Returns the next item for the listener.
    fn take_for_listener(&self) -> Option<ClientEvent> {
        let mut state = lock(&self.state);
        state.num_deliveries = state.num_deliveries.saturating_sub(1);
        Some(match state.core.poll_unsolicited()? {
            Unsolicited::Event(event) => ClientEvent::Event(event),
            Unsolicited::Output(output) => ClientEvent::Output(output),
            Unsolicited::Question(question, event) => {
                ClientEvent::Group(event, GroupDecision::new(&self.own, question))
            }
        })
    }

    /// Handles the time limits of the core.
    fn tick(&self, alarm: Instant) {
        self.change(None, |state| {
            // An earlier time may have replaced this one.
            if state.alarm == Some(alarm) {
                state.alarm = None;
                state.core.handle_timeout(Instant::now());
            }
        });
    }
}
