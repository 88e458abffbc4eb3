// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to happen, in the order of time.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_client::OperationId;
use pmix_engine::{Answer, CallId, Error, PeerId, Verified};
use pmix_proto::Tag;

use crate::client::{HandlerResult, Who};
use crate::fault::Fault;
use crate::host::RoundId;
use crate::process::ProcId;
use crate::tool::ToolId;

/// What is to happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A process connects as another incarnation.
    Start(ProcId),
    /// A tool connects.
    Attach(ToolId),
    /// A process goes on with what it has to do.
    Step(Who),
    /// A process elsewhere gets what another incarnation of a process has put.
    Curious(ProcId),
    /// The next bytes of a client arrive at its server.
    Up(Who),
    /// The next bytes of a server arrive at a client.
    Down(Who),
    /// A client reads again.
    Wake(Who),
    /// The time of an engine may be up.
    Alarm(usize),
    /// The host answers a server, as long as that is the same.
    Answer(Call, Answer),
    /// A security module says what the credential of a peer proves, to this life of a server.
    Verified(usize, u32, PeerId, Result<Verified, Error>),
    /// The host ends a collective whose time is up.
    Expire(RoundId),
    /// The host looks whether lookups have waited long enough.
    Board,
    /// An event comes to a server from the host.
    Notice(usize, Box<crate::host::Notice>),
    /// By now a request has its answer.
    Deadline(Who, Tag),
    /// The time of an operation of a client's core may be up.
    Limit(Who),
    /// A process looks at the events that have come.
    Listen(Who),
    /// By now an operation has ended.
    Overdue(Who, OperationId),
    /// A process does not want an operation any longer.
    Cancel(Who, OperationId),
    /// By now who joined by an invitation knows how it ended.
    Joined(usize, Who, ProcId),
    /// By now who is invited by a new leader has accepted.
    Follows(usize, Who, ProcId),
    /// By now this leader of an invitation is gone.
    LeaderGone(usize, ProcId),
    /// By now the leader of an invitation knows that a process is lost.
    Failed(usize, ProcId, ProcId),
    /// By now it is decided what becomes of a construction without a process, or it has ended: if nobody else is
    /// lost, and in any case.
    Decided(Who, Tag, ProcId),
    DecidedAtLast(Who, Tag, ProcId),
    /// By now a server has done what a process decided about a construction without another.
    ResultTaken(Who, String, ProcId, HandlerResult),
    /// By now all who were told that a leader of a construction is lost know who leads in its place, if anybody does.
    Replaced(String, ProcId),
    /// By now one that was told that a construction ended without a leader knows that nobody leads.
    Leaderless(Who, String),
    /// By now all who are in a group know that this member has ended.
    Terminated(String, ProcId),
    /// A process ends without a word.
    Crash(Who),
    /// The host sees that a process has ended.
    Ended(ProcId),
    /// The host looks whether constructs whose members it determines have waited long enough.
    Constructions,
    /// By now it is known which member of such a construction is lost.
    ConstructLost(usize),
    /// By now all who took part in such a construction know how it ended, if nobody is waited for.
    ConstructDue(usize),
    /// Something goes wrong.
    Strike(Fault),
    /// A job is registered at last.
    Register(usize),
    /// The host ends a job.
    Deregister(usize),
    /// A process of a job writes.
    Output(usize),
    /// The host ends all that is left.
    End,
}

/// A call of the host, and by which life of which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) id: CallId,
}

/// What is to happen, in the order of time; of the same time, in the order in which it was said.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    last: u64,
    events: BTreeMap<(Duration, u64), Event>,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Duration, event: Event) {
        self.last += 1;
        self.events.insert((at, self.last), event);
    }

    pub(crate) fn next(&mut self) -> Option<(Duration, Event)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }
}
