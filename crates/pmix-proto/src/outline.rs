// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outline of messages, for pages and tools that explain them.
//!
//! The same declarations that messages are read by say it, so an explanation and a reading never
//! differ.
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
//! Source: the declarations of this crate, which `docs/protocol.md` is made from.

use pmix_types::DataType;

use crate::codec::{Many, Shape};
use crate::reply::{Reply, jobs_outline};
use crate::{Command, Deleted, Event, Flow, Output, Request, Tag, wire_type};

pub use crate::part::Part;

/// Returns the fields behind the command in a request of a client of a major release (the 5 of
/// 5.0.11); none if the command is not known.
#[must_use]
pub fn request(command: Command, major: u32) -> Option<Vec<Part>> {
    Request::outline(command, major)
}

/// Returns the fields of the reply to a command for a client of a major release (the 5 of 5.0.11); none
/// if the command is not known, an empty list if it has no reply.
#[must_use]
pub fn reply(command: Command, major: u32) -> Option<Vec<Part>> {
    Request::outline(command, major)?;
    Some(match command {
        // The objects of a connect are jobs, not processes.
        Command::CONNECT => jobs_outline(),
        _ if command.is_answered() => Reply::outline(command, major),
        _ => Vec::new(),
    })
}

/// Returns the fields of a message that a server sends unasked to a client of a major release (the 5
/// of 5.0.11); none if no such message has the tag.
#[must_use]
pub fn unsolicited(tag: Tag, major: u32) -> Option<Vec<Part>> {
    Some(match tag {
        Tag::EVENT => Event::outline("", major),
        // It says that nobody watches for them.
        Tag::HEARTBEAT => vec![Part::One("status", DataType::STATUS)],
        Tag::OUTPUT => Output::outline("", major),
        Tag::FLOW => Flow::outline("", major),
        Tag::DELETED => Deleted::outline("", major),
        _ => return None,
    })
}

/// Returns the fields that may follow in a hello behind the others.
#[must_use]
pub fn introduction() -> Vec<Part> {
    Many::<wire_type::Info>::outline("infos", 0)
}
