// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of groups in requests stand for processes.

use pmix_proto::Request;
use pmix_types::{IntoOwned, Nspace, Proc, Rank};

use super::known::Groups;
use crate::Error;
use crate::cx::Cx;
use crate::peers::Ticket;

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
            _ => return Some((ticket, request)),
        };
        let ticket = self.resolve(cx, ticket, procs)?;
        Some((ticket, request))
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
}
