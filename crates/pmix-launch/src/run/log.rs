// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes ask to be logged: the launcher has two channels, its standard streams.

use std::collections::{HashMap, VecDeque};

use pmix_host::forward::{LineForm, OutputForwarder, OutputStream};
use pmix_server::Completion;
use pmix_server::upcall::Log;
use pmix_types::{Info, Proc, Status, Value, keys};

/// How many bytes of one process wait for room; what is beyond is refused.
const MOST_OF_ONE: usize = 1 << 20;
/// How many bytes of all processes wait for room.
const MOST: usize = 16 << 20;
/// How much goes out before the streams of the processes get their turn.
const TURN: usize = 64 << 10;

/// Texts that wait because nobody reads what was written before them. Who asked for one is answered
/// when it is on its way, as a process waits that writes to a full pipe.
#[derive(Default)]
pub(super) struct Logs {
    waiting: VecDeque<Entry>,
    num_bytes: usize,
    /// How many of them are of which process.
    of_proc: HashMap<Proc<'static>, usize>,
}

/// What one request asks for.
pub(super) struct Entry {
    source: Proc<'static>,
    form: LineForm,
    texts: Vec<(OutputStream, Vec<u8>)>,
    /// What is answered when all of it is on its way.
    status: Status,
    done: Completion<()>,
}

impl Logs {
    /// Writes what is for the streams of the launcher; nothing else is supported.
    pub(super) fn log(
        &mut self,
        call: Log,
        form: LineForm,
        done: Completion<()>,
        forward: &mut OutputForwarder<'_>,
    ) {
        let once = (call.directives.iter())
            .any(|info| info.key.is(keys::LOG_ONCE) && info.truth().is_true());
        let source = call.proc.clone();
        let (mut texts, mut refused) = (Vec::new(), 0);
        for info in call.data {
            let is_log = info.key.as_bytes().starts_with(b"pmix.log");
            match channel(info) {
                // With "once" the first channel that works is the only one.
                Some(_) if once && !texts.is_empty() => {}
                Some(text) => texts.push(text),
                None => refused += usize::from(is_log),
            }
        }
        let status = match (texts.len(), refused) {
            (0, _) => return answer(done, Status::ERR_NOT_SUPPORTED),
            (_, 0) => Status::SUCCESS,
            _ if once => Status::SUCCESS,
            _ => Status::ERR_PARTIAL_SUCCESS,
        };
        let entry = Entry {
            source,
            form,
            texts,
            status,
            done,
        };
        if self.is_empty() && entry.has_room(forward) {
            return entry.write(forward);
        }
        if let Err(refused) = self.push(entry) {
            tracing::debug!("{:?} logs more than is read", refused.source);
            refused.done.fail(Status::ERR_OUT_OF_RESOURCE);
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is room for the first that waits.
    pub(super) fn is_busy(&self, forward: &OutputForwarder<'_>) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|entry| entry.has_room(forward))
    }

    /// Keeps a text until there is room; hands it back if too many bytes wait.
    fn push(&mut self, entry: Entry) -> Result<(), Entry> {
        let len = entry.len();
        let of_proc = self.of_proc.get(&entry.source).copied().unwrap_or(0);
        // One alone may be of any size that the server takes.
        let fits = of_proc + len <= MOST_OF_ONE && self.num_bytes + len <= MOST;
        if !fits && !self.waiting.is_empty() {
            return Err(entry);
        }
        self.num_bytes += len;
        *self.of_proc.entry(entry.source.clone()).or_default() += len;
        self.waiting.push_back(entry);
        Ok(())
    }

    /// Writes a share of what there is room for.
    pub(super) fn write(&mut self, forward: &mut OutputForwarder<'_>) {
        let mut written = 0;
        while written < TURN
            && let Some(entry) = self.waiting.pop_front_if(|entry| entry.has_room(forward))
        {
            written += entry.len();
            self.forget(&entry);
            entry.write(forward);
        }
    }

    /// Drops all that waits. Returns how many bytes that is.
    pub(super) fn lose(&mut self) -> u64 {
        let all = std::mem::take(self);
        for entry in all.waiting {
            entry.done.fail(Status::ERR_LOST_CONNECTION);
        }
        all.num_bytes as u64
    }

    fn forget(&mut self, entry: &Entry) {
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
        self.texts.iter().map(|(_, text)| text.len()).sum()
    }

    fn has_room(&self, forward: &OutputForwarder<'_>) -> bool {
        self.texts.iter().all(|&(kind, _)| forward.has_room(kind))
    }

    fn write(self, forward: &mut OutputForwarder<'_>) {
        for (kind, text) in &self.texts {
            forward.write_as(&self.source, self.form, *kind, text);
        }
        answer(self.done, self.status);
    }
}

fn answer(done: Completion<()>, status: Status) {
    match status {
        Status::SUCCESS => done.succeed(()),
        status => done.fail(status),
    }
}

/// The stream that an info is for, and what is to be written there.
fn channel(info: Info<'static>) -> Option<(OutputStream, Vec<u8>)> {
    let kind = match () {
        () if info.key.is(keys::LOG_STDOUT) => OutputStream::Output,
        () if info.key.is(keys::LOG_STDERR) => OutputStream::Errors,
        () => return None,
    };
    match info.value {
        Value::String(Some(text)) => Some((kind, text.as_bytes().to_vec())),
        Value::ByteObject(bytes) => Some((kind, bytes.into_owned())),
        _ => None,
    }
}
