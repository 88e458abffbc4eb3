// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that have begun: what each waits for, until when, and how it ended.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::time::Instant;

use pmix_proto::{Command, Tag};
use pmix_types::{DeviceDistance, Info, Nspace, Pdata, Status, Text, Value};

use crate::commit::Commit;
use crate::get::Wanted;
use crate::group::OpId;
use crate::{Error, Group};

/// Names an operation of a [`Core`](crate::Core), until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub(super) u64);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Holds what an operation brought that succeeded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// It is done.
    Done,
    /// The value that a get found.
    Value(Value<'static>),
    /// What a lookup found: `PMIX_SUCCESS`, or `PMIX_ERR_PARTIAL_SUCCESS` if some keys are not there.
    Found(Status, Vec<Pdata<'static>>),
    /// The group that was formed.
    Group(Group),
    /// What was asked about; a partial success has infos, too.
    Infos(Status, Vec<Info<'static>>),
    /// The number that ends a pull of output.
    Pulled(u64),
    /// The job that was started.
    Job(Nspace<'static>),
    /// A credential of this process, and what is known of it.
    Credential(Vec<u8>, Vec<Info<'static>>),
    /// The device distances that the server computed.
    Distances(Vec<DeviceDistance<'static>>),
    /// The payload of the reply to a [`request`](crate::Core::request), to be read by the types in
    /// [`pmix_proto::reply`].
    Payload(Vec<u8>),
}

/// Holds an operation that has ended, and how.
pub type Completed = (OperationId, Result<Answer, Error>);

/// What an operation waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The server's answer to the hello.
    Welcome,
    /// What the server says of the own job.
    JobInfo,
    /// The same, where the core has begun without and a get may be answered by it.
    Learn(Wanted),
    /// A status.
    Done(Command),
    /// The payload of a reply, whatever it is.
    Payload(Command),
    /// Whether the server has stored what the messages of a commit say.
    Commit(Commit),
    /// What a process has put.
    Get(Wanted),
    /// The job info of the jobs of a connect.
    Jobs,
    /// Published data.
    Found,
    /// A status and infos.
    Infos(Command),
    /// The number of a pull of output.
    Pulled,
    /// The name of a job that is started.
    Job,
    /// A credential of this process.
    Credential,
    /// Device distances from the server.
    Distances,
    /// The group of a name that is constructed.
    Constructed(Text<'static>),
    /// That this process is out of the group of a name.
    Left(Text<'static>),
    /// That the group of a name is taken apart.
    TakenApart(Text<'static>),
    /// An invitation or its acceptance.
    Group(OpId),
}

impl Waiting {
    /// What was not answered, for the error that says so.
    pub(super) fn late(&self) -> Error {
        match self {
            Self::Welcome => Error::timeout("the hello"),
            Self::JobInfo => Error::timeout(Command::REQ),
            Self::Done(command) | Self::Payload(command) | Self::Infos(command) => {
                Error::timeout(command)
            }
            Self::Commit(_) => Error::timeout(Command::COMMIT),
            Self::Get(_) | Self::Learn(_) => Error::timeout(Command::GETNB),
            Self::Jobs => Error::timeout(Command::CONNECT),
            Self::Found => Error::timeout(Command::LOOKUP),
            Self::Pulled => Error::timeout(Command::IOF_PULL),
            Self::Job => Error::timeout(Command::SPAWN),
            Self::Credential => Error::timeout(Command::GET_CREDENTIAL),
            Self::Distances => Error::timeout(Command::DEVICE_DISTANCES),
            Self::Constructed(_) => Error::timeout(Command::GROUP_CONSTRUCT),
            Self::Left(_) => Error::timeout(Command::GROUP_LEAVE),
            Self::TakenApart(_) => Error::timeout(Command::GROUP_DESTRUCT),
            Self::Group(_) => Error::timeout("an invitation"),
        }
    }
}

/// Whom a reply is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Operation(OperationId),
    /// An invitation or its acceptance, which has sent an event.
    Said(OpId),
    /// An invitation, whose group is to have a context id; and the same once that is assigned.
    Context(OpId),
    Assigned(OpId, Option<u64>),
    /// The registration for the events of groups, which all invitations share.
    Heard,
}

/// What there is a time limit for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limited {
    Operation(OperationId),
    Request(Tag),
}

#[derive(Debug)]
struct Open {
    waiting: Waiting,
    end: Option<Instant>,
    /// The requests whose replies it waits for.
    tags: Vec<Tag>,
}

#[derive(Debug)]
struct Sent {
    asker: Asker,
    end: Option<Instant>,
}

/// The operations that have not ended, the requests whose replies are for somebody, their time limits,
/// and what has ended and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Operations {
    last: u64,
    open: BTreeMap<OperationId, Open>,
    sent: HashMap<Tag, Sent>,
    limits: BTreeSet<(Instant, Limited)>,
    completed: VecDeque<Completed>,
    /// The operations of invitations and acceptances.
    of_groups: HashMap<OpId, OperationId>,
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

    /// Records the tag of a request that an operation sent, and the reply that it waits for if that is another
    /// than before.
    pub(super) fn ask(&mut self, id: OperationId, tag: Tag, waiting: Option<Waiting>) {
        if let Some(open) = self.open.get_mut(&id) {
            open.tags.push(tag);
            if let Some(waiting) = waiting {
                open.waiting = waiting;
            }
            let (asker, end) = (Asker::Operation(id), None);
            self.sent.insert(tag, Sent { asker, end });
        }
    }

    /// Notes that something was asked that is no operation.
    pub(super) fn expect(&mut self, tag: Tag, asker: Asker, end: Option<Instant>) {
        if let Some(end) = end {
            self.limits.insert((end, Limited::Request(tag)));
        }
        self.sent.insert(tag, Sent { asker, end });
    }

    /// Whom a reply is for; nobody if it was given up.
    pub(super) fn take_asker(&mut self, tag: Tag) -> Option<Asker> {
        let sent = self.sent.remove(&tag)?;
        if let Some(end) = sent.end {
            self.limits.remove(&(end, Limited::Request(tag)));
        }
        if let Asker::Operation(id) = sent.asker
            && let Some(open) = self.open.get_mut(&id)
        {
            open.tags.retain(|of| *of != tag);
        }
        Some(sent.asker)
    }

    pub(super) fn waiting(&self, id: OperationId) -> Option<&Waiting> {
        self.open.get(&id).map(|open| &open.waiting)
    }

    /// The commit that an operation is, if it is one.
    pub(super) fn commit_mut(&mut self, id: OperationId) -> Option<&mut Commit> {
        match &mut self.open.get_mut(&id)?.waiting {
            Waiting::Commit(commit) => Some(commit),
            _ => None,
        }
    }

    /// The operation of an invitation or its acceptance.
    pub(super) fn of_group(&self, of: OpId) -> Option<OperationId> {
        self.of_groups.get(&of).copied()
    }

    /// Whether a group of this name is constructed.
    pub(super) fn constructs(&self, name: &Text<'_>) -> bool {
        let mut open = self.open.values();
        open.any(|open| matches!(&open.waiting, Waiting::Constructed(of) if of == name))
    }

    /// Takes an operation that ends out. Whoever does says how it ended.
    pub(super) fn end(&mut self, id: OperationId) -> Option<Waiting> {
        let open = self.open.remove(&id)?;
        if let Some(end) = open.end {
            self.limits.remove(&(end, Limited::Operation(id)));
        }
        for tag in &open.tags {
            self.sent.remove(tag);
        }
        if let Waiting::Group(of) = open.waiting {
            self.of_groups.remove(&of);
        }
        Some(open.waiting)
    }

    /// Ends an operation.
    pub(super) fn complete(&mut self, id: OperationId, outcome: Result<Answer, Error>) {
        if self.end(id).is_some() {
            self.completed.push_back((id, outcome));
        }
    }

    /// Says how an operation ended that was taken out.
    pub(super) fn completed(&mut self, id: OperationId, outcome: Result<Answer, Error>) {
        self.completed.push_back((id, outcome));
    }

    /// The operations that have not ended.
    pub(super) fn all_open(&self) -> Vec<OperationId> {
        self.open.keys().copied().collect()
    }

    /// Forgets the requests that were sent: there will be no replies.
    pub(super) fn lose(&mut self) {
        self.sent.clear();
        self.limits
            .retain(|(_, limited)| matches!(limited, Limited::Operation(_)));
    }

    /// The next limit that has passed.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<Limited> {
        let (end, _) = self.limits.first()?;
        (*end <= now)
            .then(|| self.limits.pop_first())?
            .map(|(_, limited)| limited)
    }

    /// The time of the next limit.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(end, _)| *end)
    }

    pub(super) fn poll(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }

    /// How many operations are open, requests are waited for, limits are set and answers were not taken.
    pub(super) fn counts(&self) -> [usize; 4] {
        [
            self.open.len(),
            self.sent.len(),
            self.limits.len(),
            self.completed.len(),
        ]
    }
}
