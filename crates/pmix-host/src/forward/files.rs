// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that take the output of processes, written without ever waiting for a disk or a reader.
//!
//! A pipe takes as many bytes as it has room for, and is tried again. Any other file is written by a helper thread, one
//! piece at a time, as a disk may take long or never answer. Bytes that wait are bounded for each file: a stream is not
//! read while its file is full, so its process waits and the others go on.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};

use super::delivery::OutputFile;
use crate::helpers::{Helpers, Task, TaskState};

/// How many bytes may wait for one file, those counted that a thread writes.
const FULL: usize = 1 << 20;

/// After how long a pipe without room is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// Names a file of [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(usize);

/// The files that streams are written to.
#[derive(Default)]
pub(super) struct Files {
    queues: Vec<Option<Queue>>,
    /// Threads that write; without them files are written where they are pushed.
    helpers: Option<Helpers>,
}

/// A file that takes no more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) file: FileId,
    pub(super) path: PathBuf,
    pub(super) why: String,
}

/// One file, and the bytes that it has not taken.
struct Queue {
    path: PathBuf,
    file: Arc<File>,
    way: Way,
    /// How many streams go to it.
    num_streams: usize,
    waiting: Vec<u8>,
    /// How many bytes a thread writes, and its work.
    writing: Option<(usize, Task<io::Result<()>>)>,
    /// Since when it has taken nothing although bytes wait.
    stuck_since: Option<Instant>,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By a write that may take long.
    Blocking,
    /// By a write that takes as many bytes as there is room for.
    NonBlocking,
}

impl Files {
    /// Has threads write what may take long.
    pub(super) fn write_by(&mut self, helpers: Helpers) {
        self.helpers = Some(helpers);
    }

    /// Adds the file of one stream, which may be that of another stream already.
    pub(super) fn add(&mut self, OutputFile { path, file }: OutputFile) -> FileId {
        let mut queues = self.queues.iter_mut().enumerate();
        let same = queues.find_map(|(place, queue)| {
            let queue = queue.as_mut()?;
            Arc::ptr_eq(&queue.file, &file).then_some((place, queue))
        });
        if let Some((place, queue)) = same {
            queue.num_streams += 1;
            return FileId(place);
        }
        let queue = Some(Queue {
            way: Way::of(&file),
            path,
            file,
            num_streams: 1,
            waiting: Vec::new(),
            writing: None,
            stuck_since: None,
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

    /// Takes bytes for a file, and writes what can be written now.
    pub(super) fn push(&mut self, id: FileId, bytes: &[u8]) -> Option<Failure> {
        let helpers = self.helpers.as_ref();
        let queue = self.queues.get_mut(id.0)?.as_mut()?;
        let written = match (queue.way, helpers) {
            // Nothing else writes it.
            (Way::Blocking, None) => (&*queue.file).write_all(bytes),
            _ => {
                queue.waiting.extend_from_slice(bytes);
                queue.advance(helpers, Instant::now())
            }
        };
        written.err().and_then(|error| self.fail(id, &error))
    }

    /// Returns `true` while a stream that goes to this file is not to be read.
    pub(super) fn is_full(&self, id: FileId) -> bool {
        let queue = self.queues.get(id.0).and_then(Option::as_ref);
        queue.is_some_and(|queue| queue.num_waiting() >= FULL)
    }

    /// Writes what can be written, and returns the files that take no more.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Failure> {
        let mut failures = Vec::new();
        for place in 0..self.queues.len() {
            let helpers = self.helpers.as_ref();
            let Some(queue) = &mut self.queues[place] else {
                continue;
            };
            match queue.advance(helpers, now) {
                Err(error) => failures.extend(self.fail(FileId(place), &error)),
                Ok(()) => self.forget_if_done(FileId(place)),
            }
        }
        failures
    }

    /// Notes that a stream that goes to this file has ended.
    pub(super) fn release(&mut self, id: FileId) {
        if let Some(Some(queue)) = self.queues.get_mut(id.0) {
            queue.num_streams = queue.num_streams.saturating_sub(1);
        }
        self.forget_if_done(id);
    }

    /// Returns `true` if every file has taken all bytes.
    pub(super) fn is_drained(&self) -> bool {
        self.queues
            .iter()
            .flatten()
            .all(|queue| queue.num_waiting() == 0)
    }

    /// Returns when a pipe is to be tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let queues = self.queues.iter().flatten();
        let retried = queues.filter(|queue| queue.way == Way::NonBlocking && !queue.is_empty());
        retried
            .filter_map(|queue| queue.stuck_since)
            .map(|_| Instant::now() + RETRY)
            .min()
    }

    /// Gives up the files that have taken nothing for so long.
    pub(super) fn give_up(&mut self, patience: Duration, now: Instant) -> Vec<Failure> {
        let is_stuck = |queue: &Queue| {
            let since = queue.stuck_since.unwrap_or(now);
            queue.num_waiting() > 0 && now.saturating_duration_since(since) >= patience
        };
        let queues = self.queues.iter().enumerate();
        let stuck: Vec<_> = queues
            .filter(|(_, queue)| queue.as_ref().is_some_and(is_stuck))
            .map(|(place, _)| FileId(place))
            .collect();
        let lost = |files: &Self, id: FileId| {
            let queue = files.queues.get(id.0).and_then(Option::as_ref);
            let num_bytes = queue.map_or(0, Queue::num_waiting);
            io::Error::other(format!(
                "it took nothing for {} ms, and {num_bytes} bytes are lost",
                patience.as_millis()
            ))
        };
        let failures = stuck.into_iter().filter_map(|id| {
            let error = lost(self, id);
            self.fail(id, &error)
        });
        failures.collect()
    }

    /// Drops what files have not taken. Returns how many bytes that are.
    pub(super) fn discard(&mut self) -> u64 {
        let queues = std::mem::take(&mut self.queues);
        let waiting = queues
            .iter()
            .flatten()
            .map(|queue| queue.num_waiting() as u64);
        waiting.sum()
    }

    fn fail(&mut self, id: FileId, error: &io::Error) -> Option<Failure> {
        let queue = self.queues.get_mut(id.0)?.take()?;
        Some(Failure {
            file: id,
            path: queue.path,
            why: error.to_string(),
        })
    }

    fn forget_if_done(&mut self, id: FileId) {
        let is_done = |queue: &mut Queue| queue.num_streams == 0 && queue.num_waiting() == 0;
        if let Some(queue) = self.queues.get_mut(id.0) {
            queue.take_if(is_done);
        }
    }
}

impl Queue {
    fn num_waiting(&self) -> usize {
        let writing = self.writing.as_ref().map_or(0, |(len, _)| *len);
        self.waiting.len() + writing
    }

    fn is_empty(&self) -> bool {
        self.num_waiting() == 0
    }

    /// Writes what can be written now, or has a thread begin to.
    fn advance(&mut self, helpers: Option<&Helpers>, now: Instant) -> io::Result<()> {
        match (self.way, helpers) {
            (Way::NonBlocking, _) => self.write_some(now),
            (Way::Blocking, None) => Ok(()),
            (Way::Blocking, Some(helpers)) => self.write_by(helpers, now),
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
            false if written > 0 => Some(now),
            false => self.stuck_since.or(Some(now)),
        };
        result
    }

    fn write_by(&mut self, helpers: &Helpers, now: Instant) -> io::Result<()> {
        if let Some((_, task)) = &mut self.writing {
            match task.poll() {
                TaskState::Pending => return Ok(()),
                TaskState::Done(result) => result?,
                TaskState::Lost => return Err(io::Error::other("the thread that wrote it failed")),
            }
            self.writing = None;
            self.stuck_since = None;
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (bytes, file) = (std::mem::take(&mut self.waiting), Arc::clone(&self.file));
        let len = bytes.len();
        let task = helpers.run(move |_| (&*file).write_all(&bytes));
        self.writing = Some((len, task.map_err(io::Error::other)?));
        self.stuck_since = Some(now);
        Ok(())
    }
}

impl Way {
    fn of(file: &File) -> Self {
        let about = rustix::fs::fstat(file);
        let kind = about.map(|about| FileType::from_raw_mode(about.st_mode));
        if !matches!(kind, Ok(FileType::Fifo | FileType::CharacterDevice)) {
            return Self::Blocking;
        }
        let flags = rustix::fs::fcntl_getfl(file);
        let set = flags.and_then(|flags| rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK));
        match set {
            Ok(()) => Self::NonBlocking,
            Err(e) => {
                tracing::debug!("a file for output stays blocking: {e}");
                Self::Blocking
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    fn output(path: &str, file: File) -> OutputFile {
        OutputFile {
            path: path.into(),
            file: Arc::new(file),
        }
    }

    #[test]
    fn a_file_is_written_by_a_thread_in_order_and_forgotten_when_its_streams_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (woken, wakes) = channel();
        let woken = Mutex::new(woken);
        let mut files = Files::default();
        files.write_by(Helpers::new("test", 2, move || {
            let _ = woken.lock().unwrap().send(());
        }));
        let file = output("file", File::create(&path).unwrap());
        let first = files.add(file.clone());
        assert_eq!(files.add(file), first);
        for number in 0..1000 {
            assert_eq!(files.push(first, format!("{number}\n").as_bytes()), None);
        }
        files.release(first);
        files.release(first);
        while !files.is_drained() {
            wakes.recv().unwrap();
            assert_eq!(files.turn(Instant::now()), []);
        }
        let text: String = (0..1000).map(|number| format!("{number}\n")).collect();
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        assert!(files.queues.iter().all(Option::is_none));
    }

    #[test]
    fn a_pipe_that_is_not_read_is_full_and_holds_up_nothing() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut files = Files::default();
        let id = files.add(output(
            "fifo",
            File::from(std::os::fd::OwnedFd::from(writer)),
        ));
        let mut pushed = 0;
        while !files.is_full(id) {
            assert_eq!(files.push(id, &[7; 10_000]), None);
            pushed += 10_000;
        }
        assert!(files.deadline().is_some() && !files.is_drained());
        let now = Instant::now();
        assert_eq!(files.give_up(Duration::from_secs(60), now), []);
        let mut piece = vec![0; 60_000];
        while !files.is_drained() {
            pushed -= reader.read(&mut piece).unwrap();
            assert_eq!(files.turn(Instant::now()), []);
        }
        assert!(files.deadline().is_none());
        while pushed > 0 {
            pushed -= reader.read(&mut piece).unwrap();
        }
    }

    #[test]
    fn a_file_that_takes_nothing_is_given_up_by_its_name() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut files = Files::default();
        let id = files.add(output(
            "fifo",
            File::from(std::os::fd::OwnedFd::from(writer)),
        ));
        while files.is_drained() {
            assert_eq!(files.push(id, &[7; 10_000]), None);
        }
        let later = Instant::now() + Duration::from_secs(1);
        let failures = files.give_up(Duration::from_millis(200), later);
        let [failure] = &failures[..] else {
            panic!("{failures:?}");
        };
        assert_eq!(
            (failure.file, failure.path.as_os_str()),
            (id, "fifo".as_ref())
        );
        assert!(failure.why.contains("bytes are lost"), "{}", failure.why);
        assert!(files.is_drained());
    }

    #[test]
    fn a_pipe_that_nobody_reads_any_more_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        let mut files = Files::default();
        let id = files.add(output(
            "fifo",
            File::from(std::os::fd::OwnedFd::from(writer)),
        ));
        drop(reader);
        let failure = files.push(id, b"x").unwrap();
        assert!(failure.why.contains("Broken pipe"), "{}", failure.why);
        assert_eq!(files.push(id, b"x"), None);
    }
}
