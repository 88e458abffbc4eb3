// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection, its origin and its requests.
//!
//! | state | stored as | event | next state |
//! | --- | --- | --- | --- |
//! | none | | the driver accepts a connection | handshake |
//! | none | | the host passes a tool that it connected to | member |
//! | handshake | [`Phase::Handshake`] | the valid hello of a registered client | member, with the welcome |
//! | handshake | | the valid hello of a tool | pending tool, with a `tool_connected2` upcall |
//! | handshake | | a hello whose credential the security module verifies later | verifying |
//! | handshake | | an invalid hello; the time limit; too many handshakes of the user | refused |
//! | verifying | [`Phase::Verifying`] | the module confirms the credential | member or pending tool, as from handshake |
//! | verifying | | the module rejects it; the time limit; a message | refused |
//! | pending tool | [`Phase::PendingTool`] | the host accepts the tool, or has no such function | member, with the welcome |
//! | pending tool | | the host rejects the tool; its name is in use; the time limit; a message | refused |
//! | member | [`Phase::Member`] | the host rejects the client | refused |
//! | refused | | the driver has closed the connection | removed |
//! | any | | the other end closes | removed; a member that has not finalized is lost |
//!
//! Source: this project.

use std::collections::HashSet;
use std::time::Instant;

use pmix_proto::{Frame, Inbox, PeerForm, Role, Tag};
use pmix_types::{Nspace, Proc};

use super::PeerId;
use super::turns::Account;
use crate::ids::ClientId;

/// A connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) origin: Origin,
    pub(crate) inbox: Inbox,
    pub(crate) phase: Phase,
    /// The bytes queued for the driver or taken by it and not written yet.
    pub(super) queued_bytes: usize,
    /// `true` if the connection is about to be closed, so that no more bytes are sent.
    pub(super) is_mute: bool,
    /// The account that determines the peer's turn.
    pub(super) account: Account,
    /// `true` if the other end has closed and only received messages remain to be handled.
    pub(super) is_closed: bool,
    /// `true` if its last message is handled in parts and has further parts. Later messages wait for the last part.
    pub(super) is_unfinished: bool,
    /// The number of requests without a reply.
    pub(crate) num_open: usize,
    /// The bytes of these requests.
    pub(crate) open_bytes: usize,
}

/// The progress of a connection.
#[derive(Debug)]
pub(crate) enum Phase {
    /// No complete hello yet; the connection is closed at the given time.
    Handshake(Instant),
    /// The security module verifies the credential of the hello, which the frame holds. The peer is refused at the
    /// given time and must not send anything before its welcome.
    Verifying(Instant, Box<Frame>),
    /// The host decides about a tool. The tool is refused at the given time and must not send anything before its
    /// welcome.
    PendingTool(Instant),
    /// The peer is admitted.
    Member(Box<Member>),
}

/// An admitted process at the other end of a connection.
#[derive(Debug)]
pub(crate) struct Member {
    /// The process.
    pub(crate) proc: Proc<'static>,
    /// The wire form of the process.
    pub(crate) form: PeerForm,
    pub(crate) role: Role,
    /// The verified user and group.
    pub(crate) user: (u32, u32),
    /// The registration of a client; `None` for tools.
    pub(crate) client: Option<ClientId>,
    /// The incarnation of the process, the first one being 1.
    pub(crate) incarnation: u32,
    /// `true` after a finalize.
    pub(crate) is_finalized: bool,
    /// `true` once the process has received its job info, which it requests once.
    pub(crate) has_job_info: bool,
    /// `true` once a warning was logged about fields of its requests that this server does not know.
    pub(crate) has_ignored_fields: bool,
    /// The other jobs whose complete info was sent to the process.
    pub(crate) knows: HashSet<Nspace<'static>>,
    /// `true` once the process has refreshed data of another job, which it may keep without the info of that job.
    pub(crate) has_refreshed: bool,
}

impl Phase {
    /// Returns the time at which a connection that is not admitted is refused.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Handshake(until) | Self::Verifying(until, _) | Self::PendingTool(until) => {
                Some(*until)
            }
            Self::Member(_) => None,
        }
    }

    /// Returns `true` if the connection counts against the handshakes of its user.
    pub(crate) const fn is_handshake(&self) -> bool {
        matches!(self, Self::Handshake(_) | Self::Verifying(..))
    }
}

impl Peer {
    /// Creates a connection with a deadline for its handshake.
    pub(crate) fn new(origin: Origin, inbox: Inbox, until: Instant) -> Self {
        Self::in_phase(origin, inbox, Phase::Handshake(until))
    }

    /// Creates a connection to a known process.
    pub(crate) fn admitted(origin: Origin, inbox: Inbox, member: Member) -> Self {
        Self::in_phase(origin, inbox, Phase::Member(Box::new(member)))
    }

    fn in_phase(origin: Origin, inbox: Inbox, phase: Phase) -> Self {
        Self {
            origin,
            inbox,
            phase,
            queued_bytes: 0,
            is_mute: false,
            account: Account::default(),
            is_closed: false,
            is_unfinished: false,
            num_open: 0,
            open_bytes: 0,
        }
    }

    /// Returns `true` if a message, or a part of one, can be handled beside `window` bytes of unread output. An unfinished
    /// message has begun, so it does not wait until the peer reads.
    pub(super) fn can_be_served(&self, window: usize) -> bool {
        self.is_unfinished || self.inbox.has_frame() && self.queued_bytes < window
    }

    /// Returns `true` if no received message is left to be handled.
    pub(super) fn is_drained(&self) -> bool {
        !(self.is_unfinished || self.inbox.has_frame())
    }

    /// Returns the process at the other end of an admitted connection.
    pub(crate) fn member(&self) -> Option<&Member> {
        match &self.phase {
            Phase::Member(member) => Some(member),
            _ => None,
        }
    }

    pub(crate) fn member_mut(&mut self) -> Option<&mut Member> {
        match &mut self.phase {
            Phase::Member(member) => Some(member),
            _ => None,
        }
    }
}

/// The operating system's description of the other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The user that owns the socket at the other end, if known.
    pub uid: Option<u32>,
    /// The group of that user, if known.
    pub gid: Option<u32>,
    /// `true` if the other end is on this node.
    pub loopback: bool,
}

/// The duty to reply to a request. A ticket cannot be copied and the reply consumes it, so that no request gets two
/// replies. Code that drops a ticket must explain why its peer does not wait.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request without a reply blocks its client"]
pub(crate) struct Ticket {
    peer: PeerId,
    tag: Tag,
    /// The bytes of the request, which count against limits until the reply.
    num_bytes: usize,
}

impl Ticket {
    pub(super) const fn new(peer: PeerId, tag: Tag, num_bytes: usize) -> Self {
        Self {
            peer,
            tag,
            num_bytes,
        }
    }

    /// Returns the bytes of the request.
    pub(crate) const fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Returns the peer that sent the request.
    pub(crate) const fn peer(&self) -> PeerId {
        self.peer
    }

    /// Returns the tag of the request.
    pub(crate) const fn tag(&self) -> Tag {
        self.tag
    }
}
