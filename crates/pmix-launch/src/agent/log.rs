// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log requests of processes (`PMIx_Log`). The channels are the launcher's standard streams and the node's system
//! log.

mod asked;
mod repeated;
mod syslog;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::Instant;

use pmix_host::forward::{LineForm, OutputForwarder, OutputStream};
use pmix_server::Completion;
use pmix_server::upcall::Log;
use pmix_types::{Info, Proc, Status};

use self::asked::{Channel, Form};
use self::repeated::Repeated;
use self::syslog::Fault;

/// The largest number of bytes of one process that wait for room; further texts are refused.
const MOST_OF_ONE: usize = 1 << 20;
/// The largest number of bytes of all processes that wait for room.
const MOST: usize = 16 << 20;
/// The largest number of rejected channels that messages name.
const MOST_NAMED: usize = 8;
/// The number of bytes that are written before the streams of the processes get their turn.
const TURN: usize = 64 << 10;

/// Texts that wait because earlier output was not yet read. A request completes when its text is written, so its
/// caller waits like a process that writes to a full pipe.
#[derive(Default)]
pub(crate) struct Logs {
    waiting: VecDeque<Entry>,
    num_bytes: usize,
    /// The waiting bytes of each process.
    of_proc: HashMap<Proc<'static>, usize>,
    repeated: Repeated,
}

/// The destinations of texts.
pub(crate) struct Outlets<'f, 'a> {
    pub(crate) forward: &'f mut OutputForwarder<'a>,
    /// The socket of the system log.
    pub(crate) syslog: &'f Path,
}

/// The result of distributing the texts of one request to their channels.
#[derive(Debug, Default)]
struct Distributed {
    /// The texts for the standard streams.
    texts: Vec<(OutputStream, Vec<u8>)>,
    /// The number of texts that were sent to other channels.
    num_sent: usize,
    /// The first channels that rejected their text.
    faults: Vec<(&'static str, Fault)>,
    /// The cost of the texts for the system log.
    num_bytes: usize,
}

impl Distributed {
    fn of(call: &Log, asked: &Form, log_socket: &Path) -> Self {
        let mut distributed = Self::default();
        for info in &call.data {
            let Some((channel, name)) = Channel::of(info) else {
                continue;
            };
            // With `PMIX_LOG_ONCE` only the first working channel gets the text.
            if asked.is_once && distributed.num_taken() > 0 {
                break;
            }
            if let Err(fault) = distributed.add(channel, name, info, call, asked, log_socket)
                && distributed.faults.len() < MOST_NAMED
            {
                distributed.faults.push((name, fault));
            }
        }
        distributed
    }

    fn add(
        &mut self,
        channel: Channel,
        name: &str,
        info: &Info<'_>,
        call: &Log,
        asked: &Form,
        log_socket: &Path,
    ) -> Result<(), Fault> {
        if channel == Channel::Missing {
            let why = "pmix run does not support this log channel";
            return Err(Fault::new(Status::ERR_NOT_SUPPORTED, why));
        }
        let text = asked::text(&info.value).ok_or_else(|| {
            let why = format!("a value of type {} is not a string", info.value.data_type());
            Fault::new(Status::ERR_BAD_PARAM, why)
        })?;
        let text = asked.write(name, text);
        match channel {
            Channel::Stream(stream) => self.texts.push((stream, text)),
            _ => {
                self.num_bytes = self.num_bytes.saturating_add(syslog::cost(&text));
                syslog::fits(self.num_bytes)?;
                syslog::send(log_socket, asked.priority, &call.proc, &text)?;
                self.num_sent += 1;
            }
        }
        Ok(())
    }

    fn num_taken(&self) -> usize {
        self.texts.len() + self.num_sent
    }

    fn status(&self, is_once: bool) -> Status {
        match (self.num_taken(), self.faults.first()) {
            (0, None) => Status::ERR_NOT_SUPPORTED,
            (0, Some((_, fault))) => fault.status,
            (_, None) => Status::SUCCESS,
            _ if is_once => Status::SUCCESS,
            _ => Status::ERR_PARTIAL_SUCCESS,
        }
    }
}

/// The texts of one request that wait for room.
pub(crate) struct Entry {
    source: Proc<'static>,
    form: LineForm,
    texts: VecDeque<(OutputStream, Vec<u8>)>,
    /// The number of bytes of the first text that are written.
    written: usize,
    /// The status for the reply once all texts are written.
    status: Status,
    done: Completion<()>,
}

impl Logs {
    /// Writes the texts of a request to the standard streams or the system log. Returns the messages for channels
    /// that rejected their text: the reply to the caller has only a status.
    pub(crate) fn log(
        &mut self,
        call: Log,
        form: LineForm,
        done: Completion<()>,
        outlets: Outlets<'_, '_>,
    ) -> Vec<String> {
        let asked = match Form::read(&call.directives, &call.data) {
            Ok(asked) => asked,
            Err(fault) => {
                answer(done, fault.status);
                return vec![fault.why];
            }
        };
        let first = asked
            .kind
            .as_ref()
            .and_then(|kind| self.repeated.count(kind));
        if let Some(status) = first {
            answer(done, status);
            return Vec::new();
        }
        let distributed = Distributed::of(&call, &asked, outlets.syslog);
        let status = distributed.status(asked.is_once);
        if let Some(kind) = asked.kind.clone() {
            self.repeated.register(kind, status, Instant::now());
        }
        let faults = distributed.faults.into_iter();
        let faults: Vec<_> = faults
            .map(|(name, fault)| format!("{name}: {}", fault.why))
            .collect();
        let entry = Entry {
            source: call.proc,
            form,
            texts: distributed.texts.into(),
            written: 0,
            status,
            done,
        };
        // Texts are written in the order of their requests, so a new one does not overtake those that wait.
        let is_next =
            entry.texts.is_empty() || (self.is_empty() && entry.has_room(outlets.forward));
        let left = match is_next {
            true => entry.write(outlets.forward),
            false => Some(entry),
        };
        if let Some(Err(refused)) = left.map(|entry| self.push(entry)) {
            tracing::debug!("PMIx_Log from {:?} exceeds the limit", refused.source);
            refused.done.fail(Status::ERR_OUT_OF_RESOURCE);
        }
        faults
    }

    /// Returns the time for the next [`tick`](Self::tick), if messages were counted.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.repeated.deadline()
    }

    /// Reports the numbers of suppressed messages when their period is over.
    pub(crate) fn tick(&mut self, now: Instant) {
        for line in self.repeated.tick(now) {
            tracing::warn!("{line}");
        }
    }

    /// Reports the numbers of suppressed messages at the end of the session.
    pub(crate) fn end(&mut self) {
        for line in self.repeated.take() {
            tracing::warn!("{line}");
        }
    }

    /// Returns `true` if no text waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns `true` if the first waiting text can be written.
    pub(crate) fn is_busy(&self, forward: &OutputForwarder<'_>) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|entry| entry.has_room(forward))
    }

    /// Keeps a text until there is room, or returns it if too many bytes wait.
    fn push(&mut self, entry: Entry) -> Result<(), Entry> {
        let len = entry.len();
        let of_proc = self.of_proc.get(&entry.source).copied().unwrap_or(0);
        // A single text may have any size that the server accepts.
        let fits = of_proc + len <= MOST_OF_ONE && self.num_bytes + len <= MOST;
        if !fits && !self.waiting.is_empty() {
            return Err(entry);
        }
        self.add(&entry);
        self.waiting.push_back(entry);
        Ok(())
    }

    fn add(&mut self, entry: &Entry) {
        let len = entry.len();
        self.num_bytes += len;
        *self.of_proc.entry(entry.source.clone()).or_default() += len;
    }

    /// Writes waiting texts, up to the share of one turn.
    pub(crate) fn write(&mut self, forward: &mut OutputForwarder<'_>) {
        let mut written = 0;
        while written < TURN
            && let Some(entry) = self.waiting.front()
            && entry.has_room(forward)
            && let Some(entry) = self.waiting.pop_front()
        {
            let len = entry.len();
            self.subtract(&entry);
            let left = entry.write(forward);
            written += len - left.as_ref().map_or(0, Entry::len);
            if let Some(left) = left {
                self.add(&left);
                self.waiting.push_front(left);
            }
        }
    }

    /// Drops all waiting texts, fails their requests, and returns the number of bytes.
    pub(crate) fn lose(&mut self) -> u64 {
        let all = std::mem::take(self);
        self.repeated = all.repeated;
        for entry in all.waiting {
            entry.done.fail(Status::ERR_LOST_CONNECTION);
        }
        all.num_bytes as u64
    }

    fn subtract(&mut self, entry: &Entry) {
        let len = entry.len();
        self.num_bytes -= len;
        if let Some(of_proc) = self.of_proc.get_mut(&entry.source) {
            *of_proc -= len;
            if *of_proc == 0 {
                self.of_proc.remove(&entry.source);
            }
        }
    }
}

impl Entry {
    fn len(&self) -> usize {
        let len: usize = self.texts.iter().map(|(_, text)| text.len()).sum();
        len - self.written
    }

    fn has_room(&self, forward: &OutputForwarder<'_>) -> bool {
        self.texts.iter().all(|&(kind, _)| forward.has_room(kind))
    }

    /// Writes the texts and answers the request, or returns what the streams have no room for.
    fn write(mut self, forward: &mut OutputForwarder<'_>) -> Option<Self> {
        while let Some((kind, text)) = self.texts.front() {
            let rest = text.get(self.written..).unwrap_or_default();
            self.written += forward.write_as(&self.source, self.form, *kind, rest);
            if self.written < text.len() {
                return Some(self);
            }
            self.written = 0;
            self.texts.pop_front();
        }
        answer(self.done, self.status);
        None
    }
}

fn answer(done: Completion<()>, status: Status) {
    match status {
        Status::SUCCESS => done.succeed(()),
        status => done.fail(status),
    }
}
