// SPDX-License-Identifier: MIT OR Apache-2.0
//! A collective from the view of this server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pmix_types::{Info, IntoOwned as _, Measure, Nspace, Proc, Status, keys, memory};

use super::construct::Leadership;
use super::group_call;
use super::kind::{Collective, GroupName};
use super::participants::Participants;
use crate::Error;
use crate::cx::Cx;
use crate::host::{Connect, Disconnect, Fence, Upcall};
use crate::ids::{ClientId, TrackerId};
use crate::infos::{is_set, value};
use crate::peers::Ticket;
use crate::timer::Timer;

/// The identity of a collective: the operation, the participants, and the group.
pub(super) type Key = (Collective, Participants, GroupName);

/// A collective from the view of this server.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) key: Key,
    /// The job of the process that began it.
    pub(super) job: Nspace<'static>,
    /// The time of the first call; `None` if the engine had no time yet.
    pub(super) began: Option<Instant>,
    pub(super) phase: Phase,
    /// The local participants.
    pub(super) slots: BTreeMap<ClientId, Slot>,
    /// The local participants that have not called.
    pub(super) missing: BTreeSet<ClientId>,
    /// `true` if a participant that had not left the group was lost before the collective began.
    pub(super) has_lost_participant: bool,
    /// The infos of the participants.
    pub(super) infos: Vec<Info<'static>>,
    /// The endpoint data of the participants of a connect, and the job info of their jobs. The host passes them to the
    /// servers of the other participants.
    pub(super) shared: Vec<Info<'static>>,
    /// `true` if a participant requires that its data reach the other participants, which only a host can do.
    pub(super) requires_host: bool,
    /// The memory of the infos that the callers share, in bytes.
    pub(super) shared_bytes: usize,
    /// The infos of each participant of a construct or destruct, which differ.
    pub(super) caller_infos: Vec<(ClientId, Vec<Info<'static>>)>,
    /// `true` if the collective continues without participants that are lost or leave the group.
    pub(super) is_tolerant: bool,
    /// `true` if any participant set `PMIX_COLLECT_DATA`.
    pub(super) collects: bool,
    /// The participants of other nodes that were lost after it began: their data in contributions may belong to another
    /// incarnation.
    pub(super) stale: Vec<Proc<'static>>,
    /// The state that only a construct has.
    pub(super) construct: ConstructState,
    /// The time limit.
    pub(super) until: Option<Instant>,
    /// The memory of a failed collective, or of one that the server called itself.
    pub(super) weight: usize,
    /// `true` if the server called the host itself, for a destruct without local participants.
    pub(super) is_own_call: bool,
}

/// The phase of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Some local participants have not called.
    Gathering,
    /// The host was called.
    Hosting,
    /// The collective failed, and some participants have not received the status.
    Failed(Status),
}

/// The state of a group construct.
#[derive(Debug, Default)]
pub(super) struct ConstructState {
    /// The user of the first caller.
    pub(super) user: Option<u32>,
    /// The local participants that had not joined the construct when the server called the host. They are not members
    /// of the group. A process that is registered only afterwards is not in this list, so it remains a member.
    pub(super) absent: Vec<Proc<'static>>,
    /// The local members that were lost after the construct began. They may be deregistered, or connect again as
    /// another incarnation, before it ends.
    pub(super) lost: BTreeMap<ClientId, Proc<'static>>,
    /// The leader and the pending decisions of a construct with a leader.
    pub(super) leadership: Option<Leadership>,
}

/// A local participant.
#[derive(Debug)]
pub(super) enum Slot {
    /// The participant has not called.
    Expected,
    /// The participant has called and waits for the reply.
    Arrived(Ticket),
    /// The participant is lost, or has received its reply.
    Done,
}

impl Tracker {
    pub(super) fn new(key: Key, job: Nspace<'static>, began: Option<Instant>) -> Self {
        Self {
            key,
            job,
            began,
            phase: Phase::Gathering,
            slots: BTreeMap::new(),
            missing: BTreeSet::new(),
            has_lost_participant: false,
            infos: Vec::new(),
            shared: Vec::new(),
            requires_host: false,
            shared_bytes: 0,
            caller_infos: Vec::new(),
            is_tolerant: false,
            collects: false,
            stale: Vec::new(),
            construct: ConstructState::default(),
            until: None,
            weight: 0,
            is_own_call: false,
        }
    }

    /// Adds a local participant.
    pub(super) fn expect(&mut self, client: ClientId) {
        self.slots.entry(client).or_insert_with(|| {
            self.missing.insert(client);
            Slot::Expected
        });
    }

    /// Limits the time of the collective. The earliest time limit of any participant applies to all.
    pub(super) fn limit_time(&mut self, cx: &mut Cx, id: TrackerId, until: Instant) {
        if self.until.is_some_and(|known| known <= until) {
            return;
        }
        // A recount compares the timers with the collectives, so a replaced limit must leave no timer.
        if let Some(known) = self.until.replace(until) {
            cx.timers.cancel(known, Timer::Collective(id));
        }
        cx.timers.set(until, Timer::Collective(id));
    }

    /// Returns `true` if the call of a process can belong to this collective.
    pub(super) fn expects(&self, client: ClientId) -> bool {
        self.missing.contains(&client)
    }

    /// Returns `true` if the infos of a participant state another user than those of the earlier callers.
    pub(super) fn is_of_other_user(&self, infos: &[Info<'_>]) -> bool {
        let is_other = |user: u32| self.construct.user.is_some_and(|known| known != user);
        self.user_of(infos).is_some_and(is_other)
    }

    /// Returns the user of a participant, which [`Groups::construct`](crate::group::Groups::construct) adds to its
    /// infos.
    fn user_of(&self, infos: &[Info<'_>]) -> Option<u32> {
        let is_constructed = self.key.0 == Collective::GroupConstruct;
        let user = value(infos, keys::USERID).filter(|_| is_constructed);
        user.and_then(|user| user.to_number().ok())
    }

    /// Adds the call of a participant.
    pub(super) fn arrive(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        mut infos: Vec<Info<'static>>,
    ) {
        // Counted once for each call: a sum over all callers for each of them would be quadratic.
        let shared = infos.iter().filter(|info| is_shared(self.key.0, info));
        let bytes = shared.map(|info| info.measure(Measure::All));
        self.shared_bytes = bytes.fold(self.shared_bytes, usize::saturating_add);
        self.missing.remove(&client);
        self.slots.insert(client, Slot::Arrived(ticket));
        self.collects |= is_set(&infos, keys::COLLECT_DATA);
        if self.key.0.is_of_group() {
            self.is_tolerant |= group_call::is_tolerant(&infos);
            self.construct.user = self.construct.user.or_else(|| self.user_of(&infos));
            // Members pass different infos: their own data, or an order of the members that all must agree on.
            self.caller_infos.push((client, infos));
            return;
        }
        if self.key.0 == Collective::Connect {
            // Each caller shares other data, while the directives of the first caller apply to all.
            let num_earlier = self.shared.len();
            self.shared
                .extend(infos.extract_if(.., |info| is_shared(Collective::Connect, info)));
            let mut added = self.shared.iter().skip(num_earlier);
            self.requires_host |= added.any(Info::must_be_obeyed);
        }
        // One caller decides for all, since all get the same result.
        self.is_tolerant |= is_set(&infos, keys::GROUP_FT_COLLECTIVE);
        // The host gets one list, so that of the first caller applies to all.
        if self.infos.is_empty() {
            self.infos = infos;
            return;
        }
        // The host must process the required directives of every participant.
        for info in infos.into_iter().filter(Info::must_be_obeyed) {
            if !self.infos.iter().any(|known| known.key == info.key) {
                self.infos.push(info);
            }
        }
    }

    /// Records the loss of a participant. Returns `true` if it was one. A caller still gets its reply, because an
    /// earlier incarnation of the lost process may be connected.
    pub(super) fn mark_lost(&mut self, client: ClientId) -> bool {
        self.missing.remove(&client);
        match self.slots.get_mut(&client) {
            None | Some(Slot::Done) => false,
            Some(Slot::Arrived(_)) => true,
            Some(expected @ Slot::Expected) => {
                *expected = Slot::Done;
                true
            }
        }
    }

    /// Records the process of a client that is lost during a construct.
    pub(super) fn note_lost(&mut self, client: ClientId, proc: &Proc<'static>) {
        if self.key.0 == Collective::GroupConstruct {
            self.construct
                .lost
                .entry(client)
                .or_insert_with(|| proc.clone());
        }
    }

    /// Returns the callers that were lost after their call.
    pub(super) fn lost_callers(&self) -> Vec<Proc<'static>> {
        let called: BTreeSet<_> = self
            .caller_infos
            .iter()
            .map(|(client, _)| *client)
            .collect();
        let lost = self.construct.lost.iter();
        let lost = lost.filter(|(client, _)| called.contains(client));
        lost.map(|(_, proc)| proc.clone()).collect()
    }

    /// Returns the upcall: all local participants have called and contribute data, or the collective failed here.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOMEM` if the process has no memory for a copy of the infos of the callers.
    pub(super) fn call(
        &self,
        infos: Vec<Info<'static>>,
        data: Vec<u8>,
        failed: Option<Status>,
    ) -> Result<Upcall, Error> {
        // The infos of each caller passed a check of their own, but the upcall copies those of all callers at once.
        memory::check(self.shared_bytes)?;
        let procs = self.key.1.to_procs();
        Ok(match self.key.0 {
            Collective::Fence => Fence { procs, infos, data }.into(),
            Collective::Connect => Connect {
                procs,
                infos,
                failed,
            }
            .into(),
            Collective::Disconnect => Disconnect {
                procs,
                infos,
                failed,
            }
            .into(),
            kind @ (Collective::GroupConstruct | Collective::GroupDestruct) => {
                let name = self.key.2.clone().unwrap_or_default();
                group_call::upcall(kind, name, procs, &self.caller_infos, infos, failed).into()
            }
        })
    }

    /// Returns `true` if the only participant called for itself.
    pub(super) fn calls_for_itself(&self) -> bool {
        let is = |info: &Info<'_>| info.key.is(keys::PROCID);
        // No other process participates in it then.
        let first = self.caller_infos.first();
        first.is_some_and(|(_, infos)| infos.iter().any(is))
    }

    /// Returns `true` if it has participants that only the host knows.
    pub(super) fn is_gathered(&self) -> bool {
        self.key.0 == Collective::GroupConstruct && group_call::is_gathered(&self.caller_infos)
    }

    /// Checks that the host returned the members of a group that only the host can determine: with added members, or
    /// with an order that other servers may not know.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` if it did not.
    pub(super) fn check_gathered(&self, is_local: bool) -> Result<(), Error> {
        let is_gathered =
            self.is_gathered() || (!is_local && group_call::wants_order(&self.caller_infos));
        match self.key.0 == Collective::GroupConstruct
            && is_gathered
            && group_call::listed(&self.infos).is_none()
        {
            true => Err(Error::new(
                Status::ERR_NOT_SUPPORTED,
                "the host did not return the members of the group",
            )),
            false => Ok(()),
        }
    }

    /// Returns `true` if all participants of this node have called.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Removes all data except those of the participants that have not received the failure.
    pub(super) fn strip(&mut self) {
        let missing = &self.missing;
        self.slots.retain(|client, _| missing.contains(client));
        self.infos = Vec::new();
        self.shared = Vec::new();
        self.shared_bytes = 0;
        self.caller_infos = Vec::new();
        self.construct.absent = Vec::new();
        self.construct.lost = BTreeMap::new();
        self.weight = self.key.1.weight() + self.missing.len() * size_of::<ClientId>();
    }

    /// Returns the tickets of the callers.
    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.slots.values().filter_map(|slot| match slot {
            Slot::Arrived(ticket) => Some(ticket),
            Slot::Expected | Slot::Done => None,
        })
    }

    /// Removes and returns the tickets of the callers.
    pub(super) fn take_tickets(&mut self) -> Vec<Ticket> {
        let slots = self.slots.values_mut();
        slots
            .filter_map(|slot| match std::mem::replace(slot, Slot::Done) {
                Slot::Arrived(ticket) => Some(ticket),
                other => {
                    *slot = other;
                    None
                }
            })
            .collect()
    }
}

/// Returns `true` for the data that a caller shares with the other participants. Each caller shares its own, so the
/// upcall and the reply have all of them.
fn is_shared(kind: Collective, info: &Info<'_>) -> bool {
    match kind {
        Collective::Connect => {
            info.key.is(keys::PROC_INFO_ARRAY) || info.key.is(keys::JOB_INFO_ARRAY)
        }
        _ => info.key.is(keys::GROUP_INFO),
    }
}
