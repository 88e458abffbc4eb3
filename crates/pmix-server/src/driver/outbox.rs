// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chunks that wait to be written to one peer.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use pmix_engine::Chunk;

/// Maximum number of slices of one system call.
const SLICES: usize = 64;

/// The length up to which bytes are copied together, since a system call is cheaper for one piece than for several.
const SMALL: usize = 256;

/// The pending output of one peer, in order. Bytes that are also sent to other peers are shared.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    chunks: VecDeque<Chunk>,
    /// Number of bytes of the first chunk that are already written.
    written: usize,
    len: usize,
}

/// The result of writing to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) num_bytes: usize,
    /// `true` if more bytes are pending and the socket may be writable.
    pub(super) takes_more: bool,
}

impl Outbox {
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.len += chunk.len();
        self.chunks.push_back(chunk);
    }

    /// Returns the number of pending bytes.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes without blocking, and stops after about `most` bytes. Otherwise a peer that reads as fast as this writes
    /// would block the others.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub(super) fn write(&mut self, to: &mut impl Write, most: usize) -> io::Result<Written> {
        let mut num_bytes = 0;
        while !self.is_empty() {
            if num_bytes >= most {
                return Ok(Written {
                    num_bytes,
                    takes_more: true,
                });
            }
            match self.write_once(to) {
                // A socket takes at least one byte or reports `WouldBlock`; a repeated call could loop forever.
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.advance(written);
                    num_bytes += written;
                }
                // The poll reports an event when the socket takes bytes again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Written {
            num_bytes,
            takes_more: false,
        })
    }

    fn write_once(&self, to: &mut impl Write) -> io::Result<usize> {
        if self.len <= SMALL {
            return self.write_small(to);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut used = 0;
        let mut skip = self.written;
        'full: for chunk in &self.chunks {
            for run in [chunk.head(), chunk.payload()] {
                let rest = run.get(skip..).unwrap_or_default();
                skip = skip.saturating_sub(run.len());
                if rest.is_empty() {
                    continue;
                }
                // The next call sends the chunks for which this one has no slices.
                let Some(slice) = slices.get_mut(used) else {
                    break 'full;
                };
                *slice = IoSlice::new(rest);
                used += 1;
            }
        }
        to.write_vectored(slices.get(..used).unwrap_or_default())
    }

    fn write_small(&self, to: &mut impl Write) -> io::Result<usize> {
        let mut bytes = [0; SMALL];
        let mut used = 0;
        let mut skip = self.written;
        for run in self.chunks.iter().flat_map(|c| [c.head(), c.payload()]) {
            let rest = run.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(run.len());
            if let Some(room) = bytes.get_mut(used..used + rest.len()) {
                room.copy_from_slice(rest);
                used += rest.len();
            }
        }
        to.write(bytes.get(..used).unwrap_or_default())
    }

    fn advance(&mut self, written: usize) {
        self.len = self.len.saturating_sub(written);
        self.written += written;
        while let Some(first) = self.chunks.front() {
            // The first chunk is not written completely, so it stays.
            let Some(over) = self.written.checked_sub(first.len()) else {
                break;
            };
            self.written = over;
            self.chunks.pop_front();
        }
    }
}
