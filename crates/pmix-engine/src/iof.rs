// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarding of output to peers, and of input from peers.
//!
//! For a slow reader, output is held for each of its pulls. Output beyond the limit of the pull is dropped, and the
//! next piece reports the loss; its connection and other peers are not affected. Output without a pull is kept for the
//! first one. Input is passed to the host, which may suspend it (`flow`). `serve` connects this to requests and to the
//! host.
//!
//! Source: PMIx Standard, chapter "Tools", "IO forwarding".

mod flow;
mod piece;
mod serve;
#[cfg(test)]
mod tests;
mod unclaimed;

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_types::{Info, IofChannel, Nspace, Proc, Rank, Status, keys};

use self::flow::Suspended;
pub(crate) use self::piece::Piece;
use self::piece::{OutputQueue, Overflow};
use self::unclaimed::UnclaimedOutput;
use crate::config::OutputLimits;
use crate::procs::Procs;
use crate::recount::Recount;
use crate::{Error, PeerId, Stats};

/// The number of bytes held for a pull of a peer with many pulls.
const LEAST_HELD: usize = 64 << 10;

/// The directives of a pull that the server supports.
const OBEYED: [&str; 3] = [
    keys::IOF_CACHE_SIZE,
    keys::IOF_DROP_OLDEST,
    keys::IOF_DROP_NEWEST,
];

/// The pulls of a server, and output without a pull.
#[derive(Debug)]
pub(crate) struct Forwarding {
    limits: OutputLimits,
    pulls: BTreeMap<u64, Pull>,
    last: u64,
    kept: UnclaimedOutput,
    suspended: Suspended,
}

/// A piece of output for a peer, with the peer's number of the pull.
pub(crate) type Addressed = (u64, Arc<Piece>);

/// The output that the host need not forward after the end of a pull.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndedPull {
    pub(crate) sources: Vec<Proc<'static>>,
    pub(crate) channels: IofChannel,
}

impl Forwarding {
    pub(crate) fn new(limits: OutputLimits) -> Self {
        Self {
            limits,
            pulls: BTreeMap::new(),
            last: 0,
            kept: UnclaimedOutput::default(),
            suspended: Suspended::default(),
        }
    }

    /// Adds the pulls to the counts of a server.
    pub(crate) fn count(&self, stats: &mut Stats) {
        let held = self.pulls.values().map(|pull| pull.line.weight());
        stats.num_pulls = self.pulls.len();
        stats.output_bytes = held.sum::<usize>() + self.kept.weight();
    }

    /// Compares the counters with the held output.
    pub(crate) fn recount(&self, recount: &mut Recount) {
        self.kept.recount(recount);
        self.suspended.recount(recount);
        for pull in self.pulls.values() {
            pull.line.recount(recount);
        }
    }

    /// Registers a pull, which waits until it is [opened](Self::open). Returns its number.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` for input, which is pushed and never pulled; `PMIX_ERR_BAD_PARAM` without
    /// processes or channels; `PMIX_ERR_OUT_OF_RESOURCE` beyond the limits.
    pub(crate) fn pull(
        &mut self,
        peer: PeerId,
        local_id: u64,
        sources: Vec<Proc<'static>>,
        channels: IofChannel,
        infos: &[Info<'_>],
    ) -> Result<u64, Error> {
        self.check(peer, &sources, channels)?;
        self.last += 1;
        // All pulls of a peer share one limit of held output.
        let own = self.pulls.values().filter(|pull| pull.peer == peer);
        let held: usize = own.map(|pull| pull.line.limit()).sum();
        let room = self.limits.held_per_peer.saturating_sub(held);
        let mut wanted = Procs::default();
        wanted.extend(&sources);
        let pull = Pull {
            peer,
            local_id,
            sources,
            wanted,
            channels,
            is_open: false,
            line: queue(infos, &self.limits, room.max(LEAST_HELD)),
        };
        self.pulls.insert(self.last, pull);
        Ok(self.last)
    }

    fn check(&self, peer: PeerId, sources: &[Proc<'_>], channels: IofChannel) -> Result<(), Error> {
        // Tools pass `ALL_CHANNELS` for all output, although it includes input.
        if channels.contains(IofChannel::STDIN_CHANNEL) && channels != IofChannel::ALL_CHANNELS {
            let message = "standard input cannot be pulled, only pushed";
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, message));
        }
        if channels == IofChannel::NO_CHANNELS || sources.is_empty() {
            return Err(Error::bad(
                "PMIx_IOF_pull requires at least one process and one channel",
            ));
        }
        let num_pulls = self.pulls.values().filter(|pull| pull.peer == peer).count();
        let limits = &self.limits;
        if num_pulls >= limits.pulls_per_peer || sources.len() > limits.procs_per_pull {
            let message = format!(
                "PMIx_IOF_pull number {num_pulls} of {} processes exceeds the limits of a peer: {} pulls of \
                {} processes",
                sources.len(),
                limits.pulls_per_peer,
                limits.procs_per_pull
            );
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(())
    }

    /// Starts the output of a pull after the reply to the peer, with kept output first.
    pub(crate) fn open(&mut self, number: u64, may_read: impl Fn(PeerId, &Nspace<'_>) -> bool) {
        let Self { pulls, kept, .. } = self;
        if let Some(pull) = pulls.get_mut(&number) {
            pull.is_open = true;
            // Output that arrived while the host decided comes after the output kept before.
            let since: Vec<_> = std::iter::from_fn(|| pull.line.pop()).collect();
            let before =
                kept.take(|piece| pull.wants(piece) && may_read(pull.peer, &piece.source.nspace));
            for piece in before.into_iter().chain(since) {
                pull.line.push(piece);
            }
        }
    }

    /// Removes a pull that the host refused.
    pub(crate) fn refuse(&mut self, number: u64) {
        self.pulls.remove(&number);
    }

    /// Adds output to each matching pull, or keeps it for a later one. Returns the peers with output to send. The
    /// permission is checked for each piece, because a pull may have named the job before its owner was known.
    pub(crate) fn deliver(
        &mut self,
        piece: Piece,
        may_read: impl Fn(PeerId, &Nspace<'_>) -> bool,
    ) -> Vec<PeerId> {
        let piece = Arc::new(piece);
        let mut peers = Vec::new();
        let wanted = self.pulls.values_mut().filter(|pull| pull.wants(&piece));
        for pull in wanted.filter(|pull| may_read(pull.peer, &piece.source.nspace)) {
            pull.line.push(Arc::clone(&piece));
            if !peers.contains(&pull.peer) {
                peers.push(pull.peer);
            }
        }
        // A process may print before its tool has pulled; the first pull gets this output.
        if peers.is_empty() {
            self.kept.keep(&piece, &self.limits);
        }
        peers
    }

    /// Returns the output to send to a peer: as much as fits in the window after the `queued_bytes` that the driver has
    /// not written for this peer.
    pub(crate) fn pump(&mut self, peer: PeerId, queued_bytes: usize) -> Vec<Addressed> {
        let mut room = self.limits.window.saturating_sub(queued_bytes);
        let mut sent = Vec::new();
        let open = |pull: &&mut Pull| pull.peer == peer && pull.is_open;
        for pull in self.pulls.values_mut().filter(open) {
            // A piece may exceed the room that is left: one longer than the window would never be sent otherwise.
            while room > 0
                && let Some(piece) = pull.line.pop_for_peer()
            {
                room = room.saturating_sub(piece.weight());
                sent.push((pull.local_id, piece));
            }
        }
        sent
    }

    /// Ends a pull and returns its held output, to be sent at once.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the peer has no such pull.
    pub(crate) fn end(
        &mut self,
        peer: PeerId,
        number: u64,
    ) -> Result<(EndedPull, Vec<Addressed>), Error> {
        let own = self
            .pulls
            .get(&number)
            .is_some_and(|pull| pull.peer == peer);
        let Some(mut pull) = own.then(|| self.pulls.remove(&number)).flatten() else {
            return Err(Error::not_found(format!("the peer has no pull {number}")));
        };
        // The window does not apply: no later event would send the rest.
        let held = std::iter::from_fn(|| pull.line.pop_for_peer());
        let held = held.map(|piece| (pull.local_id, piece)).collect();
        Ok((EndedPull::of(pull), held))
    }

    /// Removes the pulls of a peer. Returns the output that the host need not forward any more.
    pub(crate) fn forget(&mut self, peer: PeerId) -> Vec<EndedPull> {
        let ended = self.pulls.iter().filter(|(_, pull)| pull.peer == peer);
        let ended: Vec<_> = ended.map(|(id, _)| *id).collect();
        let ended = ended.iter().filter_map(|id| self.pulls.remove(id));
        ended.map(EndedPull::of).collect()
    }

    /// Removes the kept output of a job, but not the output held for pulls.
    pub(crate) fn forget_nspace(&mut self, nspace: &Nspace<'_>) {
        self.kept.forget_nspace(nspace);
    }
}

impl EndedPull {
    fn of(pull: Pull) -> Self {
        let dropped = pull.line.num_dropped();
        if dropped > 0 {
            tracing::warn!(peer = ?pull.peer, dropped, "dropped output that the peer did not read");
        }
        Self {
            sources: pull.sources,
            channels: pull.channels,
        }
    }
}

/// A pull of a peer (`PMIx_IOF_pull`).
#[derive(Debug)]
struct Pull {
    peer: PeerId,
    /// The peer's number of the pull, which its output carries.
    local_id: u64,
    sources: Vec<Proc<'static>>,
    /// The sources as a set, for lookups.
    wanted: Procs,
    channels: IofChannel,
    /// `true` after the reply to the peer. Output waits until then.
    is_open: bool,
    /// The held output.
    line: OutputQueue,
}

impl Pull {
    /// Returns `true` if the pull includes a piece of output.
    fn wants(&self, piece: &Piece) -> bool {
        let channel = self.channels.as_raw() & piece.channel.as_raw() != 0;
        channel
            && match piece.source.rank {
                // The host may deliver output of a job as a whole, which concerns a pull of any of its processes.
                Rank::WILDCARD => self.wanted.names_job(&piece.source.nspace),
                _ => self.wanted.has(&piece.source),
            }
    }
}

/// Creates the queue of held output according to the infos and the limits.
fn queue(infos: &[Info<'_>], limits: &OutputLimits, room: usize) -> OutputQueue {
    let find = |key| infos.iter().find(|info| info.key.is(key));
    let says = |key| find(key).is_some_and(|info| info.truth().is_true());
    let asked = find(keys::IOF_CACHE_SIZE).and_then(|info| info.value.to_number::<u32>().ok());
    let asked = asked.and_then(|size| usize::try_from(size).ok());
    let size = asked.unwrap_or(limits.held);
    // The peer chooses the size, but the memory is the server's.
    let size = size.min(limits.most_held).min(room);
    match says(keys::IOF_DROP_OLDEST) && !says(keys::IOF_DROP_NEWEST) {
        true => OutputQueue::new(size, Overflow::DropOldest),
        false => OutputQueue::new(size, Overflow::DropNewest),
    }
}
