// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives that end: everybody who waits is told the same.

use gds_hash::Remote;
use pmix_proto::reply;
use pmix_types::{Nspace, Proc, Status};

use super::contribution::failure;
use super::tracker::{Collective, Key, Phase, Tracker};
use crate::exchange::enclosed;
use crate::host::Answer;
use crate::ids::{ClientId, TrackerId};
use crate::peers::Ticket;
use crate::timer::Timer;
use crate::{Engine, EngineEvent, Error};

/// How many of those that are missing a log line names.
const MAX_NAMED: usize = 8;

impl Engine {
    /// The host ended a collective. What all servers contributed to a fence is stored before
    /// anybody goes on.
    pub(crate) fn host_ended(&mut self, id: TrackerId, job: &Nspace<'static>, answer: Answer) {
        self.collectives.is_over(job);
        // One that has failed by now is not there for the answer.
        let tracker = self.collectives.get(id);
        let Some(tracker) = tracker.filter(|tracker| tracker.phase == Phase::Hosting) else {
            return;
        };
        let result = match (tracker.key.0, answer) {
            (Collective::Fence, Answer::Data(Ok(data))) => {
                self.absorb_contributions(tracker, &data)
            }
            (_, other) => match other.status() {
                status if status.is_success() => Ok(()),
                status => Err(Error::new(status, "the host did not end it")),
            },
        };
        match result {
            Ok(()) => self.succeed(id),
            Err(error) => {
                tracing::debug!(%error, "what the host ended");
                self.fail(id, error.status());
            }
        }
    }

    /// Ends a collective with success.
    pub(super) fn succeed(&mut self, id: TrackerId) {
        let Some(mut tracker) = self.collectives.remove(id) else {
            return;
        };
        self.cancel_deadline(id, &tracker);
        let tickets = tracker.take_tickets();
        for ticket in tickets {
            match tracker.key.0 {
                Collective::Fence | Collective::Disconnect => {
                    self.cx.reply_status(ticket, Status::SUCCESS)
                }
                Collective::Connect => {
                    let packed = self.others_jobs(&ticket, &tracker);
                    self.cx.reply_packed(ticket, packed);
                }
            }
        }
    }

    /// Ends a collective without success, and says who is missing.
    pub(super) fn fail(&mut self, id: TrackerId, status: Status) {
        if let Some(tracker) = self.collectives.get(id) {
            let missing = tracker.missing.iter().copied().collect();
            self.report(&tracker.key.clone(), missing, status);
        }
        self.fail_silently(id, status);
    }

    /// Ends a collective without success. Who comes later is told the same.
    pub(super) fn fail_silently(&mut self, id: TrackerId, status: Status) {
        let Some(tracker) = self.collectives.get_mut(id) else {
            return;
        };
        let was_gathering = tracker.phase == Phase::Gathering;
        tracker.phase = Phase::Failed(status);
        let tickets = tracker.take_tickets();
        if let Some(until) = tracker.until.take() {
            self.cx.timers.cancel(until, Timer::Collective(id));
        }
        if was_gathering {
            self.tell_servers(id, status);
        }
        self.collectives.keep_failed(id);
        for ticket in tickets {
            self.cx.reply_status(ticket, status);
        }
    }

    /// Tells the servers of other nodes that a collective failed here: of a fence in place of data.
    fn tell_servers(&mut self, id: TrackerId, status: Status) {
        let Some(tracker) = self.collectives.get(id) else {
            return;
        };
        let data = match tracker.key.0 {
            Collective::Fence => failure(&self.cx.config.modex_form(), status),
            Collective::Connect | Collective::Disconnect => Ok(Vec::new()),
        };
        let call = match data {
            _ if self.is_local(&tracker.key.1) => None,
            Ok(data) => Some(tracker.call(tracker.infos.clone(), data, Some(status))),
            Err(error) => {
                tracing::error!(%error, "a failure cannot be packed");
                None
            }
        };
        self.queue_upcall(id, call);
    }

    /// Says who is missing: some who have not come, and all who are lost or removed.
    pub(super) fn report(&mut self, key: &Key, missing: Vec<ClientId>, status: Status) {
        let (operation, participants) = (key.0, &key.1);
        let lost = self.local(participants).into_iter();
        let missing = missing
            .into_iter()
            .chain(lost.filter(|id| self.is_lost(*id)));
        let missing = missing.filter_map(|id| self.cx.registry.client(id));
        let mut missing: Vec<_> = missing.map(|client| client.proc.clone()).collect();
        for (nspace, ranks) in participants.jobs() {
            let gone = self.cx.registry.job(nspace).map(|job| job.gone.iter());
            let gone = gone.into_iter().flatten().filter(|rank| ranks.has(**rank));
            missing.extend(gone.map(|rank| Proc::new(nspace.clone(), *rank)));
        }
        missing.sort_unstable();
        missing.dedup();
        let named = missing.iter().take(MAX_NAMED);
        let named: Vec<_> = named
            .map(|proc| format!("{}:{}", proc.nspace, proc.rank))
            .collect();
        let num_missing = missing.len();
        tracing::warn!(%operation, %status, num_missing, missing = named.join(" "), "it failed");
        self.cx.driver_events.push_back(EngineEvent::FenceMissing {
            operation,
            procs: participants.to_procs(),
            missing,
            status,
        });
    }

    fn cancel_deadline(&mut self, id: TrackerId, tracker: &Tracker) {
        if let Some(until) = tracker.until {
            self.cx.timers.cancel(until, Timer::Collective(id));
        }
    }

    /// The reply to a connect: the jobs of the others, as far as this server knows them.
    fn others_jobs(&mut self, ticket: &Ticket, tracker: &Tracker) -> Result<Vec<u8>, Error> {
        let member = self.cx.member(ticket)?;
        let form = member.form;
        let is_other = |nspace: &&Nspace<'_>| **nspace != member.proc.nspace;
        let jobs = tracker.key.1.jobs().map(|(nspace, _)| nspace);
        let (mut objects, mut told) = (Vec::new(), Vec::new());
        for nspace in jobs.filter(is_other) {
            if let Some(job) = self.cx.store.job(nspace) {
                let reply = job.reply(&self.cx.codec(&form), form.release, Remote::Whole)?;
                objects.extend(enclosed(&form, reply.to_vec())?);
                told.push(nspace);
            }
        }
        for nspace in told {
            self.cx.peers.knows_job(ticket.peer(), nspace);
        }
        let status = Status::SUCCESS;
        let objects = &objects;
        Ok(reply::Objects { status, objects }.encode(&form, None)?)
    }
}
