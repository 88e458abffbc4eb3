// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of groups in requests stand for processes.

use pmix_proto::{Request, request};
use pmix_types::{DataArray, Info, IntoOwned, Nspace, Proc, Rank, Value, keys};

use super::known::Groups;
use crate::Error;
use crate::collective::each;
use crate::cx::Cx;
use crate::peers::Ticket;
use crate::query::NamedGroup;

/// The keys of queries about groups.
const ABOUT_GROUPS: [&str; 3] = [
    keys::QUERY_GROUP_MEMBERSHIP,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_NUM_GROUPS,
];

impl Groups {
    /// Puts the members in the place of the names of groups in a request. Returns it with its ticket,
    /// unless the caller was told that a name stands for nobody.
    pub(crate) fn translate<'r>(
        &self,
        cx: &mut Cx,
        ticket: Ticket,
        mut request: Request<'r>,
    ) -> Option<(Ticket, Request<'r>)> {
        let procs = match &mut request {
            Request::Fence(request) => &mut request.procs,
            Request::Connect(request) => &mut request.procs,
            Request::Disconnect(request) => &mut request.procs,
            Request::Notify(event) => match self.targets(&mut event.infos) {
                Some(procs) => procs,
                None => return Some((ticket, request)),
            },
            _ => return Some((ticket, request)),
        };
        let ticket = self.resolve(cx, ticket, procs)?;
        Some((ticket, request))
    }

    /// The process that a get is about which names it by its rank in a group; none if it names it
    /// otherwise.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` for a rank that no process of the group has.
    pub(crate) fn process_named(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        request: &request::Get<'_>,
    ) -> Result<Option<Proc<'static>>, Error> {
        if self.named(request.nspace.as_bytes()).is_empty() {
            return Ok(None);
        }
        let caller = &cx.member(ticket)?.proc;
        match self.of(request.nspace.as_bytes(), caller) {
            Some((_, group)) => group.of_rank(cx, request.rank).map(Some),
            None => Ok(None),
        }
    }

    /// The groups of the caller with their members, if a query asks for groups.
    pub(crate) fn asked_for(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        request: &request::Query<'_>,
    ) -> Vec<NamedGroup> {
        let mut keys = request.queries.iter().flat_map(|query| &query.keys);
        let is_asked = keys.any(|key| {
            ABOUT_GROUPS
                .iter()
                .any(|known| key.as_bytes() == known.as_bytes())
        });
        let Some(member) = cx.member(ticket).ok().filter(|_| is_asked) else {
            return Vec::new();
        };
        let groups = self.groups.values();
        let own = groups.filter(|group| group.members.has(&member.proc));
        own.map(|group| (group.name.clone(), each(cx, &group.members.remaining(cx))))
            .collect()
    }

    /// Puts the members in the place of the names of groups that the caller is a member of. Returns
    /// the ticket, unless a rank is none of its group: the caller is told so.
    fn resolve(&self, cx: &mut Cx, ticket: Ticket, procs: &mut Vec<Proc<'_>>) -> Option<Ticket> {
        if self.groups.is_empty() {
            return Some(ticket);
        }
        match self.resolved(cx, &ticket, procs) {
            Ok(None) => Some(ticket),
            Ok(Some(resolved)) => {
                *procs = resolved;
                Some(ticket)
            }
            Err(error) => {
                cx.reply_error(ticket, &error);
                None
            }
        }
    }

    fn resolved(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        procs: &[Proc<'_>],
    ) -> Result<Option<Vec<Proc<'static>>>, Error> {
        let is_named = |nspace: &Nspace<'_>| !self.named(nspace.as_bytes()).is_empty();
        let runs = || procs.chunk_by(|a, b| a.nspace == b.nspace);
        if !runs().any(|run| run.first().is_some_and(|proc| is_named(&proc.nspace))) {
            return Ok(None);
        }
        let caller = &cx.member(ticket)?.proc;
        let mut resolved = Vec::with_capacity(procs.len());
        for run in runs() {
            let group = run.first().map(|proc| proc.nspace.as_bytes());
            let group = group.and_then(|name| self.of(name, caller));
            for proc in run {
                match group {
                    None => resolved.push(proc.clone().into_owned()),
                    Some((_, group)) if proc.rank == Rank::WILDCARD => {
                        resolved.extend(group.members.remaining(cx));
                    }
                    Some((_, group)) => resolved.push(group.of_rank(cx, proc.rank)?),
                }
            }
        }
        Ok(Some(resolved))
    }

    /// The processes that an event is for, if a group is named among them.
    fn targets<'i, 'a>(&self, infos: &'i mut [Info<'a>]) -> Option<&'i mut Vec<Proc<'a>>> {
        let is_named = |proc: &Proc<'_>| !self.named(proc.nspace.as_bytes()).is_empty();
        let mut infos = infos.iter_mut();
        let info = infos.find(|info| info.key.is(keys::EVENT_CUSTOM_RANGE))?;
        if let Value::Proc(proc) = &info.value
            && is_named(proc)
        {
            info.value = Value::from(vec![proc.clone()]);
        }
        match &mut info.value {
            Value::DataArray(DataArray::Proc(procs)) if procs.iter().any(is_named) => Some(procs),
            _ => None,
        }
    }
}
