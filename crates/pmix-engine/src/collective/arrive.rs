// SPDX-License-Identifier: MIT OR Apache-2.0
//! Participants that come.

use std::time::Duration;

use gds_hash::Request;
use pmix_proto::request;
use pmix_types::{Info, IntoOwned, Nspace, Proc, Rank, Status, keys};

use super::members::{Members, Ranks};
use super::table::TrackerId;
use super::tracker::{Kind, Phase, Tracker};
use crate::alarm::Alarm;
use crate::exchange::timeout;
use crate::host::{Connect, Disconnect, Fence};
use crate::peers::Ticket;
use crate::registry::{ClientId, Life};
use crate::{Engine, Error};

impl Engine {
    /// FENCENB.
    pub(crate) fn fence(&mut self, ticket: Ticket, request: &request::Fence<'_>) {
        self.take_part(ticket, Kind::Fence, &request.procs, &request.infos);
    }

    /// CONNECT.
    pub(crate) fn connect(&mut self, ticket: Ticket, request: &request::Connect<'_>) {
        self.take_part(ticket, Kind::Connect, &request.procs, &request.infos);
    }

    /// DISCONNECT.
    pub(crate) fn disconnect(&mut self, ticket: Ticket, request: &request::Disconnect<'_>) {
        self.take_part(ticket, Kind::Disconnect, &request.procs, &request.infos);
    }

    fn take_part(&mut self, ticket: Ticket, kind: Kind, procs: &[Proc<'_>], infos: &[Info<'_>]) {
        let participant = self.participant(&ticket, procs);
        let tracker = participant.and_then(|(client, members)| {
            let id = self.tracker_of(client, (kind, members))?;
            Ok((client, id))
        });
        match tracker {
            Ok((client, id)) => self.arrived(id, client, ticket, infos),
            Err(error) => self.reply_error(ticket, &error),
        }
    }

    /// Which client calls, and who takes part.
    fn participant(
        &self,
        ticket: &Ticket,
        procs: &[Proc<'_>],
    ) -> Result<(ClientId, Members), Error> {
        let member = self.member(ticket)?;
        let Some(client) = member.client else {
            return Err(Error::denied("a tool takes part in nothing"));
        };
        let size = |nspace: &Nspace<'_>| self.job_size(nspace);
        let members = Members::of(procs, &member.proc.nspace, size)?;
        if !members.has(&member.proc) {
            return Err(Error::bad("the caller is not among the participants"));
        }
        for (nspace, _) in members.jobs() {
            self.check_reads(member, nspace)?;
        }
        Ok((client, members))
    }

    /// The tracker that a call of a client belongs to; a new one if it is the first to come.
    fn tracker_of(&mut self, client: ClientId, key: (Kind, Members)) -> Result<TrackerId, Error> {
        if let Some(id) = self.collectives.find(&key, client) {
            return Ok(id);
        }
        let job = self.registry.client(client);
        let job = job.map(|client| client.proc.nspace.clone());
        let job = job.unwrap_or_default();
        if !self.collectives.has_room(&job) {
            let message = "the job has too many fences that do not end";
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let mut tracker = Tracker::new(key, job);
        self.define(&mut tracker);
        // The caller is registered, whatever else is not.
        tracker.expect(client);
        Ok(self.collectives.add(tracker))
    }

    /// Adds the local participants that are registered by now, and looks whether one of them is
    /// gone already. Who goes later ends the collective then.
    fn define(&self, tracker: &mut Tracker) {
        let mut is_defined = true;
        let members = tracker.key.1.clone();
        for (nspace, ranks) in members.jobs() {
            // A job that nobody registered has no process here.
            let Some(job) = self.registry.job(nspace) else {
                continue;
            };
            is_defined &= job.is_complete();
            match ranks {
                Ranks::All => job.clients.values().for_each(|id| tracker.expect(*id)),
                Ranks::Some(ranks) => {
                    let local = ranks.iter().filter_map(|rank| job.clients.get(rank));
                    local.for_each(|id| tracker.expect(*id));
                }
            }
        }
        tracker.is_defined = is_defined;
        tracker.is_doomed = self.has_lost(tracker);
    }

    fn arrived(&mut self, id: TrackerId, client: ClientId, ticket: Ticket, infos: &[Info<'_>]) {
        let until = timeout(infos).or(self.config.collective_time);
        let until = until.and_then(|time| self.after(time));
        self.collectives.join(id, client);
        let Some(tracker) = self.collectives.get_mut(id) else {
            return self.reply_status(ticket, Status::ERR_NOT_FOUND);
        };
        tracker.arrive(client, ticket, infos.to_vec().into_owned());
        if let Phase::Failed(status) = tracker.phase {
            let tickets = tracker.take_tickets();
            self.collectives.tidy(id);
            return tickets
                .into_iter()
                .for_each(|ticket| self.reply_status(ticket, status));
        }
        if let Some(until) = until
            && tracker.until.is_none_or(|known| until < known)
        {
            let known = tracker.until.replace(until);
            if let Some(known) = known {
                self.alarms.cancel(known, Alarm::Collective(id));
            }
            self.alarms.set(until, Alarm::Collective(id));
        }
        self.go_on(id);
    }

    /// Ends the gathering if nobody is missing any longer, or if somebody will never come.
    pub(super) fn go_on(&mut self, id: TrackerId) {
        let Some(tracker) = self.collectives.get(id) else {
            return;
        };
        if tracker.phase != Phase::Gathering {
            return;
        }
        if tracker.is_doomed {
            self.fail(id, Status::ERR_LOST_CONNECTION);
        } else if tracker.is_complete() {
            self.call_host(id);
        }
    }

    /// Whether a participant is gone and not expected to come back.
    fn has_lost(&self, tracker: &Tracker) -> bool {
        let client = |id: &ClientId| self.registry.client(*id);
        let mut missing = tracker.missing.iter();
        let gone = |(nspace, ranks): (&Nspace<'_>, &Ranks)| {
            let job = self.registry.job(nspace);
            job.is_some_and(|job| job.gone.iter().any(|rank| ranks.has(*rank)))
        };
        missing.any(|id| client(id).is_none_or(|client| client.life == Life::Lost))
            || tracker.key.1.jobs().any(gone)
    }

    /// All local participants are there: the host goes on, unless there is nobody else.
    fn call_host(&mut self, id: TrackerId) {
        let Some(tracker) = self.collectives.get(id) else {
            return;
        };
        let kind = tracker.key.0;
        let procs = tracker.key.1.to_procs();
        if kind == Kind::Fence {
            return self.call_host_to_fence(id, procs);
        }
        let infos = self.limit_host(id);
        if let Some(tracker) = self.collectives.get_mut(id) {
            tracker.phase = Phase::Hosting;
        }
        let then = move |engine: &mut Self, answer| engine.host_ended(id, &answer);
        match kind {
            Kind::Disconnect => self.ask_for_all(Disconnect { procs, infos }, then),
            _ => self.ask_for_all(Connect { procs, infos }, then),
        };
    }

    fn call_host_to_fence(&mut self, id: TrackerId, procs: Vec<Proc<'static>>) {
        let Some(tracker) = self.collectives.get(id) else {
            return;
        };
        if self.is_local(&tracker.key.1) {
            self.take_turn(id, None);
            return self.succeed(id);
        }
        match self.contribution(tracker) {
            Ok(data) => {
                let infos = self.limit_host(id);
                if let Some(tracker) = self.collectives.get_mut(id) {
                    tracker.phase = Phase::Hosting;
                }
                self.take_turn(id, Some(Fence { procs, infos, data }));
            }
            Err(error) => {
                tracing::error!(%error, "nothing can be contributed to a fence");
                self.fail(id, error.status());
            }
        }
    }

    /// What the host is told about a collective: what the participants said, and how many seconds
    /// are left. The host is to end it for all servers alike, so that this one waits a little
    /// longer than it says.
    fn limit_host(&mut self, id: TrackerId) -> Vec<Info<'static>> {
        let Some(tracker) = self.collectives.get_mut(id) else {
            return Vec::new();
        };
        let mut infos = tracker.infos.clone();
        let (Some(until), Some(now)) = (tracker.until, self.now) else {
            return infos;
        };
        let left = until.saturating_duration_since(now);
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let seconds = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
        infos.retain(|info| !info.key.is(keys::TIMEOUT));
        infos.push(Info::new(keys::TIMEOUT, seconds));
        let patience = Duration::from_secs(seconds.into()).saturating_add(self.config.host_grace);
        self.alarms.cancel(until, Alarm::Collective(id));
        tracker.until = now.checked_add(patience);
        if let Some(until) = tracker.until {
            self.alarms.set(until, Alarm::Collective(id));
        }
        infos
    }

    /// Whether all participants are local.
    pub(super) fn is_local(&self, members: &Members) -> bool {
        members.jobs().all(|(nspace, ranks)| {
            let Some(job) = self.registry.job(nspace) else {
                return false;
            };
            match ranks {
                Ranks::Some(ranks) => ranks.iter().all(|rank| job.clients.contains_key(rank)),
                // A job whose size nobody stated is as large as its local part.
                Ranks::All => {
                    let size = self.job_size(nspace);
                    size.is_none_or(|size| u32::try_from(job.clients.len()) == Ok(size))
                }
            }
        })
    }

    /// How many processes a job has, if anyone said.
    pub(super) fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        let job = self.store.job(nspace)?;
        let size = Request::new(Rank::WILDCARD, keys::JOB_SIZE);
        let size = job.job().get(&size).ok()?;
        size.to_number().ok()
    }

    /// A job or its processes are registered by now, or not any longer: who was waiting for that
    /// goes on.
    pub(crate) fn collectives_of_job(&mut self, nspace: &Nspace<'static>) {
        let undefined = self.collectives.which(|tracker| {
            let mut jobs = tracker.key.1.jobs();
            !tracker.is_defined && jobs.any(|(known, _)| known == nspace)
        });
        for id in undefined {
            if let Some(mut tracker) = self.collectives.lift(id) {
                self.define(&mut tracker);
                let has_failed = matches!(tracker.phase, Phase::Failed(_));
                self.collectives.put_back(id, tracker);
                match has_failed {
                    true => self.collectives.tidy(id),
                    false => self.go_on(id),
                }
            }
        }
    }
}
