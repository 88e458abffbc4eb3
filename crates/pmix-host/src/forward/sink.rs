// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream of the host itself, written without ever waiting for its reader.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::kind::kind_of;
use super::lines::{Lines, piece_of_lines};

/// Number of pending bytes above which no more output is accepted.
const FULL: usize = 256 << 10;
/// The largest number of bytes of one write.
const PIECE: usize = 64 << 10;
/// Size from which bytes are written directly, without a copy.
const DIRECT: usize = 16 << 10;
/// The size that a writable pipe accepts atomically (`PIPE_BUF` of Linux).
const SMALL: usize = 4096;

/// A stream of the host itself.
///
/// Its descriptor is shared with the parent of the host and the processes of the job, so it cannot be made
/// nonblocking. A reader that pauses still must not block the host: see [`WriteMethod`].
pub(super) struct Sink<'a> {
    fd: BorrowedFd<'a>,
    way: WriteMethod,
    waiting: Vec<u8>,
    written: usize,
    /// Number of bytes written so far.
    total: u64,
    is_closed: bool,
}

/// The method of writing without blocking.
enum WriteMethod {
    /// A pipe or terminal is opened again, and the new description is nonblocking.
    Own(OwnedFd),
    /// A socket is written with `MSG_DONTWAIT`.
    Socket,
    /// A file has room, or the write fails.
    File,
    /// Any other stream is polled before each write. A stream of another user cannot be opened again. Another
    /// writer may fill it between the poll and the write, and the write blocks then.
    Asked,
}

impl<'a> Sink<'a> {
    pub(super) fn new(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            way: WriteMethod::to(fd),
            waiting: Vec::new(),
            written: 0,
            total: 0,
            is_closed: false,
        }
    }

    /// Returns the descriptor to poll for writability.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            WriteMethod::Own(fd) => fd.as_fd(),
            WriteMethod::Socket | WriteMethod::File | WriteMethod::Asked => self.fd,
        }
    }

    /// Returns the buffer of pending bytes, for appending.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Appends bytes to the pending ones. Large pieces are written immediately as far as possible; the rest
    /// stays pending. A closed reader is detected by the next flush.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        // Pending bytes are written first, to keep the order.
        if bytes.len() >= DIRECT && !self.is_closed && self.write_waiting().is_ok() {
            while !bytes.is_empty() {
                match self.way.write(self.fd, bytes) {
                    Ok(written) => {
                        bytes = bytes.get(written..).unwrap_or_default();
                        self.total += written as u64;
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
        self.waiting.extend_from_slice(bytes);
    }

    /// Appends a text in the form of its lines until the sink is full. Returns the number of bytes taken.
    pub(super) fn push_text(&mut self, mut lines: Option<Lines>, text: &[u8]) -> usize {
        let mut rest = text;
        // A tag is longer than a short line, so a text of newlines takes 30 times its length once it is tagged.
        while !rest.is_empty() && !self.is_full() {
            let (piece, more) = rest.split_at(piece_of_lines(rest));
            match &mut lines {
                Some(lines) => {
                    lines.push(piece, &mut self.waiting);
                    lines.finish(&mut self.waiting);
                }
                None => self.waiting.extend_from_slice(piece),
            }
            rest = more;
        }
        text.len() - rest.len()
    }

    /// Returns `true` if the sink accepts no more bytes for now.
    pub(super) fn is_full(&self) -> bool {
        self.num_waiting() >= FULL
    }

    /// Returns `true` if no bytes are pending.
    pub(super) fn is_empty(&self) -> bool {
        self.num_waiting() == 0
    }

    /// Returns the number of pending bytes.
    pub(super) fn num_waiting(&self) -> usize {
        self.waiting.len() - self.written
    }

    /// Returns the number of bytes written so far.
    pub(super) fn num_written(&self) -> u64 {
        self.total
    }

    /// Returns `true` if the reader has closed the stream.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Drops the pending bytes.
    pub(super) fn discard(&mut self) {
        self.is_closed = true;
        self.waiting.clear();
        self.written = 0;
    }

    /// Writes as much as there is room for.
    pub(super) fn flush(&mut self) {
        if !self.is_closed
            && let Err(e) = self.write_waiting()
            && e != Errno::AGAIN
        {
            // A reader that wants no more output, such as `head`, is not an error.
            if e != Errno::PIPE {
                tracing::error!("output is lost: {}", io::Error::from(e));
            }
            self.is_closed = true;
        }
        if self.is_closed {
            self.waiting.clear();
            self.written = 0;
        }
    }

    /// Writes the pending bytes until an error occurs; a full stream is such an error.
    fn write_waiting(&mut self) -> Result<(), Errno> {
        let mut result = Ok(());
        while !self.is_empty() {
            match self.way.write(self.fd, &self.waiting[self.written..]) {
                Ok(written) => {
                    self.written += written;
                    self.total += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        if self.is_empty() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written >= FULL {
            // A removal moves all bytes after it, so it waits until it removes many.
            self.waiting.drain(..self.written);
            self.written = 0;
        }
        result
    }
}

impl WriteMethod {
    fn to(fd: BorrowedFd<'_>) -> Self {
        match kind_of(fd) {
            Ok(FileType::Socket) => Self::Socket,
            Ok(FileType::RegularFile) => Self::File,
            Ok(FileType::Fifo) => Self::again(fd),
            Ok(FileType::CharacterDevice) if rustix::termios::isatty(fd) => Self::again(fd),
            _ => Self::Asked,
        }
    }

    /// Reopens the file of a descriptor. A pipe without a reader cannot be opened.
    fn again(fd: BorrowedFd<'_>) -> Self {
        // A duplicate of the descriptor would share its flags with other processes.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(own) => Self::Own(own),
            Err(e) => {
                tracing::debug!("cannot reopen a stream of the host: {e}");
                Self::Asked
            }
        }
    }

    /// Writes some of the bytes. Returns `EAGAIN` if there is no room.
    fn write(&self, shared: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        match self {
            Self::Own(own) => rustix::io::write(own, piece),
            Self::Socket => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(shared, piece, flags)
            }
            Self::File => rustix::io::write(shared, piece),
            Self::Asked if has_room(shared) => {
                // The poll promises room for this number of bytes only.
                rustix::io::write(shared, &piece[..piece.len().min(SMALL)])
            }
            Self::Asked => Err(Errno::AGAIN),
        }
    }
}
/// Returns `true` if a write of one piece would not block.
fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&now)) {
        // A write to a broken pipe returns its error, so it counts as ready.
        Ok(ready) => ready > 0,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::{Duration, Instant};

    #[test]
    fn a_slow_reader_gets_everything_without_blocking() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut sink = Sink::new(writer.as_fd());
        let text: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        sink.buffer().extend_from_slice(&text);
        sink.flush();
        assert!(!sink.is_empty());
        let mut got = Vec::new();
        let mut piece = [0; 30_000];
        while got.len() < text.len() {
            let len = reader.read(&mut piece).unwrap();
            got.extend_from_slice(&piece[..len]);
            sink.flush();
        }
        assert!(sink.is_empty());
        assert_eq!(got, text);
    }

    #[test]
    fn it_is_full_before_memory_is() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut sink = Sink::new(writer.as_fd());
        let mut pushed = 0;
        while !sink.is_full() {
            sink.buffer().extend_from_slice(&[0; 4096]);
            sink.flush();
            pushed += 4096;
        }
        assert!(pushed <= FULL + (64 << 10) + 4096, "{pushed}");
    }

    #[test]
    fn a_pipe_filled_by_another_writer_does_not_block() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut sink = Sink::new(writer.as_fd());
        assert!(matches!(sink.way, WriteMethod::Own(_)));
        // A process that shares the pipe expects its description to remain blocking.
        let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        io::Write::write_all(&mut &writer, &[0; 64 << 10]).unwrap();
        sink.buffer().extend_from_slice(b"no room");
        sink.flush();
        assert_eq!((sink.num_waiting(), sink.num_written()), (7, 0));
    }

    #[test]
    fn an_unread_socket_does_not_block() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut sink = Sink::new(writer.as_fd());
        let text = vec![7; 1 << 20];
        sink.buffer().extend_from_slice(&text);
        sink.flush();
        assert!(!sink.is_empty());
        let mut got = vec![0; text.len()];
        let mut len = 0;
        while len < text.len() {
            len += reader.read(&mut got[len..]).unwrap();
            sink.flush();
        }
        assert_eq!(got, text);
        drop(reader);
        assert!(is_noticed(&mut sink));
    }

    #[test]
    fn a_reader_that_went_away_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut sink = Sink::new(writer.as_fd());
        assert!(is_noticed(&mut sink));
        assert!(sink.is_empty());
    }

    /// Writes until the sink is closed, for at most 10 s.
    fn is_noticed(sink: &mut Sink<'_>) -> bool {
        // A process that another test starts has a copy of the reader until it executes its program.
        let end = Instant::now() + Duration::from_secs(10);
        while !sink.is_closed() && Instant::now() < end {
            sink.buffer().push(0);
            sink.flush();
            std::thread::sleep(Duration::from_millis(1));
        }
        sink.is_closed()
    }

    #[test]
    fn a_file_takes_everything() {
        let mut file = tempfile::tempfile().unwrap();
        let mut sink = Sink::new(file.as_fd());
        // A stream that may block is polled before every 4 KiB; a file is not.
        assert!(matches!(sink.way, WriteMethod::File));
        sink.buffer().extend_from_slice(&[7; 100_000]);
        sink.flush();
        assert!(sink.is_empty());
        io::Seek::rewind(&mut file).unwrap();
        let mut got = Vec::new();
        file.read_to_end(&mut got).unwrap();
        assert_eq!(got, [7; 100_000]);
    }
}
