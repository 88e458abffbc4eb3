// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registrations for events.

use std::collections::{BTreeMap, BTreeSet};

use pmix_proto::request::DeregisterEvents;
use pmix_types::Status;

use super::notification::{Listener, Notification};
use crate::config::EventLimits;
use crate::procs::Procs;
use crate::recount::Recount;
use crate::{Error, PeerId};

/// The code that stands for the default handler, of all events; it is what a peer deregisters.
pub(crate) const DEFAULT: Status = DeregisterEvents::DEFAULT;

/// Who wants to hear of which events.
///
/// A registration is counted: a peer may register a code several times and hears of it until it has
/// taken back as many.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    codes: BTreeMap<Status, BTreeMap<PeerId, Interest>>,
    peers: BTreeMap<PeerId, Peer>,
    /// The codes that the host was asked to tell of.
    hosted: BTreeSet<Status>,
    /// Those of them that nobody is registered for.
    unwanted: BTreeSet<Status>,
}

#[derive(Debug)]
struct Peer {
    listener: Listener,
    codes: BTreeSet<Status>,
    num_procs: usize,
}

/// What of a code a peer wants.
#[derive(Debug, Default)]
struct Interest {
    /// How many registrations there are.
    count: u32,
    /// The processes that an event has to be about, if it says whom it is about; none if all do.
    affected: Option<Procs>,
}

impl Interest {
    fn wants(&self, notification: &Notification) -> bool {
        match (&self.affected, &notification.directives.affected) {
            (Some(wanted), Some(affected)) => wanted.meets(affected),
            _ => true,
        }
    }

    /// Another registration for the same code. Which of them is taken back later is not said, so
    /// the widest of all stands until the last is gone.
    fn widen(&mut self, affected: Option<&Procs>) {
        let is_first = self.count == 0;
        self.count = self.count.saturating_add(1);
        match (&mut self.affected, affected) {
            (own @ None, Some(first)) if is_first => *own = Some(first.clone()),
            (Some(own), Some(more)) => own.join(more),
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
    /// All codes are registered or, with an error, none.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the peer would have more than the limits allow.
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
        // Those that are new, not all that the peer has.
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

    /// Takes back one registration for each code. Codes that are not registered do not matter.
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
                self.leave(peer, *code, num_procs);
            }
        }
    }

    fn leave(&mut self, peer: PeerId, code: Status, num_procs: usize) {
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

    /// Forgets a peer.
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

    /// Nobody is registered for a code any longer.
    fn drop_code(&mut self, code: Status) {
        self.codes.remove(&code);
        if self.hosted.contains(&code) {
            self.unwanted.insert(code);
        }
    }

    /// The peers that are registered for an event, each once, in the order in which they connected.
    pub(crate) fn interested(&self, notification: &Notification) -> Vec<(PeerId, &Listener)> {
        let named = self.codes.get(&notification.status);
        let default = self.codes.get(&DEFAULT);
        let default = default.filter(|_| !notification.directives.non_default);
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

    /// Whether a peer is registered for an event.
    pub(crate) fn is_interested(&self, peer: PeerId, notification: &Notification) -> bool {
        let wants = |code: Status| {
            let interest = self.codes.get(&code).and_then(|all| all.get(&peer));
            interest.is_some_and(|interest| interest.wants(notification))
        };
        wants(notification.status) || (!notification.directives.non_default && wants(DEFAULT))
    }

    /// The codes that the host has to be asked for and was not: environmental ones, and those that
    /// no PMIx header defines (PMIx Standard, `pmix_server_register_events_fn_t`). They count as
    /// asked for from now on.
    pub(crate) fn newly_hosted(&mut self, codes: &[Status]) -> Vec<Status> {
        let foreign = codes.iter().filter(|code| is_of_host(**code));
        let new: Vec<_> = foreign
            .copied()
            .filter(|code| self.hosted.insert(*code))
            .collect();
        let unwanted = |code: &Status| !self.codes.contains_key(code);
        self.unwanted.extend(new.iter().copied().filter(unwanted));
        new
    }

    /// The host declined to tell of codes.
    pub(crate) fn not_hosted(&mut self, codes: &[Status]) {
        for code in codes {
            self.hosted.remove(code);
            self.unwanted.remove(code);
        }
    }

    /// The codes that the host need not tell of any more, since nobody is registered for them.
    pub(crate) fn no_longer_hosted(&mut self) -> Vec<Status> {
        let gone = std::mem::take(&mut self.unwanted);
        for code in &gone {
            self.hosted.remove(code);
        }
        gone.into_iter().collect()
    }

    /// Who a registered peer is.
    pub(crate) fn listener(&self, peer: PeerId) -> Option<&Listener> {
        self.peers.get(&peer).map(|known| &known.listener)
    }

    /// How many codes the host was asked to tell of.
    pub(crate) fn num_hosted(&self) -> usize {
        self.hosted.len()
    }

    /// Compares what is counted of peers with their registrations, and what is known of the codes that the
    /// host was asked for.
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

    /// How many peers are registered for how many codes.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.peers.len(), self.codes.len())
    }
}

/// Whether a code tells of the environment of a job, not of the job.
pub(crate) fn is_environmental(code: Status) -> bool {
    (Status::EVENT_SYS_OTHER.as_raw()..=Status::EVENT_SYS_BASE.as_raw()).contains(&code.as_raw())
}

fn is_of_host(code: Status) -> bool {
    let beyond = code.as_raw() > 0 || code.as_raw() <= Status::EXTERNAL_ERR_BASE.as_raw();
    is_environmental(code) || (beyond && code != DEFAULT)
}
