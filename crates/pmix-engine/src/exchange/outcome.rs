// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a question: its answer, or what it has to wait for.

use std::sync::Arc;

use gds_hash::{Puts, Registered, Remote, Request};
use pmix_types::{Kval, Rank, Scope, Status, keys};

use super::answer;
use super::question::{Form, Question};
use super::waiting::{Later, Waiter};
use crate::peers::{Peer, Ticket};
use crate::registry::Life;
use crate::{Engine, Error};

/// What becomes of a question.
pub(super) enum Outcome {
    Ready(Vec<u8>),
    Later(Later),
}

impl Engine {
    pub(super) fn outcome(&mut self, waiter: &Waiter) -> Result<Outcome, Error> {
        let question = &waiter.question;
        let nspace = &question.proc.nspace;
        let Some(job) = self.store.job(nspace) else {
            return Ok(Outcome::Later(Later::Job));
        };
        if question.is_reserved() || (question.key.is_some() && !question.is_of_proc()) {
            return self.known_of_job(waiter, &job);
        }
        if question.key.is_none() && !question.is_of_proc() {
            let form = self.member(&waiter.ticket)?.form;
            let object = self.whole_job(nspace, &job, &form)?;
            self.peers.knows_job(waiter.ticket.peer(), nspace);
            return Ok(Outcome::Ready(answer::success(&form, &[&object])?));
        }
        self.put_by_proc(waiter, &job)
    }

    /// A question that the job information answers, or else what a process put: at once, since a
    /// reserved key that is not there does not come later.
    fn known_of_job(&mut self, waiter: &Waiter, job: &Registered) -> Result<Outcome, Error> {
        let question = &waiter.question;
        let error = match self.job_level(job.job(), question) {
            Ok((proc, kval)) => {
                let form = self.member(&waiter.ticket)?.form;
                let whole = self.introduction(waiter, job)?.unwrap_or_default();
                let object = answer::object(&form, self.framer(), &proc, &[kval])?;
                let reply = answer::success(&form, &[&whole, &object])?;
                return Ok(Outcome::Ready(reply));
            }
            Err(error) => error,
        };
        let scope = self.scope_of(question);
        let key = question.text().unwrap_or_default();
        let rank = question.proc.rank;
        if job.puts().get(rank, scope, key, &question.infos).is_ok() {
            return self.ready(waiter, job, scope);
        }
        // A client of 4.2 asks about the job where it wants to know of a process of another job.
        let of_any = Request::new(Rank::UNDEF, key);
        if rank == Rank::WILDCARD && job.job().get(&of_any).is_ok() {
            let form = self.member(&waiter.ticket)?.form;
            if let Some(whole) = self.introduction(waiter, job)? {
                return Ok(Outcome::Ready(answer::success(&form, &[&whole])?));
            }
        }
        Err(error)
    }

    /// A question about what a process put.
    ///
    /// DEVIATION: what is for the processes of other nodes only is answered with
    /// `PMIX_ERR_EXISTS_OUTSIDE_SCOPE`, as the Standard has it; OpenPMIx says that it is not found;
    /// `what_is_for_other_nodes_only_is_not_waited_for`.
    fn put_by_proc(&mut self, waiter: &Waiter, job: &Registered) -> Result<Outcome, Error> {
        let question = &waiter.question;
        let proc = &question.proc;
        let client = self.registry.client_of(proc);
        let scope = self.scope_of(question);
        let puts = job.puts();
        let is_fresh = client.is_some() || !question.wants_fresh || waiter.was_asked;
        let found = match question.text() {
            Some(key) => puts
                .get(proc.rank, scope, key, &question.infos)
                .map(|_| ())
                .map_err(Some),
            None if client.is_some_and(|c| c.has_committed) => Ok(()),
            None if client.is_none() && puts.has_rank(proc.rank) => Ok(()),
            None => Err(None),
        };
        match found {
            Ok(()) if is_fresh => return self.ready(waiter, job, scope),
            Err(Some(error)) if error.status() == Status::ERR_EXISTS_OUTSIDE_SCOPE => {
                return Err(error.into());
            }
            _ => {}
        }
        // What the host registered of a process under a key of its own.
        if question.key.is_some() && self.job_level(job.job(), question).is_ok() {
            return self.known_of_job(waiter, job);
        }
        let Some(client) = client else {
            return self.put_elsewhere(waiter, job);
        };
        match client.life {
            Life::Expected | Life::Connected => Ok(Outcome::Later(match client.has_committed {
                true => Later::Key,
                false => Later::Commit,
            })),
            Life::Finalized | Life::Left => {
                Err(Error::not_found("the process left without putting it"))
            }
            Life::Lost => {
                let message = "the process was lost before it put it";
                Err(Error::new(Status::ERR_LOST_CONNECTION, message))
            }
        }
    }

    /// A question about what a process put that is not known to be on this node.
    fn put_elsewhere(&self, waiter: &Waiter, job: &Registered) -> Result<Outcome, Error> {
        let proc = &waiter.question.proc;
        let local = self.registry.job(&proc.nspace);
        if local.is_some_and(|local| !local.is_complete()) {
            return Ok(Outcome::Later(Later::Clients));
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
        match waiter.was_asked {
            true => Err(Error::not_found("the process has not put it")),
            false => Ok(Outcome::Later(Later::Host)),
        }
    }

    /// Who is to see the data: processes of this node see what local ones put for them.
    fn scope_of(&self, question: &Question) -> Scope {
        let proc = &question.proc;
        question
            .scope
            .unwrap_or_else(|| match self.registry.was_here(proc) {
                true => Scope::LOCAL,
                false if proc.rank.is_valid() => Scope::REMOTE,
                false => Scope::GLOBAL,
            })
    }

    /// All that a process put for the client.
    fn ready(&mut self, waiter: &Waiter, job: &Registered, scope: Scope) -> Result<Outcome, Error> {
        let whole = self.introduction(waiter, job)?.unwrap_or_default();
        let puts = job.puts();
        let payload = self.put_by(&waiter.ticket, &waiter.question, &puts, scope, &whole)?;
        Ok(Outcome::Ready(payload))
    }

    /// What stands in front of an answer, as clients do not ask for it: the whole of another job,
    /// for a client that hears of it for the first time; where a process is, for a client that was
    /// not told when it connected.
    fn introduction(
        &mut self,
        waiter: &Waiter,
        job: &Registered,
    ) -> Result<Option<Arc<Vec<u8>>>, Error> {
        let question = &waiter.question;
        let nspace = &question.proc.nspace;
        let peer = self.peers.get_mut(waiter.ticket.peer());
        let Some(member) = peer.and_then(Peer::member_mut) else {
            return Ok(None);
        };
        if question.form != Form::Objects {
            return Ok(None);
        }
        if member.proc.nspace == *nspace {
            return self.place(waiter, job);
        }
        let form = member.form;
        match member.knows.insert(nspace.clone()) {
            true => self.whole_job(nspace, job, &form).map(Some),
            false => Ok(None),
        }
    }

    /// Where a process of the client's own job is, if the client was not told.
    fn place(&self, waiter: &Waiter, job: &Registered) -> Result<Option<Arc<Vec<u8>>>, Error> {
        let proc = &waiter.question.proc;
        let member = self.member(&waiter.ticket)?;
        let is_told = self.told_to(member, job.job()) != Remote::Nothing;
        if is_told || !proc.rank.is_valid() || job.job().is_here(proc.rank) {
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
        let object = answer::object(&member.form, self.framer(), proc, &kvals)?;
        Ok(Some(object.into()))
    }

    /// Packs all that a process put for the client, behind what is to stand in front of it.
    pub(super) fn put_by(
        &self,
        ticket: &Ticket,
        question: &Question,
        puts: &Puts,
        scope: Scope,
        front: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let form = self.member(ticket)?.form;
        let proc = &question.proc;
        let content = match question.form {
            Form::Objects => puts.answer(&self.wire(&form), proc, scope)?,
            Form::Kvals => {
                let mut content = Vec::new();
                let kvals = puts.all(proc.rank, scope)?;
                answer::bare(&form, self.framer(), kvals, &mut content)?;
                content
            }
        };
        answer::success(&form, &[front, &content])
    }
}
