// SPDX-License-Identifier: MIT OR Apache-2.0
//! The leader of a construct, and the pending decisions.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Instant;

use pmix_types::{Info, Proc, Status, Text};

use crate::ids::{ClientId, TrackerId};

/// The leader of a construct.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) enum Leader {
    /// There is no leader, and none is being elected.
    #[default]
    None,
    /// This process leads.
    Leads(Proc<'static>),
    /// This local process led and is lost: this server decides the election.
    Electing(Proc<'static>),
    /// This process of another node led and is lost: its server decides the election.
    ElectingElsewhere(Proc<'static>),
}

/// The leader of a construct, and the pending decisions.
#[derive(Debug, Default)]
pub(in super::super) struct Leadership {
    pub(in super::super) leader: Leader,
    /// The lost processes without a decision.
    pub(in super::super) undecided: BTreeSet<Proc<'static>>,
    /// The callers that declined to lead after the loss of the leader. The first that offers leads at once.
    pub(in super::super) declined: HashSet<Proc<'static>>,
    /// The callers that were lost after their call.
    pub(in super::super) lost_callers: HashSet<ClientId>,
    /// The processes that leaders add as replacements for lost ones.
    pub(in super::super) added: Vec<Proc<'static>>,
    /// The local leader that was announced to the servers of other nodes.
    pub(in super::super) announced: Option<Proc<'static>>,
    /// The leaders that servers of other nodes have announced.
    pub(in super::super) announced_leaders: Vec<Proc<'static>>,
    /// `true` while the announced construct may be one that has already ended here, so that its leader is not asked.
    pub(in super::super) is_held_back: bool,
    /// `true` if all participants are local.
    pub(in super::super) is_local: bool,
    /// The time limit of the decisions.
    pub(in super::super) until: Option<Instant>,
}

impl Leadership {
    /// Returns the leader.
    pub(in super::super) fn leader(&self) -> Option<&Proc<'static>> {
        match &self.leader {
            Leader::Leads(leader) => Some(leader),
            _ => None,
        }
    }

    /// Returns the lost leader whose successor this server elects.
    pub(in super::super) fn lost_leader(&self) -> Option<&Proc<'static>> {
        match &self.leader {
            Leader::Electing(old) => Some(old),
            _ => None,
        }
    }

    /// Returns `true` if there is a leader, or one is being elected.
    pub(in super::super) fn is_led(&self) -> bool {
        self.leader != Leader::None
    }

    /// Returns `true` if the host is not called before a pending decision.
    pub(in super::super) fn is_open(&self) -> bool {
        self.lost_leader().is_some() || !self.undecided.is_empty()
    }

    /// Returns the status with which the construct fails if no decision is taken.
    pub(in super::super) fn status(&self) -> Status {
        match &self.leader {
            Leader::None | Leader::Leads(_) => Status::ERR_LOST_CONNECTION,
            Leader::Electing(_) | Leader::ElectingElsewhere(_) => Status::GROUP_LEADER_FAILED,
        }
    }

    /// Returns `true` if a decision about a lost process is pending.
    pub(in super::super) fn concerns(&self, about: &Proc<'_>) -> bool {
        self.lost_leader() == Some(about) || self.undecided.contains(about)
    }

    /// Ends all decisions. A leader that is not lost remains the leader. Returns the time limit of the decisions.
    pub(in super::super) fn close(&mut self) -> Option<Instant> {
        // An undecided election would keep a later loss from being handled.
        if self.leader().is_none() {
            self.leader = Leader::None;
        }
        self.undecided.clear();
        self.declined.clear();
        self.is_held_back = false;
        self.until.take()
    }
}

/// The constructs with a leader that have not ended, by the names of their groups.
#[derive(Debug, Default)]
pub(in super::super) struct LedByName(BTreeMap<Text<'static>, BTreeSet<TrackerId>>);

impl LedByName {
    pub(in super::super) fn insert(&mut self, name: &Text<'static>, id: TrackerId) {
        self.0.entry(name.clone()).or_default().insert(id);
    }

    pub(in super::super) fn remove(&mut self, name: &Text<'static>, id: TrackerId) {
        if let Some(of_name) = self.0.get_mut(name.as_bytes()) {
            of_name.remove(&id);
            if of_name.is_empty() {
                self.0.remove(name.as_bytes());
            }
        }
    }

    /// Returns the constructs with a group name, oldest first.
    pub(in super::super) fn of<'l>(
        &'l self,
        name: &Text<'_>,
    ) -> impl Iterator<Item = TrackerId> + 'l {
        self.0.get(name.as_bytes()).into_iter().flatten().copied()
    }

    pub(in super::super) fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }
}

/// An event that asks the leader or the participants of a construct, or reports a decision to them.
#[derive(Debug)]
pub(crate) struct LeaderQuestion {
    pub(crate) status: Status,
    pub(crate) name: Text<'static>,
    pub(crate) to: Vec<Proc<'static>>,
    pub(crate) about: Proc<'static>,
    pub(crate) more: Vec<Info<'static>>,
    /// The construct that waits for a reply.
    pub(crate) asks: Option<TrackerId>,
    /// `true` if the event concerns other nodes.
    pub(crate) is_elsewhere: bool,
}

/// The message of a leader's server to the servers of the other members: the process leads, or its construct has ended
/// there.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) name: Text<'static>,
    pub(crate) leader: Proc<'static>,
    pub(crate) participants: Vec<Proc<'static>>,
    /// `true` if the group is formed without lost members.
    pub(crate) is_tolerant: bool,
    /// The status with which it ended, if it did.
    pub(crate) ended: Option<Status>,
}

/// The announcements that wait for the registration of their participants, with their arrival times.
pub(in super::super) type EarlyAnnouncements = VecDeque<(Option<Instant>, Announcement)>;

/// The hashes of the keys of constructs that ended before a leader of another node was announced; see `recent`.
pub(in super::super) type RecentlyEnded = VecDeque<u64>;
