// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inbox of a connection.
//!
//! Source: OpenPMIx, `ptl/base`; lengths are in bytes.

use std::collections::VecDeque;

use pmix_types::{Status, memory};

use super::{Header, MAX_HELLO};
use crate::Error;

/// A complete message: header and payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The header.
    pub header: Header,
    /// The payload. It is empty if it was [dropped](Inbox::dropping).
    pub payload: Vec<u8>,
}

impl Frame {
    /// Returns `true` if the payload is present, `false` if it was dropped.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        missing(self) == 0
    }
}

/// A splitter of a byte stream into frames. The stream may arrive in pieces of any size.
///
/// Memory grows with the received bytes, never with a length in a header. After an error in the
/// stream, [`next_frame`](Self::next_frame) returns the frames before the error, and then always
/// the error.
///
/// ```
/// use pmix_proto::{Header, Inbox, Tag};
/// let mut inbox = Inbox::new(1 << 20);
/// inbox.push(&Header::new(0, Tag(101), 2).encode());
/// assert_eq!(inbox.next_frame()?, None);
/// inbox.push(&[2, 0]);
/// assert_eq!(inbox.next_frame()?.unwrap().payload, [2, 0]);
/// # Ok::<(), pmix_proto::Error>(())
/// ```
#[derive(Debug)]
pub struct Inbox {
    max_payload: u32,
    /// `true` until the first frame has arrived, if it must be a hello.
    expects_hello: bool,
    ready: VecDeque<Frame>,
    /// The received bytes of an incomplete header.
    head: [u8; Header::LEN],
    head_len: usize,
    /// The frame whose payload is incomplete.
    partial: Option<Frame>,
    /// `true` if payloads for which the process has no memory are dropped.
    drops: bool,
    /// The number of bytes that have not yet arrived of a payload that is being dropped.
    num_dropped: usize,
    /// The offset of the next byte in the stream.
    offset: usize,
    fault: Option<Error>,
}

impl Inbox {
    /// Creates an inbox for payloads of at most `max_payload` bytes.
    #[must_use]
    pub const fn new(max_payload: u32) -> Self {
        Self {
            max_payload,
            expects_hello: false,
            ready: VecDeque::new(),
            head: [0; Header::LEN],
            head_len: 0,
            partial: None,
            drops: false,
            num_dropped: 0,
            offset: 0,
            fault: None,
        }
    }

    /// Creates an inbox for the server side of a connection. The first frame must be a hello of at
    /// most 128 KiB, and no later frame may be a hello.
    #[must_use]
    pub const fn of_server(max_payload: u32) -> Self {
        let mut inbox = Self::new(max_payload);
        inbox.expects_hello = true;
        inbox
    }

    /// Drops payloads for which the process has no memory, and continues after them. Without this
    /// option, such a payload is an error of the stream.
    #[must_use]
    pub const fn dropping(mut self) -> Self {
        self.drops = true;
        self
    }

    /// Handles the next bytes of the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while self.fault.is_none() && !bytes.is_empty() {
            bytes = match self.partial.take() {
                Some(frame) if self.num_dropped > 0 => self.skip(frame, bytes),
                Some(frame) => self.fill(frame, bytes),
                None => self.head(bytes),
            };
        }
    }

    /// Returns the next complete frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the length of a payload exceeds the limit; `PMIX_ERR_NOMEM` if
    /// the process has no memory for a payload that is not [dropped](Self::dropping);
    /// `PMIX_ERR_BAD_PARAM` if the stream must begin with a hello but does not. Each has the offset
    /// of the frame in the stream. Then the caller must close the connection.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        match (self.ready.pop_front(), &self.fault) {
            (Some(frame), _) => Ok(Some(frame)),
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Ok(None),
        }
    }

    /// Returns `true` if [`next_frame`](Self::next_frame) has a frame or an error to return.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        !self.ready.is_empty() || self.fault.is_some()
    }

    /// Returns `true` if a frame has begun but is incomplete.
    #[must_use]
    pub const fn is_inside_frame(&self) -> bool {
        self.head_len > 0 || self.partial.is_some()
    }

    /// Returns the length of the payload that is arriving, as its header states it; 0 if none is
    /// arriving.
    #[must_use]
    pub fn announced(&self) -> usize {
        let coming = self.partial.as_ref();
        coming.map_or(0, |frame| {
            frame.payload.len().saturating_add(missing(frame))
        })
    }

    /// Returns the number of received bytes of the payload that is arriving.
    #[must_use]
    pub fn num_there(&self) -> usize {
        self.partial.as_ref().map_or(0, |frame| frame.payload.len())
    }

    /// Returns the number of bytes of payloads that are arriving or waiting in the queue.
    #[must_use]
    pub fn num_held(&self) -> usize {
        let ready = self.ready.iter().map(|frame| frame.payload.len());
        ready.sum::<usize>() + self.num_there()
    }

    /// Consumes bytes of a header, and returns the bytes after them.
    fn head<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let free = self.head.get_mut(self.head_len..).unwrap_or_default();
        let (taken, rest) = bytes.split_at(free.len().min(bytes.len()));
        for (slot, byte) in free.iter_mut().zip(taken) {
            *slot = *byte;
        }
        self.head_len += taken.len();
        self.offset = self.offset.saturating_add(taken.len());
        if self.head_len == Header::LEN {
            self.head_len = 0;
            self.begin(Header::decode(&self.head));
        }
        rest
    }

    /// Begins a frame, if its header is valid.
    fn begin(&mut self, header: Header) {
        if let Err(error) = self.check(&header) {
            self.fault = Some(error.at(self.offset.saturating_sub(Header::LEN)));
            return;
        }
        self.expects_hello = false;
        let payload = Vec::new();
        self.put(Frame { header, payload });
    }

    fn check(&self, header: &Header) -> Result<(), Error> {
        if header.is_hello() != self.expects_hello {
            return Err(Error::new(
                Status::ERR_BAD_PARAM,
                match self.expects_hello {
                    true => "the first frame of a connection is not a hello",
                    false => "a hello in the middle of a connection",
                },
            ));
        }
        let most = match self.expects_hello {
            true => MAX_HELLO.min(self.max_payload),
            false => self.max_payload,
        };
        if header.len > most {
            let (len, tag) = (header.len, header.tag);
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!("a payload of {len} bytes with tag {tag}, more than {most}"),
            ));
        }
        Ok(())
    }

    /// Consumes bytes of a payload that is being dropped, and returns the bytes after them.
    fn skip<'b>(&mut self, frame: Frame, bytes: &'b [u8]) -> &'b [u8] {
        let (taken, rest) = bytes.split_at(self.num_dropped.min(bytes.len()));
        self.num_dropped -= taken.len();
        self.offset = self.offset.saturating_add(taken.len());
        match self.num_dropped {
            0 => self.ready.push_back(frame),
            _ => self.partial = Some(frame),
        }
        rest
    }

    /// Consumes bytes of a payload, and returns the bytes after them.
    fn fill<'b>(&mut self, mut frame: Frame, bytes: &'b [u8]) -> &'b [u8] {
        let missing = missing(&frame);
        let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
        let room = match taken.len() == missing {
            // For the last piece, spare capacity would be wasted.
            true => memory::reserve_exact(&mut frame.payload, missing),
            false => memory::reserve(&mut frame.payload, taken.len()),
        };
        if room.is_err() && self.drops {
            self.num_dropped = missing;
            frame.payload = Vec::new();
            return self.skip(frame, bytes);
        }
        if let Err(error) = room {
            let start = self
                .offset
                .saturating_sub(frame.payload.len() + Header::LEN);
            self.fault = Some(Error::from(error).at(start));
            return &[];
        }
        frame.payload.extend_from_slice(taken);
        self.offset = self.offset.saturating_add(taken.len());
        self.put(frame);
        rest
    }

    fn put(&mut self, frame: Frame) {
        match missing(&frame) {
            0 => self.ready.push_back(frame),
            _ => self.partial = Some(frame),
        }
    }
}

/// Returns the number of bytes of a payload that have not yet arrived.
fn missing(frame: &Frame) -> usize {
    let len = usize::try_from(frame.header.len).unwrap_or(usize::MAX);
    len.saturating_sub(frame.payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;

    fn frame(header: Header, byte: u8) -> Frame {
        let payload = vec![byte; usize::try_from(header.len).unwrap()];
        Frame { header, payload }
    }

    fn stream(frames: &[Frame]) -> Vec<u8> {
        let bytes = |frame: &Frame| [&frame.header.encode()[..], &frame.payload].concat();
        frames.iter().flat_map(bytes).collect()
    }

    fn drain(inbox: &mut Inbox) -> Vec<Frame> {
        std::iter::from_fn(|| inbox.next_frame().unwrap()).collect()
    }

    #[test]
    fn frames_are_the_same_in_pieces_of_any_size() {
        let frames = [
            frame(Header::hello(40), 1),
            frame(Header::new(3, Tag(101), 0), 0),
            frame(Header::new(3, Tag(102), 300), 2),
            frame(Header::new(3, Tag(103), 1), 3),
        ];
        let stream = stream(&frames);
        for size in 1..=stream.len() {
            let mut inbox = Inbox::of_server(300);
            let mut seen = Vec::new();
            for piece in stream.chunks(size) {
                inbox.push(piece);
                seen.extend(drain(&mut inbox));
            }
            assert_eq!(seen, frames, "pieces of {size}");
            assert!(!inbox.is_inside_frame());
        }
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut inbox = Inbox::new(u32::MAX);
        inbox.push(&Header::new(0, Tag(101), u32::MAX).encode());
        inbox.push(&[7; 10]);
        assert_eq!((inbox.announced(), inbox.num_there()), (0xffff_ffff, 10));
        let partial = inbox.partial.as_ref().unwrap();
        assert!(partial.payload.capacity() <= 32);
        assert!(inbox.is_inside_frame());
        assert_eq!(inbox.next_frame(), Ok(None));
    }

    // Planted: a frame may announce a payload of any length.
    #[test]
    fn a_payload_over_the_limit_fails_after_the_earlier_frames() {
        let good = frame(Header::new(0, Tag(101), 2), 1);
        let mut inbox = Inbox::new(8);
        inbox.push(&stream(std::slice::from_ref(&good)));
        inbox.push(&stream(&[frame(Header::new(0, Tag(102), 9), 1)]));
        assert_eq!(inbox.next_frame(), Ok(Some(good.clone())));
        for _ in 0..2 {
            let error = inbox.next_frame().unwrap_err();
            assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
            assert_eq!(error.offset(), Some(18));
            inbox.push(&stream(std::slice::from_ref(&good)));
        }
    }

    #[test]
    fn a_connection_begins_with_one_hello() {
        let mut inbox = Inbox::of_server(1 << 20);
        inbox.push(&Header::new(0, Tag(101), 0).encode());
        assert_eq!(
            inbox.next_frame().unwrap_err().status(),
            Status::ERR_BAD_PARAM
        );
        let mut inbox = Inbox::of_server(1 << 20);
        inbox.push(&Header::hello(0).encode());
        inbox.push(&Header::hello(0).encode());
        assert!(inbox.next_frame().unwrap().is_some());
        assert_eq!(inbox.next_frame().unwrap_err().offset(), Some(16));
        let mut inbox = Inbox::of_server(1 << 20);
        inbox.push(&Header::hello(MAX_HELLO + 1).encode());
        let error = inbox.next_frame().unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    }
}
