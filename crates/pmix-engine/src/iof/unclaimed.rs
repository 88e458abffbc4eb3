// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output without a pull.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pmix_types::{IofChannel, Nspace, Proc};

use super::piece::Piece;
use crate::config::OutputLimits;
use crate::recount::Recount;

/// The output that no pull has matched yet, in order of arrival, for the first pull that does.
#[derive(Debug, Default)]
pub(super) struct UnclaimedOutput {
    pieces: VecDeque<Arc<Piece>>,
    weight: usize,
    streams: HashMap<(Proc<'static>, IofChannel), usize>,
}

impl UnclaimedOutput {
    /// Keeps a piece unless its stream has reached its limit. The oldest pieces of all streams are dropped to make
    /// room.
    pub(super) fn keep(&mut self, piece: &Arc<Piece>, limits: &OutputLimits) {
        let weight = piece.weight();
        let stream = (piece.source.clone(), piece.channel);
        let before = self.streams.get(&stream).copied().unwrap_or(0);
        let fits = before + weight <= limits.kept_per_stream;
        // The end of a stream is kept beyond the limit, because a tool may wait for it.
        if !(fits || piece.is_end()) || weight > limits.kept {
            return;
        }
        while self.weight + weight > limits.kept {
            let Some(oldest) = self.pieces.pop_front() else {
                return;
            };
            self.release(&oldest);
        }
        *self.streams.entry(stream).or_default() += weight;
        self.weight += weight;
        self.pieces.push_back(Arc::clone(piece));
    }

    /// Removes and returns the selected pieces, oldest first.
    pub(super) fn take(&mut self, wanted: impl Fn(&Piece) -> bool) -> Vec<Arc<Piece>> {
        let pieces = std::mem::take(&mut self.pieces);
        let (taken, left): (VecDeque<_>, _) = pieces.into_iter().partition(|piece| wanted(piece));
        self.pieces = left;
        for piece in &taken {
            self.release(piece);
        }
        taken.into()
    }

    fn release(&mut self, piece: &Piece) {
        self.weight -= piece.weight();
        let stream = (piece.source.clone(), piece.channel);
        if let Some(weight) = self.streams.get_mut(&stream) {
            *weight -= piece.weight();
            if *weight == 0 {
                self.streams.remove(&stream);
            }
        }
    }

    /// Drops the output of a job.
    pub(super) fn forget_nspace(&mut self, nspace: &Nspace<'_>) {
        self.take(|piece| piece.source.nspace == *nspace);
    }

    /// Returns the bytes of the pieces.
    pub(super) const fn weight(&self) -> usize {
        self.weight
    }

    /// Compares the counters with the pieces.
    pub(super) fn recount(&self, recount: &mut Recount) {
        let found = self.pieces.iter().map(|piece| piece.weight()).sum();
        recount.compare("bytes of output without a pull", self.weight, found);
        let of_streams = self.streams.values().sum();
        recount.compare("bytes of streams", of_streams, found);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize, usize) {
        (self.pieces.len(), self.streams.len(), self.weight)
    }
}
