// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that all subsystems of an engine share, and its outputs: replies, messages, upcalls.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bfrops::RegexFramer;
use gds_hash::{Codec, Registered, Request, Store};
use pmix_proto::{Frame, PeerForm, Tag, reply};
use pmix_types::{Info, Nspace, Proc, Rank, Status, keys};

use crate::collective::{GroupOutcome, MembershipChange};
use crate::error::Error;
use crate::event::EngineEvent;
use crate::host::{CallId, HostObject, Upcall};
use crate::ids::ClientId;
use crate::obeyed;
use crate::peers::{Member, Payload, PeerId, Peers, Ticket};
use crate::pending::{HostCalls, Pending};
use crate::recount::Recount;
use crate::registry::{ProcessSets, Registry};
use crate::resources::Resources;
use crate::shared::SharedData;
use crate::timer::{Timer, Timers};
use crate::{Config, Stats};

/// The state that all subsystems share. The state of a single subsystem is private to it.
pub(crate) struct Cx {
    pub(crate) config: Config,
    pub(crate) store: Arc<Store>,
    /// The time of the last input; `None` before the first.
    pub(crate) now: Option<Instant>,
    pub(crate) timers: Timers,
    pub(crate) peers: Peers,
    pub(crate) registry: Registry,
    pub(crate) process_sets: ProcessSets,
    /// Values registered for all jobs, and inventories of nodes.
    pub(crate) resources: Resources,
    /// The data that clients read from shared memory.
    pub(crate) shared: SharedData,
    /// Upcalls, with the use of each reply.
    pub(crate) host: HostCalls,
    /// Events that the driver has not taken yet.
    pub(crate) driver_events: VecDeque<EngineEvent>,
    /// The outcomes of group collectives, which the groups process when the current subsystem returns.
    pub(crate) group_outcomes: VecDeque<GroupOutcome>,
    /// The changes of group membership, for the collectives.
    pub(crate) membership_changes: VecDeque<MembershipChange>,
    /// The connections to close when the current subsystem returns, with the reasons.
    refused: VecDeque<(PeerId, Error)>,
    intake: IntakeTurns,
}

/// The turns of partial long messages.
#[derive(Debug, Default)]
struct IntakeTurns {
    /// The next progress check, if messages wait for room.
    due: Option<Instant>,
    /// `true` if the last turn ended too late to count.
    has_skipped: bool,
}

impl Cx {
    pub(crate) fn new(config: Config, store: Arc<Store>) -> Self {
        Self {
            peers: Peers::new(config.reply_window, config.input_bytes),
            config,
            store,
            now: None,
            timers: Timers::default(),
            registry: Registry::default(),
            process_sets: ProcessSets::default(),
            resources: Resources::default(),
            shared: SharedData::default(),
            host: HostCalls::default(),
            driver_events: VecDeque::new(),
            group_outcomes: VecDeque::new(),
            membership_changes: VecDeque::new(),
            refused: VecDeque::new(),
            intake: IntakeTurns::default(),
        }
    }

    /// Returns the time `time` after now, or `None` before the first input.
    pub(crate) fn after(&self, time: Duration) -> Option<Instant> {
        self.now.and_then(|now| now.checked_add(time))
    }

    /// Replies to a request. The reply is dropped if its peer has disconnected.
    pub(crate) fn reply(&mut self, ticket: Ticket, payload: impl Into<Payload>) {
        let (peer, tag) = (ticket.peer(), ticket.tag());
        self.peers.settle(ticket);
        self.send(peer, tag, payload);
    }

    /// Replies to a request with a status only.
    pub(crate) fn reply_status(&mut self, ticket: Ticket, status: Status) {
        let Some(form) = self.form(ticket.peer()) else {
            return self.peers.settle(ticket);
        };
        match reply::status(&form, status) {
            Ok(payload) => self.reply(ticket, payload),
            Err(error) => {
                tracing::error!(%error, "cannot pack a status");
                let peer = ticket.peer();
                self.peers.settle(ticket);
                // A client without a reply would wait forever. It stops waiting when its connection is closed.
                self.refuse(peer, error.into());
            }
        }
    }

    /// Replies to a request with the status of an error.
    pub(crate) fn reply_error(&mut self, ticket: Ticket, error: &Error) {
        tracing::debug!(peer = %ticket.peer(), tag = %ticket.tag(), %error, "request failed");
        self.reply_status(ticket, error.status());
    }

    /// Replies to a request with a packed payload, or with the error of packing it.
    pub(crate) fn reply_packed(
        &mut self,
        ticket: Ticket,
        packed: Result<impl Into<Payload>, impl Into<Error>>,
    ) {
        match packed {
            Ok(payload) => self.reply(ticket, payload),
            Err(error) => self.reply_error(ticket, &error.into()),
        }
    }

    /// Replies to a request with infos, which a partial success includes, too.
    pub(crate) fn reply_infos(&mut self, ticket: Ticket, status: Status, infos: Vec<Info<'_>>) {
        let Some(form) = self.form(ticket.peer()) else {
            return self.reply_status(ticket, status);
        };
        let has_infos = status.is_success() || status == Status::ERR_PARTIAL_SUCCESS;
        let reply = reply::Infos {
            status,
            infos: has_infos.then_some(infos),
        };
        let packed = reply.encode(&form, Some(self.framer()));
        self.reply_packed(ticket, packed);
    }

    /// Sends a message to a peer. Disconnects a peer that has too many unread bytes.
    pub(crate) fn send(&mut self, peer: PeerId, tag: Tag, payload: impl Into<Payload>) {
        let waiting = self.peers.send(peer, tag, payload.into());
        self.check_queue(peer, waiting);
    }

    /// Queues complete frames, which peers may share, for a peer. Otherwise like [`send`](Self::send).
    pub(crate) fn send_frames(&mut self, peer: PeerId, frames: Arc<Vec<u8>>) {
        let waiting = self.peers.send_frames(peer, frames);
        self.check_queue(peer, waiting);
    }

    /// Refuses a peer that does not read what is queued for it.
    fn check_queue(&mut self, peer: PeerId, waiting: usize) {
        // Replies respect the window, so only events, output and removed keys reach this limit.
        if waiting > self.config.queued_bytes_per_peer {
            let message = format!("it did not read {waiting} queued bytes");
            self.refuse(peer, Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
    }

    /// Schedules the disconnection of a peer because of its messages, for when the current subsystem returns. No more
    /// bytes are sent to it.
    pub(crate) fn refuse(&mut self, peer: PeerId, reason: Error) {
        // Only the first reason is reported.
        if self.peers.mute(peer) {
            self.refused.push_back((peer, reason));
        }
    }

    /// Returns the next connection to close, and reports the reason to the driver.
    pub(crate) fn poll_refused(&mut self) -> Option<PeerId> {
        let peers = &self.peers;
        let is_gone = |(peer, _): &(PeerId, Error)| peers.get(*peer).is_none();
        // A refused peer may have disconnected in the meantime.
        while self.refused.front().is_some_and(is_gone) {
            self.refused.pop_front();
        }
        let (peer, reason) = self.refused.pop_front()?;
        tracing::debug!(%peer, %reason, "peer rejected");
        let refused = EngineEvent::Refused { peer, reason };
        self.driver_events.push_back(refused);
        Some(peer)
    }

    /// Starts a turn of long messages if a message waits for room.
    pub(crate) fn watch_input(&mut self) {
        // Turns exist only while messages wait, so an idle server has no timer.
        if self.intake.due.is_none() && self.peers.any_input_waits() {
            self.intake.due = self.after(self.config.input_turn);
            if let Some(at) = self.intake.due {
                self.timers.set(at, Timer::Intake);
                self.peers.begin_input_turn();
            }
        }
    }

    /// Ends the turns of long messages if no message waits for room.
    pub(crate) fn unwatch_input(&mut self) {
        if !self.peers.any_input_waits()
            && let Some(at) = self.intake.due.take()
        {
            self.timers.cancel(at, Timer::Intake);
        }
    }

    /// Ends a turn of long messages: messages that made little progress while others wait release their room. A turn
    /// that ends late by its own length is repeated, because the driver read no input in the meantime. It is not
    /// repeated twice, so that a server that is always late has turns, too.
    pub(crate) fn end_input_turn(&mut self) {
        let due = self.intake.due.take().zip(self.now);
        let late = due.map(|(due, now)| now.saturating_duration_since(due));
        let is_late = late.is_some_and(|late| late >= self.config.input_turn);
        self.intake.has_skipped = is_late && !self.intake.has_skipped;
        if self.peers.any_input_waits() && !self.intake.has_skipped {
            let (time, turn) = (self.config.input_time, self.config.input_turn);
            // Progress is measured once a turn, so the patience is counted in turns.
            let patience = time.as_nanos() / turn.as_nanos().max(1);
            let patience = u64::try_from(patience).unwrap_or(u64::MAX).max(1);
            for peer in self.peers.end_input_turn(patience) {
                let seconds = time.as_secs();
                let message = format!(
                    "a partial message made no progress for {seconds} s while other peers were waiting"
                );
                self.refuse(peer, Error::new(Status::ERR_OUT_OF_RESOURCE, message));
            }
        }
        self.watch_input();
    }

    /// Returns the next message of a peer. Disconnects a peer whose bytes are not a valid message.
    pub(crate) fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        match self.peers.next_frame(peer) {
            Ok(frame) => frame,
            Err(error) => {
                // After a damaged header, the beginning of the next message is unknown.
                self.refuse(peer, error.into());
                None
            }
        }
    }

    /// Adds the contents to a recount.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        for (id, peer) in self.peers.iter() {
            if let Some(until) = peer.phase.deadline() {
                recount.deadline(Some(until), Timer::Handshake(id));
            }
        }
        recount.deadline(self.intake.due, Timer::Intake);
        self.registry.recount(recount);
        self.host.recount(recount);
    }

    /// Compares the counters of connections and timers with the recount of all subsystems.
    pub(crate) fn compare(&self, recount: &mut Recount) {
        let mut all_bytes = 0;
        for (id, peer) in self.peers.iter() {
            let (num_open, open_bytes) = recount.requests.get(&id).copied().unwrap_or_default();
            recount.compare("requests of a peer", peer.num_open, num_open);
            recount.compare("bytes of requests of a peer", peer.open_bytes, open_bytes);
            all_bytes += open_bytes;
        }
        recount.compare("bytes of all requests", self.peers.open_bytes(), all_bytes);
        let (marked, queued) = self.peers.num_ready();
        recount.compare("peers in the schedule", marked, queued);
        let (counted, found) = self.peers.input_bytes();
        recount.compare("bytes of long messages", counted, found);
        let (num_stale, num_missing) = self.timers.compare(&recount.deadlines);
        recount.compare("unreferenced timers", num_stale, 0);
        recount.compare("deadlines without a timer", num_missing, 0);
    }

    /// Adds connections, timers, upcalls and undelivered outputs to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        self.registry.count(stats);
        (stats.num_requests, stats.queued_bytes) = self.peers.waiting();
        stats.request_bytes = self.peers.open_bytes();
        stats.num_peers = self.peers.len();
        stats.num_timers = self.timers.len();
        stats.num_host_calls = self.host.len();
        stats.num_undelivered = self.peers.num_queued()
            + self.host.num_queued()
            + self.driver_events.len()
            + self.group_outcomes.len()
            + self.membership_changes.len();
        self.shared.count(stats);
    }

    /// Calls the host. `pending` describes the use of the reply; if it belongs to a request of a peer, it is dropped
    /// when the peer disconnects.
    pub(crate) fn call_host(&mut self, upcall: impl Into<Upcall>, pending: Pending) {
        let mut upcall = upcall.into();
        // A required directive that this server has processed must not make the host fail (`PMIX_INFO_REQD_PROCESSED`).
        obeyed::mark(&mut upcall);
        let until = pending.deadline();
        let id = self.host.push(upcall, pending);
        if let Some(until) = until {
            self.timers.set(until, Timer::Query(id));
        }
    }

    /// Removes and returns the use of an upcall's reply, when the reply arrives or times out.
    pub(crate) fn take_call(&mut self, id: CallId) -> Option<Pending> {
        let pending = self.host.take(id)?;
        if let Some(until) = pending.deadline() {
            self.timers.cancel(until, Timer::Query(id));
        }
        Some(pending)
    }

    /// Returns the wire form of an admitted peer.
    pub(crate) fn form(&self, peer: PeerId) -> Option<PeerForm> {
        self.peers.member(peer).map(|member| member.form)
    }

    /// Returns the process that made a request.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_LOST_CONNECTION` if the peer has disconnected; the reply is dropped then.
    pub(crate) fn member(&self, ticket: &Ticket) -> Result<&Member, Error> {
        let member = self.peers.member(ticket.peer());
        member.ok_or_else(|| Error::new(Status::ERR_LOST_CONNECTION, "the peer has disconnected"))
    }

    /// Returns the codec of the datastore for a peer.
    pub(crate) fn codec(&self, form: &PeerForm) -> Codec<'_> {
        Codec::new(form.layout).with_framer(self.framer())
    }

    /// Returns the framer that determines the length of encoded maps, which carry no length on the wire.
    pub(crate) fn framer(&self) -> &dyn RegexFramer {
        self.store.maps()
    }

    /// Checks that a peer may read a job: its own job, a job of its user, or a job of an unknown user.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NO_PERMISSIONS` for a job of another user.
    pub(crate) fn check_reads(&self, member: &Member, nspace: &Nspace<'_>) -> Result<(), Error> {
        self.check_reads_of(member, nspace, self.store.job(nspace).as_deref())
    }

    /// Works as [`check_reads`](Self::check_reads) for a job of the datastore.
    fn check_reads_of(
        &self,
        member: &Member,
        nspace: &Nspace<'_>,
        known: Option<&Registered>,
    ) -> Result<(), Error> {
        let reader = member.user.0;
        if member.proc.nspace == *nspace || self.reads_all(member) {
            return Ok(());
        }
        match self.owner_of(nspace, known) {
            Some(owner) if owner != reader => Err(Error::denied(format!(
                "user {reader} is not permitted to read job {nspace} of user {owner}"
            ))),
            // Without a known owner there is no other user to protect: some hosts register none.
            _ => Ok(()),
        }
    }

    /// Returns the only user whose processes a member may send events to. Returns `None` for tools of root and of the
    /// server's user, which may send to all.
    ///
    /// DEVIATION: with OpenPMIx the events of a process reach the processes of every user of the server;
    /// `an_event_of_a_user_does_not_reach_another`.
    pub(crate) fn only_user(&self, member: &Member) -> Option<u32> {
        let uid = member.user.0;
        (member.client.is_some() || !self.is_trusted(uid)).then_some(uid)
    }

    /// Returns `true` if a member may read every job, as tools of root and of the server's user may.
    pub(crate) fn reads_all(&self, member: &Member) -> bool {
        member.client.is_none() && self.is_trusted(member.user.0)
    }

    /// Returns the known owners of jobs, sorted and without duplicates.
    pub(crate) fn owners<'n>(
        &self,
        nspaces: impl IntoIterator<Item = &'n Nspace<'static>>,
    ) -> Vec<u32> {
        let owner = |nspace| self.owner_of(nspace, self.store.job(nspace).as_deref());
        let mut owners: Vec<_> = nspaces.into_iter().filter_map(owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Returns `true` for root and the user of the server.
    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || self.config.user.is_some_and(|(own, _)| own == uid)
    }

    /// Returns the owner of a job, if it is known.
    fn owner_of(&self, nspace: &Nspace<'_>, known: Option<&Registered>) -> Option<u32> {
        // The registration of local clients is authoritative; only other jobs need the value in the store.
        if let Some(owner) = self.registry.job(nspace).and_then(|job| job.owner) {
            return Some(owner);
        }
        // Requests can name many unknown jobs, and creating an error for each is expensive.
        known?;
        let request = Request::new(Rank::WILDCARD, keys::USERID);
        let stated = self.store.get(nspace, &request).ok()?;
        stated.to_number().ok()
    }

    /// Returns the number of processes of a job, if it is known.
    pub(crate) fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        self.store.job(nspace).and_then(|known| size_of(&known))
    }

    /// Returns the number of processes of a job, if it is known, to a member that may read the job.
    ///
    /// # Errors
    ///
    /// Returns the error of [`check_reads`](Self::check_reads).
    pub(crate) fn readable_size(
        &self,
        member: &Member,
        nspace: &Nspace<'_>,
    ) -> Result<Option<u32>, Error> {
        let known = self.store.job(nspace);
        self.check_reads_of(member, nspace, known.as_deref())?;
        Ok(known.and_then(|known| size_of(&known)))
    }

    /// Returns the object that the host registered with a client.
    pub(crate) fn host_object(&self, client: Option<ClientId>) -> HostObject {
        let client = client.and_then(|id| self.registry.client(id));
        client.map(|client| client.object).unwrap_or_default()
    }

    /// Removes the data that a process put from the datastore.
    pub(crate) fn forget_puts(&mut self, proc: &Proc<'_>) {
        // A client that finds the shared entry sends no request, so the entry must go first.
        self.shared.puts_changed(proc);
        let forgotten = self.store.update_modex(&proc.nspace, |puts| {
            puts.forget(proc.rank);
            Ok(())
        });
        if let Err(error) = forgotten {
            tracing::debug!(%error, "cannot remove the data of a process");
        }
    }
}

/// Returns the number of processes of a job, if it is known.
fn size_of(job: &Registered) -> Option<u32> {
    let size = Request::new(Rank::WILDCARD, keys::JOB_SIZE);
    job.job().get(&size).ok()?.to_number().ok()
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("server", &self.config.server)
            .field("peers", &self.peers.len())
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
