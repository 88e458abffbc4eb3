// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages on a connection: a header of 16 bytes and so many bytes of payload.
//!
//! | offset | field | type |
//! | --- | --- | --- |
//! | 0 | index of the peer; -1 in the first message of a connection | int32 |
//! | 4 | tag; -1 in the first message | uint32 |
//! | 8 | length of the payload | uint32 |
//! | 12 | padding | 4 bytes |
//!
//! All is big-endian but for the first message, which has the byte order of its sender: in
//! practice little-endian.

/// The bytes of a header.
pub(super) const HEADER: usize = 16;

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// A client or tool.
    Client,
    /// The server.
    Server,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) index: i32,
    pub(super) tag: u32,
    pub(super) len: usize,
}

impl Header {
    /// Reads a header from the front of a stream.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (index, rest) = bytes.split_first_chunk::<4>()?;
        let (tag, rest) = rest.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        rest.first_chunk::<4>()?;
        let header = Self {
            index: i32::from_be_bytes(*index),
            tag: u32::from_be_bytes(*tag),
            len: usize::try_from(u32::from_be_bytes(*len)).ok()?,
        };
        let own_order = u32::from_le_bytes(*len);
        match header.is_first() {
            true => Some(Self {
                len: usize::try_from(own_order).ok()?,
                ..header
            }),
            false => Some(header),
        }
    }

    /// Whether this is the first message of a connection, which introduces the client.
    pub(super) const fn is_first(&self) -> bool {
        self.index == -1 && self.tag == u32::MAX
    }
}

/// One message as it was sent, or as much of it as is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) from: Side,
    pub(super) header: Header,
    /// Where the payload begins in the input; 0 in a capture that is text.
    pub(super) start: usize,
    pub(super) payload: Vec<u8>,
}

/// Cuts a stream into messages; the second part is what no message can be made of.
pub(super) fn cut(stream: &[u8], from: Side) -> (Vec<Frame>, &[u8]) {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Some(header) = Header::read(rest) {
        let body = rest.get(HEADER..).unwrap_or_default();
        let (payload, next) = body.split_at(header.len.min(body.len()));
        frames.push(Frame {
            from,
            header,
            start: stream.len() - body.len(),
            payload: payload.to_vec(),
        });
        rest = next;
    }
    (frames, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_by_its_lengths_alone() {
        let first = [0xff; 8].into_iter().chain([2, 0, 0, 0, 0, 0, 0, 0, 7, 8]);
        let second = [0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 3, 9, 9, 9, 9, 5, 6];
        let stream: Vec<u8> = first.chain(second).collect();
        let (frames, rest) = cut(&stream, Side::Client);
        assert_eq!(frames.len(), 2);
        assert_eq!((frames[0].start, &frames[0].payload[..]), (16, &[7, 8][..]));
        assert!(frames[0].header.is_first());
        assert_eq!(frames[1].header.tag, 101);
        // Less than the header says.
        assert_eq!(
            (frames[1].header.len, &frames[1].payload[..]),
            (3, &[5, 6][..])
        );
        assert_eq!(rest, b"");
        assert_eq!(cut(&stream[..15], Side::Client), (vec![], &stream[..15]));
    }
}
