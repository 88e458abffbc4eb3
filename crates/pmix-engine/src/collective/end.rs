// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives that end: everybody who waits is told the same.

use gds_hash::Remote;
use pmix_proto::reply;
use pmix_types::{Nspace, Proc, Status};

use super::contribution::failure;
use super::table::TrackerId;
use super::tracker::{Kind, Phase, Tracker};
use crate::alarm::Alarm;
use crate::exchange::enclosed;
use crate::host::{Answer, Fence};
use crate::peers::Ticket;
use crate::{Engine, EngineEvent, Error};

/// How many of those that are missing a log line names.
const MAX_NAMED: usize = 8;

impl Engine {
    /// The host ended a fence: what all servers contributed is stored before anybody goes on.
    pub(super) fn fenced(&mut self, id: TrackerId, answer: Answer) {
        let tracker = self.collectives.get(id);
        let Some(tracker) = tracker.filter(|tracker| tracker.phase == Phase::Hosting) else {
            return;
        };
        let result = match answer {
            Answer::Data(Ok(data)) => self.absorb_contributions(tracker, &data),
            other => match other.status() {
                status if status.is_success() => Ok(()),
                status => Err(Error::new(status, "the host did not end the fence")),
            },
        };
        match result {
            Ok(()) => self.succeed(id),
            Err(error) => {
                tracing::warn!(%error, "a fence failed");
                self.fail(id, error.status());
            }
        }
    }

    /// The host ended a connect or a disconnect.
    pub(super) fn host_ended(&mut self, id: TrackerId, answer: &Answer) {
        let tracker = self.collectives.get(id);
        if tracker.is_none_or(|tracker| tracker.phase != Phase::Hosting) {
            return;
        }
        match answer.status() {
            status if status.is_success() => self.succeed(id),
            status => self.fail(id, status),
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
                Kind::Fence | Kind::Disconnect => self.reply_status(ticket, Status::SUCCESS),
                Kind::Connect => {
                    let packed = self.others_jobs(&ticket, &tracker);
                    self.reply_packed(ticket, packed);
                }
            }
        }
    }

    /// Ends a collective without success. Who comes later is told the same.
    pub(super) fn fail(&mut self, id: TrackerId, status: Status) {
        let Some(tracker) = self.collectives.get_mut(id) else {
            return;
        };
        let was_gathering = tracker.phase == Phase::Gathering;
        tracker.phase = Phase::Failed(status);
        let tickets = tracker.take_tickets();
        let procs = tracker.key.1.to_procs();
        let missing: Vec<_> = tracker.missing.iter().copied().collect();
        let kind = tracker.key.0;
        let until = tracker.until.take();
        if let Some(until) = until {
            self.alarms.cancel(until, Alarm::Collective(id));
        }
        if was_gathering && kind == Kind::Fence {
            self.tell_servers(id, status);
        }
        let missing = missing
            .into_iter()
            .filter_map(|id| self.registry.client(id));
        let missing: Vec<_> = missing.map(|client| client.proc.clone()).collect();
        self.report(kind, procs, missing, status);
        self.collectives.keep_failed(id);
        for ticket in tickets {
            self.reply_status(ticket, status);
        }
    }

    /// Tells the servers of other nodes that a fence failed here, in place of data. The
    /// participants here are told already.
    fn tell_servers(&mut self, id: TrackerId, status: Status) {
        let Some(tracker) = self.collectives.get(id) else {
            return;
        };
        let members = &tracker.key.1;
        let form = self.config.modex_form();
        let data = failure(&form, status).map(|data| Fence {
            procs: members.to_procs(),
            infos: tracker.infos.clone(),
            data,
        });
        let call = match data {
            _ if self.is_local(members) => None,
            Ok(call) => Some(call),
            Err(error) => {
                tracing::error!(%error, "a failure cannot be packed");
                None
            }
        };
        self.take_turn(id, call);
    }

    /// Says who is missing.
    fn report(
        &mut self,
        kind: Kind,
        procs: Vec<Proc<'static>>,
        missing: Vec<Proc<'static>>,
        status: Status,
    ) {
        let named = missing.iter().take(MAX_NAMED);
        let named: Vec<_> = named
            .map(|proc| format!("{}:{}", proc.nspace, proc.rank))
            .collect();
        let num_missing = missing.len();
        tracing::warn!(?kind, %status, num_missing, missing = named.join(" "), "a collective failed");
        self.outcomes.push_back(EngineEvent::FenceMissing {
            procs,
            missing,
            status,
        });
    }

    fn cancel_deadline(&mut self, id: TrackerId, tracker: &Tracker) {
        if let Some(until) = tracker.until {
            self.alarms.cancel(until, Alarm::Collective(id));
        }
    }

    /// The reply to a connect: the jobs of the others, as far as this server knows them.
    fn others_jobs(&mut self, ticket: &Ticket, tracker: &Tracker) -> Result<Vec<u8>, Error> {
        let member = self.member(ticket)?;
        let form = member.form;
        let is_other = |nspace: &&Nspace<'_>| **nspace != member.proc.nspace;
        let jobs = tracker.key.1.jobs().map(|(nspace, _)| nspace);
        let (mut objects, mut told) = (Vec::new(), Vec::new());
        for nspace in jobs.filter(is_other) {
            if let Some(job) = self.store.job(nspace) {
                let reply = job.reply(&self.wire(&form), form.release, Remote::Whole)?;
                objects.extend(enclosed(&form, reply.to_vec())?);
                told.push(nspace);
            }
        }
        for nspace in told {
            self.peers.knows_job(ticket.peer(), nspace);
        }
        let status = Status::SUCCESS;
        let objects = &objects;
        Ok(reply::Objects { status, objects }.encode(&form, None)?)
    }
}
