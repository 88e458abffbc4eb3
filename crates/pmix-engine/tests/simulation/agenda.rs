// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduled events, ordered by time.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_client::driver::OperationId;
use pmix_engine::{CallId, Error, HostReply, PeerId, Verified};
use pmix_proto::Tag;

use crate::client::{HandlerResult, Who};
use crate::fault::Fault;
use crate::host::RoundId;
use crate::process::ProcId;
use crate::tool::ToolId;

/// A scheduled event.
#[derive(Debug)]
pub(crate) enum Event {
    /// The start of an incarnation of a process.
    Start(ProcId),
    /// The connection of a tool.
    Attach(ToolId),
    /// The next step of a process.
    Step(Who),
    /// A get from another node for data of a restarted process.
    Curious(ProcId),
    /// The arrival of bytes at a server.
    Up(Who),
    /// The arrival of bytes at a client.
    Down(Who),
    /// The resumption of reading by a client.
    Wake(Who),
    /// The next timer of an engine.
    Alarm(usize),
    /// The host's reply to a server, if that server still runs.
    HostReply(Call, HostReply),
    /// The security module's result for a peer of this incarnation of a server.
    Verified(usize, u32, PeerId, Result<Verified, Error>),
    /// The end of a collective by the host's time limit.
    Expire(RoundId),
    /// The host's check of lookups for their time limits.
    Board,
    /// The delivery of an event of the host to a server.
    Notice(usize, Box<crate::host::Notice>),
    /// The check that a request has a reply.
    Deadline(Who, Tag),
    /// The next timer of a client core.
    Limit(Who),
    /// The delivery of received events to a program.
    Listen(Who),
    /// The check that an operation has ended.
    Overdue(Who, OperationId),
    /// The cancellation of an operation by a process.
    Cancel(Who, OperationId),
    /// The check that a process that joined by an invitation knows the outcome.
    Joined(usize, Who, ProcId),
    /// The check that a process invited by a new leader has accepted.
    Follows(usize, Who, ProcId),
    /// The check that the reported leader of an invitation is lost.
    LeaderGone(usize, ProcId),
    /// The check that the leader of an invitation knows of a lost process.
    Failed(usize, ProcId, ProcId),
    /// The checks that a construct has been decided after a loss, or has ended: without further losses, and at the
    /// latest.
    Decided(Who, Tag, ProcId),
    DecidedAtLast(Who, Tag, ProcId),
    /// The check that a server has applied a process's decision about a construct.
    ResultTaken(Who, String, ProcId, HandlerResult),
    /// The check that all processes notified of a lost construct leader know its successor, if there is one.
    Replaced(String, ProcId),
    /// The check that a process whose construct ended without a leader knows that there is none.
    Leaderless(Who, String),
    /// The check that all members of a group know of the termination of a member.
    Terminated(String, ProcId),
    /// The crash of a process.
    Crash(Who),
    /// The host's observation that a process has terminated.
    Ended(ProcId),
    /// The host's check of constructs with added members for their time limits.
    Constructions,
    /// The check for a lost member of such a construct.
    ConstructLost(usize),
    /// The check that all participants of such a construct know the outcome, if no call is missing.
    ConstructDue(usize),
    /// A fault.
    Strike(Fault),
    /// The late registration of a job.
    Register(usize),
    /// The deregistration of a job by the host.
    Deregister(usize),
    /// Output of a process of a job.
    Output(usize),
    /// The end of the run, at which the host ends everything.
    End,
}

/// An upcall, with the node and incarnation of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) id: CallId,
}

/// The scheduled events ordered by time; at the same time, in the order in which they were added.
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
