// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event notification with its reporter and its recipients.

use pmix_types::{DataRange, Info, IntoOwned, Nspace, Proc, Status, memory};

use super::directives::{Directives, ONLY_USER, about, take_only_users};
use crate::infos::try_to_owned;
use crate::procs::Procs;
use crate::{Error, PeerId, weight};

/// A lookup of the session of a job, if it is known.
pub(crate) type Sessions<'s> = &'s dyn Fn(&Nspace<'_>) -> Option<u32>;

/// A possible recipient of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The process.
    pub(crate) proc: Proc<'static>,
    /// The user id.
    pub(crate) uid: u32,
    /// `true` for a tool.
    pub(crate) is_tool: bool,
    /// `true` if it receives events of the processes of every user, as tools of root and of the server's user do.
    pub(crate) receives_all: bool,
}

/// The origin of an event at this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// A peer, whose own handlers received the event before it was sent.
    Peer(PeerId),
    /// The host. The process named as the source has already received the event.
    Host,
    /// This server; no process has received the event.
    Server,
    /// The host, which observed the source. The source has not received the event.
    Observer,
}

/// The source process of an event of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSource<'p> {
    /// A process that reported the event, or the host. The event is not delivered to it, because it has already
    /// received it.
    Reporter(&'p Proc<'p>),
    /// A process that the host observed, such as the subject of a monitor alert. The event is delivered to it, too, and
    /// does not change the state of the server.
    Observed(&'p Proc<'p>),
}

impl<'p> EventSource<'p> {
    /// Returns the process.
    #[must_use]
    pub const fn proc(self) -> &'p Proc<'p> {
        match self {
            Self::Reporter(proc) | Self::Observed(proc) => proc,
        }
    }
}

impl<'p, 'n: 'p> From<&'p Proc<'n>> for EventSource<'p> {
    /// Treats the process as the reporter.
    fn from(proc: &'p Proc<'n>) -> Self {
        Self::Reporter(proc)
    }
}

/// A reported event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notification {
    pub(crate) status: Status,
    pub(crate) source: Proc<'static>,
    pub(crate) range: DataRange,
    pub(crate) infos: Vec<Info<'static>>,
    pub(crate) reporter: Reporter,
    /// The only users whose processes may receive it; `None` for all.
    only: Option<Vec<u32>>,
    /// The known owners of the jobs it concerns. Tools of other users do not receive it.
    owners: Vec<u32>,
    pub(crate) directives: Directives,
}

impl Notification {
    /// Creates a notification and decodes its directives.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an unknown range, and for a custom range without a list of processes. Returns
    /// the errors of [`Directives::read`] and [`take_only_users`].
    pub(crate) fn new(
        reporter: Reporter,
        status: Status,
        source: Proc<'static>,
        range: DataRange,
        mut infos: Vec<Info<'static>>,
    ) -> Result<Self, Error> {
        // Only the host may restrict the users, because it received the info from the server of another node.
        let only = take_only_users(&mut infos)?.filter(|_| reporter == Reporter::Host);
        let directives = Directives::read(&infos)?;
        if range.as_raw() > DataRange::PROC_LOCAL.as_raw() {
            return Err(Error::bad(format!("invalid range of an event: {range}")));
        }
        if range == DataRange::CUSTOM && directives.targets.is_none() {
            let message = "an event with PMIX_RANGE_CUSTOM requires processes (pmix.evrange)";
            return Err(Error::bad(message));
        }
        Ok(Self {
            status,
            source,
            range,
            infos,
            reporter,
            only,
            owners: Vec::new(),
            directives,
        })
    }

    /// Creates a notification for an event of the host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new), and `PMIX_ERR_NOMEM` if there is no memory for a copy of the infos.
    pub(crate) fn of_host(
        status: Status,
        source: EventSource<'_>,
        range: DataRange,
        infos: &[Info<'_>],
    ) -> Result<Self, Error> {
        let reporter = match source {
            EventSource::Reporter(_) => Reporter::Host,
            EventSource::Observed(_) => Reporter::Observer,
        };
        let source = source.proc().clone().into_owned();
        let infos = try_to_owned(infos)?;
        Self::new(reporter, status, source, range, infos)
    }

    /// Returns the processes that terminated without `PMIx_Finalize`, if the event reports that.
    pub(crate) fn lost_procs(&self) -> Vec<Proc<'static>> {
        match self.status {
            Status::ERR_LOST_CONNECTION
            | Status::ERR_PROC_ABORTED
            | Status::ERR_PROC_ABORTED_BY_SIG
            | Status::ERR_PROC_KILLED_BY_CMD
            | Status::ERR_PROC_TERM_WO_SYNC
            | Status::ERR_EXIT_NONZERO_TERM => about(&self.infos, &self.source),
            _ => Vec::new(),
        }
    }

    /// Restricts the recipients to processes of one user, if one is given.
    pub(crate) fn only(self, uid: Option<u32>) -> Self {
        self.only_of(uid.map(|uid| vec![uid]))
    }

    /// Restricts the recipients to processes of some users, if they are given.
    pub(crate) fn only_of(mut self, users: Option<Vec<u32>>) -> Self {
        self.only = users;
        self
    }

    /// Sets the owners of the jobs that the event concerns.
    pub(crate) fn about_jobs_of(mut self, owners: Vec<u32>) -> Self {
        self.owners = owners;
        self
    }

    /// Returns the jobs that the event concerns.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Nspace<'static>> {
        let affected = self.directives.affected.iter().flat_map(Procs::nspaces);
        affected.chain([&self.source.nspace])
    }

    /// Returns the infos for the host, including the permitted users.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOMEM` if the process has no memory for a copy.
    pub(crate) fn infos_for_host(&self) -> Result<Vec<Info<'static>>, Error> {
        let users = self.only.iter().flatten();
        let mut infos = self.infos.try_clone()?;
        memory::reserve(&mut infos, users.clone().count())?;
        infos.extend(users.map(|uid| Info::new(ONLY_USER, *uid)));
        Ok(infos)
    }

    /// Returns `true` if a peer should receive the event: it is permitted, in range, and has not received it at its
    /// source.
    ///
    /// `sessions` returns the session of a job; a job without a known session counts as part of every session.
    pub(crate) fn is_for(&self, peer: PeerId, listener: &Listener, sessions: Sessions<'_>) -> bool {
        let has_seen = match self.reporter {
            Reporter::Peer(own) => own == peer,
            // The host may return an event to all servers, including that of its source.
            Reporter::Host => self.source == listener.proc,
            Reporter::Server | Reporter::Observer => false,
        };
        !has_seen && self.permits(listener) && self.reaches(&listener.proc, sessions)
    }

    /// Returns `true` if a recipient is permitted to receive the event.
    fn permits(&self, listener: &Listener) -> bool {
        let only = self.only.as_ref();
        let is_meant = only.is_none_or(|users| users.contains(&listener.uid));
        let may_read =
            !listener.is_tool || self.owners.is_empty() || self.owners.contains(&listener.uid);
        listener.receives_all || is_meant && may_read
    }

    /// Returns `true` if a process is in the range of the event and among its target processes, if it names any. No
    /// process is in the range of events for the host.
    ///
    /// DEVIATION: OpenPMIx refuses target processes for any range except the custom one. The daemon of its own debugger
    /// example releases processes by name in the range of the node, and works here;
    /// `a_list_of_processes_narrows_any_other_range`.
    fn reaches(&self, proc: &Proc<'_>, sessions: Sessions<'_>) -> bool {
        let targets = self.directives.targets.as_ref();
        if targets.is_some_and(|targets| !targets.has(proc)) {
            return false;
        }
        match self.range {
            DataRange::UNDEF | DataRange::LOCAL | DataRange::GLOBAL => true,
            DataRange::NAMESPACE => self.source.nspace == proc.nspace,
            DataRange::SESSION => match (sessions(&self.source.nspace), sessions(&proc.nspace)) {
                (Some(own), Some(other)) => own == other,
                _ => true,
            },
            DataRange::CUSTOM => targets.is_some(),
            _ => false,
        }
    }

    /// Returns `true` if the host reports the state of a job by it. Such an event does not expire, because the state
    /// may last.
    pub(super) fn is_lasting(&self) -> bool {
        let states = [
            Status::EVENT_JOB_START,
            Status::LAUNCH_COMPLETE,
            Status::LAUNCHER_READY,
            Status::READY_FOR_DEBUG,
        ];
        self.reporter == Reporter::Host && states.contains(&self.status)
    }

    /// Returns `true` if the host reports the end of a job by it. A process that waits for the end may register after
    /// the job was deregistered.
    pub(super) fn is_end_of_job(&self) -> bool {
        self.reporter == Reporter::Host && self.status == Status::EVENT_JOB_END
    }

    /// Returns the size of the event for the limit of cached bytes.
    pub(super) fn weight(&self) -> usize {
        let users = self.only.as_ref().map_or(0, Vec::len) + self.owners.len();
        size_of::<Self>() + users * size_of::<u32>() + weight::infos(&self.infos)
    }

    /// Returns `true` if the host should receive the event to distribute it to other nodes. It receives neither its own
    /// events (PMIx Standard, `pmix_server_notify_event_fn_t`) nor those that stay on this node. It always receives a
    /// process's wait for a debugger and a debugger's release, since the launcher counts waiting processes and
    /// continues those that it stopped itself.
    pub(crate) fn concerns_host(&self) -> bool {
        if matches!(self.reporter, Reporter::Host | Reporter::Observer) {
            return false;
        }
        let of_debuggers = [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE];
        let stays = matches!(self.range, DataRange::LOCAL | DataRange::PROC_LOCAL);
        of_debuggers.contains(&self.status) || !stays && !self.directives.stays_local
    }
}
