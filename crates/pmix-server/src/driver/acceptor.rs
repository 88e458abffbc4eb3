// SPDX-License-Identifier: MIT OR Apache-2.0
//! The acceptance of connections, and the bounded log of those that were rejected.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use pmix_types::Status;
use rustix::io::Errno;

use crate::net::owner::{Ends, Owner, Owners};

/// Number of connections to accept before existing connections are served.
const BATCH: usize = 64;

/// The pause after descriptors have run out. Other code of this process may close some in the meantime.
const PAUSE: Duration = Duration::from_millis(100);

/// The listening socket.
#[derive(Debug)]
pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    address: SocketAddr,
    owners: Owners,
    /// `true` if connections may wait to be accepted.
    waiting: bool,
    /// `true` after descriptors have run out, so that it is logged once.
    is_short: bool,
    /// The end of a pause, which ends earlier if a connection is closed.
    paused_until: Option<Instant>,
}

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
    pub(super) uid: Option<u32>,
    pub(super) same_node: bool,
}

impl Acceptor {
    pub(super) fn new(listener: std::net::TcpListener, address: SocketAddr) -> Self {
        Self {
            listener: TcpListener::from_std(listener),
            address,
            owners: Owners::new(),
            waiting: false,
            is_short: false,
            paused_until: None,
        }
    }

    /// Notes that connections are waiting.
    pub(super) fn ready(&mut self) {
        self.waiting = true;
    }

    /// Resumes accepting after a descriptor was closed.
    pub(super) fn resume(&mut self) {
        self.paused_until = None;
    }

    /// Returns the time of the next accept without an event: now, or after a pause.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.waiting.then(|| self.paused_until.unwrap_or(now))
    }

    /// Accepts waiting connections, up to a batch.
    pub(super) fn accept(&mut self, now: Instant, num_open: usize) -> Vec<Arrival> {
        if !self.waiting || self.paused_until.is_some_and(|until| now < until) {
            return Vec::new();
        }
        self.paused_until = None;
        let mut accepted = Vec::new();
        while accepted.len() < BATCH {
            match self.listener.accept() {
                Ok(connection) => accepted.push(connection),
                Err(error) => {
                    self.refused(&error, now, num_open + accepted.len());
                    break;
                }
            }
        }
        self.arrivals(accepted)
    }

    fn refused(&mut self, error: &io::Error, now: Instant, num_open: usize) {
        match Errno::from_io_error(error) {
            Some(Errno::AGAIN) => {
                self.waiting = false;
                self.is_short = false;
            }
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                if !std::mem::replace(&mut self.is_short, true) {
                    tracing::warn!(%error, num_open, "out of descriptors: new connections wait until others \
                    are closed");
                }
                self.paused_until = Some(now + PAUSE);
            }
            // A connection that was reset before it was accepted is taken off the queue by the error.
            Some(Errno::CONNABORTED | Errno::INTR) => {
                tracing::debug!(%error, "cannot accept a connection");
            }
            // Other errors may recur at once, for example from a firewall or a socket that the program has closed. A
            // pause prevents a busy loop.
            _ => {
                tracing::debug!(%error, "cannot accept connections");
                self.paused_until = Some(now + PAUSE);
            }
        }
    }

    /// Determines the owners of accepted connections, for all of them at once.
    fn arrivals(&mut self, accepted: Vec<(TcpStream, SocketAddr)>) -> Vec<Arrival> {
        let ends = |(_, peer): &(_, SocketAddr)| Ends {
            local: self.address,
            peer: *peer,
        };
        let ends: Vec<Ends> = accepted.iter().map(ends).collect();
        let owners = self.owners.look_up(&ends);
        let arrival = |(((stream, from), ends), owner): (((TcpStream, _), Ends), Owner)| {
            let uid = match owner {
                Owner::User(uid) => Some(uid),
                Owner::Unknown => None,
                // The kernel reports such a socket as one of root, so it must not be served.
                Owner::Gone => return None,
            };
            let same_node = ends.same_node();
            Some(Arrival {
                stream,
                from,
                uid,
                same_node,
            })
        };
        let all = accepted.into_iter().zip(ends).zip(owners);
        all.filter_map(arrival).collect()
    }
}

/// Number of rejections of a user and a status that are logged in full before they are only counted.
const IN_FULL: u64 = 8;

/// Interval at which counts are logged and reset.
const PERIOD: Duration = Duration::from_secs(5);

/// The rejections in the current period, by user and status. Rejections that are not logged in full are
/// counted, and the counts are logged.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    /// The counts by user and number of the status.
    counts: BTreeMap<(Option<u32>, i32), u64>,
    /// The end of the period, which the first rejection starts.
    until: Option<Instant>,
}

impl RefusalLog {
    /// Counts a rejection. Returns `true` if it is to be logged in full.
    pub(super) fn count(&mut self, uid: Option<u32>, status: Status, now: Instant) -> bool {
        // A server without rejections has no period, so it does not wake up to end one.
        self.until.get_or_insert_with(|| now + PERIOD);
        let count = self.counts.entry((uid, status.as_raw())).or_default();
        *count += 1;
        *count <= IN_FULL
    }

    /// Returns the time to call [`Self::end_period`].
    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Logs and resets the counts if the period is over.
    pub(super) fn end_period(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.write();
        }
    }

    /// Logs and resets the counts.
    pub(super) fn write(&mut self) {
        for ((uid, status), more) in self.take() {
            tracing::warn!(uid, %status, more, "more connections were rejected");
        }
    }

    /// Returns the counts by user and status, and resets them.
    fn take(&mut self) -> impl Iterator<Item = ((Option<u32>, Status), u64)> {
        self.until = None;
        let counts = std::mem::take(&mut self.counts).into_iter();
        counts.filter_map(|((uid, status), count)| {
            let more = count.checked_sub(IN_FULL).filter(|&more| more > 0)?;
            Some(((uid, Status::from_raw(status)), more))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_user_and_status_are_written_in_full() {
        let now = Instant::now();
        let mut refusals = RefusalLog::default();
        assert_eq!(refusals.due(), None);
        let mut in_full = |uid, status| {
            let all = (0..100).filter(|_| refusals.count(uid, status, now));
            all.count() as u64
        };
        assert_eq!(in_full(Some(1), Status::ERR_BAD_PARAM), IN_FULL);
        assert_eq!(in_full(Some(1), Status::ERR_TIMEOUT), IN_FULL);
        assert_eq!(in_full(None, Status::ERR_BAD_PARAM), IN_FULL);
        assert_eq!(in_full(Some(1), Status::ERR_BAD_PARAM), 0);
        assert_eq!(refusals.due(), Some(now + PERIOD));
        refusals.end_period(now);
        assert!(!refusals.count(Some(1), Status::ERR_TIMEOUT, now));
        refusals.end_period(now + PERIOD);
        assert_eq!(refusals.due(), None);
        assert!(refusals.count(Some(1), Status::ERR_TIMEOUT, now + PERIOD));
    }

    #[test]
    fn rejections_beyond_the_limit_are_counted() {
        let now = Instant::now();
        let mut refusals = RefusalLog::default();
        for _ in 0..IN_FULL + 34 {
            refusals.count(Some(7), Status::ERR_BAD_PARAM, now);
        }
        refusals.count(Some(8), Status::ERR_BAD_PARAM, now);
        let counted = [((Some(7), Status::ERR_BAD_PARAM), 34)];
        assert_eq!(refusals.take().collect::<Vec<_>>(), counted);
        assert_eq!(refusals.due(), None);
        assert_eq!(refusals.take().count(), 0, "each is counted once");
    }
}
