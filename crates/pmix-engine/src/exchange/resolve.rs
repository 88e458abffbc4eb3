// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolution of a get to its reply, or to the condition it must wait for.

use std::sync::Arc;

use gds_hash::{ModexStore, Registered, Remote, Request};
use pmix_proto::PeerForm;
use pmix_proto::reply::{self, Object, pack_kvals};
use pmix_types::{Kval, Proc, Rank, Scope, Status, Value, keys, memory};

use super::get_request::{Form, GetRequest};
use super::state::Exchange;
use super::state::{PendingGet, WaitFor};
use crate::Error;
use crate::cx::Cx;
use crate::peers::{Payload, Peer, Ticket};
use crate::registry::ClientState;

/// The reply of a get, or the condition it waits for.
pub(super) enum Resolution {
    Ready(Payload),
    WaitFor(WaitFor),
}

impl Exchange {
    pub(super) fn outcome(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
    ) -> Result<Resolution, Error> {
        let request = &pending.request;
        let nspace = &request.proc.nspace;
        let Some(job) = cx.store.job(nspace) else {
            return Ok(Resolution::WaitFor(WaitFor::Job));
        };
        if request.is_reserved() || (request.key.is_some() && !request.is_of_proc()) {
            return self.known_of_job(cx, pending, &job);
        }
        if request.key.is_none() && !request.is_of_proc() {
            let form = cx.member(&pending.ticket)?.form;
            let object = self.job_infos.whole_job(cx, nspace, &job, &form)?;
            // The client caches this reply, so later ones need not repeat the job info.
            cx.peers.knows_job(pending.ticket.peer(), nspace);
            return Ok(Resolution::Ready(success(&form, &[&object])?.into()));
        }
        self.put_by_proc(cx, pending, &job)
    }

    /// Resolves a get with the job info, or else with the data of a process. It does not wait, since a reserved key is
    /// never registered later.
    fn known_of_job(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
        job: &Registered,
    ) -> Result<Resolution, Error> {
        let request = &pending.request;
        let error = match Self::job_level(cx, job.job(), request) {
            Ok((proc, kval)) => {
                let form = cx.member(&pending.ticket)?.form;
                let whole = self.introduction(cx, pending, job)?.unwrap_or_default();
                let proc = request.named.as_ref().unwrap_or(&proc);
                let object = object_of_values(cx, &form, proc, &[kval])?;
                let reply = success(&form, &[&whole, &object])?;
                return Ok(Resolution::Ready(reply.into()));
            }
            Err(error) => error,
        };
        // A process may have put a value under a reserved key.
        let scope = Self::scope_of(cx, request);
        let key = request.text().unwrap_or_default();
        let rank = request.proc.rank;
        let puts = job.modex_store();
        if puts.check(rank, scope, key, &request.infos).is_ok() {
            return match rank {
                // A reply names the process of its values.
                Rank::UNDEF => self.put_by_any(cx, pending, job, scope),
                _ => self.ready(cx, pending, job, scope),
            };
        }
        // The host learns the process id only after the job was registered and the process started.
        let pids = cx.registry.job(&request.proc.nspace).map(|job| &job.pids);
        if key == keys::PROC_PID
            && let Some(&pid) = pids.and_then(|pids| pids.get(&rank))
        {
            let form = cx.member(&pending.ticket)?.form;
            let whole = self.introduction(cx, pending, job)?.unwrap_or_default();
            let proc = request.named.as_ref().unwrap_or(&request.proc);
            let kval = Kval {
                key: key.into(),
                value: Value::Pid(pid),
            };
            let object = object_of_values(cx, &form, proc, &[kval])?;
            return Ok(Resolution::Ready(
                success(&form, &[&whole, &object])?.into(),
            ));
        }
        // A client of 4.2 sends a request about the job when it needs a value of a process of another job.
        let of_any = Request::new(Rank::UNDEF, key);
        if rank == Rank::WILDCARD && job.job().get(&of_any).is_ok() {
            let form = cx.member(&pending.ticket)?.form;
            if let Some(whole) = self.introduction(cx, pending, job)? {
                return Ok(Resolution::Ready(success(&form, &[&whole])?.into()));
            }
        }
        Err(error)
    }

    /// Resolves a get of data that a process put.
    ///
    /// DEVIATION: a get of data that are only for other nodes fails with `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`, as in the
    /// Standard; OpenPMIx returns `PMIX_ERR_NOT_FOUND`; `a_get_does_not_wait_for_data_of_remote_scope`.
    fn put_by_proc(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
        job: &Registered,
    ) -> Result<Resolution, Error> {
        let request = &pending.request;
        let proc = &request.proc;
        let client = cx.registry.client_of(proc);
        let scope = Self::scope_of(cx, request);
        let puts = job.modex_store();
        // Local data are always current. With `PMIX_GET_REFRESH_CACHE`, stored data of other nodes count only after the
        // host has replied.
        let is_fresh = client.is_some() || !request.wants_fresh || pending.was_asked;
        let found = match request.text() {
            Some(key) => puts
                .check(proc.rank, scope, key, &request.infos)
                .map_err(Some),
            None if client.is_some_and(|c| c.has_committed) => Ok(()),
            None if client.is_none() && puts.has_rank(proc.rank) => Ok(()),
            None => Err(None),
        };
        match found {
            Ok(()) if is_fresh => return self.ready(cx, pending, job, scope),
            Err(Some(error)) if error.status() == Status::ERR_EXISTS_OUTSIDE_SCOPE => {
                return Err(error.into());
            }
            _ => {}
        }
        // The host may have registered a value of the process under a key that is not reserved.
        if request.key.is_some() && Self::job_level(cx, job.job(), request).is_ok() {
            return self.known_of_job(cx, pending, job);
        }
        let Some(client) = client else {
            return Self::put_elsewhere(cx, pending, job);
        };
        match client.state {
            ClientState::Expected | ClientState::Connected => {
                Ok(Resolution::WaitFor(match client.has_committed {
                    true => WaitFor::Key,
                    false => WaitFor::Commit,
                }))
            }
            ClientState::Finalized | ClientState::Left => Err(Error::not_found(
                "the process disconnected without putting the key",
            )),
            ClientState::Lost => {
                let message = "the process was lost before it put the key";
                Err(Error::new(Status::ERR_LOST_CONNECTION, message))
            }
        }
    }

    /// Returns the data of the first process that has put the key of a request without a rank (`PMIX_RANK_UNDEF`).
    fn put_by_any(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
        job: &Registered,
        scope: Scope,
    ) -> Result<Resolution, Error> {
        let puts = job.modex_store();
        let mut request = pending.request.clone();
        let key = request.text().unwrap_or_default();
        let first = puts.first_with(scope, key, &request.infos);
        request.proc.rank = first.ok_or_else(|| Error::not_found("no process has put the key"))?;
        let whole = self.introduction(cx, pending, job)?.unwrap_or_default();
        let payload = Self::put_by(cx, &pending.ticket, &request, &puts, scope, &whole)?;
        Ok(Resolution::Ready(payload))
    }

    /// Resolves a get of data of a process that is not registered on this node.
    fn put_elsewhere(cx: &Cx, pending: &PendingGet, job: &Registered) -> Result<Resolution, Error> {
        let proc = &pending.request.proc;
        let local = cx.registry.job(&proc.nspace);
        // The process may still be registered on this node.
        if local.is_some_and(|local| !local.is_complete()) {
            return Ok(Resolution::WaitFor(WaitFor::Clients));
        }
        let size = Request::new(Rank::WILDCARD, keys::JOB_SIZE);
        let size = job
            .job()
            .get(&size)
            .ok()
            .and_then(|size| size.to_number::<u32>().ok());
        if size.is_some_and(|size| proc.rank.as_raw() >= size) && !job.job().has_rank(proc.rank) {
            let (rank, nspace) = (proc.rank, &proc.nspace);
            return Err(Error::not_found(format!("{nspace} has no rank {rank}")));
        }
        // The host has replied about this key; another call would return the same.
        match pending.was_asked {
            true => Err(Error::not_found("the process has not put the key")),
            false => Ok(Resolution::WaitFor(WaitFor::Host)),
        }
    }

    /// Returns the scope of a request, or that of [`Cx::scope_to_see`].
    fn scope_of(cx: &Cx, request: &GetRequest) -> Scope {
        let scope = request.scope;
        scope.unwrap_or_else(|| cx.scope_to_see(&request.proc))
    }

    /// Returns the reply with all data of a process that the client may see.
    fn ready(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
        job: &Registered,
        scope: Scope,
    ) -> Result<Resolution, Error> {
        let whole = self.introduction(cx, pending, job)?.unwrap_or_default();
        let puts = job.modex_store();
        let payload = Self::put_by(cx, &pending.ticket, &pending.request, &puts, scope, &whole)?;
        let mut more = Vec::new();
        Self::prefetch(cx, pending, &puts, &mut more)?;
        let len = payload.as_bytes().len() + more.len();
        self.append_unrequested(cx, pending, job, &puts, len, &mut more)?;
        Ok(Resolution::Ready(match more.is_empty() {
            true => payload,
            false => [payload.as_bytes(), &more].concat().into(),
        }))
    }

    /// Returns the objects that precede a reply because clients do not request them: the info of another job at the
    /// client's first request for it, or the location of a process that was not in the client's job info.
    fn introduction(
        &mut self,
        cx: &mut Cx,
        pending: &PendingGet,
        job: &Registered,
    ) -> Result<Option<Arc<Vec<u8>>>, Error> {
        let request = &pending.request;
        let nspace = &request.proc.nspace;
        let peer = cx.peers.get_mut(pending.ticket.peer());
        let Some(member) = peer.and_then(Peer::member_mut) else {
            return Ok(None);
        };
        // A reply to REFRESH_CACHE has the values of one process, without objects.
        if request.form != Form::Objects {
            return Ok(None);
        }
        if member.proc.nspace == *nspace {
            return Self::place(cx, pending, job);
        }
        let form = member.form;
        // The job info is sent once over each connection.
        match member.knows.insert(nspace.clone()) {
            true => self.job_infos.whole_job(cx, nspace, job, &form).map(Some),
            false => Ok(None),
        }
    }

    /// Returns the location of a process of the client's own job, if the job info of the client did not have it.
    fn place(
        cx: &Cx,
        pending: &PendingGet,
        job: &Registered,
    ) -> Result<Option<Arc<Vec<u8>>>, Error> {
        let proc = &pending.request.proc;
        let member = cx.member(&pending.ticket)?;
        let has_locations = Self::remote_data_for(cx, member, job.job()) != Remote::Nothing;
        if has_locations || !proc.rank.is_valid() || job.job().is_here(proc.rank) {
            return Ok(None);
        }
        let kvals = [keys::HOSTNAME, keys::NODEID, keys::APPNUM].map(|key| {
            let value = job.job().get(&Request::new(proc.rank, key)).ok()?;
            let value = value.into_owned();
            Some(Kval {
                key: key.into(),
                value,
            })
        });
        let kvals: Vec<_> = kvals.into_iter().flatten().collect();
        let object = object_of_values(cx, &member.form, proc, &kvals)?;
        Ok(Some(object.into()))
    }

    /// Packs the data of a process that the client may see, after the preceding objects. Without such objects, all
    /// waiting gets share one copy of the reply.
    pub(super) fn put_by(
        cx: &Cx,
        ticket: &Ticket,
        request: &GetRequest,
        puts: &ModexStore,
        scope: Scope,
        front: &[u8],
    ) -> Result<Payload, Error> {
        let form = cx.member(ticket)?.form;
        let (proc, codec) = (&request.proc, cx.codec(&form));
        let object = |of: &Proc<'_>, kvals: &[u8]| {
            let of = of.clone();
            Object { of, kvals }.encode(&form)
        };
        let before = |len: usize| success(&form, &[&Object::front(&form, proc, len)?]);
        let packed = puts.packed_once(&codec, proc.rank, scope, form.major, before)?;
        let kvals = packed.kvals();
        Ok(match (request.form, &request.named) {
            (Form::Kvals, _) => success(&form, &[front, kvals])?.into(),
            (Form::Objects, None) if front.is_empty() => packed.shared().into(),
            (Form::Objects, named) => {
                let of = named.as_ref().unwrap_or(proc);
                success(&form, &[front, &object(of, kvals)?])?.into()
            }
        })
    }
}

/// Packs values as an `Object`: the process, then its packed kvals.
fn object_of_values(
    cx: &Cx,
    form: &PeerForm,
    proc: &Proc<'_>,
    kvals: &[Kval<'_>],
) -> Result<Vec<u8>, Error> {
    let kvals = &pack_kvals(form, Some(cx.framer()), kvals)?;
    let of = proc.clone();
    Ok(Object { of, kvals }.encode(form)?)
}

/// Packs a success reply followed by parts: objects, or data only.
fn success(form: &PeerForm, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut out = reply::status(form, Status::SUCCESS)?;
    // The reply for a large job has megabytes, which growth in steps would copy several times.
    memory::reserve_exact(&mut out, parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Ok(out)
}
