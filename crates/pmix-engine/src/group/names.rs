// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation of group names in requests to processes.

use std::collections::{BTreeSet, HashMap, HashSet};

use pmix_proto::{Request, request};
use pmix_types::{DataArray, Info, Nspace, Proc, Query, Rank, Status, Text, Value, keys, memory};

use super::known::{Groups, KnownGroup};
use super::learn::name;
use super::serve::is_job;
use crate::Error;
use crate::collective::{count, each};
use crate::cx::Cx;
use crate::peers::Ticket;
use crate::query::{OwnGroups, visible};

/// The limit of processes that the group names in one request expand to.
const MAX_PROCS: usize = 1 << 20;

/// The keys of queries about groups.
const ABOUT_GROUPS: [&str; 3] = [
    keys::QUERY_GROUP_MEMBERSHIP,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_NUM_GROUPS,
];

impl Groups {
    /// Replaces the group names in a request by the members. Returns the request with its ticket, or replies with an
    /// error and returns `None`.
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
            Request::IofPull(request) => &mut request.procs,
            Request::IofPush(request) => &mut request.procs,
            Request::JobControl(request) => &mut request.targets,
            Request::Notify(event) => match self.targets(&mut event.infos) {
                Some(procs) => procs,
                None => return Some((ticket, request)),
            },
            _ => return Some((ticket, request)),
        };
        let ticket = self.resolve(cx, ticket, procs)?;
        Some((ticket, request))
    }

    /// Returns the process of a get that names it by group rank, or `None` if it does not.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` for a rank that is not in the group.
    pub(crate) fn process_named(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        request: &request::Get<'_>,
    ) -> Result<Option<Proc<'static>>, Error> {
        let nspace = &request.nspace;
        if self.named(nspace.as_bytes()).is_empty() || is_job(cx, nspace) {
            return Ok(None);
        }
        let caller = &cx.member(ticket)?.proc;
        match self.of(request.nspace.as_bytes(), caller) {
            Some((_, group)) => group.of_rank(cx, request.rank).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the groups of the caller if a query needs them, with the members of those whose membership is requested.
    /// A tool is in no group: it receives the groups with members of jobs that it may read. Of several groups with the
    /// same name, it receives the members of the oldest.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` or `PMIX_ERR_NOMEM` if the members are too many.
    pub(crate) fn groups_for_query(
        &self,
        cx: &Cx,
        ticket: &Ticket,
        request: &request::Query<'_>,
    ) -> Result<OwnGroups, Error> {
        let asks = |query: &Query<'_>, about: &[&str]| {
            let mut keys = query.keys.iter();
            keys.any(|key| about.iter().any(|known| key.as_bytes() == known.as_bytes()))
        };
        let is_asked = request.queries.iter().any(|q| asks(q, &ABOUT_GROUPS));
        let Some(member) = cx.member(ticket).ok().filter(|_| is_asked) else {
            return Ok(OwnGroups::default());
        };
        let queries = request.queries.iter();
        let about_members = queries.filter(|query| asks(query, &[keys::QUERY_GROUP_MEMBERSHIP]));
        let named: HashSet<_> = about_members
            .filter_map(|query| name(&query.qualifiers))
            .map(Text::as_bytes)
            .collect();
        let is_process = cx.store.job(&member.proc.nspace).is_some();
        let jobs = match is_process {
            true => Vec::new(),
            false => visible(cx, member),
        };
        let of_tool: BTreeSet<_> = jobs.iter().flat_map(|job| self.of_job(job)).collect();
        let own = self.groups.iter().filter(|(id, group)| match is_process {
            true => group.members.has(&member.proc),
            false => of_tool.contains(id),
        });
        let mut found = OwnGroups::default();
        let mut room = MAX_PROCS;
        for (_, group) in own {
            let is_first = !found.members.contains_key(group.name.as_bytes());
            if is_first && room > 0 && named.contains(group.name.as_bytes()) {
                let members = each(cx, &group.members.remaining(cx)?)?;
                room = room.saturating_sub(members.len());
                found.members.insert(group.name.clone(), members);
            }
            found.names.push(group.name.clone());
        }
        Ok(found)
    }

    /// Replaces the names of the caller's groups by the members. Returns the ticket, or replies with an error and
    /// returns `None`.
    fn resolve(&self, cx: &mut Cx, ticket: Ticket, procs: &mut Vec<Proc<'_>>) -> Option<Ticket> {
        // Most servers have no group, so that most requests are not searched.
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
        let is_named =
            |nspace: &Nspace<'_>| !self.named(nspace.as_bytes()).is_empty() && !is_job(cx, nspace);
        let runs = || procs.chunk_by(|a, b| a.nspace == b.nspace);
        // A list without a group name, the usual one, is not copied.
        if !runs().any(|run| run.first().is_some_and(|proc| is_named(&proc.nspace))) {
            return Ok(None);
        }
        let caller = &cx.member(ticket)?.proc;
        let mut resolved = Vec::with_capacity(procs.len());
        let mut expanded = HashMap::new();
        let mut room = MAX_PROCS;
        for run in runs() {
            let name = run.first().map(|proc| &proc.nspace);
            let name = name.filter(|name| is_named(name));
            let group = name.and_then(|name| self.of(name.as_bytes(), caller));
            let Some((id, group)) = group else {
                resolved.extend(Proc::owned_list(run));
                continue;
            };
            let found: &mut Expanded = expanded.entry(id).or_default();
            for proc in run {
                resolve_one(cx, group, proc.rank, found, &mut room, &mut resolved)?;
            }
        }
        Ok(Some(resolved))
    }

    /// Returns the recipients of an event, if they include a group name.
    fn targets<'i, 'a>(&self, infos: &'i mut [Info<'a>]) -> Option<&'i mut Vec<Proc<'a>>> {
        let is_named = |proc: &Proc<'_>| !self.named(proc.nspace.as_bytes()).is_empty();
        let mut infos = infos.iter_mut();
        let info = infos.find(|info| info.key.is(keys::EVENT_CUSTOM_RANGE))?;
        if let Value::Proc(proc) = &info.value
            && is_named(proc)
        {
            // The name may expand to many processes, which only a list can hold.
            info.value = Value::from(vec![proc.clone()]);
        }
        match &mut info.value {
            Value::DataArray(DataArray::Proc(procs)) if procs.iter().any(is_named) => Some(procs),
            _ => None,
        }
    }
}

/// The members of a group in a request, so that repeated names of it are expanded once.
#[derive(Default)]
struct Expanded {
    /// `true` after all of its members were added.
    has_all: bool,
    /// The individual members, if the group has whole jobs and the request names a rank.
    each: Option<Vec<Proc<'static>>>,
}

/// Adds the process or processes of a group rank.
fn resolve_one(
    cx: &Cx,
    group: &KnownGroup,
    rank: Rank,
    found: &mut Expanded,
    room: &mut usize,
    resolved: &mut Vec<Proc<'static>>,
) -> Result<(), Error> {
    let mut spend = |more: usize| match room.checked_sub(more) {
        Some(left) => {
            *room = left;
            Ok(())
        }
        None => Err(Error::new(
            Status::ERR_OUT_OF_RESOURCE,
            format!("the named groups have more than {MAX_PROCS} members"),
        )),
    };
    let members = &group.members;
    if rank == Rank::WILDCARD {
        if !std::mem::replace(&mut found.has_all, true) {
            let num = members.num_remaining(cx);
            spend(num)?;
            memory::reserve(resolved, num)?;
            resolved.extend(members.remaining(cx)?);
        }
        return Ok(());
    }
    // A walk through the whole jobs for each rank in a list would take too long.
    if members.has_jobs() {
        let each = match &mut found.each {
            Some(each) => each,
            none => {
                let num = count(cx, members.list());
                spend(usize::try_from(num).unwrap_or(usize::MAX))?;
                none.insert(each(cx, members.list())?)
            }
        };
        let place = usize::try_from(rank.as_raw()).ok();
        let proc = place.and_then(|place| each.get(place)).cloned();
        resolved.push(proc.ok_or_else(|| group.no_rank(rank))?);
    } else {
        resolved.push(group.of_rank(cx, rank)?);
    }
    Ok(())
}
