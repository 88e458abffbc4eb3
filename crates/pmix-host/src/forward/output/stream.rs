// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream of a process: its pipe or pseudo terminal, and where its output goes.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use mio::unix::pipe::Receiver;
use pmix_types::Proc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::forward::delivery::{OutputChunk, OutputStream};
use crate::forward::files::{Failure, FileId, Files};
use crate::forward::line_ends::LineEnds;
use crate::forward::lines::Lines;
use crate::forward::sink::Sink;

/// The largest number of bytes on their way through a pseudo terminal.
const MAX_IN_TERMINAL: usize = 64 << 10;

/// The end of a stream that the host reads.
pub(super) enum Origin {
    /// The pipe or pseudo terminal of a process of this node.
    Pipe(Receiver),
    /// The bytes that the host received from another node.
    Fed(Fed),
}

/// The bytes of a stream of another node that were not delivered yet.
pub(super) struct Fed {
    /// The feeder, by a numbering of the host.
    pub(super) feeder: usize,
    pub(super) bytes: VecDeque<u8>,
    /// `true` if no more bytes follow.
    pub(super) has_ended: bool,
    /// The number of bytes that were delivered and not counted by the host.
    pub(super) num_taken: usize,
}

impl Origin {
    /// Reads bytes, as [`io::Read`] with a nonblocking descriptor.
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.read(piece),
            Self::Fed(fed) if fed.bytes.is_empty() && !fed.has_ended => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Self::Fed(fed) => {
                let len = fed.bytes.read(piece)?;
                fed.num_taken += len;
                Ok(len)
            }
        }
    }

    /// Sets the size of a pseudo terminal.
    pub(super) fn resize(&self, size: Winsize) {
        if let Self::Pipe(pipe) = self {
            // This fails for pipes, which have no size.
            let _ = tcsetwinsize(pipe, size);
        }
    }

    /// Returns the bytes of another node, with their feeder.
    pub(super) fn fed(&mut self) -> Option<&mut Fed> {
        match self {
            Self::Pipe(_) => None,
            Self::Fed(fed) => Some(fed),
        }
    }
}

/// A stream of a process.
pub(super) struct Stream {
    pub(super) source: Proc<'static>,
    pub(super) origin: Origin,
    pub(super) kind: OutputStream,
    /// `true` if the output goes to the stream of the host.
    pub(super) is_shown: bool,
    /// `true` if the output is only for pulls and is never shown.
    pub(super) is_for_pulls: bool,
    pub(super) lines: Option<Lines>,
    /// The filter for a pseudo terminal that converts line ends.
    pub(super) line_ends: Option<LineEnds>,
    /// The time for which an incomplete line is kept; `None` for no limit.
    pub(super) patience: Option<Duration>,
    /// The time at which the incomplete line is written.
    pub(super) part_until: Option<Instant>,
    /// `true` if the incomplete line follows a written one, so it has a deadline of its own.
    pub(super) is_part_new: bool,
    pub(super) file: Option<FileId>,
    /// `true` if the stream is queued for more reads.
    pub(super) queued: bool,
    /// Number of bytes still to be read before the stream is closed, after the launcher stopped waiting for
    /// it.
    pub(super) left: Option<usize>,
    /// The failure of its file.
    pub(super) failure: Option<Failure>,
}

/// The result of reading a stream.
pub(super) enum Read {
    /// There may be more.
    More,
    /// There is no more at the moment.
    Dry,
    /// The stream has ended.
    End,
}

impl Stream {
    pub(super) fn chunk(&self, bytes: &[u8]) -> OutputChunk {
        OutputChunk {
            source: self.source.clone(),
            kind: self.kind,
            bytes: bytes.to_vec(),
        }
    }

    /// Returns `true` if the output is only shown on the given stream of the host.
    pub(super) fn is_only_for(&self, kind: usize) -> bool {
        self.is_shown && self.file.is_none() && self.kind as usize == kind
    }

    /// Records the time at which the incomplete line must be written.
    pub(super) fn note_part(&mut self, index: usize, parts: &mut BTreeSet<(Instant, usize)>) {
        let until = match (self.patience, &self.lines) {
            (Some(patience), Some(lines)) if lines.has_rest() => match self.part_until {
                Some(until) if !self.is_part_new => Some(until),
                _ => Instant::now().checked_add(patience),
            },
            _ => None,
        };
        self.is_part_new = false;
        if until != self.part_until {
            parts.extend(until.map(|until| (until, index)));
            if let Some(before) = std::mem::replace(&mut self.part_until, until) {
                parts.remove(&(before, index));
            }
        }
    }

    /// Returns `true` if a process may still have the pipe open for writing.
    pub(super) fn is_held(&self) -> bool {
        let pipe = match &self.origin {
            Origin::Pipe(pipe) => pipe,
            Origin::Fed(fed) => return !fed.has_ended,
        };
        // The kernel reports a hang-up once no process has the pipe open for writing.
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        let now = Timespec::default();
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::HUP)
    }

    /// Returns the number of bytes to read before a stream is closed whose pipe has `num_unread` bytes.
    pub(super) fn most_left(&self, num_unread: usize) -> usize {
        // The kernel counts only a part of the bytes on their way through a pseudo terminal.
        match &self.origin {
            Origin::Pipe(pipe) if rustix::termios::isatty(pipe) => num_unread.max(MAX_IN_TERMINAL),
            _ => num_unread,
        }
    }

    /// Returns the number of bytes in the pipe.
    pub(super) fn num_unread(&self) -> usize {
        match &self.origin {
            Origin::Pipe(pipe) => {
                let num_bytes = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
                usize::try_from(num_bytes).unwrap_or(usize::MAX)
            }
            Origin::Fed(fed) => fed.bytes.len(),
        }
    }

    pub(super) fn read(
        &mut self,
        piece: &mut [u8],
        out: Option<&mut Sink<'_>>,
        files: &mut Files,
        chunks: Option<&mut Vec<OutputChunk>>,
    ) -> Read {
        let most = self.left.unwrap_or(usize::MAX).min(piece.len());
        if most == 0 {
            return Read::End;
        }
        loop {
            return match self.origin.read(&mut piece[..most]) {
                Ok(0) => self.end(out, files, chunks),
                Ok(len) => {
                    if let Some(left) = &mut self.left {
                        *left -= len;
                    }
                    match self.line_ends.take() {
                        None => self.deliver(&piece[..len], out, files, chunks),
                        Some(mut ends) => {
                            self.deliver(ends.restore(&piece[..len]), out, files, chunks);
                            self.line_ends = Some(ends);
                        }
                    }
                    Read::More
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // `left` counted these bytes, so another process has read them from the pipe.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.left.is_some() => {
                    self.end(out, files, chunks)
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.deliver_held(out, files, chunks);
                    Read::Dry
                }
                // No process has the other end of the pseudo terminal open, and everything was read.
                Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    self.end(out, files, chunks)
                }
                Err(e) => {
                    tracing::warn!("output of a process is lost: {e}");
                    self.end(out, files, chunks)
                }
            };
        }
    }

    /// Passes bytes of the process to their destinations.
    fn deliver(
        &mut self,
        bytes: &[u8],
        out: Option<&mut Sink<'_>>,
        files: &mut Files,
        chunks: Option<&mut Vec<OutputChunk>>,
    ) {
        if let Some(chunks) = chunks
            && !bytes.is_empty()
        {
            chunks.push(self.chunk(bytes));
        }
        if let Some(file) = self.file {
            self.failure = files.push(file, bytes);
        }
        match (&mut self.lines, out) {
            (_, None) => {}
            (Some(lines), Some(out)) if lines.are_untagged() => {
                self.is_part_new |= lines.pass_untagged(bytes, |part| out.push(part));
            }
            (Some(lines), Some(out)) => lines.push(bytes, out.buffer()),
            (None, Some(out)) => out.push(bytes),
        }
    }

    /// Delivers a carriage return that was held back.
    fn deliver_held(
        &mut self,
        out: Option<&mut Sink<'_>>,
        files: &mut Files,
        chunks: Option<&mut Vec<OutputChunk>>,
    ) {
        if self.line_ends.as_mut().is_some_and(LineEnds::take_held) {
            self.deliver(b"\r", out, files, chunks);
        }
    }

    /// Delivers the rest of a stream that has ended.
    fn end(
        &mut self,
        out: Option<&mut Sink<'_>>,
        files: &mut Files,
        chunks: Option<&mut Vec<OutputChunk>>,
    ) -> Read {
        self.deliver_held(out, files, chunks);
        Read::End
    }
}
