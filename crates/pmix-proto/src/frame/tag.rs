// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags, which tie a reply to its request or name a kind of message.
//!
//! Source: OpenPMIx, `ptl/base`.

use std::fmt;

/// Names the conversation that a message belongs to: a request and its one reply share a tag that
/// the client chose; the tags below [`Tag::FIRST_REQUEST`] name messages that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

impl Tag {
    /// Marks an event, from server to client.
    pub const EVENT: Self = Self(0);
    /// Marks a heartbeat, from client to server, with no payload.
    pub const HEARTBEAT: Self = Self(1);
    /// Marks forwarded output, from server to client.
    pub const OUTPUT: Self = Self(2);
    /// Marks a request to stop or restart a flow of input, from server to client, since 7.0.
    pub const FLOW: Self = Self(3);
    /// Marks the news that a key was deleted, from server to client, since 7.0.
    pub const DELETED: Self = Self(4);
    /// Holds the lowest tag of a request.
    pub const FIRST_REQUEST: Self = Self(100);
    /// Marks a hello; no other message has it.
    pub const HELLO: Self = Self(u32::MAX);

    /// Returns whether messages with this tag are requests and their replies.
    #[must_use]
    pub fn is_request(self) -> bool {
        self >= Self::FIRST_REQUEST && self != Self::HELLO
    }

    /// Returns the tag of the request after this one; behind the highest comes the first again.
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
    fn tags_of_requests_go_round_without_the_reserved_ones() {
        assert_eq!(Tag(100).next(), Tag(101));
        assert_eq!(Tag(u32::MAX - 1).next(), Tag::FIRST_REQUEST);
        assert_eq!(Tag::HELLO.next(), Tag::FIRST_REQUEST);
        assert_eq!(Tag::EVENT.next(), Tag::FIRST_REQUEST);
        assert!(!Tag(99).is_request() && Tag(100).is_request() && !Tag::HELLO.is_request());
    }
}
