// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event notification: what happened, who reported it, and which processes it may reach.

use pmix_types::{DataRange, Info, IntoOwned, Nspace, Proc, Status};

use super::directives::{Directives, ONLY_USER, about, take_only_users};
use crate::procs::Procs;
use crate::{Error, PeerId, weight};

/// Tells the session of a job, if it is known.
pub(crate) type Sessions<'s> = &'s dyn Fn(&Nspace<'_>) -> Option<u32>;

/// Somebody who may hear of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The process.
    pub(crate) proc: Proc<'static>,
    /// Its user.
    pub(crate) uid: u32,
    /// Whether it is a tool.
    pub(crate) is_tool: bool,
    /// Whether it hears of the processes of every user, as tools of root and of the server's user do.
    pub(crate) hears_all: bool,
}

/// Who reported an event to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// A peer, whose own handlers have seen it before it was sent.
    Peer(PeerId),
    /// The host. Processes with the name of the source have seen it.
    Host,
    /// This server itself; no process has seen it.
    Server,
    /// The host, which observed the source. The source has not seen the event.
    Observer,
}

/// The process that an event of the host comes from, with its part in the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSource<'p> {
    /// A process that reported the event, or the host. The event is not delivered to it, as it has seen the event.
    Reporter(&'p Proc<'p>),
    /// A process that the host has observed, such as one with an alert of a monitor. The event is delivered to it too,
    /// and changes nothing of what the server knows.
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
    /// Makes the process the reporter.
    fn from(proc: &'p Proc<'n>) -> Self {
        Self::Reporter(proc)
    }
}

/// An event as it was reported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notification {
    pub(crate) status: Status,
    pub(crate) source: Proc<'static>,
    pub(crate) range: DataRange,
    pub(crate) infos: Vec<Info<'static>>,
    pub(crate) reporter: Reporter,
    /// The only users whose processes may hear of it; none if all may.
    only: Option<Vec<u32>>,
    /// The users whose jobs it is about, as far as they are known. Tools of others do not hear of it.
    owners: Vec<u32>,
    pub(crate) directives: Directives,
}

impl Notification {
    /// Takes an event and reads whom it is for.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a range that does not exist, for a custom range without a list of
    /// processes, and as [`Directives::read`] and [`take_only_users`].
    pub(crate) fn new(
        reporter: Reporter,
        status: Status,
        source: Proc<'static>,
        range: DataRange,
        mut infos: Vec<Info<'static>>,
    ) -> Result<Self, Error> {
        // The host alone can say it: it has it from the server of another node.
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

    /// Takes an event that the host reports.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
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
        let infos = infos.to_vec().into_owned();
        Self::new(reporter, status, source, range, infos)
    }

    /// Returns the processes that ended without `PMIx_Finalize`, if that is what the event says.
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

    /// The same for processes of one user, if one is given.
    pub(crate) fn only(self, uid: Option<u32>) -> Self {
        self.only_of(uid.map(|uid| vec![uid]))
    }

    /// The same for processes of some users, if they are given.
    pub(crate) fn only_of(mut self, users: Option<Vec<u32>>) -> Self {
        self.only = users;
        self
    }

    /// The same about jobs of these users.
    pub(crate) fn about_jobs_of(mut self, owners: Vec<u32>) -> Self {
        self.owners = owners;
        self
    }

    /// The jobs that it is about.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Nspace<'static>> {
        let affected = self.directives.affected.iter().flat_map(Procs::nspaces);
        affected.chain([&self.source.nspace])
    }

    /// The infos as the host is to spread them: who may hear of it goes along.
    pub(crate) fn infos_for_host(&self) -> Vec<Info<'static>> {
        let users = self.only.iter().flatten();
        let said = users.map(|uid| Info::new(ONLY_USER, *uid));
        self.infos.iter().cloned().chain(said).collect()
    }

    /// Whether somebody may be told of the event and has not seen it where it was raised.
    ///
    /// `sessions` tells the session of a job; two jobs of which one is not known to be in any are
    /// taken to be in one.
    pub(crate) fn is_for(&self, peer: PeerId, listener: &Listener, sessions: Sessions<'_>) -> bool {
        let has_seen = match self.reporter {
            Reporter::Peer(own) => own == peer,
            Reporter::Host => self.source == listener.proc,
            Reporter::Server | Reporter::Observer => false,
        };
        !has_seen && self.may_be_heard_by(listener) && self.reaches(&listener.proc, sessions)
    }

    /// Whether somebody has the right to hear of it.
    fn may_be_heard_by(&self, listener: &Listener) -> bool {
        let only = self.only.as_ref();
        let is_meant = only.is_none_or(|users| users.contains(&listener.uid));
        let may_read =
            !listener.is_tool || self.owners.is_empty() || self.owners.contains(&listener.uid);
        listener.hears_all || is_meant && may_read
    }

    /// Whether a process is in the range of the event, and among those that it names, if it names any. What
    /// the host keeps to itself is in nobody's range.
    ///
    /// DEVIATION: OpenPMIx refuses names beside any range but the custom one. Its own example of a debugger's
    /// daemon releases processes by their names with the range of the node, and is understood here;
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

    /// Whether the host tells by it in which state a job is, which has no age as it may still be so.
    pub(super) fn is_lasting(&self) -> bool {
        let states = [
            Status::EVENT_JOB_START,
            Status::LAUNCH_COMPLETE,
            Status::LAUNCHER_READY,
            Status::READY_FOR_DEBUG,
        ];
        self.reporter == Reporter::Host && states.contains(&self.status)
    }

    /// Whether the host tells that a job ended: who waits for that may register when the job is gone.
    pub(super) fn is_end_of_job(&self) -> bool {
        self.reporter == Reporter::Host && self.status == Status::EVENT_JOB_END
    }

    /// What it counts where kept events are counted, in bytes.
    pub(super) fn weight(&self) -> usize {
        let users = self.only.as_ref().map_or(0, Vec::len) + self.owners.len();
        size_of::<Self>() + users * size_of::<u32>() + weight::infos(&self.infos)
    }

    /// Whether the host is to hear of it, so that it reaches other nodes: never of what it told
    /// itself (PMIx Standard, `pmix_server_notify_event_fn_t`), nor of what stays on this node. That a process
    /// waits for a debugger, or is released by one, is for the host wherever it is told: who started the
    /// process counts those that wait, and continues what it stopped itself.
    pub(crate) fn concerns_host(&self) -> bool {
        if matches!(self.reporter, Reporter::Host | Reporter::Observer) {
            return false;
        }
        let of_debuggers = [Status::READY_FOR_DEBUG, Status::DEBUGGER_RELEASE];
        let stays = matches!(self.range, DataRange::LOCAL | DataRange::PROC_LOCAL);
        of_debuggers.contains(&self.status) || !stays && !self.directives.stays_local
    }
}
