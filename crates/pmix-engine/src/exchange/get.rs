// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about data: answered at once, or when what they wait for has come.

use std::time::Instant;

use pmix_proto::request;
use pmix_types::{Nspace, Proc, Status};

use super::get_request::GetRequest;
use super::pending::{PendingGet, WaitFor};
use super::resolve::Resolution;
use crate::ids::GetId;
use crate::peers::{PeerId, Ticket};
use crate::timer::Timer;
use crate::{Engine, EngineEvent, Error};

impl Engine {
    /// GETNB.
    pub(crate) fn get(&mut self, ticket: Ticket, request: &request::Get<'_>) {
        self.answer(ticket, GetRequest::of_get(request));
    }

    /// REFRESH_CACHE.
    pub(crate) fn refresh_cache(&mut self, ticket: Ticket, request: &request::RefreshCache<'_>) {
        self.answer(ticket, GetRequest::of_refresh(request));
    }

    fn answer(&mut self, ticket: Ticket, request: GetRequest) {
        let until = request.timeout.and_then(|time| self.cx.after(time));
        let pending = PendingGet {
            ticket,
            request,
            wait_for: WaitFor::Host,
            was_asked: false,
            until: until.map(|at| (at, Status::ERR_TIMEOUT)),
        };
        match self.check_reader(&pending) {
            Ok(()) => self.settle(pending),
            Err(error) => {
                let peer = pending.ticket.peer();
                self.cx.reply_error(pending.ticket, &error);
                let denied = EngineEvent::Denied {
                    peer,
                    reason: error,
                };
                self.cx.driver_events.push_back(denied);
            }
        }
    }

    fn check_reader(&self, pending: &PendingGet) -> Result<(), Error> {
        let nspace = &pending.request.proc.nspace;
        self.cx
            .check_reads(self.cx.member(&pending.ticket)?, nspace)
    }

    /// Answers a request, or lets it wait.
    pub(super) fn settle(&mut self, pending: PendingGet) {
        match self.outcome(&pending) {
            Ok(Resolution::Ready(payload)) => self.cx.reply(pending.ticket, payload),
            Ok(Resolution::WaitFor(_)) if pending.request.is_immediate => {
                let error = Error::not_found("it is not there, and the client does not wait");
                self.cx.reply_error(pending.ticket, &error);
            }
            Ok(Resolution::WaitFor(wait_for)) => self.park(pending, wait_for),
            Err(error) => self.cx.reply_error(pending.ticket, &error),
        }
    }

    pub(super) fn park(&mut self, mut pending: PendingGet, wait_for: WaitFor) {
        let is_new = pending.wait_for != wait_for;
        pending.wait_for = wait_for;
        if pending.request.timeout.is_none() && (is_new || pending.until.is_none()) {
            pending.until = self.patience(wait_for);
        }
        let asks = wait_for == WaitFor::Host || (wait_for == WaitFor::Job && !pending.was_asked);
        if asks && let Err(error) = self.ask_about(&pending) {
            return self.cx.reply_error(pending.ticket, &error);
        }
        let until = pending.until;
        let proc = pending.request.proc.clone();
        let id = GetId(self.pending_gets.add(proc, pending));
        if let Some((at, _)) = until {
            self.cx.timers.set(at, Timer::Get(id));
        }
    }

    /// How long a request waits whose client says nothing about it, and how it ends.
    ///
    /// DEVIATION: a key that a process has not put among others is not found in the end; OpenPMIx
    /// says after as long that time is up, which the client has not limited;
    /// `a_key_that_a_process_has_not_put_yet_is_waited_for_a_little`.
    fn patience(&self, wait_for: WaitFor) -> Option<(Instant, Status)> {
        let time = match wait_for {
            WaitFor::Job | WaitFor::Clients => self.cx.config.registration_time,
            WaitFor::Key => self.cx.config.key_time,
            WaitFor::Commit | WaitFor::Host => return None,
        };
        self.cx.after(time).map(|at| (at, Status::ERR_NOT_FOUND))
    }

    pub(super) fn take_pending(&mut self, id: u64) -> Option<PendingGet> {
        let (_, pending) = self.pending_gets.take(id)?;
        if let Some((at, _)) = pending.until {
            self.cx.timers.cancel(at, Timer::Get(GetId(id)));
        }
        Some(pending)
    }

    pub(super) fn settle_all(&mut self, ids: Vec<u64>) {
        for id in ids {
            if let Some(pending) = self.take_pending(id) {
                self.settle(pending);
            }
        }
    }

    /// A process of this node committed, or will not: who waits for it goes on.
    pub(crate) fn data_came(&mut self, proc: &Proc<'static>) {
        self.settle_all(self.pending_gets.of_proc(proc));
        self.retry_inbound(proc);
    }

    /// A job, or a local process of it, was registered: who waits for that goes on.
    pub(crate) fn retry_gets_of_job(&mut self, nspace: &Nspace<'static>) {
        self.settle_all(self.pending_gets.of_job(nspace));
    }

    /// A job is gone: nobody waits for its data any longer.
    pub(crate) fn fail_gets_of_job(&mut self, nspace: &Nspace<'static>) {
        for id in self.pending_gets.of_job(nspace) {
            if let Some(pending) = self.take_pending(id) {
                let error = Error::not_found(format!("job {nspace} is deregistered"));
                self.cx.reply_error(pending.ticket, &error);
            }
        }
        self.job_info_cache.forget(nspace);
    }

    /// A peer is gone: it asks nothing any longer.
    pub(crate) fn drop_gets(&mut self, peer: PeerId) {
        let own = (self.pending_gets).which(|pending| pending.ticket.peer() == peer);
        for id in own {
            if let Some(pending) = self.take_pending(id) {
                self.cx.peers.settle(pending.ticket);
            }
        }
    }

    /// A request has waited long enough.
    pub(crate) fn get_expired(&mut self, id: GetId) {
        if let Some((_, pending)) = self.pending_gets.take(id.0) {
            let status = pending
                .until
                .map_or(Status::ERR_TIMEOUT, |(_, status)| status);
            self.cx.reply_status(pending.ticket, status);
        }
    }
}
