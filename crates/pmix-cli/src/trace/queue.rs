// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard error, written by a thread of its own where nobody is to wait for its reader.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};

/// How many bytes wait for the reader; lines that come when there are more are counted.
const MOST: usize = 256 << 10;

/// How long the command waits at its end for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// What waits to be written, once somebody wants to wait for nobody.
static QUEUE: OnceLock<Queue> = OnceLock::new();

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Something came, or went.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    num_bytes: usize,
    /// How many lines there was no room for.
    dropped: u64,
    /// The thread writes something that waits no longer.
    writes: bool,
    /// How many times something was written.
    num_writes: u64,
}

/// From now on nobody who says something waits for the reader of standard error.
///
/// # Errors
/// The system has no thread or descriptor for it; then everything is as before.
pub(crate) fn never_wait() -> io::Result<()> {
    // A descriptor of its own: the standard library locks its one while it writes.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let named = thread::Builder::new().name("stderr".to_owned());
    // It would be woken to take the signals of the others: one for each process that ends.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = named.spawn(move || QUEUE.get_or_init(Queue::default).write_all_to(stderr));
    signals.thread_set_mask()?;
    started?;
    QUEUE.get_or_init(Queue::default);
    Ok(())
}

/// Writes a text to standard error, or sees to it that it is written.
pub(crate) fn say(text: Vec<u8>) {
    match QUEUE.get() {
        Some(queue) => queue.push(text),
        None => {
            // Nobody is left to tell when standard error cannot be written.
            let _ = io::stderr().write_all(&text);
        }
    }
}

/// Waits until everything is written, but not for a reader that takes nothing.
pub(crate) fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.finish(PATIENCE);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, text: Vec<u8>) {
        let mut state = self.lock();
        if state.num_bytes + text.len() > MOST && !state.waiting.is_empty() {
            state.dropped += 1;
            return;
        }
        state.tell_dropped();
        state.put(text);
        self.changed.notify_all();
    }

    /// Writes what comes for as long as the process lives.
    fn write_all_to(&self, mut stderr: impl Write) {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() {
                state.tell_dropped();
            }
            let Some(text) = state.waiting.pop_front() else {
                state = self.wait(state, None);
                continue;
            };
            state.num_bytes -= text.len();
            state.writes = true;
            drop(state);
            // Nobody is left to tell when standard error cannot be written.
            let _ = stderr.write_all(&text);
            state = self.lock();
            state.writes = false;
            state.num_writes += 1;
            self.changed.notify_all();
        }
    }

    fn finish(&self, patience: Duration) {
        let mut state = self.lock();
        let mut seen = state.num_writes;
        let mut until = Instant::now() + patience;
        while state.writes || !state.waiting.is_empty() || state.dropped > 0 {
            let now = Instant::now();
            if state.num_writes != seen {
                seen = state.num_writes;
                until = now + patience;
            }
            if now >= until {
                return;
            }
            state = self.wait(state, Some(until - now));
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match limit {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.changed.wait_timeout(state, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}

impl State {
    fn put(&mut self, text: Vec<u8>) {
        self.num_bytes += text.len();
        self.waiting.push_back(text);
    }

    /// Says how many lines are missing at the place where they are.
    fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let text = format!(
                "warning: {dropped} messages are missing here, as nobody read standard error\n"
            );
            self.put(text.into_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn who_says_something_waits_for_no_reader_and_what_is_dropped_is_counted() {
        let queue: &Queue = Box::leak(Box::default());
        let (mut reader, writer) = io::pipe().unwrap();
        thread::spawn(move || queue.write_all_to(writer));
        // The thread stands in the middle of this one from now on: no pipe takes it whole.
        let first = vec![b'f'; 2 << 20];
        queue.push(first.clone());
        let until = Instant::now() + Duration::from_secs(60);
        while !queue.lock().writes {
            assert!(Instant::now() < until, "nothing is written");
            thread::yield_now();
        }
        let line = [vec![b'x'; 999], b"\n".to_vec()].concat();
        const LINES: usize = 10_000;
        for _ in 0..LINES {
            queue.push(line.clone());
        }
        let begun = Instant::now();
        queue.finish(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        let kept = MOST / line.len();
        assert_eq!(queue.lock().num_bytes, kept * line.len());
        assert_eq!(queue.lock().dropped, (LINES - kept) as u64);
        // From now on somebody reads.
        let note = format!(
            "warning: {} messages are missing here, as nobody read standard error\n",
            LINES - kept
        );
        let mut text = vec![0; first.len() + kept * line.len() + note.len()];
        reader.read_exact(&mut text).unwrap();
        assert!(text.starts_with(&first));
        assert!(text.ends_with(note.as_bytes()));
        queue.finish(Duration::from_secs(60));
        assert_eq!(queue.lock().num_bytes, 0);
    }
}
