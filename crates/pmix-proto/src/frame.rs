// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: a header of 16 bytes and the payload.
//!
//! | offset | field | type | since |
//! | --- | --- | --- | --- |
//! | 0 | index of the client, assigned by the server; -1 in a hello | int32 | 2.0 |
//! | 4 | tag; 4294967295 in a hello | uint32 | 2.0 |
//! | 8 | length of the payload in bytes | uint32 | 2.0 |
//! | 12 | padding: sent as 0, ignored | 4 bytes | 2.0, on 64-bit machines |
//!
//! Frozen: append only. All numbers are big-endian, except in the header of the hello, the first
//! message of a connection: it has the byte order of the sending machine.
//!
//! Source: OpenPMIx, `ptl/base`; seen in the records of `testdata/wire`.

mod inbox;

use std::fmt;

pub use inbox::{Frame, Inbox};

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The index that the server assigned to the client. No server checks it.
    pub index: i32,
    /// The tag of the message.
    pub tag: Tag,
    /// The length of the payload in bytes.
    pub len: u32,
}

impl Header {
    /// The length of a header in bytes.
    pub const LEN: usize = 16;

    /// Creates the header of a message with a payload of `len` bytes. `index` is the number that
    /// the server assigned to the client, or -1 before that.
    #[must_use]
    pub const fn new(index: i32, tag: Tag, len: u32) -> Self {
        Self { index, tag, len }
    }

    /// Returns the header of a hello with a payload of `len` bytes.
    #[must_use]
    pub const fn hello(len: u32) -> Self {
        Self::new(-1, Tag::HELLO, len)
    }

    /// Returns `true` if this is the header of a hello, the first message of a connection.
    #[must_use]
    pub fn is_hello(&self) -> bool {
        self.index == -1 && self.tag == Tag::HELLO
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let len = match self.is_hello() {
            true => self.len.to_ne_bytes(),
            false => self.len.to_be_bytes(),
        };
        let mut bytes = [0; Self::LEN];
        let fields = [self.index.to_be_bytes(), self.tag.0.to_be_bytes(), len];
        for (slot, field) in bytes.iter_mut().zip(fields.as_flattened()) {
            *slot = *field;
        }
        bytes
    }

    /// Decodes a header. Any 16 bytes are a valid header.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let [i0, i1, i2, i3, t0, t1, t2, t3, l0, l1, l2, l3, ..] = *bytes;
        let header = Self {
            index: i32::from_be_bytes([i0, i1, i2, i3]),
            tag: Tag(u32::from_be_bytes([t0, t1, t2, t3])),
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        };
        match header.is_hello() {
            true => Self::hello(hello_len([l0, l1, l2, l3])),
            false => header,
        }
    }
}

/// The maximum length in bytes of a request's payload that servers accept by default.
pub const MAX_REQUEST_BYTES: u32 = 64 << 20;

/// The limits on the lists of one request, over all its fields and infos. The server handles a
/// request in a single step, while other peers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// The maximum number of processes. `PMIX_RANK_WILDCARD` counts as one.
    pub procs: usize,
    /// The maximum number of infos.
    pub infos: usize,
}

impl Default for ListLimits {
    /// Returns 32,768 for both. A current server handles this many in 5 ms.
    fn default() -> Self {
        Self {
            procs: 32 << 10,
            infos: 32 << 10,
        }
    }
}

impl ListLimits {
    /// No limits, for messages that the caller has packed itself.
    pub const NONE: Self = Self {
        procs: usize::MAX,
        infos: usize::MAX,
    };
}

/// The maximum length in bytes of a hello's payload that servers accept.
pub(crate) const MAX_HELLO: u32 = 128 << 10;

/// Returns the length of a hello. A client runs on the node of its server, so the native byte order
/// is tried first. The other byte order is used if that length is impossible, as in a capture from
/// another machine.
fn hello_len(bytes: [u8; 4]) -> u32 {
    let own = u32::from_ne_bytes(bytes);
    match own.swap_bytes() {
        other if own > MAX_HELLO && other <= MAX_HELLO => other,
        _ => own,
    }
}

// Tags, which connect a reply with its request or identify the kind of an unsolicited message.
//
// Source: OpenPMIx, `ptl/base`.

/// The tag of a message. A request and its reply have the same tag, which the client chooses. Tags
/// below [`Tag::FIRST_REQUEST`] identify unsolicited messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

impl Tag {
    /// An event, from server to client.
    pub const EVENT: Self = Self(0);
    /// A heartbeat, from client to server, without a payload.
    pub const HEARTBEAT: Self = Self(1);
    /// Forwarded output, from server to client.
    pub const OUTPUT: Self = Self(2);
    /// A request to stop or restart a flow of input, from server to client, since 7.0.
    pub const FLOW: Self = Self(3);
    /// The notification that a key was deleted, from server to client, since 7.0.
    pub const DELETED: Self = Self(4);
    /// The lowest tag of a request.
    pub const FIRST_REQUEST: Self = Self(100);
    /// A hello. No other message has this tag.
    pub const HELLO: Self = Self(u32::MAX);

    /// Returns `true` if messages with this tag are requests or replies.
    #[must_use]
    pub fn is_request(self) -> bool {
        self >= Self::FIRST_REQUEST && self != Self::HELLO
    }

    /// Returns the tag of the next request. After the highest tag, it is [`Tag::FIRST_REQUEST`].
    #[must_use]
    pub fn next(self) -> Self {
        match Self(self.0.wrapping_add(1)) {
            next if next.is_request() => next,
            _ => Self::FIRST_REQUEST,
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match *self {
            Self::EVENT => "event",
            Self::HEARTBEAT => "heartbeat",
            Self::OUTPUT => "output",
            Self::FLOW => "flow",
            Self::DELETED => "deleted",
            Self::HELLO => "hello",
            Self(number) => return fmt::Display::fmt(&number, f),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_an_encoded_header() {
        let header = Header::new(-7, Tag(101), 0x0001_0203);
        let bytes = [255, 255, 255, 249, 0, 0, 0, 101, 0, 1, 2, 3, 0, 0, 0, 0];
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::decode(&bytes), header);
        // The padding is ignored.
        let mut padded = bytes;
        padded[12] = 9;
        assert_eq!(Header::decode(&padded), header);
    }

    #[test]
    fn a_hello_has_the_byte_order_of_its_machine() {
        for len in [0, 49, 255, 256, 65_536, MAX_HELLO] {
            let header = Header::hello(len);
            let bytes = header.encode();
            assert_eq!(bytes[..8], [0xff; 8]);
            assert_eq!(bytes[8..12], len.to_ne_bytes());
            assert_eq!(Header::decode(&bytes), header);
        }
        let mut other = Header::hello(49).encode();
        other[8..12].reverse();
        assert_eq!(Header::decode(&other), Header::hello(49));
    }

    #[test]
    fn request_tags_wrap_without_the_reserved_ones() {
        assert_eq!(Tag(100).next(), Tag(101));
        assert_eq!(Tag(u32::MAX - 1).next(), Tag::FIRST_REQUEST);
        assert_eq!(Tag::HELLO.next(), Tag::FIRST_REQUEST);
        assert_eq!(Tag::EVENT.next(), Tag::FIRST_REQUEST);
        assert!(!Tag(99).is_request() && Tag(100).is_request() && !Tag::HELLO.is_request());
    }
}
