// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of invitations whose leader is lost until another is chosen.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use pmix_types::{Info, IntoOwned as _, Nspace, Proc, Rank, Text, Value, keys};

use super::index::ByProc;
use super::invited::{Invitation, Key};
use crate::cx::Cx;
use crate::ids::SelectionId;
use crate::infos::value;
use crate::recount::Recount;
use crate::registry::ClientState;
use crate::timer::Timer;

/// The invitations that wait for a new leader.
#[derive(Debug, Default)]
pub(super) struct Selections {
    last: u64,
    pub(super) open: BTreeMap<SelectionId, Selection>,
    pub(super) by_key: HashMap<Key, SelectionId>,
    pub(super) by_proc: ByProc,
}

#[derive(Debug)]
pub(super) struct Selection {
    /// Under the leader that is lost.
    pub(super) invitation: Invitation,
    /// Whether this server decides.
    pub(super) decides: bool,
    pub(super) until: Option<Instant>,
}

impl Selection {
    /// The first that wants to lead and is in, and whether nobody is waited for. Between servers the wish to lead
    /// may come before the answer to the invitation.
    pub(super) fn outcome(&self) -> (Option<Proc<'static>>, bool) {
        let known = &self.invitation;
        let is_gone = |proc: &Proc<'static>| known.gone.has(proc);
        let is_out = |proc: &Proc<'static>| known.declined.contains(proc) || is_gone(proc);
        let mut leads = known.leads.iter().filter(|proc| !is_out(proc));
        let first = leads.clone().find(|proc| known.joined.contains(proc));
        let mut joined = known.joined.iter();
        let is_over = joined.all(|proc| known.answered.contains(proc) || is_gone(proc));
        (first.cloned(), is_over && leads.next().is_none())
    }
}

impl Selections {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Selection> {
        self.open.get(self.by_key.get(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Selection> {
        self.open.get_mut(self.by_key.get(key)?)
    }

    pub(super) fn add(&mut self, selection: Selection) -> SelectionId {
        self.last += 1;
        let id = SelectionId(self.last);
        let invitation = &selection.invitation;
        self.by_key.insert(invitation.key.clone(), id);
        self.by_proc.insert(self.last, &invitation.list);
        self.open.insert(id, selection);
        id
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<(SelectionId, Selection)> {
        let id = self.by_key.remove(key)?;
        let selection = self.open.remove(&id)?;
        self.by_proc.remove(id.0, &selection.invitation.list);
        Some((id, selection))
    }

    pub(super) fn keys(&self, ids: impl IntoIterator<Item = u64>) -> Vec<Key> {
        let open = ids.into_iter();
        let open = open.filter_map(|id| self.open.get(&SelectionId(id)));
        open.map(|open| open.invitation.key.clone()).collect()
    }

    /// How many bytes those of each job take.
    pub(super) fn weights(&self) -> impl Iterator<Item = (&Nspace<'static>, usize)> {
        let open = self.open.values().map(|open| &open.invitation);
        open.map(|known| (&known.key.1.nspace, known.weight()))
    }

    pub(super) fn recount(&self, recount: &mut Recount) {
        for (id, open) in &self.open {
            recount.deadline(open.until, Timer::Leader(*id));
        }
        recount.compare("selections by names", self.by_key.len(), self.open.len());
    }
}

/// Whether who reports that a leader is lost leads itself.
pub(super) fn leads(infos: &[Info<'_>]) -> bool {
    crate::infos::is_set(infos, keys::GROUP_LEADER)
}

/// The leader that a server says was chosen.
pub(super) fn chosen(infos: &[Info<'_>]) -> Option<Proc<'static>> {
    match value(infos, keys::GROUP_LEADER)? {
        Value::Proc(leader) => Some(leader.clone().into_owned()),
        _ => None,
    }
}

/// Names an invitation.
pub(super) fn key_of(name: &Text<'_>, leader: &Proc<'_>) -> Key {
    (name.clone().into_owned(), leader.clone().into_owned())
}

/// Whether a process, or any of a whole job, is or was of this node.
pub(super) fn was_here(cx: &Cx, proc: &Proc<'_>) -> bool {
    match proc.rank {
        Rank::WILDCARD => cx.registry.job(&proc.nspace).is_some(),
        _ => cx.registry.was_here(proc),
    }
}

/// The local processes that a name stands for and that have been here and are not any longer.
pub(super) fn absent(cx: &Cx, proc: &Proc<'static>) -> Vec<Proc<'static>> {
    let Some(job) = cx.registry.job(&proc.nspace) else {
        return Vec::new();
    };
    let has_left = |rank: &Rank| {
        let client = job.clients.get(rank);
        match client.and_then(|id| cx.registry.client(*id)) {
            Some(client) => !matches!(client.state, ClientState::Expected | ClientState::Connected),
            None => job.gone.contains(rank),
        }
    };
    let of = |rank: &Rank| Proc::new(proc.nspace.clone(), *rank);
    match proc.rank {
        Rank::WILDCARD => {
            let ranks = job.clients.keys().chain(&job.gone);
            ranks.filter(|rank| has_left(rank)).map(of).collect()
        }
        rank => has_left(&rank).then(|| of(&rank)).into_iter().collect(),
    }
}
