// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection with the state of its client and the bytes in both directions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bfrops::BufferKind;
use pmix_client::driver::{Core, OperationId};
use pmix_engine::PeerId;
use pmix_proto::{Command, Hello, PeerForm, Role, Tag, WelcomeForm};
use pmix_types::{Proc, Status};

use crate::node::UID;
use crate::process::{Collective, ProcId, Stamp};
use crate::tool::ToolId;

/// The index of a connection.
pub(crate) type Who = usize;

/// A connection.
pub(crate) struct Client {
    pub(crate) node: usize,
    pub(crate) peer: PeerId,
    /// The process at this end; `None` for an unknown peer.
    pub(crate) proc: Option<ProcId>,
    /// The tool at this end, and the form of the expected welcome.
    pub(crate) tool: Option<ToolId>,
    pub(crate) welcome: Option<WelcomeForm>,
    /// The process whose name a second connection claims.
    pub(crate) claims: Option<ProcId>,
    /// The client core of the process, while connected.
    pub(crate) core: Option<Core>,
    /// The wire form of both sides, if this end sends a hello.
    pub(crate) form: Option<PeerForm>,
    /// `true` after a successful init.
    pub(crate) has_begun: bool,
    /// The operations that have not ended.
    pub(crate) begun: BTreeMap<OperationId, Begun>,
    /// The time of the core's next timer.
    pub(crate) alarm: Option<Duration>,
    /// `true` while this end is open.
    pub(crate) is_open: bool,
    /// `true` while the other end is open.
    pub(crate) is_known: bool,
    /// `true` once the server has admitted it.
    pub(crate) is_in: bool,
    pub(crate) up: Link,
    pub(crate) down: Link,
    /// The number of waiting packets while it does not read.
    pub(crate) held: Option<usize>,
    pub(crate) asked: BTreeMap<Tag, Asked>,
    /// The operation that the next step waits for.
    pub(crate) waits: Option<OperationId>,
    /// The last value from gets, by process and key.
    pub(crate) told: BTreeMap<(ProcId, String), Stamp>,
    /// The known data of its peers when it last received a message other than the reply to a get.
    pub(crate) known: Vec<Known>,
    /// The number of received events passed to the program.
    pub(crate) num_handed_out: usize,
    /// The received output that has not been passed to the program, by number of the pull.
    pub(crate) output: VecDeque<(u64, Vec<u8>)>,
    /// The data guaranteed by fences.
    pub(crate) learned: BTreeMap<ProcId, Stamp>,
    /// `true` after a registration for the events of processes, and after its success.
    pub(crate) wants_events: bool,
    pub(crate) gets_events: bool,
    /// The numbers of the received events.
    pub(crate) heard: Vec<u32>,
    /// The processes whose data it has received without stating a limit.
    pub(crate) brought: BTreeSet<ProcId>,
    /// The groups it is a member of, by constructing processes and number.
    pub(crate) groups: Vec<(Collective, usize)>,
    /// The groups whose destruct it has completed.
    pub(crate) destructed: Vec<(Collective, usize)>,
    /// `true` after a successful registration for invitations, and for their outcomes.
    pub(crate) hears_invitations: bool,
    pub(crate) hears_groups: bool,
    /// `true` after a registration for the questions about constructs.
    pub(crate) hears_losses: bool,
    /// `true` after a successful registration for terminated members.
    pub(crate) hears_terminations: bool,
    /// `true` if invalid bytes were sent.
    pub(crate) is_spoiled: bool,
    /// `true` if corrupted bytes were received.
    pub(crate) is_lied_to: bool,
}

/// An operation of a core that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) what: What,
    /// The request; `None` if the operation needs none, or several.
    pub(crate) tag: Option<Tag>,
    /// The time at which it must have ended.
    pub(crate) end: Option<Duration>,
    pub(crate) is_cancelled: bool,
}

/// The data of another process that are guaranteed without a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) floor: Option<Stamp>,
    pub(crate) first_life: u16,
}

/// A request and its reply.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) command: Command,
    pub(crate) what: What,
    pub(crate) at: Duration,
    /// The status in the server's reply, which may be in transit.
    pub(crate) answer: Option<Status>,
    /// The values in the reply of the process that the get names.
    pub(crate) values: Vec<(String, Stamp)>,
}

/// The contents of a request that determine valid replies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Any reply is valid.
    Any,
    Commit(Stamp),
    Collective(Collective, usize),
    /// The construct with this number, whose members do not all know each other.
    AddMembers(usize),
    /// A get: the process, the key and the time limit; the guaranteed data and their first valid incarnation. Without a
    /// stated limit, also the first valid incarnation of each other process.
    Get(
        ProcId,
        &'static str,
        Option<Duration>,
        Option<Stamp>,
        u16,
        Option<Vec<u16>>,
    ),
    Lookup(ProcId),
    /// A query of jobs and processes.
    Query,
    /// The start of a pull of a job's output, and the end of a pull with a number.
    Pull(&'static str),
    EndPull(&'static str, u64),
    /// A spawn.
    Spawn(usize),
    /// An event registration; `true` if it includes the events of processes.
    Listen(bool),
    /// The event with this number.
    Report(u32),
    Finalize,
    /// A departure from a group; `true` if the process is a member.
    Leave(bool),
    /// Init, including the job info.
    Init,
    /// Registrations for invitations, terminations and outcomes.
    HearInvitations,
    HearTerminations,
    HearGroups,
    /// Leading, or joining, the invitation with this number.
    Lead(usize),
    Join(usize),
    /// A statement about the invitation with this number.
    Invitation(usize, Saying),
    /// A decision about a construct with a lost process.
    Decision(String, ProcId, HandlerResult),
}

/// A process's decision about a construct after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerResult {
    /// The end of the construct.
    Abort,
    /// The leader continues without the process, or does not decide, which ends the construct.
    GoOn,
    End,
    /// The process replaces the lost leader, or does not.
    Lead,
    Follow,
}

/// A statement about an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saying {
    Invite,
    /// The acceptance of a leader's invitation.
    Accept(ProcId),
    Decline,
    Complete,
    Abort,
    /// An offer to replace a lost leader, a refusal, or an abort because of the loss.
    Lead(ProcId),
    Follow,
    GiveUp(ProcId),
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) packets: VecDeque<Packet>,
    /// The arrival time of the last packet.
    pub(crate) last: Duration,
}

/// Data in transit.
#[derive(Debug)]
pub(crate) enum Packet {
    /// Bytes, with their number among all packets.
    Bytes(u64, Vec<u8>),
    Close,
}

impl Client {
    pub(crate) fn new(node: usize, peer: PeerId) -> Self {
        Self {
            node,
            peer,
            proc: None,
            tool: None,
            welcome: None,
            claims: None,
            core: None,
            form: None,
            has_begun: false,
            begun: BTreeMap::new(),
            alarm: None,
            is_open: true,
            is_known: true,
            is_in: false,
            up: Link::default(),
            down: Link::default(),
            held: None,
            asked: BTreeMap::new(),
            waits: None,
            told: BTreeMap::new(),
            known: Vec::new(),
            num_handed_out: 0,
            output: VecDeque::new(),
            learned: BTreeMap::new(),
            wants_events: false,
            gets_events: false,
            heard: Vec::new(),
            brought: BTreeSet::new(),
            groups: Vec::new(),
            destructed: Vec::new(),
            hears_invitations: false,
            hears_groups: false,
            hears_losses: false,
            hears_terminations: false,
            is_spoiled: false,
            is_lied_to: false,
        }
    }

    /// Returns `true` if both ends are open and the client is admitted.
    pub(crate) fn is_live(&self) -> bool {
        self.is_open && self.is_known && self.is_in
    }

    /// Returns `true` if this end is a process or a tool.
    pub(crate) const fn is_member(&self) -> bool {
        self.proc.is_some() || self.tool.is_some()
    }

    /// Returns `true` if it has sent a finalize.
    pub(crate) fn leaves(&self) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| asked.what == What::Finalize)
    }

    /// Returns `true` if its finalize has a reply.
    pub(crate) fn may_leave(&self) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| asked.what == What::Finalize && asked.answer.is_some())
    }
}

/// Creates the hello of a 5.0 client that reads shared data.
pub(crate) fn hello(proc: Proc<'static>) -> Hello<'static> {
    Hello {
        psec: "native".into(),
        credential: &CREDENTIAL,
        role: Role::CLIENT,
        ids: None,
        proc: Some(proc),
        version: "5.0.11".into(),
        module: "v41".into(),
        buffer: BufferKind::NonDescribed,
        gds: "pmixrs,hash".into(),
        infos: vec![],
    }
}

/// The credential of all clients.
const CREDENTIAL: [u8; 8] = {
    let [a, b, c, d] = UID.to_ne_bytes();
    [a, b, c, d, a, b, c, d]
};
