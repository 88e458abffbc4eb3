// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of a construction that one of the members leads, and what is told of it.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Instant;

use pmix_types::{Info, Proc, Status, Text};

use crate::ids::{ClientId, TrackerId};

/// Who leads a construction, and what is to be decided.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    /// Who leads; nobody while another is chosen.
    pub(super) leader: Option<Proc<'static>>,
    /// The leader of this node that is lost, until another is chosen here.
    pub(super) lost_leader: Option<Proc<'static>>,
    /// The leader of another node that is lost, until its server says who leads in its place.
    pub(super) lost_elsewhere: Option<Proc<'static>>,
    /// Those that are lost and about whom nobody has decided.
    pub(super) undecided: BTreeSet<Proc<'static>>,
    /// Those who said that they do not lead, and have called.
    pub(super) declined: HashSet<Proc<'static>>,
    /// Those who had called and are lost.
    pub(super) lost_callers: HashSet<ClientId>,
    /// Those whom leaders add in the place of others.
    pub(super) added: Vec<Proc<'static>>,
    /// The leader of this node of whom the servers of other nodes were told.
    pub(super) announced: Option<Proc<'static>>,
    /// The leaders of whom servers of other nodes told.
    pub(super) heard_of: Vec<Proc<'static>>,
    /// Whether the leader may lead one that has ended here before its server was heard, so that nobody is asked yet.
    pub(super) is_held_back: bool,
    /// Whether all who take part are of this node.
    pub(super) is_local: bool,
    /// When nobody is asked any longer.
    pub(super) until: Option<Instant>,
}

impl Leadership {
    /// Whether somebody leads, or will.
    pub(super) fn is_led(&self) -> bool {
        self.leader.is_some() || self.lost_leader.is_some() || self.lost_elsewhere.is_some()
    }

    /// Whether the host is not called before something is decided.
    pub(super) fn is_open(&self) -> bool {
        self.lost_leader.is_some() || !self.undecided.is_empty()
    }

    /// How the construction ends if nobody decides.
    pub(super) fn status(&self) -> Status {
        match (&self.lost_leader, &self.lost_elsewhere) {
            (None, None) => Status::ERR_LOST_CONNECTION,
            _ => Status::GROUP_LEADER_FAILED,
        }
    }

    /// Whether what is said about a process that is lost may decide something.
    pub(super) fn concerns(&self, about: &Proc<'_>) -> bool {
        self.lost_leader.as_ref() == Some(about) || self.undecided.contains(about)
    }

    /// Nothing is to be decided any longer. Returns the time until which somebody was asked.
    pub(super) fn close(&mut self) -> Option<Instant> {
        self.lost_leader = None;
        self.lost_elsewhere = None;
        self.undecided.clear();
        self.declined.clear();
        self.is_held_back = false;
        self.until.take()
    }
}

/// The constructions that are led and have not ended, by the names of their groups.
#[derive(Debug, Default)]
pub(super) struct LedByName(BTreeMap<Text<'static>, BTreeSet<TrackerId>>);

impl LedByName {
    pub(super) fn insert(&mut self, name: &Text<'static>, id: TrackerId) {
        self.0.entry(name.clone()).or_default().insert(id);
    }

    pub(super) fn remove(&mut self, name: &Text<'static>, id: TrackerId) {
        if let Some(of_name) = self.0.get_mut(name.as_bytes()) {
            of_name.remove(&id);
            if of_name.is_empty() {
                self.0.remove(name.as_bytes());
            }
        }
    }

    /// Those of a name, the first that began first.
    pub(super) fn of<'l>(&'l self, name: &Text<'_>) -> impl Iterator<Item = TrackerId> + 'l {
        self.0.get(name.as_bytes()).into_iter().flatten().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }
}

/// An event about a construction that is led.
#[derive(Debug)]
pub(crate) struct LeaderQuestion {
    pub(crate) status: Status,
    pub(crate) name: Text<'static>,
    pub(crate) to: Vec<Proc<'static>>,
    pub(crate) about: Proc<'static>,
    pub(crate) more: Vec<Info<'static>>,
    /// Which construction waits for an answer to it, if one does.
    pub(crate) asks: Option<TrackerId>,
    /// Whether it goes to other nodes, too.
    pub(crate) is_elsewhere: bool,
}

/// What the server of a leader tells the servers of the other members: that it leads, or that what it led has ended
/// there.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub(crate) name: Text<'static>,
    pub(crate) leader: Proc<'static>,
    pub(crate) participants: Vec<Proc<'static>>,
    /// Whether members that are lost are done without.
    pub(crate) is_tolerant: bool,
    /// How it ended, if it did.
    pub(crate) ended: Option<Status>,
}

/// Announcements of constructions whose participants are not all registered yet, and when they came.
pub(super) type EarlyAnnouncements = VecDeque<(Option<Instant>, Announcement)>;

/// The hashes of the keys of constructions that ended and of which no leader of another node was heard; see `recent`.
pub(super) type RecentlyEnded = VecDeque<u64>;
