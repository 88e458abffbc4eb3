// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about data: answered at once, or when what they wait for has come.

use std::time::Instant;

use gds_hash::{Puts, Registered, Request};
use pmix_proto::request;
use pmix_types::{Nspace, Proc, Rank, Scope, Status, keys};

use super::answer;
use super::question::{Form, Question};
use super::waiting::{Later, WaitId, Waiter};
use crate::alarm::Alarm;
use crate::peers::{Member, PeerId, Ticket};
use crate::registry::Life;
use crate::{Engine, Error};

/// What becomes of a question.
enum Outcome {
    Ready(Vec<u8>),
    Later(Later),
}

impl Engine {
    /// GETNB.
    pub(crate) fn get(&mut self, ticket: Ticket, request: &request::Get<'_>) {
        self.answer(ticket, Question::of_get(request));
    }

    /// REFRESH_CACHE.
    pub(crate) fn refresh_cache(&mut self, ticket: Ticket, request: &request::RefreshCache<'_>) {
        self.answer(ticket, Question::of_refresh(request));
    }

    fn answer(&mut self, ticket: Ticket, question: Question) {
        let until = question.timeout.and_then(|time| self.after(time));
        let waiter = Waiter {
            ticket,
            question,
            later: Later::Host,
            was_asked: false,
            until: until.map(|at| (at, Status::ERR_TIMEOUT)),
        };
        match self.check_reader(&waiter) {
            Ok(()) => self.settle(waiter),
            Err(error) => {
                tracing::warn!(peer = %waiter.ticket.peer(), %error, "request refused");
                self.reply_error(waiter.ticket, &error);
            }
        }
    }

    fn check_reader(&self, waiter: &Waiter) -> Result<(), Error> {
        let nspace = &waiter.question.proc.nspace;
        self.check_reads(self.member(&waiter.ticket)?, nspace)
    }

    /// Whether a peer may know of a job: its own, one of its user, or one whose user nobody knows.
    pub(crate) fn check_reads(&self, member: &Member, nspace: &Nspace<'_>) -> Result<(), Error> {
        let reader = member.user.0;
        let is_trusted = reader == 0 || self.config.user.is_some_and(|(own, _)| own == reader);
        if member.proc.nspace == *nspace || (is_trusted && member.client.is_none()) {
            return Ok(());
        }
        match self.owner_of(nspace) {
            Some(owner) if owner != reader => Err(Error::denied(format!(
                "user {reader} may not read job {nspace} of user {owner}"
            ))),
            _ => Ok(()),
        }
    }

    /// The user whose job it is, if anyone knows.
    fn owner_of(&self, nspace: &Nspace<'_>) -> Option<u32> {
        if let Some(owner) = self.registry.job(nspace).and_then(|job| job.owner) {
            return Some(owner);
        }
        let request = Request::new(Rank::WILDCARD, keys::USERID);
        let stated = self.store.get(nspace, &request).ok()?;
        stated.to_number().ok()
    }

    /// Answers a question, or lets it wait.
    pub(super) fn settle(&mut self, waiter: Waiter) {
        match self.outcome(&waiter) {
            Ok(Outcome::Ready(payload)) => self.reply(waiter.ticket, payload),
            Ok(Outcome::Later(_)) if waiter.question.is_immediate => {
                let error = Error::not_found("it is not there, and the client does not wait");
                self.reply_error(waiter.ticket, &error);
            }
            Ok(Outcome::Later(later)) => self.park(waiter, later),
            Err(error) => self.reply_error(waiter.ticket, &error),
        }
    }

    fn park(&mut self, mut waiter: Waiter, later: Later) {
        let is_new = waiter.later != later;
        waiter.later = later;
        if waiter.question.timeout.is_none() && (is_new || waiter.until.is_none()) {
            waiter.until = self.patience(later);
        }
        let asks = later == Later::Host || (later == Later::Job && !waiter.was_asked);
        let question = asks.then(|| waiter.question.clone());
        let until = waiter.until;
        let proc = waiter.question.proc.clone();
        let id = WaitId(self.waiting.add(proc, waiter));
        if let Some((at, _)) = until {
            self.alarms.set(at, Alarm::Question(id));
        }
        if let Some(question) = question {
            self.ask_about(&question);
        }
    }

    /// How long a question waits whose client says nothing about it, and how it ends.
    fn patience(&self, later: Later) -> Option<(Instant, Status)> {
        let time = match later {
            Later::Job | Later::Clients => self.config.registration_time,
            Later::Key => self.config.key_time,
            Later::Commit | Later::Host => return None,
        };
        self.after(time).map(|at| (at, Status::ERR_NOT_FOUND))
    }

    pub(super) fn take_waiter(&mut self, id: u64) -> Option<Waiter> {
        let (_, waiter) = self.waiting.take(id)?;
        if let Some((at, _)) = waiter.until {
            self.alarms.cancel(at, Alarm::Question(WaitId(id)));
        }
        Some(waiter)
    }

    fn settle_all(&mut self, ids: Vec<u64>) {
        for id in ids {
            if let Some(waiter) = self.take_waiter(id) {
                self.settle(waiter);
            }
        }
    }

    /// A process of this node committed, or will not: who waits for it goes on.
    pub(crate) fn data_came(&mut self, proc: &Proc<'static>) {
        self.settle_all(self.waiting.of_proc(proc));
        self.settle_requested(proc);
    }

    /// A job, or a local process of it, was registered: who waits for that goes on.
    pub(crate) fn questions_about_job(&mut self, nspace: &Nspace<'static>) {
        self.settle_all(self.waiting.of_job(nspace));
    }

    /// A job is gone: nobody waits for its data any longer.
    pub(crate) fn end_questions_about(&mut self, nspace: &Nspace<'static>) {
        for id in self.waiting.of_job(nspace) {
            if let Some(waiter) = self.take_waiter(id) {
                let error = Error::not_found(format!("job {nspace} is deregistered"));
                self.reply_error(waiter.ticket, &error);
            }
        }
        self.foreign.forget(nspace);
    }

    /// A peer is gone: it asks nothing any longer.
    pub(crate) fn drop_questions(&mut self, peer: PeerId) {
        let own = (self.waiting).which(|waiter| waiter.ticket.peer() == peer);
        for id in own {
            if let Some(waiter) = self.take_waiter(id) {
                self.peers.settle(waiter.ticket);
            }
        }
    }

    /// A question has waited long enough.
    pub(crate) fn question_expired(&mut self, id: WaitId) {
        if let Some((_, waiter)) = self.waiting.take(id.0) {
            let status = waiter
                .until
                .map_or(Status::ERR_TIMEOUT, |(_, status)| status);
            self.reply_status(waiter.ticket, status);
        }
    }

    fn outcome(&mut self, waiter: &Waiter) -> Result<Outcome, Error> {
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
            return Ok(Outcome::Ready(answer::success(
                &form,
                question.form,
                &object,
            )?));
        }
        self.put_by_proc(waiter, &job)
    }

    /// A question that the job information answers, or else what a process put: at once, since a
    /// reserved key that is not there does not come later.
    fn known_of_job(&mut self, waiter: &Waiter, job: &Registered) -> Result<Outcome, Error> {
        let question = &waiter.question;
        let form = self.member(&waiter.ticket)?.form;
        let known = self.job_level(job.job(), question);
        let (proc, kval) = match known {
            Ok(known) => known,
            Err(error) => {
                let scope = self.scope_of(question);
                let puts = job.puts();
                let key = question.text().unwrap_or_default();
                return match puts.get(question.proc.rank, scope, key, &question.infos) {
                    Ok(_) => self.ready(waiter, job, scope),
                    Err(_) => Err(error),
                };
            }
        };
        let object = answer::object(&form, self.framer(), &proc, &[kval])?;
        Ok(Outcome::Ready(answer::success(
            &form,
            question.form,
            &object,
        )?))
    }

    /// A question about what a process put.
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
            _ if client.has_committed => Ok(Outcome::Later(Later::Key)),
            Life::Expected | Life::Connected => Ok(Outcome::Later(Later::Commit)),
            Life::Finalized => Err(Error::not_found("the process left without a commit")),
            Life::Lost => {
                let message = "the process was lost before a commit";
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
            .unwrap_or_else(|| match self.registry.find(&proc.nspace, proc.rank) {
                Some(_) => Scope::LOCAL,
                None if proc.rank.is_valid() => Scope::REMOTE,
                None => Scope::GLOBAL,
            })
    }

    /// All that a process put for the client, with its job in front if the client does not know
    /// it.
    fn ready(&mut self, waiter: &Waiter, job: &Registered, scope: Scope) -> Result<Outcome, Error> {
        let question = &waiter.question;
        let nspace = &question.proc.nspace;
        let peer = waiter.ticket.peer();
        let member = self.peers.get_mut(peer).and_then(|peer| peer.member_mut());
        let is_new = member.and_then(|member| {
            let is_other = member.proc.nspace != *nspace && question.form == Form::Objects;
            (is_other && member.knows.insert(nspace.clone())).then_some(member.form)
        });
        let whole = is_new.map(|form| self.whole_job(nspace, job, &form));
        let whole = whole.transpose()?;
        let puts = job.puts();
        let payload = self.put_by(&waiter.ticket, question, &puts, scope, whole.as_deref())?;
        Ok(Outcome::Ready(payload))
    }

    /// Packs all that a process put for the client, behind what is to stand in front of it.
    pub(super) fn put_by(
        &self,
        ticket: &Ticket,
        question: &Question,
        puts: &Puts,
        scope: Scope,
        front: Option<&[u8]>,
    ) -> Result<Vec<u8>, Error> {
        let form = self.member(ticket)?.form;
        let proc = &question.proc;
        let mut content = front.unwrap_or_default().to_vec();
        match question.form {
            Form::Objects => content.extend(puts.answer(&self.wire(&form), proc, scope)?),
            Form::Kvals => {
                let kvals = puts.all(proc.rank, scope)?;
                answer::bare(&form, self.framer(), kvals, &mut content)?;
            }
        }
        Ok(answer::success(&form, question.form, &content)?)
    }
}
