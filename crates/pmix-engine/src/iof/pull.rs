// SPDX-License-Identifier: MIT OR Apache-2.0
//! One peer's wish for the output of processes.

use pmix_types::{Info, IofChannel, Proc, keys};

use super::limits::OutputLimits;
use super::piece::{OutputQueue, Overflow, Piece};
use crate::PeerId;

/// One peer's wish for the output of processes.
#[derive(Debug)]
pub(super) struct Pull {
    pub(super) peer: PeerId,
    /// What the peer calls it; the output says it.
    pub(super) local_id: u64,
    pub(super) sources: Vec<Proc<'static>>,
    pub(super) channels: IofChannel,
    /// Whether the peer has been told that it has it. Output waits until then.
    pub(super) is_open: bool,
    /// What is held back.
    pub(super) line: OutputQueue,
}

impl Pull {
    /// Whether a piece of output is wanted.
    pub(super) fn wants(&self, piece: &Piece) -> bool {
        let channel = self.channels.as_raw() & piece.channel.as_raw() != 0;
        let named = |source: &Proc<'_>| {
            source.nspace == piece.source.nspace && source.rank.matches(piece.source.rank)
        };
        channel && self.sources.iter().any(named)
    }
}

/// What is held back, as the peer wants it and the limits allow.
pub(super) fn line(infos: &[Info<'_>], limits: &OutputLimits) -> OutputQueue {
    let find = |key| infos.iter().find(|info| info.key.is(key));
    let says = |key| find(key).is_some_and(|info| info.truth().is_true());
    let asked = find(keys::IOF_CACHE_SIZE).and_then(|info| info.value.to_number::<u32>().ok());
    let asked = asked.and_then(|size| usize::try_from(size).ok());
    let size = asked.unwrap_or(limits.held).min(limits.most_held);
    match says(keys::IOF_DROP_OLDEST) && !says(keys::IOF_DROP_NEWEST) {
        true => OutputQueue::new(size, Overflow::DropOldest),
        false => OutputQueue::new(size, Overflow::DropNewest),
    }
}
