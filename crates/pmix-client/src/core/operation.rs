// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open operations: the reply that each waits for, its time limit and its outcome.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::time::Instant;

use pmix_proto::{Command, Request, Tag};
use pmix_types::{DeviceDistance, Info, IntoOwned as _, Nspace, Pdata, Status, Text, Value};

use crate::commit::Commit;
use crate::get::PendingGet;
use crate::group::OpId;
use crate::{Error, Group};

/// The id of an operation of a [`Core`](crate::core::Core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub(super) u64);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The result of a successful operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// Success without data.
    Done,
    /// The value of a get.
    Value(Value<'static>),
    /// The data of a lookup: `PMIX_SUCCESS`, or `PMIX_ERR_PARTIAL_SUCCESS` if some keys have no data.
    Found(Status, Vec<Pdata<'static>>),
    /// The group that was formed.
    Group(Group),
    /// A status and infos; a partial success has infos as well.
    Infos(Status, Vec<Info<'static>>),
    /// The number for the deregistration of a pull of output.
    Pulled(u64),
    /// The job that was started.
    Job(Nspace<'static>),
    /// A credential of this process and infos about it.
    Credential(Vec<u8>, Vec<Info<'static>>),
    /// The device distances that the server computed.
    Distances(Vec<DeviceDistance<'static>>),
    /// The payload of the reply to a [`request`](crate::core::Core::request), which the types in [`pmix_proto::reply`]
    /// decode.
    Payload(Vec<u8>),
}

/// A status and infos; a partial success has infos as well.
pub type Answers = (Status, Vec<Info<'static>>);

/// A result of a call, which is the content of one kind of [`Answer`].
pub trait FromAnswer: Sized + 'static {
    /// Returns the content of an answer, or `None` for an answer of another kind.
    fn from_answer(answer: Answer) -> Option<Self>;
}

macro_rules! results {
    ($($answer:pat => $result:expr, $type:ty;)*) => {
        $(impl FromAnswer for $type {
            fn from_answer(answer: Answer) -> Option<Self> {
                match answer {
                    $answer => Some($result),
                    _ => None,
                }
            }
        })*
    };
}

results! {
    Answer::Done => (), ();
    Answer::Value(value) => value, Value<'static>;
    Answer::Found(status, found) => (status, found), (Status, Vec<Pdata<'static>>);
    Answer::Group(group) => group, Group;
    Answer::Infos(status, infos) => (status, infos), Answers;
    Answer::Pulled(id) => id, u64;
    Answer::Job(job) => job, Nspace<'static>;
    Answer::Credential(bytes, infos) => (bytes, infos), (Vec<u8>, Vec<Info<'static>>);
    Answer::Distances(distances) => distances, Vec<DeviceDistance<'static>>;
    Answer::Payload(payload) => payload, Vec<u8>;
}

/// Returns the result of a call from the outcome of its operation.
pub(crate) fn result_of<T: FromAnswer>(outcome: Result<Answer, Error>) -> Result<T, Error> {
    let unexpected = || Error::new(Status::ERR_COMM_FAILURE, "a reply of an unexpected type");
    T::from_answer(outcome?).ok_or_else(unexpected)
}

/// A completed operation and its outcome.
pub type Completed = (OperationId, Result<Answer, Error>);

/// The reply that an operation waits for, and its purpose.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The server's reply to the hello.
    Welcome,
    /// The job info of the own job, during init.
    JobInfo,
    /// The job info of the own job, requested by a get because init did not request it.
    JobInfoForGet(PendingGet),
    /// A status.
    Done(Command),
    /// A payload of any form.
    Payload(Command),
    /// The status of each message of a commit.
    Commit(Commit),
    /// The data of a process.
    Get(PendingGet),
    /// The job info of the jobs of a connect.
    Jobs,
    /// Published data.
    Found,
    /// A status and infos.
    Infos(Command),
    /// The number of a pull of output.
    Pulled,
    /// The nspace of a started job.
    Job,
    /// A credential of this process.
    Credential,
    /// Device distances from the server.
    Distances,
    /// The group of a construct, by name.
    Constructed(Text<'static>),
    /// A status, after which this process has left the group.
    Left(Text<'static>),
    /// A status, after which the group no longer exists.
    Destructed(Text<'static>),
    /// The end of an invitation or acceptance.
    Group(OpId),
    /// The message of the server that it accepts input again, after it has accepted the input of a push.
    Resumed,
}

/// A request and the operation that its reply completes.
#[derive(Debug)]
pub(crate) struct RequestCall<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) waiting: Waiting,
}

impl<'a> From<Request<'a>> for RequestCall<'a> {
    fn from(request: Request<'a>) -> Self {
        let waiting = Waiting::of(&request);
        Self { request, waiting }
    }
}

impl Waiting {
    /// Returns the operation that the reply to a request completes.
    fn of(request: &Request<'_>) -> Self {
        let command = request.command();
        match request {
            Request::Query(_)
            | Request::FabricRegister(_)
            | Request::FabricUpdate(_)
            | Request::SessionControl(_)
            | Request::Allocate(_)
            | Request::JobControl(_)
            | Request::Monitor(_)
            | Request::ValidateCredential(_) => Self::Infos(command),
            Request::Connect(_) => Self::Jobs,
            Request::Lookup(_) => Self::Found,
            Request::IofPull(_) => Self::Pulled,
            Request::Spawn(_) => Self::Job,
            Request::GetCredential(_) => Self::Credential,
            Request::DeviceDistances(_) => Self::Distances,
            Request::GroupConstruct(construct) => {
                let name = construct.group.clone().unwrap_or_default();
                Self::Constructed(name.into_owned())
            }
            _ => Self::of_group_end(request).unwrap_or(Self::Done(command)),
        }
    }

    /// Returns the operation of a leave or destruct, whose reply removes the group from the local data.
    pub(super) fn of_group_end(request: &Request<'_>) -> Option<Self> {
        let name = |group: &Option<Text<'_>>| group.clone().map(Text::into_owned);
        match request {
            Request::GroupLeave(leave) => name(&leave.group).map(Self::Left),
            Request::GroupDestruct(destruct) => name(&destruct.group).map(Self::Destructed),
            _ => None,
        }
    }

    /// Returns the timeout error with the name of the request.
    pub(super) fn late(&self) -> Error {
        match self {
            Self::Welcome => Error::timeout("the hello"),
            Self::JobInfo => Error::timeout(Command::REQ),
            Self::Done(command) | Self::Payload(command) | Self::Infos(command) => {
                Error::timeout(command)
            }
            Self::Commit(_) => Error::timeout(Command::COMMIT),
            Self::Get(_) | Self::JobInfoForGet(_) => Error::timeout(Command::GETNB),
            Self::Jobs => Error::timeout(Command::CONNECT),
            Self::Found => Error::timeout(Command::LOOKUP),
            Self::Pulled => Error::timeout(Command::IOF_PULL),
            Self::Job => Error::timeout(Command::SPAWN),
            Self::Credential => Error::timeout(Command::GET_CREDENTIAL),
            Self::Distances => Error::timeout(Command::DEVICE_DISTANCES),
            Self::Constructed(_) => Error::timeout(Command::GROUP_CONSTRUCT),
            Self::Left(_) => Error::timeout(Command::GROUP_LEAVE),
            Self::Destructed(_) => Error::timeout(Command::GROUP_DESTRUCT),
            Self::Group(_) => Error::timeout("an invitation"),
            Self::Resumed => Error::timeout("the end of the stop of input, which was accepted"),
        }
    }
}

/// The recipient of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    Operation(OperationId),
    /// An invitation or acceptance that has sent an event.
    GroupEvent(OpId),
    /// An invitation that requests a context id with a temporary group; then the destruct of that group.
    ContextId(OpId),
    TemporaryGroup(OpId, Option<u64>),
    /// The registration for the events of groups, which all invitations share.
    EventRegistration,
}

/// The object of a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limited {
    Operation(OperationId),
    Request(Tag),
}

#[derive(Debug)]
struct Open {
    waiting: Waiting,
    end: Option<Instant>,
    /// The requests without a reply so far.
    tags: Vec<Tag>,
}

#[derive(Debug)]
struct Sent {
    requester: Requester,
    end: Option<Instant>,
}

/// Open operations, requests without a reply, time limits, and completed operations that the driver has not taken.
#[derive(Debug, Default)]
pub(super) struct Operations {
    last: u64,
    open: BTreeMap<OperationId, Open>,
    sent: HashMap<Tag, Sent>,
    limits: BTreeSet<(Instant, Limited)>,
    completed: VecDeque<Completed>,
    /// The operations of invitations and acceptances.
    of_groups: HashMap<OpId, OperationId>,
    /// `true` while the server accepts no input.
    is_stopped: bool,
}

impl Operations {
    /// Begins an operation.
    pub(super) fn begin(&mut self, waiting: Waiting, end: Option<Instant>) -> OperationId {
        let id = OperationId(self.last);
        self.last += 1;
        if let Some(end) = end {
            self.limits.insert((end, Limited::Operation(id)));
        }
        if let Waiting::Group(of) = waiting {
            self.of_groups.insert(of, id);
        }
        let tags = Vec::new();
        self.open.insert(id, Open { waiting, end, tags });
        id
    }

    /// Adds a request to an operation, and replaces the reply that it waits for if `waiting` is given.
    pub(super) fn add_request(&mut self, id: OperationId, tag: Tag, waiting: Option<Waiting>) {
        if let Some(open) = self.open.get_mut(&id) {
            open.tags.push(tag);
            if let Some(waiting) = waiting {
                open.waiting = waiting;
            }
            let (requester, end) = (Requester::Operation(id), None);
            self.sent.insert(tag, Sent { requester, end });
        }
    }

    /// Adds a request that belongs to no operation.
    pub(super) fn expect(&mut self, tag: Tag, requester: Requester, end: Option<Instant>) {
        if let Some(end) = end {
            self.limits.insert((end, Limited::Request(tag)));
        }
        self.sent.insert(tag, Sent { requester, end });
    }

    /// Removes a request and returns the recipient of its reply. Returns `None` if its operation has ended.
    pub(super) fn take_requester(&mut self, tag: Tag) -> Option<Requester> {
        let sent = self.sent.remove(&tag)?;
        if let Some(end) = sent.end {
            self.limits.remove(&(end, Limited::Request(tag)));
        }
        if let Requester::Operation(id) = sent.requester
            && let Some(open) = self.open.get_mut(&id)
        {
            // The operation may wait for replies to other requests, as a commit does.
            open.tags.retain(|of| *of != tag);
        }
        Some(sent.requester)
    }

    pub(super) fn waiting(&self, id: OperationId) -> Option<&Waiting> {
        self.open.get(&id).map(|open| &open.waiting)
    }

    /// Returns the commit of an operation, if it is one.
    pub(super) fn commit_mut(&mut self, id: OperationId) -> Option<&mut Commit> {
        match &mut self.open.get_mut(&id)?.waiting {
            Waiting::Commit(commit) => Some(commit),
            _ => None,
        }
    }

    /// Returns the operation of an invitation or acceptance.
    pub(super) fn of_group(&self, of: OpId) -> Option<OperationId> {
        self.of_groups.get(&of).copied()
    }

    /// Returns `true` if a construct of a group with this name is open.
    pub(super) fn constructs(&self, name: &Text<'_>) -> bool {
        let mut open = self.open.values();
        open.any(|open| matches!(&open.waiting, Waiting::Constructed(of) if of == name))
    }

    /// Removes an operation. The caller must then record its outcome with [`completed`](Self::completed).
    pub(super) fn end(&mut self, id: OperationId) -> Option<Waiting> {
        let open = self.open.remove(&id)?;
        if let Some(end) = open.end {
            self.limits.remove(&(end, Limited::Operation(id)));
        }
        // A later reply to one of these requests then finds no operation and is ignored.
        for tag in &open.tags {
            self.sent.remove(tag);
        }
        if let Waiting::Group(of) = open.waiting {
            self.of_groups.remove(&of);
        }
        Some(open.waiting)
    }

    /// Removes an operation and records its outcome.
    pub(super) fn complete(&mut self, id: OperationId, outcome: Result<Answer, Error>) {
        if self.end(id).is_some() {
            self.completed.push_back((id, outcome));
        }
    }

    /// Records the outcome of an operation that [`end`](Self::end) has removed.
    pub(super) fn completed(&mut self, id: OperationId, outcome: Result<Answer, Error>) {
        self.completed.push_back((id, outcome));
    }

    /// Returns `true` while the server accepts no input.
    pub(super) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Keeps a push whose input was accepted until [`set_stopped`](Self::set_stopped).
    pub(super) fn keep_until_resumed(&mut self, id: OperationId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.waiting = Waiting::Resumed;
        }
    }

    /// Records whether the server accepts input. If it does, all kept pushes complete.
    pub(super) fn set_stopped(&mut self, is_stopped: bool) {
        self.is_stopped = is_stopped;
        if is_stopped {
            return;
        }
        let open = self.open.iter();
        let kept = open.filter(|(_, open)| matches!(open.waiting, Waiting::Resumed));
        let kept: Vec<_> = kept.map(|(id, _)| *id).collect();
        for id in kept {
            self.complete(id, Ok(Answer::Done));
        }
    }

    /// Returns the ids of all open operations.
    pub(super) fn all_open(&self) -> Vec<OperationId> {
        self.open.keys().copied().collect()
    }

    /// Drops all requests, since no replies will arrive.
    pub(super) fn lose(&mut self) {
        self.sent.clear();
        // Each operation removes its own limit when it completes with the loss.
        self.limits
            .retain(|(_, limited)| matches!(limited, Limited::Operation(_)));
    }

    /// Removes and returns the next time limit that has passed.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<Limited> {
        let (end, _) = self.limits.first()?;
        (*end <= now)
            .then(|| self.limits.pop_first())?
            .map(|(_, limited)| limited)
    }

    /// Returns the next time limit.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(end, _)| *end)
    }

    pub(super) fn poll(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }

    /// Returns the numbers of open operations, of requests, of time limits and of completed operations.
    pub(super) fn counts(&self) -> [usize; 4] {
        [
            self.open.len(),
            self.sent.len(),
            self.limits.len(),
            self.completed.len(),
        ]
    }
}
