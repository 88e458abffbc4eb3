// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of the libraries on standard error, one line for each event, written by a thread.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::style::{Style, printable};

/// A subscriber that prints events up to a level. It ignores spans.
///
/// It replaces a formatting library, with which the command would start more slowly.
struct Lines {
    level: Level,
    style: Style,
}

/// Installs the subscriber. It prints warnings; with `-v`, also decisions and actions for users;
/// with `-vv`, also messages for developers; with `-vvv`, also the bytes of messages.
pub(crate) fn install(verbose: u8, style: Style) {
    let level = match verbose {
        0 => Level::WARN,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // This fails only if a subscriber is already installed, which is then kept.
    let _ = tracing::subscriber::set_global_default(Lines { level, style });
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Messages of the server about its clients are for developers. Users get the messages of
        // the launcher about the job.
        let of_server = ["pmix_server", "pmix_engine"];
        let is_quiet = self.level <= Level::INFO
            && of_server
                .iter()
                .any(|name| metadata.target().starts_with(name));
        let level = match (is_quiet, self.level) {
            (true, Level::WARN) => Level::ERROR,
            (true, _) => Level::WARN,
            (false, level) => level,
        };
        *metadata.level() <= level
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let label = match *event.metadata().level() {
            Level::ERROR => self.style.red("error:"),
            Level::WARN => self.style.yellow("warning:"),
            Level::INFO => self.style.dim("info:"),
            Level::DEBUG => self.style.dim("debug:"),
            Level::TRACE => self.style.dim("trace:"),
        };
        let mut line = Line::default();
        event.record(&mut line);
        let text = format!("{}{}", line.message, line.fields).replace('\n', " ");
        let text = printable(text.trim_end().as_bytes());
        let line = match speaker() {
            Some(speaker) => format!("{speaker} {label} {text}\n"),
            None => format!("{label} {text}\n"),
        };
        say(line.into_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The name of the command that writes messages, with a colon.
static SPEAKER: OnceLock<&'static str> = OnceLock::new();

/// Begins each further message with this name.
pub(crate) fn speak_as(name: &'static str) {
    SPEAKER.get_or_init(|| name);
}

/// Returns the name with which messages begin, if there is one.
pub(crate) fn speaker() -> Option<&'static str> {
    SPEAKER.get().copied()
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}

/// The maximum number of pending bytes. More lines are dropped and counted.
const MOST: usize = 256 << 10;

/// The time that the command waits at exit for a reader that reads nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pending output, once asynchronous writes are enabled.
static QUEUE: OnceLock<Queue> = OnceLock::new();

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Signals that bytes were added or written.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    num_bytes: usize,
    /// The number of dropped lines.
    dropped: u64,
    /// `true` while the thread writes bytes that it has taken from the queue.
    writes: bool,
    /// The number of writes so far.
    num_writes: u64,
}

/// Enables asynchronous writes: messages no longer block on the reader of standard error.
///
/// # Errors
/// The thread or descriptor cannot be created. Writes then stay synchronous.
pub(crate) fn never_wait() -> io::Result<()> {
    // Uses a separate descriptor, because the standard library locks its own during writes.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let named = thread::Builder::new().name("stderr".to_owned());
    // Blocks all signals, so that the thread is not woken for each process that terminates.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = named.spawn(move || QUEUE.get_or_init(Queue::default).write_all_to(stderr));
    signals.thread_set_mask()?;
    started?;
    QUEUE.get_or_init(Queue::default);
    Ok(())
}

/// Writes a text to standard error, or queues it for the thread.
pub(crate) fn say(text: Vec<u8>) {
    match QUEUE.get() {
        Some(queue) => queue.push(text),
        None => {
            // A failure of standard error cannot be reported anywhere.
            let _ = io::stderr().write_all(&text);
        }
    }
}

/// Waits until everything is written, unless the reader reads nothing.
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

    /// Writes queued bytes until the process exits.
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
            // A failure of standard error cannot be reported anywhere.
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

    /// Adds a line with the number of dropped lines at their place.
    fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let speaker = speaker().map(|speaker| format!("{speaker} "));
            let speaker = speaker.unwrap_or_default();
            let text = format!(
                "{speaker}warning: {dropped} messages were dropped here because standard error was not read\n"
            );
            self.put(text.into_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn messages_do_not_block_and_dropped_ones_are_counted() {
        let queue: &Queue = Box::leak(Box::default());
        let (mut reader, writer) = io::pipe().unwrap();
        thread::spawn(move || queue.write_all_to(writer));
        // The thread blocks in the middle of this write, which exceeds the capacity of a pipe.
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
        // From here on, the test reads standard error.
        let note = format!(
            "warning: {} messages were dropped here because standard error was not read\n",
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
