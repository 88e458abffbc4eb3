// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: registrations, notifications, and their recipients.
//!
//! The registry and the cache are pure state machines; `serve` connects them to requests and to the host. Each peer
//! receives the events of one source in the order in which the server received them: events are sent when they arrive,
//! and cached ones are replayed before the next one is processed.
//!
//! Source: PMIx Standard, chapter "Event notification"; OpenPMIx 4.2 and 5.0 for recipients that the Standard does not
//! specify.

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

/// The limit of registrations removed by one request.
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

    /// Returns the codes to request from the host before a peer registers for them. They count as requested from now
    /// on.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` for more codes than a peer may register for.
    pub(crate) fn ask_for(&mut self, codes: &[Status]) -> Result<Vec<Status>, Error> {
        let (given, most) = (codes.len(), self.limits.codes_per_peer);
        if given > most {
            let message = format!("{given} codes in one request: a peer may have {most}");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(self.registry.newly_hosted(codes))
    }

    /// Records that the host refused codes, so that the next registration requests them again.
    pub(crate) fn host_declined(&mut self, codes: &[Status]) {
        self.registry.not_hosted(codes);
    }

    /// Registers a peer for codes, or for all events if there are none.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if the affected processes have a wrong type, and `PMIX_ERR_OUT_OF_RESOURCE` beyond
    /// the limits; nothing changes then.
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

    /// Removes one registration for each code. A list longer than the registrations of any peer is truncated.
    pub(crate) fn deregister(&mut self, peer: PeerId, codes: &[Status]) {
        let codes = codes.get(..MOST_TAKEN_BACK).unwrap_or(codes);
        self.registry.deregister(peer, codes);
    }

    /// Removes and returns the codes that the host need not report because no peer is registered for them.
    pub(crate) fn no_longer_wanted(&mut self) -> Vec<Status> {
        self.registry.no_longer_hosted()
    }

    /// Processes an event: returns the peers to notify now, and caches the event for later registrations.
    pub(crate) fn take(
        &mut self,
        notification: &Arc<Notification>,
        sessions: Sessions<'_>,
        now: Instant,
    ) -> Vec<PeerId> {
        let interested = self.registry.interested(notification).into_iter();
        let recipients: Vec<_> = interested
            .filter(|(peer, listener)| notification.is_for(*peer, listener, sessions))
            .map(|(peer, _)| peer)
            .collect();
        self.cache.add(notification, &recipients, now);
        recipients
    }

    /// Returns the cached events that a peer is registered for and has not received, oldest first.
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
        // No timer removes old events, so they are removed before they could be delivered.
        cache.expire(now);
        cache.replay(peer, &listener.proc, |notification| {
            registry.is_interested(peer, notification)
                && notification.is_for(peer, listener, sessions)
        })
    }

    /// Records that a debugger released processes that had stopped outside of PMIx; cached release events are not for
    /// them.
    pub(crate) fn released(&mut self, procs: &[Proc<'_>]) {
        self.cache.released(procs);
    }

    /// Removes the registrations of a peer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.registry.forget(peer);
        self.cache.forget(peer);
    }

    /// Removes the cached events of a job's processes.
    pub(crate) fn forget_nspace(&mut self, nspace: &Nspace<'_>) {
        self.cache.forget_nspace(nspace);
    }

    /// Adds the registrations and cached events to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        let [peers, codes, kept, had] = self.len();
        stats.num_listeners = peers + codes + had;
        stats.num_hosted_codes = self.registry.num_hosted();
        stats.num_cached_events = kept;
        stats.cached_event_bytes = self.cache.bytes();
    }

    /// Compares the counters with the contents.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        self.registry.recount(recount);
        self.cache.recount(recount);
    }

    /// Returns the numbers of peers, codes, cached events, and peers with a record of received events.
    fn len(&self) -> [usize; 4] {
        let (peers, codes) = self.registry.len();
        let (kept, had) = self.cache.len();
        [peers, codes, kept, had]
    }
}
