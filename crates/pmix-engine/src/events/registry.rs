// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event registrations.

use std::collections::{BTreeMap, BTreeSet};

use pmix_proto::request::DeregisterEvents;
use pmix_types::Status;

use super::notification::{Listener, Notification};
use crate::config::EventLimits;
use crate::procs::Procs;
use crate::recount::Recount;
use crate::{Error, PeerId};

/// The code of the default handler for all events, as peers deregister it.
pub(crate) const DEFAULT: Status = DeregisterEvents::DEFAULT;

/// The registrations of peers for events.
///
/// Registrations are counted: a peer may register a code several times, and receives its events until it has removed
/// all of them.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    codes: BTreeMap<Status, BTreeMap<PeerId, Interest>>,
    peers: BTreeMap<PeerId, Peer>,
    /// The codes that the host was asked to report.
    hosted: BTreeSet<Status>,
    /// The codes among them without a registration.
    unwanted: BTreeSet<Status>,
}

#[derive(Debug)]
struct Peer {
    listener: Listener,
    codes: BTreeSet<Status>,
    num_procs: usize,
}

/// The registrations of a peer for a code.
#[derive(Debug, Default)]
struct Interest {
    /// The number of registrations.
    count: u32,
    /// The processes that an event must affect, if it names affected ones; `None` for all.
    affected: Option<Procs>,
}

impl Interest {
    fn wants(&self, notification: &Notification) -> bool {
        match (&self.affected, &notification.directives.affected) {
            (Some(wanted), Some(affected)) => wanted.meets(affected),
            _ => true,
        }
    }

    /// Adds a registration for the same code. A deregistration does not identify one of them, so the union applies
    /// until the last one is removed.
    fn widen(&mut self, affected: Option<&Procs>) {
        let is_first = self.count == 0;
        self.count = self.count.saturating_add(1);
        match (&mut self.affected, affected) {
            (own @ None, Some(first)) if is_first => *own = Some(first.clone()),
            (Some(own), Some(more)) => own.join(more),
            // One of the registrations covers all processes.
            (own, _) => *own = None,
        }
    }

    fn num_procs(&self) -> usize {
        self.affected.as_ref().map_or(0, Procs::len)
    }
}

impl Registry {
    /// Adds a registration of a peer for codes, or for all events if there are none.
    ///
    /// In case of an error, no code is registered.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the peer would exceed the limits.
    pub(crate) fn register(
        &mut self,
        peer: PeerId,
        listener: &Listener,
        codes: &[Status],
        affected: Option<&Procs>,
        limits: &EventLimits,
    ) -> Result<(), Error> {
        let codes = if codes.is_empty() { &[DEFAULT] } else { codes };
        let distinct: BTreeSet<_> = codes.iter().copied().collect();
        let more_procs = affected
            .map_or(0, Procs::len)
            .saturating_mul(distinct.len());
        self.check(peer, &distinct, more_procs, limits)?;
        let known = self.peers.entry(peer).or_insert_with(|| Peer {
            listener: listener.clone(),
            codes: BTreeSet::new(),
            num_procs: 0,
        });
        for code in distinct {
            known.codes.insert(code);
            self.unwanted.remove(&code);
            let interested = self.codes.entry(code).or_default();
            let interest = interested.entry(peer).or_default();
            // The union of two registrations may be smaller than their sum.
            known.num_procs -= interest.num_procs();
            interest.widen(affected);
            known.num_procs += interest.num_procs();
        }
        Ok(())
    }

    fn check(
        &self,
        peer: PeerId,
        more: &BTreeSet<Status>,
        more_procs: usize,
        limits: &EventLimits,
    ) -> Result<(), Error> {
        let known = self.peers.get(&peer);
        // Only new codes count, not the peer's existing ones.
        let is_new = |code: &&Status| known.is_none_or(|known| !known.codes.contains(code));
        let num_known = known.map_or(0, |known| known.codes.len());
        let num_codes = num_known + more.iter().filter(is_new).count();
        let num_procs = known
            .map_or(0, |known| known.num_procs)
            .saturating_add(more_procs);
        if num_codes <= limits.codes_per_peer && num_procs <= limits.procs_per_peer {
            return Ok(());
        }
        Err(Error::new(
            Status::ERR_OUT_OF_RESOURCE,
            format!(
                "the event registrations of a peer have {num_codes} codes and {num_procs} processes: the \
                limits are {} and {}",
                limits.codes_per_peer, limits.procs_per_peer
            ),
        ))
    }

    /// Removes one registration for each code. Codes without a registration are ignored.
    pub(crate) fn deregister(&mut self, peer: PeerId, codes: &[Status]) {
        for code in codes {
            let Some(interested) = self.codes.get_mut(code) else {
                continue;
            };
            let Some(interest) = interested.get_mut(&peer) else {
                continue;
            };
            interest.count -= 1;
            if interest.count == 0 {
                let num_procs = interest.num_procs();
                interested.remove(&peer);
                self.remove_interest(peer, *code, num_procs);
            }
        }
    }

    fn remove_interest(&mut self, peer: PeerId, code: Status, num_procs: usize) {
        if self.codes.get(&code).is_some_and(BTreeMap::is_empty) {
            self.drop_code(code);
        }
        if let Some(known) = self.peers.get_mut(&peer) {
            known.codes.remove(&code);
            known.num_procs = known.num_procs.saturating_sub(num_procs);
            if known.codes.is_empty() {
                self.peers.remove(&peer);
            }
        }
    }

    /// Removes the registrations of a peer.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let Some(known) = self.peers.remove(&peer) else {
            return;
        };
        for code in known.codes {
            if let Some(interested) = self.codes.get_mut(&code) {
                interested.remove(&peer);
                if interested.is_empty() {
                    self.drop_code(code);
                }
            }
        }
    }

    /// Removes a code without registrations.
    fn drop_code(&mut self, code: Status) {
        self.codes.remove(&code);
        if self.hosted.contains(&code) {
            self.unwanted.insert(code);
        }
    }

    /// Returns the peers that are registered for an event, each once, in the order in which they connected.
    pub(crate) fn interested(&self, notification: &Notification) -> Vec<(PeerId, &Listener)> {
        let named = self.codes.get(&notification.status);
        let default = self.codes.get(&DEFAULT);
        let default = default.filter(|_| !notification.directives.non_default);
        // A peer with a handler for the code and one for all events is notified once.
        let peers: BTreeSet<PeerId> = [named, default]
            .into_iter()
            .flatten()
            .flatten()
            .filter(|(_, interest)| interest.wants(notification))
            .map(|(peer, _)| *peer)
            .collect();
        let listener = |peer| Some((peer, &self.peers.get(&peer)?.listener));
        peers.into_iter().filter_map(listener).collect()
    }

    /// Returns `true` if a peer is registered for an event.
    pub(crate) fn is_interested(&self, peer: PeerId, notification: &Notification) -> bool {
        let wants = |code: Status| {
            let interest = self.codes.get(&code).and_then(|all| all.get(&peer));
            interest.is_some_and(|interest| interest.wants(notification))
        };
        wants(notification.status) || (!notification.directives.non_default && wants(DEFAULT))
    }

    /// Returns the codes that must be requested from the host and have not been: environmental ones, and those that no
    /// PMIx header defines (PMIx Standard, `pmix_server_register_events_fn_t`). They count as requested from now on.
    pub(crate) fn newly_hosted(&mut self, codes: &[Status]) -> Vec<Status> {
        let foreign = codes.iter().filter(|code| is_of_host(**code));
        let new: Vec<_> = foreign
            .copied()
            .filter(|code| self.hosted.insert(*code))
            .collect();
        // The registration follows and may fail; until then no peer wants these codes.
        let unwanted = |code: &Status| !self.codes.contains_key(code);
        self.unwanted.extend(new.iter().copied().filter(unwanted));
        new
    }

    /// Records that the host refused codes.
    pub(crate) fn not_hosted(&mut self, codes: &[Status]) {
        for code in codes {
            self.hosted.remove(code);
            self.unwanted.remove(code);
        }
    }

    /// Removes and returns the codes that the host need not report because no peer is registered for them.
    pub(crate) fn no_longer_hosted(&mut self) -> Vec<Status> {
        let gone = std::mem::take(&mut self.unwanted);
        for code in &gone {
            self.hosted.remove(code);
        }
        gone.into_iter().collect()
    }

    /// Returns the process of a registered peer.
    pub(crate) fn listener(&self, peer: PeerId) -> Option<&Listener> {
        self.peers.get(&peer).map(|known| &known.listener)
    }

    /// Returns the number of codes that the host was asked to report.
    pub(crate) fn num_hosted(&self) -> usize {
        self.hosted.len()
    }

    /// Compares the counters of peers and the requested codes with the registrations.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        let unwanted = |code: &&Status| !self.codes.contains_key(code);
        let found = self.hosted.iter().filter(unwanted).count();
        recount.compare("codes that only the host has", self.unwanted.len(), found);
        let of_codes = self.codes.values();
        let counted = self.peers.values().map(|peer| peer.codes.len()).sum();
        let found = of_codes.clone().map(BTreeMap::len).sum();
        recount.compare("codes of peers", counted, found);
        let counted = self.peers.values().map(|peer| peer.num_procs).sum();
        let found = of_codes.flat_map(BTreeMap::values).map(Interest::num_procs);
        recount.compare("processes in registrations", counted, found.sum());
    }

    /// Returns the number of registered peers, and of codes.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.peers.len(), self.codes.len())
    }
}

/// Returns `true` if a code reports on the environment of a job, not on the job.
pub(crate) fn is_environmental(code: Status) -> bool {
    (Status::EVENT_SYS_OTHER.as_raw()..=Status::EVENT_SYS_BASE.as_raw()).contains(&code.as_raw())
}

fn is_of_host(code: Status) -> bool {
    let beyond = code.as_raw() > 0 || code.as_raw() <= Status::EXTERNAL_ERR_BASE.as_raw();
    is_environmental(code) || (beyond && code != DEFAULT)
}
