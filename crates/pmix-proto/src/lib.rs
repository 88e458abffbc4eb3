// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PMIx wire protocol without a socket: frames, handshake, requests, replies.
//!
//! The crate converts between bytes and messages. It uses no socket, clock or environment. A
//! connection begins with a [`Hello`] and a [`Welcome`]. After them, an [`Inbox`] splits the stream
//! into [`Frame`]s. The [`Tag`] of a frame determines whether its payload is a [`Request`], a
//! [`reply`] or an unsolicited message. The crate `bfrops` packs the data. The engine determines
//! the replies.
//!
//! ```
//! use bfrops::{Layout, Module};
//! use pmix_proto::{PeerForm, Request, reply, request};
//! use pmix_types::{Proc, Rank, Status};
//!
//! let form = PeerForm::new(Layout::new(Module::V41), b"5.0.11");
//! let procs = vec![Proc::new("job", Rank::WILDCARD)];
//! let fence = Request::Fence(request::Fence { procs, infos: vec![] });
//! let payload = fence.encode(&form, None)?;
//! assert_eq!(Request::decode(&form, None, &payload)?, fence);
//! assert_eq!(reply::status(&form, Status::SUCCESS)?, [2, 0]);
//! # Ok::<(), pmix_proto::Error>(())
//! ```
//!
//! Messages may be hostile: no memory is reserved for a length that a message states. An error has
//! the field and the offset.
//!
//! Sources: OpenPMIx is the only document of the protocol. `docs/protocol.md` is generated from the
//! declarations of this crate, which follow captures of 4.2.2, 5.0.11 and a snapshot of 7.0 in
//! `testdata/wire`.
#![forbid(unsafe_code)]

mod client_connection;
mod codec;
mod command;
mod contact;
mod error;
mod event;
mod frame;
mod handshake;
pub mod obeyed;
pub mod outline;
pub mod reply;
pub mod request;
pub mod shared;
mod support;

pub(crate) use bfrops::wire_type;

pub use client_connection::{ClientConnection, Incoming, Response};
pub use command::Command;
pub use contact::{Contact, ContactLines, ctime};
pub use error::Error;
pub use event::{Deleted, Event, Flow, LOST_OUTPUT, Output};
pub use frame::{Frame, Header, Inbox, ListLimits, MAX_REQUEST_BYTES, Tag};
pub use handshake::{Hello, PeerForm, RELEASE, Role, Welcome, WelcomeForm};
pub use request::Request;
pub use support::{
    SupportLevel, SupportedFunction, check_required, is_about_support, mark_processed,
};
