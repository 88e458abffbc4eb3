// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about data: answered at once, or when what they wait for has come.

use std::time::Instant;

use pmix_proto::request;
use pmix_types::{Nspace, Proc, Status};

use super::outcome::Outcome;
use super::question::Question;
use super::waiting::{Later, WaitId, Waiter};
use crate::alarm::Alarm;
use crate::peers::{PeerId, Ticket};
use crate::{Engine, EngineEvent, Error};

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
                let peer = waiter.ticket.peer();
                self.reply_error(waiter.ticket, &error);
                let denied = EngineEvent::Denied {
                    peer,
                    reason: error,
                };
                self.outcomes.push_back(denied);
            }
        }
    }

    fn check_reader(&self, waiter: &Waiter) -> Result<(), Error> {
        let nspace = &waiter.question.proc.nspace;
        self.check_reads(self.member(&waiter.ticket)?, nspace)
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

    pub(super) fn park(&mut self, mut waiter: Waiter, later: Later) {
        let is_new = waiter.later != later;
        waiter.later = later;
        if waiter.question.timeout.is_none() && (is_new || waiter.until.is_none()) {
            waiter.until = self.patience(later);
        }
        let asks = later == Later::Host || (later == Later::Job && !waiter.was_asked);
        if asks && let Err(error) = self.ask_about(&waiter) {
            return self.reply_error(waiter.ticket, &error);
        }
        let until = waiter.until;
        let proc = waiter.question.proc.clone();
        let id = WaitId(self.waiting.add(proc, waiter));
        if let Some((at, _)) = until {
            self.alarms.set(at, Alarm::Question(id));
        }
    }

    /// How long a question waits whose client says nothing about it, and how it ends.
    ///
    /// DEVIATION: a key that a process has not put among others is not found in the end; OpenPMIx
    /// says after as long that time is up, which the client has not limited;
    /// `a_key_that_a_process_has_not_put_yet_is_waited_for_a_little`.
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

    pub(super) fn settle_all(&mut self, ids: Vec<u64>) {
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
}
