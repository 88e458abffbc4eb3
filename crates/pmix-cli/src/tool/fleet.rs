// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers that a command follows while servers start and end.

use std::time::{Duration, Instant};

use pmix_tool::FoundServer;

use super::node::all_servers;
use super::{find_job, search, target};
use crate::args::Attach;
use crate::failure::Failure;

/// The time from one search for new servers to the next.
const SEARCH_INTERVAL: Duration = Duration::from_secs(2);

/// The part of the time that searches may take: a search of a large directory is repeated less often.
const SEARCH_SHARE: u32 = 20;

/// The servers that a command follows, and the search for servers that start later.
pub(super) struct Fleet {
    /// `true` if all servers of the node are followed.
    is_all: bool,
    next: Instant,
}

impl Fleet {
    /// Returns the servers to follow: the one that the options select or that has the job, else all of the node.
    pub(super) fn find(
        args: &Attach,
        nspace: Option<&str>,
    ) -> Result<(Self, Vec<FoundServer>), Failure> {
        let is_all = target(args).is_none() && nspace.is_none();
        let began = Instant::now();
        let servers = match is_all {
            true => all_servers(args, None)?,
            false => vec![find_job(args, nspace)?],
        };
        let mut fleet = Self {
            is_all,
            next: began,
        };
        fleet.set_next(began);
        Ok((fleet, servers))
    }

    /// Returns a fleet of all servers of the node, whose next search is due.
    #[cfg(test)]
    pub(super) fn of_all() -> Self {
        Self {
            is_all: true,
            next: Instant::now(),
        }
    }

    /// Returns `true` if all servers of the node are followed, also servers that start later.
    pub(super) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Returns the time of the next search, or `None` if the command follows one server only.
    pub(super) fn next_search(&self) -> Option<Instant> {
        self.is_all.then_some(self.next)
    }

    /// Returns the servers of the node if a search is due.
    pub(super) fn search(&mut self) -> Vec<FoundServer> {
        let began = Instant::now();
        if !self.is_all || began < self.next {
            return Vec::new();
        }
        let servers = search().list().servers;
        self.set_next(began);
        servers
    }

    fn set_next(&mut self, began: Instant) {
        let pause = began.elapsed().saturating_mul(SEARCH_SHARE);
        self.next = Instant::now() + pause.max(SEARCH_INTERVAL);
    }
}
