// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pieces of output, and bounded queues of them.

use std::collections::VecDeque;
use std::sync::Arc;

use pmix_proto::LOST_OUTPUT;
use pmix_types::{Info, IofChannel, Proc};

use crate::recount::Recount;

/// A piece of output of a process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) source: Proc<'static>,
    pub(crate) channel: IofChannel,
    pub(crate) infos: Vec<Info<'static>>,
    /// The bytes; empty at the end of the stream.
    pub(crate) data: Vec<u8>,
}

impl Piece {
    /// Returns the size of the piece for limits.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.data.len() + crate::weight::infos(&self.infos)
    }

    /// Returns `true` if the piece ends its stream. It is never dropped, because a reader may wait for the end.
    pub(super) fn is_end(&self) -> bool {
        self.data.is_empty()
    }
}

/// The pieces to drop without room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The new piece (`PMIX_IOF_DROP_NEWEST`, the Standard's default).
    #[default]
    DropNewest,
    /// The oldest pieces (`PMIX_IOF_DROP_OLDEST`).
    DropOldest,
}

/// A queue of pieces with a limit of bytes.
#[derive(Debug)]
pub(super) struct OutputQueue {
    pieces: VecDeque<Arc<Piece>>,
    weight: usize,
    limit: usize,
    overflow: Overflow,
    num_dropped: u64,
    /// The number of dropped pieces that was reported to the peer.
    num_reported: u64,
}

impl OutputQueue {
    pub(super) const fn new(limit: usize, overflow: Overflow) -> Self {
        Self {
            pieces: VecDeque::new(),
            weight: 0,
            limit,
            overflow,
            num_dropped: 0,
            num_reported: 0,
        }
    }

    /// Adds a piece at the end, or drops it or older ones.
    pub(super) fn push(&mut self, piece: Arc<Piece>) {
        let weight = piece.weight();
        if self.overflow == Overflow::DropOldest {
            self.drop_oldest(weight);
        }
        if self.weight + weight <= self.limit || piece.is_end() {
            self.weight += weight;
            self.pieces.push_back(piece);
        } else {
            self.num_dropped += 1;
        }
    }

    fn drop_oldest(&mut self, room: usize) {
        let mut place = 0;
        while self.weight + room > self.limit {
            match self.pieces.get(place) {
                Some(piece) if piece.is_end() => place += 1,
                Some(_) => {
                    let gone = self.pieces.remove(place);
                    self.weight -= gone.map_or(0, |piece| piece.weight());
                    self.num_dropped += 1;
                }
                None => return,
            }
        }
    }

    /// Removes and returns the first piece.
    pub(super) fn pop(&mut self) -> Option<Arc<Piece>> {
        let piece = self.pieces.pop_front()?;
        self.weight -= piece.weight();
        Some(piece)
    }

    /// Removes and returns the first piece for sending, with the number of dropped pieces if that has changed.
    pub(super) fn pop_for_peer(&mut self) -> Option<Arc<Piece>> {
        let piece = self.pop()?;
        if self.num_dropped == self.num_reported {
            return Some(piece);
        }
        self.num_reported = self.num_dropped;
        // The number is for this peer only, so a piece shared with other pulls must not change.
        let mut piece = Arc::unwrap_or_clone(piece);
        piece.infos.push(Info::new(LOST_OUTPUT, self.num_dropped));
        Some(Arc::new(piece))
    }

    /// Returns the limit in bytes.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes of the pieces.
    pub(super) const fn weight(&self) -> usize {
        self.weight
    }

    /// Compares the counter with the pieces.
    pub(super) fn recount(&self, recount: &mut Recount) {
        let found = self.pieces.iter().map(|piece| piece.weight()).sum();
        recount.compare("bytes of output of a pull", self.weight, found);
    }

    /// Returns the number of pieces dropped so far.
    pub(super) const fn num_dropped(&self) -> u64 {
        self.num_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(data: &[u8]) -> Arc<Piece> {
        Arc::new(Piece {
            source: Proc::new("a", pmix_types::Rank::new(0)),
            channel: IofChannel::STDOUT_CHANNEL,
            infos: vec![],
            data: data.to_vec(),
        })
    }

    fn line_of(overflow: Overflow, number: usize) -> OutputQueue {
        OutputQueue::new(number * piece(b"x").weight(), overflow)
    }

    fn data(mut line: OutputQueue) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| line.pop().map(|piece| piece.data.clone())).collect()
    }

    #[test]
    fn a_full_buffer_drops_the_newest_or_the_oldest() {
        for (overflow, left) in [
            (Overflow::DropNewest, [b"1", b"2"]),
            (Overflow::DropOldest, [b"2", b"3"]),
        ] {
            let mut line = line_of(overflow, 2);
            for text in [b"1", b"2", b"3"] {
                line.push(piece(text));
            }
            assert_eq!(line.num_dropped(), 1);
            assert_eq!(data(line), left, "{overflow:?}");
        }
    }

    #[test]
    fn the_end_of_a_stream_is_never_dropped() {
        for overflow in [Overflow::DropNewest, Overflow::DropOldest] {
            let mut line = line_of(overflow, 1);
            for text in [&b""[..], b"1", b"2", b""] {
                line.push(piece(text));
            }
            let left = data(line);
            assert_eq!(left.iter().filter(|data| data.is_empty()).count(), 2);
        }
    }

    #[test]
    fn the_next_piece_tells_the_peer_how_many_were_dropped_so_far() {
        let reported = |line: &mut OutputQueue| {
            let piece = line.pop_for_peer().unwrap();
            let reported = piece.infos.iter().find(|info| info.key.is(LOST_OUTPUT));
            reported.map(|info| info.value.to_number::<u64>().unwrap())
        };
        let mut line = line_of(Overflow::DropNewest, 1);
        let first = piece(b"1");
        line.push(Arc::clone(&first));
        assert_eq!(reported(&mut line), None);
        for text in [&b"1"[..], b"2", b"3", b""] {
            line.push(piece(text));
        }
        assert_eq!([reported(&mut line), reported(&mut line)], [Some(2), None]);
        line.push(Arc::clone(&first));
        line.push(piece(b"4"));
        assert_eq!(reported(&mut line), Some(3));
        // Other peers with the same piece do not receive this number.
        assert!(first.infos.is_empty());
        assert_eq!(line.weight, 0);
    }

    #[test]
    fn freed_space_is_used() {
        let mut line = line_of(Overflow::DropNewest, 1);
        for _ in 0..3 {
            line.push(piece(b"x"));
            assert!(line.pop().is_some());
        }
        assert_eq!((line.num_dropped(), line.weight), (0, 0));
    }
}
