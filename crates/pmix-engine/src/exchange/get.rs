// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: the reply is sent at once, or when the data are available.

use std::collections::VecDeque;
use std::time::Instant;

use pmix_proto::request;
use pmix_types::{Nspace, Proc, Status};

use super::get_request::GetRequest;
use super::resolve::Resolution;
use super::state::Exchange;
use super::state::{PendingGet, WaitFor};
use super::unfinished::Awaited;
use crate::cx::Cx;
use crate::ids::GetId;
use crate::peers::{Peer, PeerId, Ticket};
use crate::timer::Timer;
use crate::{EngineEvent, Error};

impl Exchange {
    /// Handles GETNB. `named` is the process if the request names it by its group rank.
    pub(crate) fn get(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::Get<'_>,
        named: Option<Proc<'static>>,
    ) {
        let mut get = GetRequest::of_get(request);
        if let Some(proc) = named {
            // The reply must have the name in the request, under which the client stores the data.
            get.named = Some(std::mem::replace(&mut get.proc, proc));
        }
        self.serve(cx, ticket, get);
    }

    /// Handles REFRESH_CACHE.
    pub(crate) fn refresh_cache(
        &mut self,
        cx: &mut Cx,
        ticket: Ticket,
        request: &request::RefreshCache<'_>,
    ) {
        let member = cx.peers.get_mut(ticket.peer()).and_then(Peer::member_mut);
        if let Some(member) = member {
            member.has_refreshed |= member.proc.nspace != request.nspace;
        }
        self.serve(cx, ticket, GetRequest::of_refresh(request));
    }

    fn serve(&mut self, cx: &mut Cx, ticket: Ticket, request: GetRequest) {
        let until = request.timeout.and_then(|time| cx.after(time));
        let pending = PendingGet {
            ticket,
            request,
            wait_for: WaitFor::Host,
            began: cx.now,
            was_asked: false,
            until: until.map(|at| (at, Status::ERR_TIMEOUT)),
        };
        match Self::check_reader(cx, &pending) {
            Ok(()) => self.settle(cx, pending),
            Err(error) => {
                let peer = pending.ticket.peer();
                cx.reply_error(pending.ticket, &error);
                // The client gets only the status; the log has the reason.
                let denied = EngineEvent::Denied {
                    peer,
                    reason: error,
                };
                cx.driver_events.push_back(denied);
            }
        }
    }

    fn check_reader(cx: &Cx, pending: &PendingGet) -> Result<(), Error> {
        let nspace = &pending.request.proc.nspace;
        cx.check_reads(cx.member(&pending.ticket)?, nspace)
    }

    /// Replies to a get or lets it wait. A peer with too many unread bytes gets its reply once there is room for it.
    pub(super) fn settle(&mut self, cx: &mut Cx, pending: PendingGet) {
        let peer = pending.ticket.peer();
        match cx.peers.has_room(peer) {
            true => self.settle_now(cx, pending),
            false => self.due.entry(peer).or_default().push_back(pending),
        }
    }

    /// Sends the replies that waited for a peer to read, while there is room.
    pub(crate) fn serve_due(&mut self, cx: &mut Cx, peer: PeerId) {
        while cx.peers.has_room(peer)
            && let Some(due) = self.due.get_mut(&peer)
        {
            match due.pop_front() {
                Some(pending) => self.settle_now(cx, pending),
                None => _ = self.due.remove(&peer),
            }
        }
    }

    fn settle_now(&mut self, cx: &mut Cx, pending: PendingGet) {
        match self.outcome(cx, &pending) {
            Ok(Resolution::Ready(payload)) => cx.reply(pending.ticket, payload),
            Ok(Resolution::WaitFor(_)) if pending.request.is_immediate => {
                let error = Error::not_found(
                    "the data is not available, and the client does not wait for it",
                );
                cx.reply_error(pending.ticket, &error);
            }
            Ok(Resolution::WaitFor(wait_for)) => self.park(cx, pending, wait_for),
            Err(error) => cx.reply_error(pending.ticket, &error),
        }
    }

    pub(super) fn park(&mut self, cx: &mut Cx, mut pending: PendingGet, wait_for: WaitFor) {
        let is_new = pending.wait_for != wait_for;
        pending.wait_for = wait_for;
        // Each condition has its own default time limit, which starts when the get begins to wait for it.
        if pending.request.timeout.is_none() && (is_new || pending.until.is_none()) {
            pending.until = Self::default_timeout(cx, wait_for);
        }
        // The host may register an unknown job on demand, so the server asks it once before the registration.
        let asks = wait_for == WaitFor::Host || (wait_for == WaitFor::Job && !pending.was_asked);
        if asks && let Err(error) = self.request_direct_modex(cx, &pending) {
            return cx.reply_error(pending.ticket, &error);
        }
        let until = pending.until;
        let proc = pending.request.proc.clone();
        let id = GetId(self.gets.add(proc, pending));
        if let Some((at, _)) = until {
            cx.timers.set(at, Timer::Get(id));
        }
    }

    /// Returns the time limit of a get without one of its own, and its status.
    ///
    /// DEVIATION: a get of a key that the process has not put among others ends with `PMIX_ERR_NOT_FOUND`; OpenPMIx
    /// returns `PMIX_ERR_TIMEOUT` after the same time, although the client set no limit;
    /// `a_get_waits_briefly_for_a_key_not_yet_put`.
    fn default_timeout(cx: &Cx, wait_for: WaitFor) -> Option<(Instant, Status)> {
        let time = match wait_for {
            WaitFor::Job | WaitFor::Clients => cx.config.registration_time,
            WaitFor::Key => cx.config.key_time,
            WaitFor::Commit | WaitFor::Host => return None,
        };
        cx.after(time).map(|at| (at, Status::ERR_NOT_FOUND))
    }

    pub(super) fn take_pending(&mut self, cx: &mut Cx, id: u64) -> Option<PendingGet> {
        let (_, pending) = self.gets.take(id)?;
        if let Some((at, _)) = pending.until {
            cx.timers.cancel(at, Timer::Get(GetId(id)));
        }
        Some(pending)
    }

    pub(super) fn settle_all(&mut self, cx: &mut Cx, ids: Vec<u64>) {
        for id in ids {
            if let Some(pending) = self.take_pending(cx, id) {
                self.settle(cx, pending);
            }
        }
    }

    /// Retries the requests for a local process that was registered, has committed for the first time, or never will.
    pub(crate) fn proc_changed(&mut self, cx: &mut Cx, proc: &Proc<'static>) {
        self.settle_all(cx, self.gets.of_proc(proc));
        self.retry_inbound(cx, proc);
    }

    /// Retries the requests for the keys of a further commit of a local process.
    pub(super) fn keys_committed(&mut self, cx: &mut Cx, proc: &Proc<'static>, awaited: Awaited) {
        self.settle_all(cx, awaited.gets.into_iter().collect());
        for id in awaited.inbound {
            self.retry_request(cx, proc, id);
        }
    }

    /// Retries the requests for a job after the job or its local processes were registered.
    pub(crate) fn job_changed(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        self.retry_gets_of_job(cx, nspace);
        self.retry_inbound_of_job(cx, nspace);
    }

    /// Drops the packed info of a job that was registered or updated.
    pub(crate) fn job_registered(&mut self, nspace: &Nspace<'_>) {
        self.outbound.job_registered(nspace);
        self.job_infos.forget(nspace);
    }

    /// Ends the requests for a deregistered job.
    pub(crate) fn job_gone(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        self.fail_gets_of_job(cx, nspace);
        self.outbound.forget_job(nspace);
        self.retry_inbound_of_job(cx, nspace);
    }

    fn retry_gets_of_job(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        self.settle_all(cx, self.gets.of_job(nspace));
    }

    /// Fails the gets for a deregistered job.
    fn fail_gets_of_job(&mut self, cx: &mut Cx, nspace: &Nspace<'static>) {
        let waiting = self.gets.of_job(nspace).into_iter();
        let mut failed: Vec<_> = waiting.filter_map(|id| self.take_pending(cx, id)).collect();
        // These gets wait for room in their windows and hold no data yet.
        for due in self.due.values_mut() {
            let of_job = |pending: &PendingGet| pending.request.proc.nspace == *nspace;
            let (gone, left) = std::mem::take(due).into_iter().partition(of_job);
            *due = left;
            failed.extend::<VecDeque<_>>(gone);
        }
        for pending in failed {
            let error = Error::not_found(format!("job {nspace} is deregistered"));
            cx.reply_error(pending.ticket, &error);
        }
        self.job_infos.forget(nspace);
    }

    /// Drops the gets of a disconnected peer.
    pub(crate) fn peer_left(&mut self, cx: &mut Cx, peer: PeerId) {
        self.portions.remove(&peer);
        self.drop_commit(cx, peer);
        let own: Vec<_> = self.gets.of_peer(peer).collect();
        for id in own {
            if let Some(pending) = self.take_pending(cx, id) {
                cx.peers.settle(pending.ticket);
            }
        }
        for pending in self.due.remove(&peer).into_iter().flatten() {
            cx.peers.settle(pending.ticket);
        }
    }

    /// Ends a get whose time limit has expired.
    pub(crate) fn get_expired(&mut self, cx: &mut Cx, id: GetId) {
        if let Some((_, pending)) = self.gets.take(id.0) {
            let status = pending
                .until
                .map_or(Status::ERR_TIMEOUT, |(_, status)| status);
            cx.reply_status(pending.ticket, status);
        }
    }
}
