// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct modex requests of other servers, which the host passes on, for data of local processes.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | none | a request for a job as a whole | ended with the job info |
//! | none | a request for an unregistered job, or for a process of another node | none: the call fails with `PMIX_ERR_NOT_FOUND` |
//! | none | a request for a process that is or may become local | waiting, and resolved at once |
//! | waiting | the process has committed, with the required key if there is one | ended with the data |
//! | waiting | the process has committed without the required key | waiting, until the limit of the host or [`Config::key_time`](crate::Config::key_time) |
//! | waiting | the process was deregistered and has committed the data | ended with the data |
//! | waiting | the process is lost | ended with `PMIX_ERR_LOST_CONNECTION` |
//! | waiting | the process has finalized; the job is deregistered, or complete without the process | ended with `PMIX_ERR_NOT_FOUND` |
//! | waiting | the limit of the host | ended with `PMIX_ERR_TIMEOUT` |
//! | waiting | `key_time` | ended with the data, without the key |
//!
//! A waiting request is resolved again after each commit, loss and finalize of its process, and after each change of its
//! job.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_server_dmodex_request`.

use gds_hash::ModexStore;
use pmix_types::{Info, IntoOwned, Key, Nspace, Proc, Rank, Status, Value, keys};

use super::state::{Exchange, PendingDmodex};
use crate::cx::Cx;
use crate::infos::timeout;
use crate::registry::ClientState;
use crate::timer::Timer;
use crate::{DirectModexId, EngineEvent, Error};

impl Exchange {
    /// Starts a direct modex request of the host.
    pub(crate) fn dmodex_request(
        &mut self,
        cx: &mut Cx,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<DirectModexId, Error> {
        let proc = proc.clone().into_owned();
        let job = cx.store.job(&proc.nspace);
        let job = job.ok_or_else(|| {
            let nspace = &proc.nspace;
            Error::not_found(format!("no job {nspace} is registered"))
        })?;
        // Job info is complete when the job is registered, so there is nothing to wait for.
        if proc.rank == Rank::WILDCARD {
            let form = cx.config.modex_form();
            let kvals = job.job().kvals(&cx.codec(&form), form.release)?;
            let (key, until) = (None, None);
            // The request is stored even though it ends at once, so that its identifier is unique.
            let id = DirectModexId(self.inbound.add(proc, PendingDmodex { key, until }));
            self.complete(cx, id, Ok(kvals));
            return Ok(id);
        }
        let local = cx.registry.job(&proc.nspace);
        // Until all local clients are registered, the process may still become one of them.
        // The data of a deregistered process remain: processes of other nodes may get them after its end.
        let is_known = local.is_some_and(|local| {
            local.clients.contains_key(&proc.rank)
                || local.deregistered.contains(&proc.rank)
                || !local.is_complete()
        });
        if !is_known {
            let (rank, nspace) = (proc.rank, &proc.nspace);
            let message = format!("rank {rank} of {nspace} is not on this node");
            return Err(Error::not_found(message));
        }
        let until = timeout(infos).and_then(|time| cx.after(time));
        let key = required(infos);
        let until = until.map(|at| (at, true));
        let id = self.inbound.add(proc.clone(), PendingDmodex { key, until });
        let id = DirectModexId(id);
        if let Some((at, _)) = until {
            cx.timers.set(at, Timer::InboundDmodex(id));
        }
        self.retry_request(cx, &proc, id.0);
        Ok(id)
    }

    /// Retries the direct modex requests for a process.
    pub(super) fn retry_inbound(&mut self, cx: &mut Cx, proc: &Proc<'static>) {
        for id in self.inbound.of_proc(proc) {
            self.retry_request(cx, proc, id);
        }
    }

    /// Retries one direct modex request for a process.
    pub(super) fn retry_request(&mut self, cx: &mut Cx, proc: &Proc<'static>, id: u64) {
        let pending = self.inbound.get(id);
        let wanted = pending.and_then(|pending| Self::wanted(cx, proc, pending));
        match wanted {
            Some(result) => self.complete(cx, DirectModexId(id), result),
            None => self.limit_request(cx, proc, id),
        }
    }

    /// Sets a time limit for a request of a key that was not in the first commit of the process.
    fn limit_request(&mut self, cx: &mut Cx, proc: &Proc<'static>, id: u64) {
        let client = cx.registry.client_of(proc);
        if !client.is_some_and(|client| client.has_committed) {
            return;
        }
        let until = cx.after(cx.config.key_time);
        if let (Some(pending), Some(at)) = (self.inbound.get_mut(id), until)
            && pending.until.is_none()
        {
            pending.until = Some((at, false));
            cx.timers.set(at, Timer::InboundDmodex(DirectModexId(id)));
        }
    }

    /// Returns the result of a direct modex request, or `None` if it must wait.
    fn wanted(
        cx: &Cx,
        proc: &Proc<'static>,
        pending: &PendingDmodex,
    ) -> Option<Result<Vec<u8>, Status>> {
        let Some(job) = cx.store.job(&proc.nspace) else {
            return Some(Err(Status::ERR_NOT_FOUND));
        };
        let local = cx.registry.job(&proc.nspace);
        let puts = job.modex_store();
        let Some(client) = cx.registry.client_of(proc) else {
            let is_deregistered =
                local.is_some_and(|local| local.deregistered.contains(&proc.rank));
            if is_deregistered && puts.has_rank(proc.rank) && pending.is_there(&puts, proc.rank) {
                return Some(Self::direct(cx, &puts, proc.rank));
            }
            let is_complete = local.is_none_or(|local| local.is_complete());
            return is_complete.then_some(Err(Status::ERR_NOT_FOUND));
        };
        match client.state {
            _ if client.has_committed && pending.is_there(&puts, proc.rank) => {
                Some(Self::direct(cx, &puts, proc.rank))
            }
            ClientState::Lost => Some(Err(Status::ERR_LOST_CONNECTION)),
            ClientState::Finalized | ClientState::Left => Some(Err(Status::ERR_NOT_FOUND)),
            ClientState::Expected | ClientState::Connected => None,
        }
    }

    fn direct(cx: &Cx, puts: &ModexStore, rank: Rank) -> Result<Vec<u8>, Status> {
        let wire = cx.codec(&cx.config.modex_form());
        puts.direct(&wire, rank).map_err(|error| error.status())
    }

    fn complete(&mut self, cx: &mut Cx, request: DirectModexId, result: Result<Vec<u8>, Status>) {
        let pending = self.inbound.take(request.0);
        if let Some((_, PendingDmodex { until, .. })) = pending
            && let Some((at, _)) = until
        {
            cx.timers.cancel(at, Timer::InboundDmodex(request));
        }
        let event = EngineEvent::DirectModex { request, result };
        cx.driver_events.push_back(event);
    }

    /// Ends a request whose time limit has expired. Unless the limit was the host's, returns the stored data without
    /// the key.
    pub(crate) fn inbound_dmodex_expired(&mut self, cx: &mut Cx, id: DirectModexId) {
        let Some((proc, pending)) = self.inbound.take(id.0) else {
            return;
        };
        let is_hosts = pending.until.is_none_or(|(_, is_hosts)| is_hosts);
        let job = cx.store.job(&proc.nspace).filter(|_| !is_hosts);
        let result = match job {
            Some(job) => Self::direct(cx, &job.modex_store(), proc.rank),
            None => Err(Status::ERR_TIMEOUT),
        };
        self.complete(cx, id, result);
    }

    /// Retries the direct modex requests for a job that was changed or deregistered.
    pub(super) fn retry_inbound_of_job(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        for proc in self.inbound.procs_of(nspace) {
            self.retry_inbound(cx, &proc);
        }
    }
}

/// Returns the key that must have a value.
fn required(infos: &[Info<'_>]) -> Option<Key<'static>> {
    let found = infos.iter().find(|info| info.key.is(keys::REQUIRED_KEY))?;
    match &found.value {
        Value::String(Some(name)) => Some(Key::new(name.clone().into_owned())),
        _ => None,
    }
}
