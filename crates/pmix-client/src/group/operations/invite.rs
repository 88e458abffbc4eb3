// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of an invitation at its leader: the invited processes, their answers, and the members left out.
//!
//! Hosts assign a context id (`PMIX_GROUP_ASSIGN_CONTEXT_ID`) only in a construct. So the leader constructs a temporary
//! group of the same name with itself as the only member, and destructs it before it announces the group:
//!
//! ```text
//! all have accepted ── construct of the leader alone ── its context id ── destruct ── CONSTRUCT_COMPLETE, with the id
//! ```

use std::collections::{HashMap, HashSet};

use pmix_proto::{Event, request};
use pmix_types::{Info, IntoOwned as _, Measure, Proc, Status, Text, Value, keys, memory};

use super::{Kind, OpId, Operations};
use crate::Error;
use crate::group::Decision;
use crate::group::events::{about, bad, endpoint_data, membership, notify};
use crate::obeyed::is_true;

/// The memory of an invited process in bytes: two lists, and three sets of which a quarter is free.
const BYTES_OF_EACH: usize = 8 * size_of::<Proc<'_>>();

/// The largest size of the endpoint data of all members in memory in bytes; the announcement of a group has them.
const MAX_ENDPOINT_BYTES: usize = 4 << 20;

/// The directives of an invitation, apart from the time limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directives {
    /// `true` if the group may be formed without some processes (`PMIX_GROUP_OPTIONAL`).
    is_optional: bool,
    /// `true` if the members are notified of lost members (`PMIX_GROUP_NOTIFY_TERMINATION`).
    notifies: bool,
    /// `true` if the group gets a context id (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub(super) wants_context_id: bool,
    needs_context_id: bool,
}

impl Directives {
    pub(super) fn new(infos: &[Info<'_>]) -> Self {
        let is_required =
            |info: &Info<'_>| info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID) && info.is_required();
        let wants_context_id = is_true(infos, keys::GROUP_ASSIGN_CONTEXT_ID);
        Self {
            is_optional: is_true(infos, keys::GROUP_OPTIONAL),
            notifies: is_true(infos, keys::GROUP_NOTIFY_TERMINATION),
            wants_context_id,
            needs_context_id: wants_context_id && infos.iter().any(is_required),
        }
    }
}

/// The state of the context id of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Context {
    Unset,
    Requested,
    /// The assigned id, or `None` if the host assigns none or none was requested.
    Known(Option<u64>),
}

/// An invitation of this process.
#[derive(Debug)]
pub(super) struct Invite {
    /// All processes ever invited, in the order of their ranks in the group.
    listed: Vec<Proc<'static>>,
    /// The processes of `listed` as a set.
    everyone: HashSet<Proc<'static>>,
    /// The processes that have not answered.
    waiting: HashSet<Proc<'static>>,
    /// The processes that have accepted, and whose acceptance the program has not seen.
    unseen: HashSet<Proc<'static>>,
    /// The processes that declined or were lost and await a decision, with the status.
    undecided: HashMap<Proc<'static>, Status>,
    /// The processes that are left out.
    without: HashSet<Proc<'static>>,
    directives: Directives,
    context: Context,
    /// The endpoint data of the processes that have accepted, for all members.
    endpoints: Vec<Info<'static>>,
    endpoint_bytes: usize,
    /// `true` once all have answered and the announcement was sent.
    is_complete: bool,
}

impl Invite {
    /// Creates an invitation. Returns the processes to invite as well.
    pub(super) fn new(
        own: &Proc<'static>,
        procs: Vec<Proc<'static>>,
        infos: &[Info<'_>],
    ) -> Result<(Self, Vec<Proc<'static>>), Error> {
        Self::of(own, procs, Directives::new(infos))
    }

    fn of(
        own: &Proc<'static>,
        procs: Vec<Proc<'static>>,
        directives: Directives,
    ) -> Result<(Self, Vec<Proc<'static>>), Error> {
        memory::check(procs.len().saturating_mul(BYTES_OF_EACH))?;
        let everyone: HashSet<_> = procs.iter().cloned().collect();
        // A leader that is not in the list does not become a member.
        if everyone.is_empty() {
            return Err(bad("the list of invited processes is empty"));
        }
        if everyone.len() != procs.len() {
            return Err(bad("a process is listed twice as a member of a group"));
        }
        let to: Vec<_> = procs.iter().filter(|proc| *proc != own).cloned().collect();
        let invite = Self {
            listed: procs,
            everyone,
            waiting: to.iter().cloned().collect(),
            unseen: HashSet::new(),
            undecided: HashMap::new(),
            without: HashSet::new(),
            directives,
            context: match directives.wants_context_id {
                true => Context::Unset,
                false => Context::Known(None),
            },
            endpoints: Vec::new(),
            endpoint_bytes: 0,
            is_complete: false,
        };
        Ok((invite, to))
    }

    /// Creates the invitation of a new leader to the remaining processes, which include itself. Returns the processes
    /// to invite as well.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
    pub(super) fn in_place(
        own: &Proc<'static>,
        procs: Vec<Proc<'static>>,
        directives: Directives,
    ) -> Result<(Self, Vec<Proc<'static>>), Error> {
        Self::of(own, procs, directives)
    }

    /// Returns the additional infos of the invitation.
    pub(super) fn further_infos(&self) -> Vec<Info<'static>> {
        let wants = self.directives.wants_context_id;
        let wants = wants.then(|| Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true));
        wants.into_iter().collect()
    }

    /// Returns `true` if the context id is decided, even if there is none.
    pub(super) fn has_context_id(&self) -> bool {
        matches!(self.context, Context::Known(_))
    }

    /// Returns `true` if the context id must be requested now, and records the request.
    pub(super) fn begin_context_id_request(&mut self) -> bool {
        let is_wanted = self.context == Context::Unset;
        if is_wanted {
            self.context = Context::Requested;
        }
        is_wanted
    }

    /// Returns `true` if the group must not be formed without a context id.
    pub(super) const fn needs_context_id(&self) -> bool {
        self.directives.needs_context_id
    }

    pub(super) fn assign(&mut self, id: Option<u64>) {
        self.context = Context::Known(id);
    }

    pub(super) const fn context_id(&self) -> Option<u64> {
        match self.context {
            Context::Known(id) => id,
            Context::Unset | Context::Requested => None,
        }
    }

    /// Returns `true` if the invitation needs an event about its group.
    pub(super) fn wants(&self, event: &Event<'static>) -> bool {
        let is_member = |proc: &Proc<'static>| self.everyone.contains(proc) && !self.is_out(proc);
        match event.status {
            Status::GROUP_INVITE_ACCEPTED => self.waiting.contains(&event.source),
            // A process that has accepted may withdraw until the group is formed.
            Status::GROUP_INVITE_DECLINED | Status::GROUP_CONSTRUCT_ABORT => {
                !self.is_complete && is_member(&event.source)
            }
            Status::GROUP_INVITE_FAILED => !self.is_complete && is_member(about(event)),
            _ => false,
        }
    }

    fn is_out(&self, proc: &Proc<'static>) -> bool {
        self.without.contains(proc) || self.undecided.contains_key(proc)
    }

    /// Records an acceptance, and the endpoint data that the process sends with it.
    pub(super) fn accepted(&mut self, event: &Event<'static>) {
        self.waiting.remove(&event.source);
        self.unseen.insert(event.source.clone());
        let is_of_source =
            |info: &&Info<'_>| endpoint_data(info).is_some_and(|(proc, _)| *proc == event.source);
        let Some(endpoints) = event.infos.iter().find(is_of_source) else {
            return;
        };
        let bytes = endpoints.measure(Measure::All);
        match self.endpoint_bytes.saturating_add(bytes) {
            sum @ 0..=MAX_ENDPOINT_BYTES => {
                self.endpoint_bytes = sum;
                self.endpoints.push(endpoints.clone());
            }
            sum => tracing::warn!(
                "the endpoint data of {} are not announced: those of all members have {sum} bytes, more than \
                 {MAX_ENDPOINT_BYTES}",
                event.source
            ),
        }
    }

    pub(super) fn refused(&mut self, proc: &Proc<'static>, why: Status) {
        self.waiting.remove(proc);
        self.unseen.remove(proc);
        self.undecided.insert(proc.clone(), why);
    }

    /// Records that the program has seen an acceptance. Returns `false` if the process has withdrawn it.
    pub(super) fn acceptance_is_seen(&mut self, proc: &Proc<'static>) -> bool {
        self.unseen.remove(proc)
    }

    /// Leaves out a process after the decision about it. Returns the status with which it declined or was lost.
    pub(super) fn decided(&mut self, proc: &Proc<'static>) -> Option<Status> {
        let why = self.undecided.remove(proc)?;
        self.without.insert(proc.clone());
        Some(why)
    }

    /// Leaves out and returns the processes that have not answered.
    pub(super) fn leave_out_silent(&mut self) -> Vec<Proc<'static>> {
        let waiting = std::mem::take(&mut self.waiting);
        let silent = self.listed.iter().filter(|proc| waiting.contains(*proc));
        let silent: Vec<_> = silent.cloned().collect();
        self.without.extend(silent.iter().cloned());
        silent
    }

    /// Returns the decision that applies if the program takes none. With `None` the group is not formed.
    pub(super) fn by_default(&self) -> Option<Decision> {
        self.directives.is_optional.then_some(Decision::GoOnWithout)
    }

    /// Checks that these processes can be invited in place of another.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an empty list, a duplicate, or a process that was invited before.
    pub(super) fn check_replacement(&self, procs: &[Proc<'static>]) -> Result<(), Error> {
        let mut seen = HashSet::new();
        if procs.is_empty() {
            return Err(bad("the list of replacements for a process is empty"));
        }
        for proc in procs {
            if self.everyone.contains(proc) || !seen.insert(proc) {
                let (nspace, rank) = (&proc.nspace, proc.rank);
                return Err(bad(format!("{nspace} rank {rank} is already invited")));
            }
        }
        Ok(())
    }

    /// Adds checked replacements. Returns the processes to invite.
    pub(super) fn replace(&mut self, procs: Vec<Proc<'static>>) -> Vec<Proc<'static>> {
        let mut to = procs;
        to.retain(|proc| proc.rank.is_valid() && self.everyone.insert(proc.clone()));
        self.waiting.extend(to.iter().cloned());
        self.listed.extend(to.iter().cloned());
        to
    }

    /// Returns `true` if no answer or decision is missing.
    pub(super) fn is_answered(&self) -> bool {
        let is_open =
            self.waiting.is_empty() && self.unseen.is_empty() && self.undecided.is_empty();
        is_open && !self.is_complete
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the members in the order of their ranks in the group.
    pub(super) fn members(&self) -> Vec<Proc<'static>> {
        let listed = self.listed.iter();
        listed
            .filter(|proc| !self.without.contains(*proc))
            .cloned()
            .collect()
    }

    /// Returns the processes to notify if the group is not formed: all that were ever invited.
    pub(super) fn others(&self, own: &Proc<'static>) -> Vec<Proc<'static>> {
        let is_other = |proc: &&Proc<'static>| **proc != *own;
        self.listed.iter().filter(is_other).cloned().collect()
    }

    /// Returns `true` if no other process was invited.
    pub(super) fn is_alone(&self, own: &Proc<'static>) -> bool {
        self.listed.iter().all(|proc| proc == own)
    }

    /// Ends the wait for answers. Returns the event that announces the group.
    pub(super) fn complete(&mut self, name: &Text<'static>) -> request::Notify<'static> {
        self.is_complete = true;
        let members = self.members();
        let mut more = self.about(&members);
        if self.directives.notifies {
            more.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
        }
        let mut endpoints = std::mem::take(&mut self.endpoints);
        let is_in = |(proc, _): (&Proc<'_>, &[Info<'_>])| !self.without.contains(proc);
        endpoints.retain(|info| endpoint_data(info).is_some_and(is_in));
        more.append(&mut endpoints);
        notify(Status::GROUP_CONSTRUCT_COMPLETE, name, members, more)
    }

    /// Returns the infos about the group for its members.
    fn about(&self, members: &[Proc<'static>]) -> Vec<Info<'static>> {
        let id = self.context_id().map(Value::Size);
        let id = id.map(|id| Info::new(keys::GROUP_CONTEXT_ID, id));
        [membership(members)].into_iter().chain(id).collect()
    }

    /// Returns the announcement as the leader's own program receives it.
    pub(super) fn completed(
        &self,
        own: &Proc<'static>,
        name: &Text<'static>,
        members: &[Proc<'static>],
    ) -> Event<'static> {
        let status = Status::GROUP_CONSTRUCT_COMPLETE;
        let complete = notify(status, name, members.to_vec(), self.about(members));
        Event {
            status,
            source: own.clone(),
            infos: complete.infos,
            range: Some(complete.range),
        }
    }
}

impl Operations {
    /// Sets the context id of an invitation; `None` if the host assigns none.
    pub(crate) fn assigned(&mut self, op: OpId, assigned: Result<Option<u64>, Error>) {
        let Some(open) = self.open.get_mut(&op) else {
            return;
        };
        let (name, Kind::Invite(invite)) = (&open.name, &mut open.kind) else {
            return;
        };
        match assigned {
            Ok(None) if invite.needs_context_id() => {
                let message =
                    format!("the host did not assign a context ID, which {name} requires");
                self.abort(op, Error::new(Status::ERR_NOT_SUPPORTED, message));
            }
            Ok(id) => {
                invite.assign(id);
                self.complete_if_answered(op);
            }
            Err(error) => self.abort(op, error),
        }
    }
}

/// Returns `true` if an event answers an invitation.
pub(super) const fn is_answer(event: &Event<'_>) -> bool {
    matches!(
        event.status,
        Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED
    )
}
