// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: registrations, notifications, and which peers get them.
//!
//! The registry and the cache are pure state machines; `serve` ties them to requests and to the host.
//! Events of one source reach each peer in the order in which the server received them, since they
//! are sent as they are taken in and kept ones are replayed before the next is taken in.
//!
//! Source: PMIx Standard, chapter "Event notification"; OpenPMIx 4.2 and 5.0 for what reaches whom
//! where the Standard leaves it open.

mod cache;
mod directives;
#[cfg(test)]
mod model;
mod notification;
mod process_sets;
mod registry;
mod serve;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use pmix_types::{Info, Nspace, Proc, Status};

use self::cache::Cache;
use self::directives::RELAYED;
pub use self::notification::EventSource;
use self::notification::Sessions;
pub(crate) use self::notification::{Listener, Notification, Reporter};
use self::registry::Registry;
pub(crate) use self::registry::is_environmental;
use crate::config::EventLimits;
use crate::recount::Recount;
use crate::{Error, PeerId, Stats};

/// The most registrations that one request takes back.
const MOST_TAKEN_BACK: usize = 1 << 16;

/// The events of a server.
#[derive(Debug)]
pub(crate) struct Events {
    limits: EventLimits,
    registry: Registry,
    cache: Cache,
}

impl Events {
    pub(crate) fn new(limits: EventLimits) -> Self {
        Self {
            limits,
            registry: Registry::default(),
            cache: Cache::new(limits),
        }
    }

    /// The codes that the host is to be asked for before a peer is registered for them; they count
    /// as asked for from now on.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` for a list that is longer than a peer may have codes.
    pub(crate) fn ask_for(&mut self, codes: &[Status]) -> Result<Vec<Status>, Error> {
        let (given, most) = (codes.len(), self.limits.codes_per_peer);
        if given > most {
            let message = format!("{given} codes in one request: a peer may have {most}");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(self.registry.newly_hosted(codes))
    }

    /// The host does not tell of codes that it was asked for; it is asked again next time.
    pub(crate) fn host_declined(&mut self, codes: &[Status]) {
        self.registry.not_hosted(codes);
    }

    /// Registers a peer for codes, or for all events if there are none.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the infos name processes in another type, `PMIX_ERR_OUT_OF_RESOURCE`
    /// beyond the limits; nothing has changed then.
    pub(crate) fn register(
        &mut self,
        peer: PeerId,
        listener: &Listener,
        codes: &[Status],
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        let affected = directives::affected(infos)?;
        let affected = affected.as_ref();
        self.registry
            .register(peer, listener, codes, affected, &self.limits)
    }

    /// Takes back one registration for each code. A list that is longer than what any peer can have
    /// registered is cut.
    pub(crate) fn deregister(&mut self, peer: PeerId, codes: &[Status]) {
        let codes = codes.get(..MOST_TAKEN_BACK).unwrap_or(codes);
        self.registry.deregister(peer, codes);
    }

    /// The codes that the host need not tell of any more, since nobody is registered for them.
    pub(crate) fn no_longer_wanted(&mut self) -> Vec<Status> {
        self.registry.no_longer_hosted()
    }

    /// Takes an event in: answers the peers that are to be told now, and keeps it for later.
    pub(crate) fn take(
        &mut self,
        notification: &Arc<Notification>,
        sessions: Sessions<'_>,
        now: Instant,
    ) -> Vec<PeerId> {
        let interested = self.registry.interested(notification).into_iter();
        let told: Vec<_> = interested
            .filter(|(peer, listener)| notification.is_for(*peer, listener, sessions))
            .map(|(peer, _)| peer)
            .collect();
        self.cache.keep(notification, &told, now);
        told
    }

    /// The kept events that a peer has become registered for and has not had, oldest first.
    pub(crate) fn replay(
        &mut self,
        peer: PeerId,
        sessions: Sessions<'_>,
        now: Instant,
    ) -> Vec<Arc<Notification>> {
        let Self {
            registry, cache, ..
        } = self;
        let Some(listener) = registry.listener(peer) else {
            return Vec::new();
        };
        cache.expire(now);
        cache.replay(peer, &listener.proc, |notification| {
            registry.is_interested(peer, notification)
                && notification.is_for(peer, listener, sessions)
        })
    }

    /// Processes were released by a debugger where they stopped without PMIx, so that what is kept of releases is
    /// not for them.
    pub(crate) fn released(&mut self, procs: &[Proc<'_>]) {
        self.cache.released(procs);
    }

    /// Forgets a peer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.registry.forget(peer);
        self.cache.forget(peer);
    }

    /// Forgets what the processes of a job raised.
    pub(crate) fn forget_nspace(&mut self, nspace: &Nspace<'_>) {
        self.cache.forget_nspace(nspace);
    }

    /// Adds what is held of events to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        let [peers, codes, kept, had] = self.len();
        stats.num_listeners = peers + codes + had;
        stats.num_hosted_codes = self.registry.num_hosted();
        stats.num_cached_events = kept;
        stats.cached_event_bytes = self.cache.bytes();
    }

    /// Compares what is counted with what is kept.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        self.registry.recount(recount);
        self.cache.recount(recount);
    }

    /// How many peers, codes, kept events and records of what peers have had there are.
    fn len(&self) -> [usize; 4] {
        let (peers, codes) = self.registry.len();
        let (kept, had) = self.cache.len();
        [peers, codes, kept, had]
    }
}
