// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tags, which associate a reply with its request or identify the kind of an unsolicited message.
//!
//! Source: OpenPMIx, `ptl/base`.

use std::fmt;

/// The tag of a message. A request and its reply share a tag that the client chose; the tags below
/// [`Tag::FIRST_REQUEST`] identify unsolicited messages.
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
    /// A hello; no other message has this tag.
    pub const HELLO: Self = Self(u32::MAX);

    /// Returns `true` if messages with this tag are requests or replies.
    #[must_use]
    pub fn is_request(self) -> bool {
        self >= Self::FIRST_REQUEST && self != Self::HELLO
    }

    /// Returns the tag of the next request; the first one follows the highest.
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
    fn request_tags_wrap_without_the_reserved_ones() {
        assert_eq!(Tag(100).next(), Tag(101));
        assert_eq!(Tag(u32::MAX - 1).next(), Tag::FIRST_REQUEST);
        assert_eq!(Tag::HELLO.next(), Tag::FIRST_REQUEST);
        assert_eq!(Tag::EVENT.next(), Tag::FIRST_REQUEST);
        assert!(!Tag(99).is_request() && Tag(100).is_request() && !Tag::HELLO.is_request());
    }
}
