// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection, where it comes from, and the requests that came over it.
//!
//! Source: none outside.

use std::collections::HashSet;
use std::time::Instant;

use pmix_proto::{Frame, Inbox, PeerForm, Role, Tag};
use pmix_types::{Nspace, Proc};

use super::PeerId;
use super::turns::Account;
use crate::ids::ClientId;

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) origin: Origin,
    pub(crate) inbox: Inbox,
    pub(crate) phase: Phase,
    /// How many bytes the engine has handed out, or will, that the driver has not written yet.
    pub(super) queued_bytes: usize,
    /// Whether the connection is to be closed, so that nothing more is sent.
    pub(super) is_mute: bool,
    /// Its turn to have a message handled.
    pub(super) account: Account,
    /// Whether the other end is closed, and what it said before is still to be handled.
    pub(super) is_closed: bool,
    /// How many requests wait for their answers.
    pub(crate) num_open: usize,
    /// How many bytes they had.
    pub(crate) open_bytes: usize,
}

/// How far a connection has come.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It has not said who it is; at this time it is closed.
    Handshake(Instant),
    /// A security module verifies the credential of its hello, which this is. It waits for its
    /// welcome and has nothing to say; at this time it is refused.
    Verifying(Instant, Box<Frame>),
    /// A tool that the host is asked about. It waits for its welcome and has nothing to say; at
    /// this time it is turned away.
    PendingTool(Instant),
    /// It is let in.
    Member(Box<Member>),
}

/// Who is at the other end.
#[derive(Debug)]
pub(crate) struct Member {
    /// The process that it is.
    pub(crate) proc: Proc<'static>,
    /// What it understands.
    pub(crate) form: PeerForm,
    pub(crate) role: Role,
    /// The user and the group that it has shown to have.
    pub(crate) user: (u32, u32),
    /// The client that it was registered as; none for tools.
    pub(crate) client: Option<ClientId>,
    /// Which incarnation of its process this is, the first one being 1.
    pub(crate) incarnation: u32,
    /// Whether it has said that it leaves.
    pub(crate) is_finalized: bool,
    /// Whether it was told of its own job, which it asks for once.
    pub(crate) has_job_info: bool,
    /// The other jobs that it was told of as a whole.
    pub(crate) knows: HashSet<Nspace<'static>>,
}

impl Phase {
    /// When a connection that has not been let in is refused.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Handshake(until) | Self::Verifying(until, _) | Self::PendingTool(until) => {
                Some(*until)
            }
            Self::Member(_) => None,
        }
    }

    /// Whether the connection counts among those of its user that have not shown who they are.
    pub(crate) const fn is_handshake(&self) -> bool {
        matches!(self, Self::Handshake(_) | Self::Verifying(..))
    }
}

impl Peer {
    /// A connection that has until a time to say who it is.
    pub(crate) fn new(origin: Origin, inbox: Inbox, until: Instant) -> Self {
        Self::in_phase(origin, inbox, Phase::Handshake(until))
    }

    /// A connection of which it is known who is at the other end.
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
            num_open: 0,
            open_bytes: 0,
        }
    }

    /// Who is at the other end, if it was let in.
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

/// Describes the other end of a connection, as the system and not the peer states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The user that owns the socket at the other end, if the system knows.
    pub uid: Option<u32>,
    /// The group of that user, if the system knows.
    pub gid: Option<u32>,
    /// Whether the other end is on this node.
    pub loopback: bool,
}

/// The right to answer a request. It cannot be copied and an answer takes it, so that nothing is
/// answered twice; whoever drops it owes a reason why the peer waits for nothing.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request without a reply blocks its client"]
pub(crate) struct Ticket {
    peer: PeerId,
    tag: Tag,
    /// How many bytes the request had: as long as it waits, something of it is kept.
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

    /// How many bytes the request had.
    pub(crate) const fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Who asked.
    pub(crate) const fn peer(&self) -> PeerId {
        self.peer
    }

    /// Under which tag.
    pub(crate) const fn tag(&self) -> Tag {
        self.tag
    }
}
