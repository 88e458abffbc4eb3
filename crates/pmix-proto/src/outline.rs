// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outline of messages, for documentation and tools that explain messages.
//!
//! Outlines are generated from the same declarations as the parsers, so they always agree.
//!
//! ```
//! use pmix_proto::outline::{self, Part};
//! use pmix_proto::Command;
//! use pmix_types::DataType;
//! let parts = outline::request(Command::FENCENB, 5);
//! let expected = [Part::Many("procs", DataType::PROC), Part::Many("infos", DataType::INFO)];
//! assert_eq!(parts.as_deref(), Some(&expected[..]));
//! ```
//!
//! Source: the declarations of this crate, from which `docs/protocol.md` is generated.

use pmix_types::DataType;

use crate::codec::{Many, Shape};
use crate::reply::{Reply, jobs_outline};
use crate::{Command, Deleted, Event, Flow, Output, Request, Tag, wire_type};

pub use crate::codec::Part;

/// Returns the fields after the command in a request of a client of a major release (the 5 of
/// 5.0.11). Returns `None` for an unknown command.
#[must_use]
pub fn request(command: Command, major: u32) -> Option<Vec<Part>> {
    Request::outline(command, major)
}

/// Returns the fields of the reply to a command for a client of a major release (the 5 of 5.0.11).
/// Returns `None` for an unknown command, and an empty list for a command without a reply.
#[must_use]
pub fn reply(command: Command, major: u32) -> Option<Vec<Part>> {
    Request::outline(command, major)?;
    Some(match command {
        // The reply to a connect has an object for each job, not for each process.
        Command::CONNECT => jobs_outline(),
        _ if command.is_answered() => Reply::outline(command, major),
        _ => Vec::new(),
    })
}

/// Returns the fields of an unsolicited message of a server to a client of a major release (the 5
/// of 5.0.11). Returns `None` if no such message has the tag.
#[must_use]
pub fn unsolicited(tag: Tag, major: u32) -> Option<Vec<Part>> {
    Some(match tag {
        Tag::EVENT => Event::outline("", major),
        // With this message, a server replies that it does not monitor heartbeats.
        Tag::HEARTBEAT => vec![Part::One("status", DataType::STATUS)],
        Tag::OUTPUT => Output::outline("", major),
        Tag::FLOW => Flow::outline("", major),
        Tag::DELETED => Deleted::outline("", major),
        _ => return None,
    })
}

/// Returns the optional fields at the end of a hello.
#[must_use]
pub fn introduction() -> Vec<Part> {
    Many::<wire_type::Info>::outline("infos", 0)
}
