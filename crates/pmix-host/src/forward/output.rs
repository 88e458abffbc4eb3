// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copy of output from the pipes of processes to the streams of the host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::unix::pipe::Receiver;
use mio::{Interest, Registry, Token};
use pmix_types::{Nspace, Proc};
use rustix::termios::Winsize;

use self::stream::{Fed, Origin, Read, Stream};
use super::delivery::{Delivery, HeldStream, LineForm, OutputChunk, OutputStream};
use super::files::{Failure, Files};
use super::line_ends::LineEnds;
use super::lines::lines;
use super::sink::Sink;
use crate::helpers::Helpers;

mod stream;
#[cfg(test)]
mod tests;

/// The number of bytes of one read.
///
/// Splicing from the pipe to a file takes as much processor time as reading and writing, since the kernel copies the
/// data in both cases: two loops in C took 0.90 and 0.82 s for 1 GiB from four `dd bs=64k` to a file in memory, the
/// minimum of four runs each (commit c0ec4125).
const PIECE: usize = 64 << 10;
/// Number of reads of one stream before the other streams are served.
const READS_A_TURN: usize = 4;
/// Size of the pipes of the first streams, so that processes with much output rarely block.
const LARGE_PIPE: usize = PIECE * READS_A_TURN;
/// Number of streams with such pipes; the system limits the total size of the pipes of a user.
const NUM_LARGE: usize = 16;

/// The forwarder of output from processes to two streams of the host and to files. It puts tags before lines if
/// requested, and keeps a copy for peers that pull the output.
///
/// The host adds the pipes of each process ([`add`](Self::add)) and passes every token of the poll to
/// [`handle_ready`](Self::handle_ready). Then it calls [`turn`](Self::turn), which never waits. While
/// [`is_busy`](Self::is_busy) returns `true`, it calls `turn` again without waiting for the poll. It calls
/// [`tick`](Self::tick) at the [`deadline`](Self::deadline), if there is one.
///
/// At most 256 KiB are pending for each stream of the host, and 1 MiB for each file. Beyond that the pipes are not
/// read, and the processes wait. A file that fails is reported on the host's standard error and not written any more.
/// Its stream is then read only for pulls; without pulls the process gets the error of a pipe without a reader.
pub struct OutputForwarder<'a> {
    /// The first token of the streams; the two tokens before it belong to the sinks.
    first: usize,
    streams: Vec<Option<Stream>>,
    /// The indexes of closed streams.
    free: Vec<usize>,
    num_open: usize,
    sinks: [Sink<'a>; 2],
    files: Files,
    /// `true` for a sink that is registered with the poll for writability.
    awaited: [bool; 2],
    /// Streams that may have more input; an edge-triggered poll reports each event only once.
    unread: Vec<usize>,
    /// Streams with an incomplete line, by the time at which it is written.
    parts: BTreeSet<(Instant, usize)>,
    /// The output read since the last call of `chunks`, if collected.
    chunks: Option<Vec<OutputChunk>>,
    piece: Vec<u8>,
    /// The name of the node, for tags.
    host: String,
    /// The indexes of the streams of other nodes.
    fed: BTreeMap<(Proc<'static>, usize), usize>,
    /// The delivered bytes of each feeder.
    taken: BTreeMap<usize, usize>,
    /// `true` if pipes are not read.
    is_held: bool,
}

impl<'a> OutputForwarder<'a> {
    /// Creates a forwarder without pipes that writes to two streams. It uses the token `first` of the
    /// poll and all above.
    #[must_use]
    pub fn new(first: usize, output: BorrowedFd<'a>, errors: BorrowedFd<'a>) -> Self {
        Self {
            first: first + 2,
            streams: Vec::new(),
            free: Vec::new(),
            num_open: 0,
            sinks: [Sink::new(output), Sink::new(errors)],
            files: Files::default(),
            awaited: [false; 2],
            unread: Vec::new(),
            parts: BTreeSet::new(),
            chunks: None,
            piece: vec![0; PIECE],
            host: String::new(),
            fed: BTreeMap::new(),
            taken: BTreeMap::new(),
            is_held: false,
        }
    }

    /// Sets the name of the node in [detailed](LineForm::Detailed) tags.
    #[must_use]
    pub fn on_host(mut self, name: &str) -> Self {
        name.clone_into(&mut self.host);
        self
    }

    /// Sets the threads that write files, since a disk may be slow or never respond. The threads wake the host after a
    /// write. Without threads [`turn`](Self::turn) waits for disks.
    #[must_use]
    pub fn write_files_by(mut self, helpers: Helpers) -> Self {
        self.files.write_by(helpers);
        self
    }

    /// Enables [`take_chunks`](Self::take_chunks) if `kept` is `true`.
    #[must_use]
    pub fn keep_chunks_if(mut self, kept: bool) -> Self {
        self.chunks = kept.then(Vec::new);
        self
    }

    /// Returns the output read since the last call, for [`iof_deliver`](pmix_server::Server::iof_deliver). It is empty
    /// unless enabled by [`keep_chunks_if`](Self::keep_chunks_if).
    pub fn take_chunks(&mut self) -> Vec<OutputChunk> {
        self.chunks.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds the pipe, or the pseudo terminal, of one stream of a process.
    ///
    /// # Errors
    /// Returns an error if the pipe cannot be registered with the poll.
    pub fn add(
        &mut self,
        registry: &Registry,
        source: Proc<'static>,
        delivery: impl Into<Delivery>,
        kind: OutputStream,
        mut pipe: Receiver,
    ) -> io::Result<()> {
        let index = self.free.last().copied().unwrap_or(self.streams.len());
        registry.register(&mut pipe, Token(self.first + index), Interest::READABLE)?;
        if self.num_open < NUM_LARGE
            && let Err(e) = rustix::pipe::fcntl_setpipe_size(&pipe, LARGE_PIPE)
        {
            tracing::debug!("a pipe for output stays as large as it is: {e}");
        }
        let host = std::mem::take(&mut self.host);
        self.open(source, delivery.into(), kind, Origin::Pipe(pipe), &host);
        self.host = host;
        Ok(())
    }

    /// Adds one stream of a process of another node, `node`. Its bytes are passed by [`feed`](Self::feed), for example as
    /// a `feeder` received them from that node. The feeders are numbered by the host.
    pub fn add_fed(
        &mut self,
        (feeder, node): (usize, &str),
        source: Proc<'static>,
        delivery: impl Into<Delivery>,
        kind: OutputStream,
    ) {
        let fed = Fed {
            feeder,
            bytes: VecDeque::new(),
            has_ended: false,
            num_taken: 0,
        };
        let index = self.open(
            source.clone(),
            delivery.into(),
            kind,
            Origin::Fed(fed),
            node,
        );
        self.fed.insert((source, kind as usize), index);
    }

    /// Passes bytes of a stream that [`add_fed`](Self::add_fed) added, or its end if there are none. Returns `false` if
    /// the stream is not open; the bytes are lost then.
    ///
    /// The host limits the bytes of a feeder that [`take_fed`](Self::take_fed) has not returned.
    pub fn feed(&mut self, source: &Proc<'static>, kind: OutputStream, bytes: &[u8]) -> bool {
        let Some(&index) = self.fed.get(&(source.clone(), kind as usize)) else {
            return false;
        };
        let stream = self.streams.get_mut(index).and_then(Option::as_mut);
        let Some(fed) = stream.and_then(|stream| stream.origin.fed()) else {
            return false;
        };
        match bytes.is_empty() {
            true => fed.has_ended = true,
            false => fed.bytes.extend(bytes),
        }
        self.queue(index);
        true
    }

    /// Returns the numbers of bytes of each feeder that were delivered or dropped since the last call.
    pub fn take_fed(&mut self) -> BTreeMap<usize, usize> {
        std::mem::take(&mut self.taken)
    }

    /// Stops reading the pipes of processes while `is_held` is `true`, so that processes wait that write more than a
    /// pipe holds.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    fn open(
        &mut self,
        source: Proc<'static>,
        Delivery { shown, file }: Delivery,
        kind: OutputStream,
        origin: Origin,
        host: &str,
    ) -> usize {
        let index = self.free.pop().unwrap_or(self.streams.len());
        let stream = Some(Stream {
            is_shown: shown.is_some(),
            is_for_pulls: shown.is_none() && self.chunks.is_some(),
            lines: shown.and_then(|form| lines(&source, form, kind, host)),
            patience: match shown {
                Some(LineForm::WholeWithin(patience)) => Some(patience),
                _ => None,
            },
            line_ends: None,
            part_until: None,
            is_part_new: false,
            file: file.map(|file| self.files.add(file)),
            source,
            origin,
            kind,
            queued: false,
            left: None,
            failure: None,
        });
        match self.streams.get_mut(index) {
            Some(free) => *free = stream,
            None => self.streams.push(stream),
        }
        self.num_open += 1;
        index
    }

    /// Sets whether a pseudo terminal converts line ends (`OPOST` and `ONLCR`). While it does, the carriage returns that it
    /// adds are removed, so that all destinations get the bytes that the process has written.
    pub fn restore_line_ends(&mut self, source: &Proc<'_>, kind: OutputStream, is_converted: bool) {
        if let Some(stream) = self.stream_mut(source, kind) {
            let ends = stream.line_ends.get_or_insert_with(LineEnds::default);
            ends.is_converted = is_converted;
        }
    }

    /// Closes the pipe or pseudo terminal of one stream of a process, if it is open. Bytes in it are lost. A process with
    /// a pseudo terminal sees that its terminal was hung up.
    pub fn close_stream(&mut self, source: &Proc<'_>, kind: OutputStream) {
        let mut streams = self.streams.iter();
        let is_meant = |stream: &Stream| stream.kind == kind && stream.source == *source;
        if let Some(index) = streams.position(|stream| stream.as_ref().is_some_and(is_meant)) {
            self.close(index);
        }
    }

    fn stream_mut(&mut self, source: &Proc<'_>, kind: OutputStream) -> Option<&mut Stream> {
        let mut streams = self.streams.iter_mut().flatten();
        streams.find(|stream| stream.kind == kind && stream.source == *source)
    }

    /// Changes the size of all pseudo terminals among the pipes.
    pub fn resize(&self, size: Winsize) {
        for stream in self.streams.iter().flatten() {
            stream.origin.resize(size);
        }
    }

    /// Writes data on behalf of a process, for example from `PMIx_Log`, in the form of its lines. Returns the number of
    /// bytes taken: all of them, or fewer if the stream of the host has no [room](Self::has_room) for more. The caller
    /// passes the rest once there is room.
    #[must_use]
    pub fn write_as(
        &mut self,
        source: &Proc<'_>,
        form: LineForm,
        kind: OutputStream,
        bytes: &[u8],
    ) -> usize {
        let lines = lines(source, form, kind, &self.host);
        self.sinks[kind as usize].push_text(lines, bytes)
    }

    /// Writes a text of the host itself to its standard error, without a tag.
    pub fn write_error(&mut self, text: &[u8]) {
        let errors = &mut self.sinks[OutputStream::Errors as usize];
        errors.buffer().extend_from_slice(text);
        errors.flush();
    }

    /// Returns `true` if a stream of the host has room for more output.
    #[must_use]
    pub fn has_room(&self, kind: OutputStream) -> bool {
        !self.sinks[kind as usize].is_full()
    }

    /// Returns the number of bytes written to both streams so far.
    #[must_use]
    pub fn num_written(&self) -> u64 {
        self.sinks.iter().map(Sink::num_written).sum()
    }

    /// Returns the number of open pipes.
    #[must_use]
    pub fn num_open(&self) -> usize {
        self.num_open
    }

    /// Returns `true` if pipes of a job are open.
    #[must_use]
    pub fn has_open(&self, nspace: &Nspace<'_>) -> bool {
        let mut open = self.streams.iter().flatten();
        open.any(|stream| stream.source.nspace == *nspace)
    }

    /// Returns `true` if all output that was read has been written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty) && self.files.is_drained()
    }

    /// Returns `true` if there is work that needs no poll event.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let mut unread = self.unread.iter();
        !self.is_held
            && unread.any(|&index| match &self.streams[index] {
                Some(stream) => {
                    let has_room = !stream.is_shown || !self.sinks[stream.kind as usize].is_full();
                    has_room && stream.file.is_none_or(|file| !self.files.is_full(file))
                }
                None => false,
            })
    }

    /// Records an event of the poll. Returns `true` if the token is that of one of these pipes or streams.
    pub fn handle_ready(&mut self, Token(token): Token) -> bool {
        if token + 2 < self.first {
            return false;
        }
        if let Some(index) = token.checked_sub(self.first) {
            self.queue(index);
        }
        true
    }

    /// Queues a stream for reading in the next turn.
    fn queue(&mut self, index: usize) {
        if let Some(Some(stream)) = self.streams.get_mut(index)
            && !std::mem::replace(&mut stream.queued, true)
        {
            self.unread.push(index);
        }
    }

    /// Reads and writes without waiting, at most 256 KiB of each pipe.
    pub fn turn(&mut self, registry: &Registry) {
        // A file that has room again after this lets its streams be read in the same turn.
        let failures = self.files.turn(Instant::now());
        self.stop_writing(failures);
        let unread = match self.is_held {
            true => Vec::new(),
            false => std::mem::take(&mut self.unread),
        };
        for index in unread {
            let Some(stream) = self.streams[index].as_mut() else {
                continue;
            };
            let kind = stream.kind as usize;
            let sink = &mut self.sinks[kind];
            stream.queued = false;
            // The reader of the host has closed its end. The output then goes only to files and pulls.
            stream.is_shown &= !sink.is_closed();
            let mut read = Read::More;
            for _ in 0..READS_A_TURN {
                let (piece, files) = (&mut self.piece, &mut self.files);
                // A full destination stops the reads, so its process waits and the pending bytes stay bounded.
                read = match stream.is_shown {
                    true if sink.is_full() => break,
                    _ if stream.file.is_some_and(|file| files.is_full(file)) => break,
                    true => stream.read(piece, Some(sink), files, self.chunks.as_mut()),
                    false if stream.file.is_some() || stream.is_for_pulls => {
                        stream.read(piece, None, files, self.chunks.as_mut())
                    }
                    // Closing the pipe reports the loss of the reader to the process as if it had written to the file
                    // itself.
                    false => Read::End,
                };
                if !matches!(read, Read::More) || stream.failure.is_some() {
                    break;
                }
            }
            if let Some(fed) = stream.origin.fed() {
                *self.taken.entry(fed.feeder).or_default() += std::mem::take(&mut fed.num_taken);
            }
            stream.note_part(index, &mut self.parts);
            let failure = stream.failure.take();
            self.stop_writing(failure);
            match read {
                Read::More => self.queue(index),
                Read::Dry => {}
                Read::End => self.close(index),
            }
            self.flush(kind, registry);
        }
        // Text of the host and released lines do not belong to a stream that was read.
        for kind in 0..2 {
            self.flush(kind, registry);
        }
    }

    /// Returns the time at which an incomplete line must be written or a file retried; [`tick`](Self::tick) does it.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let part = self.parts.first().map(|&(until, _)| until);
        [part, self.files.deadline()].into_iter().flatten().min()
    }

    /// Abandons files that have accepted nothing for `patience`. Their pending bytes are lost, and a warning on the
    /// host's standard error names each file. Files that threads write are abandoned only if no thread makes progress.
    pub fn give_up_files(&mut self, patience: Duration, now: Instant) {
        let failures = self.files.give_up(patience, now);
        self.stop_writing(failures);
    }

    /// Returns `true` if bytes are pending for files.
    #[must_use]
    pub fn has_unwritten_files(&self) -> bool {
        !self.files.is_drained()
    }

    /// Reports failed files, and detaches their streams from them.
    fn stop_writing(&mut self, failures: impl IntoIterator<Item = Failure>) {
        for Failure { file, path, why } in failures {
            let streams = self.streams.iter_mut().enumerate();
            let meant: Vec<_> = streams
                .filter_map(|(index, stream)| {
                    let stream = stream.as_mut()?;
                    stream.file.take_if(|other| *other == file)?;
                    Some((index, stream.source.clone()))
                })
                .collect();
            let of = match meant.first() {
                Some((_, Proc { nspace, rank })) => format!(" of rank {rank} of {nspace}"),
                None => String::new(),
            };
            let line = format!(
                "warning: output{of} is no longer written to {}: {why}\n",
                path.display()
            );
            self.write_error(line.as_bytes());
            meant.into_iter().for_each(|(index, _)| self.queue(index));
        }
    }

    /// Releases incomplete lines whose time of [`LineForm::WholeWithin`] has passed. The next turn writes them.
    pub fn tick(&mut self, now: Instant) {
        while let Some(&(until, index)) = self.parts.first()
            && until <= now
        {
            self.parts.pop_first();
            if let Some(Some(stream)) = self.streams.get_mut(index)
                && let Some(lines) = &mut stream.lines
            {
                stream.part_until = None;
                lines.finish(self.sinks[stream.kind as usize].buffer());
            }
        }
    }

    /// Stops waiting for pipes of a job that other processes hold open: copies the bytes already in them,
    /// then closes them. Returns these streams and the number of bytes in each.
    pub fn drain_and_close(&mut self, nspace: &Nspace<'_>) -> Vec<HeldStream> {
        let mut held = Vec::new();
        for index in 0..self.streams.len() {
            let Some(stream) = &mut self.streams[index] else {
                continue;
            };
            if stream.source.nspace != *nspace {
                continue;
            }
            if stream.is_held() {
                // The holder may write for ever, so only the bytes that are in the pipe now are awaited.
                let num_bytes = stream.num_unread();
                stream.left = Some(stream.most_left(num_bytes));
                held.push(HeldStream {
                    source: stream.source.clone(),
                    kind: stream.kind,
                    num_bytes,
                });
            }
            // The next read closes the pipe if it is empty.
            self.queue(index);
        }
        held
    }

    /// Closes all pipes and drops pending output. Returns the number of lost bytes.
    pub fn discard(&mut self) -> u64 {
        let mut lost = 0;
        for index in 0..self.streams.len() {
            if let Some(stream) = &self.streams[index] {
                lost += stream.num_unread() as u64;
            }
            self.close(index);
        }
        lost += self.files.discard();
        for sink in &mut self.sinks {
            lost += sink.num_waiting() as u64;
            sink.discard();
        }
        lost
    }

    fn close(&mut self, index: usize) {
        if let Some(mut stream) = self.streams[index].take() {
            self.num_open -= 1;
            self.free.push(index);
            if let Some(fed) = stream.origin.fed() {
                // The rest is lost, so the feeder has room for it again.
                *self.taken.entry(fed.feeder).or_default() += fed.num_taken + fed.bytes.len();
                self.fed
                    .remove(&(stream.source.clone(), stream.kind as usize));
            }
            if let Some(file) = stream.file.take() {
                self.files.release(file);
            }
            if let Some(until) = stream.part_until.take() {
                self.parts.remove(&(until, index));
            }
            if let Some(chunks) = &mut self.chunks {
                // An empty chunk reports the end of the stream to the peers that pull it.
                chunks.push(stream.chunk(&[]));
            }
            if let Some(lines) = &mut stream.lines {
                lines.finish(self.sinks[stream.kind as usize].buffer());
            }
        }
    }

    /// Writes as much as the sink accepts, and registers for writability if bytes remain.
    fn flush(&mut self, kind: usize, registry: &Registry) {
        let sink = &mut self.sinks[kind];
        let was_closed = sink.is_closed();
        sink.flush();
        if sink.is_closed() && !was_closed {
            let written = self.streams.iter().enumerate();
            let orphans = written.filter(|(_, s)| s.as_ref().is_some_and(|s| s.is_only_for(kind)));
            for index in orphans.map(|(index, _)| index).collect::<Vec<_>>() {
                self.close(index);
            }
        }
        self.await_room(kind, registry);
    }

    fn await_room(&mut self, kind: usize, registry: &Registry) {
        let sink = &self.sinks[kind];
        let fd = sink.fd().as_raw_fd();
        let wanted = !sink.is_empty();
        let result = match (wanted, self.awaited[kind]) {
            // Another registration makes an edge-triggered poll report the current state again.
            (true, true) => {
                registry.reregister(&mut SourceFd(&fd), self.token(kind), Interest::WRITABLE)
            }
            (true, false) => {
                registry.register(&mut SourceFd(&fd), self.token(kind), Interest::WRITABLE)
            }
            (false, true) => registry.deregister(&mut SourceFd(&fd)),
            (false, false) => return,
        };
        match result {
            Ok(()) => self.awaited[kind] = wanted,
            // Standard output and error may be the same file, which can be registered only once.
            Err(e) => tracing::debug!("output cannot be awaited: {e}"),
        }
    }

    fn token(&self, kind: usize) -> Token {
        Token(self.first - 2 + kind)
    }
}
