// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that receive output, written without waiting for a disk or a reader.
//!
//! A pipe gets as many bytes as it has room for, and is retried. A helper thread writes any other file, since a disk
//! may be slow or never respond. If no thread accepts the bytes now, they are kept and retried. If no thread can be
//! started, this thread writes the file. The pending bytes of each file are bounded: while a file is full its streams
//! are not read, so only their processes wait.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};

use super::delivery::OutputFile;
use super::kind::kind_of;
use super::writing::Writing;
use crate::helpers::{Helpers, TaskState};

/// The largest number of pending bytes of a file, including those that a thread writes.
const FULL: usize = 1 << 20;

/// The time after which a full pipe, or a file that no thread accepted, is retried.
const RETRY: Duration = Duration::from_millis(20);

/// The id of a file in [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(usize);

/// The files that streams are written to.
#[derive(Default)]
pub(super) struct Files {
    queues: Vec<Option<FileQueue>>,
    writers: Writers,
    /// The index of the queue that is tried first.
    first: usize,
}

/// The threads that write files.
#[derive(Default)]
struct Writers {
    /// The threads. Without them, files are written by the caller.
    helpers: Option<Helpers>,
    /// The number of writes that threads have begun plus the number of pieces that they have written.
    progress: Arc<AtomicU64>,
    /// The progress at the last check, and the time when it was first seen.
    seen: Option<(u64, Instant)>,
    /// `true` after a write in a thread was abandoned, so the thread may never return.
    has_lost_thread: bool,
}

/// A file that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) file: FileId,
    pub(super) path: PathBuf,
    pub(super) why: String,
}

/// A file and its pending bytes.
struct FileQueue {
    path: PathBuf,
    file: Arc<File>,
    way: WriteMethod,
    /// The number of streams that are written to it.
    num_streams: usize,
    waiting: Vec<u8>,
    /// The bytes that a thread writes.
    writing: Option<Writing>,
    /// The time since which it has accepted nothing although bytes are pending.
    stuck_since: Option<Instant>,
    /// `true` if no thread accepted the pending bytes.
    is_refused: bool,
}

/// The way in which a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteMethod {
    /// By a write that may block.
    Blocking,
    /// By a write that accepts as many bytes as there is room for.
    NonBlocking,
}

impl Files {
    /// Sets the threads for writes that may block.
    pub(super) fn write_by(&mut self, helpers: Helpers) {
        self.writers.helpers = Some(helpers);
    }

    /// Adds the file of a stream. Several streams may have the same file.
    pub(super) fn add(&mut self, OutputFile { path, file }: OutputFile) -> FileId {
        let mut queues = self.queues.iter_mut().enumerate();
        let same = queues.find_map(|(place, queue)| {
            let queue = queue.as_mut()?;
            // Clones of a file share one offset, so their bytes need one order.
            Arc::ptr_eq(&queue.file, &file).then_some((place, queue))
        });
        if let Some((place, queue)) = same {
            queue.num_streams += 1;
            return FileId(place);
        }
        let queue = Some(FileQueue {
            way: WriteMethod::of(&file),
            path,
            file,
            num_streams: 1,
            waiting: Vec::new(),
            writing: None,
            stuck_since: None,
            is_refused: false,
        });
        match self.queues.iter().position(Option::is_none) {
            Some(place) => {
                self.queues[place] = queue;
                FileId(place)
            }
            None => {
                self.queues.push(queue);
                FileId(self.queues.len() - 1)
            }
        }
    }

    /// Queues bytes for a file, and writes as much as possible now.
    pub(super) fn push(&mut self, id: FileId, bytes: &[u8]) -> Option<Failure> {
        let queue = self.queues.get_mut(id.0)?.as_mut()?;
        let written = match (queue.way, &self.writers.helpers) {
            // No thread writes it.
            (WriteMethod::Blocking, None) => (&*queue.file).write_all(bytes),
            _ => {
                queue.waiting.extend_from_slice(bytes);
                queue.advance(&self.writers, Instant::now())
            }
        };
        written.err().and_then(|error| self.fail(id, &error))
    }

    /// Returns `true` while the streams of this file must not be read.
    pub(super) fn is_full(&self, id: FileId) -> bool {
        let queue = self.queues.get(id.0).and_then(Option::as_ref);
        queue.is_some_and(|queue| queue.num_waiting() >= FULL)
    }

    /// Writes as much as possible now. Returns the files that failed.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Failure> {
        let mut failures = Vec::new();
        self.writers.progress_since(now);
        let num_queues = self.queues.len();
        let first = std::mem::take(&mut self.first);
        let mut are_threads_taken = false;
        for place in (0..num_queues).map(|place| (first + place) % num_queues) {
            let Some(queue) = &mut self.queues[place] else {
                continue;
            };
            // No thread was free for a file before this one, so none is free now.
            if are_threads_taken && queue.is_refused {
                continue;
            }
            let result = queue.advance(&self.writers, now);
            if queue.is_refused && !are_threads_taken {
                are_threads_taken = true;
                // The files before it have the threads now and would get them again in the next turn.
                self.first = place;
            }
            match result {
                Err(error) => failures.extend(self.fail(FileId(place), &error)),
                Ok(()) => self.forget_if_done(FileId(place)),
            }
        }
        failures
    }

    /// Records that a stream of this file has ended.
    pub(super) fn release(&mut self, id: FileId) {
        if let Some(Some(queue)) = self.queues.get_mut(id.0) {
            queue.num_streams = queue.num_streams.saturating_sub(1);
        }
        self.forget_if_done(id);
    }

    /// Returns `true` if no bytes are pending.
    pub(super) fn is_drained(&self) -> bool {
        self.queues
            .iter()
            .flatten()
            .all(|queue| queue.num_waiting() == 0)
    }

    /// Returns the time at which a pipe, or a file that no thread accepted, must be retried.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let is_retried = |queue: &FileQueue| match queue.way {
            WriteMethod::NonBlocking => !queue.is_empty(),
            // A thread wakes the host itself when its write ends.
            WriteMethod::Blocking => queue.is_refused,
        };
        let mut queues = self.queues.iter().flatten();
        queues.any(is_retried).then(|| Instant::now() + RETRY)
    }

    /// Abandons the files that have accepted nothing for `patience`.
    ///
    /// A file in the hands of a thread is abandoned only if no thread has made progress for that time: files share a
    /// disk, so one waits for the writes of others. A file that waits for a thread is abandoned together with the files
    /// that occupy the threads, since its own waiting time says nothing about the disk.
    pub(super) fn give_up(&mut self, patience: Duration, now: Instant) -> Vec<Failure> {
        let progress_since = self.writers.progress_since(now);
        let is_late = |queue: &FileQueue| {
            let since = queue.stuck_since.unwrap_or(now);
            let since = match queue.way {
                WriteMethod::Blocking => since.max(progress_since),
                WriteMethod::NonBlocking => since,
            };
            !queue.is_empty() && now.saturating_duration_since(since) >= patience
        };
        let is_begun = |queue: &FileQueue| queue.writing.as_ref().is_some_and(Writing::has_begun);
        let mut late = self.queues.iter().flatten().filter(|queue| is_late(queue));
        self.writers.has_lost_thread |= late.any(is_begun);
        let has_lost_thread = self.writers.has_lost_thread;
        let is_stuck = |queue: &FileQueue| {
            let is_tried = queue.way == WriteMethod::NonBlocking || is_begun(queue);
            is_late(queue) && (is_tried || has_lost_thread)
        };
        let queues = self.queues.iter().enumerate();
        let stuck: Vec<_> = queues
            .filter(|(_, queue)| queue.as_ref().is_some_and(is_stuck))
            .map(|(place, _)| FileId(place))
            .collect();
        let lost = |files: &Self, id: FileId| {
            let queue = files.queues.get(id.0).and_then(Option::as_ref);
            let num_bytes = queue.map_or(0, FileQueue::num_left);
            io::Error::other(format!(
                "it accepted no data for {} ms, and {num_bytes} bytes are lost",
                patience.as_millis()
            ))
        };
        let failures = stuck.into_iter().filter_map(|id| {
            let error = lost(self, id);
            self.fail(id, &error)
        });
        failures.collect()
    }

    /// Drops the pending bytes, and returns their number.
    pub(super) fn discard(&mut self) -> u64 {
        let queues = std::mem::take(&mut self.queues);
        let waiting = queues.iter().flatten().map(|queue| queue.num_left() as u64);
        waiting.sum()
    }

    fn fail(&mut self, id: FileId, error: &io::Error) -> Option<Failure> {
        let queue = self.queues.get_mut(id.0)?.take()?;
        Some(Failure {
            file: id,
            path: self.writers.close(queue),
            why: error.to_string(),
        })
    }

    fn forget_if_done(&mut self, id: FileId) {
        let is_done = |queue: &mut FileQueue| queue.num_streams == 0 && queue.num_waiting() == 0;
        let queue = self.queues.get_mut(id.0);
        if let Some(done) = queue.and_then(|queue| queue.take_if(is_done)) {
            self.writers.close(done);
        }
    }
}

impl Writers {
    /// Closes a file in a thread, since closing may write to a disk. Returns its path.
    fn close(&self, queue: FileQueue) -> PathBuf {
        let FileQueue {
            path, file, way, ..
        } = queue;
        if let (WriteMethod::Blocking, Some(helpers)) = (way, &self.helpers) {
            // The task is dropped, but the thread closes the file of cancelled work as well. If no thread accepts the
            // work, the file is closed here.
            let _ = helpers.run(move |_| drop(file));
        }
        path
    }

    /// Returns the time of the last progress of a thread.
    fn progress_since(&mut self, now: Instant) -> Instant {
        let progress = self.progress.load(Ordering::Relaxed);
        match self.seen {
            Some((seen, since)) if seen == progress => since,
            _ => {
                self.seen = Some((progress, now));
                now
            }
        }
    }
}

impl FileQueue {
    /// Returns the number of bytes kept for the file.
    fn num_waiting(&self) -> usize {
        self.waiting.len() + self.writing.as_ref().map_or(0, Writing::len)
    }

    /// Returns the number of bytes that the file has not accepted.
    fn num_left(&self) -> usize {
        self.waiting.len() + self.writing.as_ref().map_or(0, Writing::num_left)
    }

    fn is_empty(&self) -> bool {
        self.num_waiting() == 0
    }

    /// Writes as much as possible now, or starts a write in a thread.
    fn advance(&mut self, writers: &Writers, now: Instant) -> io::Result<()> {
        match (self.way, &writers.helpers) {
            (WriteMethod::NonBlocking, _) => self.write_some(now),
            (WriteMethod::Blocking, None) => Ok(()),
            (WriteMethod::Blocking, Some(helpers)) => {
                self.write_by(helpers, &writers.progress, now)
            }
        }
    }

    fn write_some(&mut self, now: Instant) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            let rest = self.waiting.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(());
            }
            match (&*self.file).write(rest) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => written += len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.waiting.drain(..written);
        self.stuck_since = match self.waiting.is_empty() {
            true => None,
            // A slow reader that accepts some bytes is not stuck.
            false if written > 0 => Some(now),
            false => self.stuck_since.or(Some(now)),
        };
        result
    }

    fn write_by(
        &mut self,
        helpers: &Helpers,
        progress: &Arc<AtomicU64>,
        now: Instant,
    ) -> io::Result<()> {
        if let Some(writing) = &mut self.writing {
            match writing.poll() {
                TaskState::Pending => return Ok(()),
                TaskState::Done(result) => result?,
                TaskState::Lost => {
                    return Err(io::Error::other("the thread that wrote it panicked"));
                }
            }
            self.writing = None;
            self.stuck_since = None;
        }
        self.is_refused = false;
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.stuck_since = self.stuck_since.or(Some(now));
        let bytes = std::mem::take(&mut self.waiting);
        match Writing::begin(helpers, &self.file, bytes, progress) {
            Ok(writing) => {
                self.writing = Some(writing);
                Ok(())
            }
            Err((bytes, error)) => {
                self.waiting = bytes;
                // A thread may accept the bytes when its work has ended. Without a thread, this one writes them.
                if helpers.has_thread() {
                    self.is_refused = true;
                    return Ok(());
                }
                tracing::debug!(
                    "cannot start a thread that writes {}; writes may block: {error}",
                    self.path.display()
                );
                self.write_some(now)
            }
        }
    }
}

impl WriteMethod {
    fn of(file: &File) -> Self {
        if !matches!(
            kind_of(file.as_fd()),
            Ok(FileType::Fifo | FileType::CharacterDevice)
        ) {
            return Self::Blocking;
        }
        let flags = rustix::fs::fcntl_getfl(file);
        let set = flags.and_then(|flags| rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK));
        match set {
            Ok(()) => Self::NonBlocking,
            Err(e) => {
                tracing::debug!("cannot make an output file nonblocking: {e}");
                Self::Blocking
            }
        }
    }
}

#[cfg(test)]
mod tests;
