// SPDX-License-Identifier: MIT OR Apache-2.0
//! One invitation, where it was made: who was invited, who has answered, who is not to be a member.

use std::collections::{HashMap, HashSet};

use pmix_proto::{Event, request};
use pmix_types::{Info, Proc, Status, Text, Value, keys};

use crate::Error;
use crate::group::Decision;
use crate::group::said::{about, bad, membership, notify, says};

/// What is asked for with an invitation, besides a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directives {
    /// Whether the group may be smaller.
    is_optional: bool,
    /// Whether the loss of members is told.
    notifies: bool,
    /// Whether the group is to have a number that no other has.
    pub(super) wants_context_id: bool,
    needs_context_id: bool,
}

impl Directives {
    pub(super) fn new(infos: &[Info<'_>]) -> Self {
        let is_required =
            |info: &Info<'_>| info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID) && info.is_required();
        let wants_context_id = says(infos, keys::GROUP_ASSIGN_CONTEXT_ID);
        Self {
            is_optional: says(infos, keys::GROUP_OPTIONAL),
            notifies: says(infos, keys::GROUP_NOTIFY_TERMINATION),
            wants_context_id,
            needs_context_id: wants_context_id && infos.iter().any(is_required),
        }
    }
}

/// How far the context id of a group has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Context {
    Wanted,
    Asked,
    /// It is this, or the host assigns none, or none is wanted.
    Known(Option<u64>),
}

/// An invitation that this process made.
#[derive(Debug)]
pub(super) struct Invite {
    /// All who were ever to be members, in the order of their ranks in the group.
    listed: Vec<Proc<'static>>,
    /// The same, to look one up.
    everyone: HashSet<Proc<'static>>,
    /// Those who have not answered.
    waiting: HashSet<Proc<'static>>,
    /// Those who do not take part, for as long as nobody has decided what follows; and why.
    undecided: HashMap<Proc<'static>, Status>,
    /// Those who do not take part.
    without: HashSet<Proc<'static>>,
    directives: Directives,
    context: Context,
    /// Whether all have answered, and the server was told.
    is_complete: bool,
}

impl Invite {
    /// Reads what is asked for. Returns those who are to be invited, too.
    pub(super) fn new(
        own: &Proc<'static>,
        procs: Vec<Proc<'static>>,
        infos: &[Info<'_>],
    ) -> Result<(Self, Vec<Proc<'static>>), Error> {
        let everyone: HashSet<_> = procs.iter().cloned().collect();
        Self::of(own, procs, everyone, Directives::new(infos))
    }

    fn of(
        own: &Proc<'static>,
        procs: Vec<Proc<'static>>,
        everyone: HashSet<Proc<'static>>,
        directives: Directives,
    ) -> Result<(Self, Vec<Proc<'static>>), Error> {
        if !everyone.contains(own) {
            return Err(bad("the leader of a group is not among its members"));
        }
        if everyone.len() != procs.len() {
            return Err(bad("a process is listed twice as a member of a group"));
        }
        let to: Vec<_> = procs.iter().filter(|proc| *proc != own).cloned().collect();
        let invite = Self {
            listed: procs,
            everyone,
            waiting: to.iter().cloned().collect(),
            undecided: HashMap::new(),
            without: HashSet::new(),
            directives,
            context: match directives.wants_context_id {
                true => Context::Wanted,
                false => Context::Known(None),
            },
            is_complete: false,
        };
        Ok((invite, to))
    }

    /// The invitation of one that leads in the place of another: those who are left, with itself. Returns
    /// those who are to be invited, too.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(super) fn in_place(
        own: &Proc<'static>,
        procs: Vec<Proc<'static>>,
        directives: Directives,
    ) -> Result<(Self, Vec<Proc<'static>>), Error> {
        let everyone = procs.iter().cloned().collect();
        Self::of(own, procs, everyone, directives)
    }

    /// What those who are invited hear besides.
    pub(super) fn said(&self) -> Vec<Info<'static>> {
        let wants = self.directives.wants_context_id;
        let wants = wants.then(|| Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true));
        wants.into_iter().collect()
    }

    /// Whether it is known which context id the group has, if any.
    pub(super) fn has_context_id(&self) -> bool {
        matches!(self.context, Context::Known(_))
    }

    /// Whether the context id is to be asked for, which it is once.
    pub(super) fn asks_for_context_id(&mut self) -> bool {
        let is_wanted = self.context == Context::Wanted;
        if is_wanted {
            self.context = Context::Asked;
        }
        is_wanted
    }

    /// Whether there is no group without a context id.
    pub(super) const fn needs_context_id(&self) -> bool {
        self.directives.needs_context_id
    }

    pub(super) fn assign(&mut self, id: Option<u64>) {
        self.context = Context::Known(id);
    }

    pub(super) const fn context_id(&self) -> Option<u64> {
        match self.context {
            Context::Known(id) => id,
            Context::Wanted | Context::Asked => None,
        }
    }

    /// Whether it waits for an event about its group.
    pub(super) fn wants(&self, event: &Event<'static>) -> bool {
        let is_member = |proc: &Proc<'static>| self.everyone.contains(proc) && !self.is_out(proc);
        match event.status {
            Status::GROUP_INVITE_ACCEPTED => self.waiting.contains(&event.source),
            // Who accepted may think better of it until the group is there.
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

    pub(super) fn accepted(&mut self, proc: &Proc<'static>) {
        self.waiting.remove(proc);
    }

    pub(super) fn refused(&mut self, proc: &Proc<'static>, why: Status) {
        self.waiting.remove(proc);
        self.undecided.insert(proc.clone(), why);
    }

    /// Takes a process out about which was decided. Returns why it does not take part.
    pub(super) fn decided(&mut self, proc: &Proc<'static>) -> Option<Status> {
        let why = self.undecided.remove(proc)?;
        self.without.insert(proc.clone());
        Some(why)
    }

    /// What follows if nobody decides; without it the group is not formed.
    pub(super) fn by_default(&self) -> Option<Decision> {
        self.directives.is_optional.then_some(Decision::GoOnWithout)
    }

    /// Whether these processes may be invited in the place of another.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if there is none, or one twice, or one that was invited before.
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

    /// Adds others, who were checked. Returns those who are to be invited.
    pub(super) fn replace(&mut self, procs: Vec<Proc<'static>>) -> Vec<Proc<'static>> {
        let mut to = procs;
        to.retain(|proc| proc.rank.is_valid() && self.everyone.insert(proc.clone()));
        self.waiting.extend(to.iter().cloned());
        self.listed.extend(to.iter().cloned());
        to
    }

    /// Whether nobody is waited for.
    pub(super) fn is_answered(&self) -> bool {
        !self.is_complete && self.waiting.is_empty() && self.undecided.is_empty()
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The members, by their ranks in the group.
    pub(super) fn members(&self) -> Vec<Proc<'static>> {
        let listed = self.listed.iter();
        listed
            .filter(|proc| !self.without.contains(*proc))
            .cloned()
            .collect()
    }

    /// Those who are to hear that the group is not formed.
    pub(super) fn others(&self, own: &Proc<'static>) -> Vec<Proc<'static>> {
        let is_other = |proc: &&Proc<'static>| **proc != *own && !self.is_out(proc);
        self.listed.iter().filter(is_other).cloned().collect()
    }

    /// Ends the wait for answers. Returns the event that says so.
    pub(super) fn complete(&mut self, name: &Text<'static>) -> request::Notify<'static> {
        self.is_complete = true;
        let members = self.members();
        let mut more = self.about(&members);
        if self.directives.notifies {
            more.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
        }
        notify(Status::GROUP_CONSTRUCT_COMPLETE, name, members, more)
    }

    /// What the members hear about the group.
    fn about(&self, members: &[Proc<'static>]) -> Vec<Info<'static>> {
        let id = self.context_id().map(Value::Size);
        let id = id.map(|id| Info::new(keys::GROUP_CONTEXT_ID, id));
        [membership(members)].into_iter().chain(id).collect()
    }

    /// The same event as the leader's own program hears of it.
    pub(super) fn completed(
        &self,
        own: &Proc<'static>,
        name: &Text<'static>,
        members: &[Proc<'static>],
    ) -> Event<'static> {
        let status = Status::GROUP_CONSTRUCT_COMPLETE;
        let said = notify(status, name, members.to_vec(), self.about(members));
        Event {
            status,
            source: own.clone(),
            infos: said.infos,
            range: Some(said.range),
        }
    }
}

/// Whether an event answers an invitation.
pub(super) const fn is_answer(event: &Event<'_>) -> bool {
    matches!(
        event.status,
        Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED
    )
}
