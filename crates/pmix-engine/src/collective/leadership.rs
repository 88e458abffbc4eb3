// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of a construction that one of the members leads, and what is told of it.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use pmix_types::{Info, Proc, Status, Text};

use crate::ids::TrackerId;

/// Who leads a construction, and what is to be decided.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    /// Who leads; nobody while another is chosen.
    pub(super) leader: Option<Proc<'static>>,
    /// The leader that is lost, until another is chosen.
    pub(super) lost_leader: Option<Proc<'static>>,
    /// Those that are lost and about whom nobody has decided.
    pub(super) undecided: BTreeSet<Proc<'static>>,
    /// Those who said that they do not lead.
    pub(super) declined: HashSet<Proc<'static>>,
    /// When nobody is asked any longer.
    pub(super) until: Option<Instant>,
}

impl Leadership {
    /// Whether something is to be decided.
    pub(super) fn is_open(&self) -> bool {
        self.lost_leader.is_some() || !self.undecided.is_empty()
    }

    /// How the construction ends if nobody decides.
    pub(super) fn status(&self) -> Status {
        match self.lost_leader {
            Some(_) => Status::GROUP_LEADER_FAILED,
            None => Status::ERR_LOST_CONNECTION,
        }
    }
}

/// An event about a construction that is led.
#[derive(Debug)]
pub(crate) struct LedEvent {
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
