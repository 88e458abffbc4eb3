// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the pipes of the processes to the streams of the launcher.

use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use mio::unix::SourceFd;
use mio::unix::pipe::Receiver;
use mio::{Interest, Registry, Token};
use pmix_types::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lines::Lines;
use super::sink::Sink;

/// One of the two streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

impl Kind {
    /// What it is called in a tag.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Output => "stdout",
            Self::Errors => "stderr",
        }
    }
}

/// A stream that somebody holds although its process has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) rank: Rank,
    pub(crate) kind: Kind,
    /// What is known of it: how much was in the pipe when it was no longer waited for.
    pub(crate) num_bytes: usize,
}

/// What is read from one stream before the others get their turn.
const TURN: usize = 64 << 10;

/// All streams of all processes, and where they go.
pub(crate) struct Forward<'a> {
    /// The name of the job, if lines are to be tagged.
    tag: Option<String>,
    /// Where the tokens of the streams begin; the two in front are those of the sinks.
    first: usize,
    streams: Vec<Option<Stream>>,
    num_open: usize,
    sinks: [Sink<'a>; 2],
    /// Whether the poll tells when the sink has room.
    awaited: [bool; 2],
    /// Streams that may have more to read; a poll tells of each piece of news only once.
    unread: Vec<usize>,
    /// What was read since it was last asked for, if it is.
    heard: Option<Vec<OutputChunk>>,
    piece: Vec<u8>,
}

/// A piece of what a process wrote; an empty one is the end of the stream.
pub(crate) struct OutputChunk {
    pub(crate) rank: Rank,
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

struct Stream {
    rank: Rank,
    pipe: Receiver,
    kind: Kind,
    lines: Option<Lines>,
    /// Whether it stands among those that may have more to read.
    queued: bool,
    /// How much is still read of it, once it is not waited for any longer.
    left: Option<usize>,
}

impl<'a> Forward<'a> {
    /// Nothing yet, bound for two streams. Its tokens are `first` and all above.
    pub(crate) fn new(
        first: usize,
        output: BorrowedFd<'a>,
        errors: BorrowedFd<'a>,
        tag: Option<String>,
    ) -> Self {
        Self {
            tag,
            first: first + 2,
            streams: Vec::new(),
            num_open: 0,
            sinks: [Sink::new(output), Sink::new(errors)],
            awaited: [false; 2],
            unread: Vec::new(),
            heard: None,
            piece: vec![0; TURN],
        }
    }

    /// Keeps what is read for [`Forward::heard`], or does not.
    pub(crate) fn heard_if(mut self, kept: bool) -> Self {
        self.heard = kept.then(Vec::new);
        self
    }

    /// What was read since the last time.
    pub(crate) fn heard(&mut self) -> Vec<OutputChunk> {
        self.heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a stream of a process.
    pub(crate) fn add(
        &mut self,
        registry: &Registry,
        rank: Rank,
        kind: Kind,
        mut pipe: Receiver,
    ) -> io::Result<()> {
        let index = self.streams.len();
        registry.register(&mut pipe, Token(self.first + index), Interest::READABLE)?;
        let lines = self.lines(rank, kind);
        self.streams.push(Some(Stream {
            rank,
            pipe,
            kind,
            lines,
            queued: false,
            left: None,
        }));
        self.num_open += 1;
        Ok(())
    }

    /// Writes something in the name of a process.
    pub(crate) fn say(&mut self, rank: Rank, kind: Kind, bytes: &[u8]) {
        let lines = self.lines(rank, kind);
        let out = self.sinks[kind as usize].buffer();
        match lines {
            Some(mut lines) => {
                lines.push(bytes, out);
                lines.finish(out);
            }
            None => out.extend_from_slice(bytes),
        }
    }

    /// Writes something of the launcher's own to its standard error.
    pub(crate) fn tell(&mut self, text: &[u8]) {
        let errors = &mut self.sinks[Kind::Errors as usize];
        errors.buffer().extend_from_slice(text);
        errors.flush();
    }

    fn lines(&self, rank: Rank, kind: Kind) -> Option<Lines> {
        let job = self.tag.as_ref()?;
        let stream = kind.name();
        Some(Lines::new(format!("[{job},{rank}]<{stream}>: ")))
    }

    /// Whether there is room for what is said on a stream of the launcher.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        !self.sinks[kind as usize].is_full()
    }

    /// How many bytes went out so far.
    pub(crate) fn num_written(&self) -> u64 {
        self.sinks.iter().map(Sink::num_written).sum()
    }

    /// How many streams may still bring something.
    pub(crate) fn num_open(&self) -> usize {
        self.num_open
    }

    /// Whether all that came went out.
    pub(crate) fn is_drained(&self) -> bool {
        self.sinks.iter().all(Sink::is_empty)
    }

    /// Whether there is something to do without waiting for news.
    pub(crate) fn is_busy(&self) -> bool {
        let mut unread = self.unread.iter();
        unread.any(|&index| match &self.streams[index] {
            Some(stream) => !self.sinks[stream.kind as usize].is_full(),
            None => false,
        })
    }

    /// Notes what a poll says of a token; whether it is one of ours.
    pub(crate) fn notice(&mut self, Token(token): Token) -> bool {
        if token + 2 < self.first {
            return false;
        }
        if let Some(index) = token.checked_sub(self.first) {
            self.queue(index);
        }
        true
    }

    /// Reads a stream in the next turn.
    fn queue(&mut self, index: usize) {
        if let Some(Some(stream)) = self.streams.get_mut(index)
            && !std::mem::replace(&mut stream.queued, true)
        {
            self.unread.push(index);
        }
    }

    /// Moves what can be moved without waiting: from each stream one turn's worth.
    pub(crate) fn turn(&mut self, registry: &Registry) {
        for index in std::mem::take(&mut self.unread) {
            let Some(stream) = self.streams[index].as_mut() else {
                continue;
            };
            let kind = stream.kind as usize;
            let sink = &mut self.sinks[kind];
            stream.queued = false;
            // Who wrote for a reader that went away is told as if the pipe had been its own.
            let read = match (sink.is_gone(), sink.is_full()) {
                (true, _) => Read::End,
                (false, true) => Read::More,
                (false, false) => stream.read(&mut self.piece, sink.buffer(), self.heard.as_mut()),
            };
            match read {
                Read::More => self.queue(index),
                Read::Dry => {}
                Read::End => self.close(index),
            }
            self.flush(kind, registry);
        }
        for kind in 0..2 {
            self.flush(kind, registry);
        }
    }

    /// Waits no longer for streams that somebody still holds; all that is in the pipes by now goes
    /// out, however long the readers take. Returns how many bytes that is of each stream that is
    /// held.
    pub(crate) fn abandon(&mut self) -> Vec<Held> {
        let mut held = Vec::new();
        for index in 0..self.streams.len() {
            let Some(stream) = &mut self.streams[index] else {
                continue;
            };
            if stream.is_held() {
                let num_bytes = stream.num_unread();
                stream.left = Some(num_bytes);
                held.push(Held {
                    rank: stream.rank,
                    kind: stream.kind,
                    num_bytes,
                });
            }
            // One that is empty is closed by this.
            self.queue(index);
        }
        held
    }

    /// Waits neither for streams nor for readers any longer. Returns how many bytes are lost by that.
    pub(crate) fn lose(&mut self) -> u64 {
        let mut lost = 0;
        for index in 0..self.streams.len() {
            if let Some(stream) = &self.streams[index] {
                lost += stream.num_unread() as u64;
            }
            self.close(index);
        }
        for sink in &mut self.sinks {
            lost += sink.num_waiting() as u64;
            sink.lose();
        }
        lost
    }

    fn close(&mut self, index: usize) {
        if let Some(mut stream) = self.streams[index].take() {
            self.num_open -= 1;
            if let Some(heard) = &mut self.heard {
                heard.push(stream.heard(&[]));
            }
            if let Some(lines) = &mut stream.lines {
                lines.finish(self.sinks[stream.kind as usize].buffer());
            }
        }
    }

    /// Writes what there is room for, and asks to be told of room if there is none.
    fn flush(&mut self, kind: usize, registry: &Registry) {
        let sink = &mut self.sinks[kind];
        let was_gone = sink.is_gone();
        sink.flush();
        if sink.is_gone() && !was_gone {
            let written = self.streams.iter().enumerate();
            let orphans =
                written.filter(|(_, s)| s.as_ref().is_some_and(|s| s.kind as usize == kind));
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
            // Asking again brings news even if nothing changes any more.
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
            // Standard output and error may be one and the same.
            Err(e) => tracing::debug!("output cannot be awaited: {e}"),
        }
    }

    fn token(&self, kind: usize) -> Token {
        Token(self.first - 2 + kind)
    }
}

/// How reading went.
enum Read {
    /// There may be more.
    More,
    /// There is no more for now.
    Dry,
    /// There will be no more.
    End,
}

impl Stream {
    fn heard(&self, bytes: &[u8]) -> OutputChunk {
        OutputChunk {
            rank: self.rank,
            kind: self.kind,
            bytes: bytes.to_vec(),
        }
    }

    /// Whether somebody may still write to it.
    fn is_held(&self) -> bool {
        let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
        let now = Timespec::default();
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::HUP)
    }

    /// How many bytes are in the pipe.
    fn num_unread(&self) -> usize {
        let num_bytes = rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0);
        usize::try_from(num_bytes).unwrap_or(usize::MAX)
    }

    fn read(
        &mut self,
        piece: &mut [u8],
        out: &mut Vec<u8>,
        heard: Option<&mut Vec<OutputChunk>>,
    ) -> Read {
        let most = self.left.unwrap_or(usize::MAX).min(piece.len());
        if most == 0 {
            return Read::End;
        }
        loop {
            return match self.pipe.read(&mut piece[..most]) {
                Ok(0) => Read::End,
                Ok(len) => {
                    if let Some(left) = &mut self.left {
                        *left -= len;
                    }
                    if let Some(heard) = heard {
                        heard.push(self.heard(&piece[..len]));
                    }
                    match &mut self.lines {
                        Some(lines) => lines.push(&piece[..len], out),
                        None => out.extend_from_slice(&piece[..len]),
                    }
                    Read::More
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // Of one that is not waited for, somebody else has read it.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.left.is_some() => Read::End,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Read::Dry,
                Err(e) => {
                    tracing::warn!("output of a process is lost: {e}");
                    Read::End
                }
            };
        }
    }
}
