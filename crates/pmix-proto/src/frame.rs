// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: a header of 16 bytes and so many bytes of payload.
//!
//! | offset | field | type | since |
//! | --- | --- | --- | --- |
//! | 0 | index of the client, which the server gave it; -1 in a hello | int32 | 2.0 |
//! | 4 | tag; 4294967295 in a hello | uint32 | 2.0 |
//! | 8 | length of the payload in bytes | uint32 | 2.0 |
//! | 12 | padding: sent as 0, ignored | 4 bytes | 2.0, on machines of 64 bits |
//!
//! Frozen: append only. All is big-endian but for the first message of a connection, the hello,
//! whose header has the byte order of the machine it was sent on.
//!
//! Source: OpenPMIx, `ptl/base`; seen in the records of `testdata/wire`.

mod inbox;
mod tag;

pub use inbox::{Frame, Inbox};
pub use tag::Tag;

/// Holds the header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The index that the server gave the client; no server looks at it.
    pub index: i32,
    /// The tag of the message.
    pub tag: Tag,
    /// The length of the payload in bytes.
    pub len: u32,
}

impl Header {
    /// Holds the length of a header in bytes.
    pub const LEN: usize = 16;

    /// Creates the header of a message with a payload of `len` bytes. The index is the number that the
    /// server gave the client, -1 before it has one.
    #[must_use]
    pub const fn new(index: i32, tag: Tag, len: u32) -> Self {
        Self { index, tag, len }
    }

    /// Returns the header of a hello with a payload of `len` bytes.
    #[must_use]
    pub const fn hello(len: u32) -> Self {
        Self::new(-1, Tag::HELLO, len)
    }

    /// Returns whether this is the header of a hello, the first message of a connection.
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

    /// Reads a header; every 16 bytes are a valid one.
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

/// The longest payload of a request that servers take, in bytes, unless they are told otherwise.
pub const MAX_REQUEST_BYTES: u32 = 64 << 20;

/// Bounds the lists of one request, in its fields and in its infos together: to look at what is listed is one step of a
/// server, and its other peers wait meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// The number of processes. A whole job, which `PMIX_RANK_WILDCARD` names, is one.
    pub procs: usize,
    /// The number of infos.
    pub infos: usize,
}

impl Default for ListLimits {
    /// 32,768 of each: a server of today looks at as many in 5 ms.
    fn default() -> Self {
        Self {
            procs: 32 << 10,
            infos: 32 << 10,
        }
    }
}

impl ListLimits {
    /// No limits, for a reader of its own messages.
    pub const NONE: Self = Self {
        procs: usize::MAX,
        infos: usize::MAX,
    };
}

/// The longest payload of a hello that servers take.
pub(crate) const MAX_HELLO: u32 = 128 << 10;

/// The length of a hello: a client runs where its server does, so the order is our own, unless
/// only the other one makes sense, as in the capture of another machine.
fn hello_len(bytes: [u8; 4]) -> u32 {
    let own = u32::from_ne_bytes(bytes);
    match own.swap_bytes() {
        other if own > MAX_HELLO && other <= MAX_HELLO => other,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_its_bytes_say() {
        let header = Header::new(-7, Tag(101), 0x0001_0203);
        let bytes = [255, 255, 255, 249, 0, 0, 0, 101, 0, 1, 2, 3, 0, 0, 0, 0];
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::decode(&bytes), header);
        // The padding says nothing.
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
}
