// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: what the client knows, and what is on its way in both directions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bfrops::BufferKind;
use pmix_client::{Core, OperationId};
use pmix_engine::PeerId;
use pmix_proto::{Command, Hello, PeerForm, Role, Tag, WelcomeForm};
use pmix_types::{Proc, Status};

use crate::node::UID;
use crate::process::{Collective, ProcId, Stamp};
use crate::tool::ToolId;

/// The place of a connection among all.
pub(crate) type Who = usize;

/// One connection.
pub(crate) struct Client {
    pub(crate) node: usize,
    pub(crate) peer: PeerId,
    /// The process at this end; none for a stranger.
    pub(crate) proc: Option<ProcId>,
    /// The tool at this end, and the form of the welcome that it waits for.
    pub(crate) tool: Option<ToolId>,
    pub(crate) welcome: Option<WelcomeForm>,
    /// Whose name a second connection claims.
    pub(crate) claims: Option<ProcId>,
    /// What the process knows and waits for, while it has a connection.
    pub(crate) core: Option<Core>,
    /// How both sides pack, if this end says whom it belongs to.
    pub(crate) form: Option<PeerForm>,
    /// Whether its init has succeeded.
    pub(crate) has_begun: bool,
    /// What it has begun and what has not ended.
    pub(crate) begun: BTreeMap<OperationId, Begun>,
    /// When the core is to be woken.
    pub(crate) alarm: Option<Duration>,
    /// Whether this end is open.
    pub(crate) is_open: bool,
    /// Whether the other end is.
    pub(crate) is_known: bool,
    /// Whether the server let it in.
    pub(crate) is_in: bool,
    pub(crate) up: Link,
    pub(crate) down: Link,
    /// While it does not read: how many packets wait.
    pub(crate) held: Option<usize>,
    pub(crate) asked: BTreeMap<Tag, Asked>,
    /// The operation without whose end it does not go on.
    pub(crate) waits: Option<OperationId>,
    /// The last that it was told by gets, of whom and under which key.
    pub(crate) told: BTreeMap<(ProcId, String), Stamp>,
    /// What was known of its peers when it last heard anything but the answer to a get.
    pub(crate) known: Vec<Known>,
    /// How many of the events that it heard were handed to the program.
    pub(crate) num_handed_out: usize,
    /// The output that it was sent and was not handed to the program, by the number of the pull.
    pub(crate) output: VecDeque<(u64, Vec<u8>)>,
    /// What it may rely on: fences have brought it that much.
    pub(crate) learned: BTreeMap<ProcId, Stamp>,
    /// Whether it has asked for the events of processes, and whether it was told that it gets them.
    pub(crate) wants_events: bool,
    pub(crate) gets_events: bool,
    /// The events that it was told of.
    pub(crate) heard: Vec<u32>,
    /// The processes whose data it was told, asked for or not, where it did not say how much it takes.
    pub(crate) brought: BTreeSet<ProcId>,
    /// The groups that it is in, as it was told: who made them, and which of theirs.
    pub(crate) groups: Vec<(Collective, usize)>,
    /// Those that it was told are destructed.
    pub(crate) destructed: Vec<(Collective, usize)>,
    /// Whether it was told that it hears of invitations, and of what becomes of them.
    pub(crate) hears_invitations: bool,
    pub(crate) hears_groups: bool,
    /// Whether it has asked to hear what is asked about constructions.
    pub(crate) hears_losses: bool,
    /// Whether it was told that it hears of members of groups that end.
    pub(crate) hears_terminations: bool,
    /// Whether bytes were sent that no client sends.
    pub(crate) is_spoiled: bool,
    /// Whether bytes came that its server did not send.
    pub(crate) is_lied_to: bool,
}

/// An operation of a core that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) what: What,
    /// The request that it sent; none if it needed none, or sends several.
    pub(crate) tag: Option<Tag>,
    /// When it has ended at the latest.
    pub(crate) end: Option<Duration>,
    pub(crate) is_cancelled: bool,
}

/// What a process that asks nobody else may rely on of another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) floor: Option<Stamp>,
    pub(crate) first_life: u16,
}

/// A request and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) command: Command,
    pub(crate) what: What,
    pub(crate) at: Duration,
    /// What the server answered, when it did; it may still be on its way.
    pub(crate) answer: Option<Status>,
    /// What it brings of the process that is asked about.
    pub(crate) values: Vec<(String, Stamp)>,
}

/// What was asked, as far as it matters for the answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Nothing is expected but an answer.
    Any,
    Commit(Stamp),
    Collective(Collective, usize),
    /// The construction of a number, whose members do not all know each other.
    AddMembers(usize),
    /// Whose which key, within which time; what is there at least, and of which life on. Of which life on
    /// others may be told of, if it does not say how much it takes of them.
    Get(
        ProcId,
        &'static str,
        Option<Duration>,
        Option<Stamp>,
        u16,
        Option<Vec<u16>>,
    ),
    Lookup(ProcId),
    /// To be told of jobs and processes.
    Query,
    /// To get the output of a job, and no longer to get it by the pull of a number.
    Pull(&'static str),
    EndPull(&'static str, u64),
    /// To have the job of a spawn started.
    Spawn(usize),
    /// To hear of events; whether those of processes are among them.
    Listen(bool),
    /// To report the event with a number.
    Report(u32),
    Finalize,
    /// To leave a group; whether it is in it.
    Leave(bool),
    /// To be let in and told about the job.
    Init,
    /// To hear of invitations, and of what becomes of them.
    HearInvitations,
    HearTerminations,
    HearGroups,
    /// To lead, or to join, the group of an invitation of a number.
    Lead(usize),
    Join(usize),
    /// To say something about the invitation of a number.
    Invitation(usize, Saying),
    /// To say what becomes of the construction of a group of a name without a process.
    Decision(String, ProcId, HandlerResult),
}

/// What a process says when it is asked what becomes of a construction without another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerResult {
    /// It ends for all.
    Abort,
    /// The leader goes on without the process, or says nothing, which ends it.
    GoOn,
    End,
    /// One leads in the place of the leader that is lost, or does not.
    Lead,
    Follow,
}

/// What is said about an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saying {
    Invite,
    /// To whom.
    Accept(ProcId),
    Decline,
    Complete,
    Abort,
    /// That it does, or does not, lead in the place of a leader that is lost, or that the construction ends
    /// with that leader.
    Lead(ProcId),
    Follow,
    GiveUp(ProcId),
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) packets: VecDeque<Packet>,
    /// When the last of them arrives.
    pub(crate) last: Duration,
}

/// Something on its way.
#[derive(Debug)]
pub(crate) enum Packet {
    /// Bytes, and their number among all that were sent.
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

    /// Whether both ends are open and the client may speak.
    pub(crate) fn is_live(&self) -> bool {
        self.is_open && self.is_known && self.is_in
    }

    /// Whether a process or a tool is at this end.
    pub(crate) const fn is_member(&self) -> bool {
        self.proc.is_some() || self.tool.is_some()
    }

    /// Whether it has said that it leaves.
    pub(crate) fn leaves(&self) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| asked.what == What::Finalize)
    }

    /// Whether it was told that it may.
    pub(crate) fn may_leave(&self) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| asked.what == What::Finalize && asked.answer.is_some())
    }
}

/// A client of 5.0 that reads what is shared.
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
