// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that wait to be asked for.

use std::collections::VecDeque;

use pmix_proto::Event;

/// Events that wait to be asked for, which a server that sends them without end cannot make
/// many.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    /// With the bytes that each took on the wire.
    events: VecDeque<(Event<'static>, usize)>,
    bytes: usize,
    num_lost: u64,
}

impl EventQueue {
    /// Most events that wait.
    pub(super) const MAX_EVENTS: usize = 4096;
    /// Most bytes that they took on the wire.
    const MAX_BYTES: usize = 16 << 20;

    pub(super) fn has_room(&self, len: usize) -> bool {
        self.events.len() < Self::MAX_EVENTS && self.bytes.saturating_add(len) <= Self::MAX_BYTES
    }

    /// Keeps an event, if there is room for it.
    pub(super) fn keep(&mut self, event: Event<'static>, len: usize) {
        if !self.has_room(len) {
            return self.lose();
        }
        self.events.push_back((event, len));
        self.bytes = self.bytes.saturating_add(len);
    }

    pub(super) fn pop(&mut self) -> Option<Event<'static>> {
        let (event, len) = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(len);
        Some(event)
    }

    pub(super) fn lose(&mut self) {
        if self.num_lost == 0 {
            let (most, bytes) = (Self::MAX_EVENTS, Self::MAX_BYTES);
            tracing::warn!(
                "events are lost: {most} events or {bytes} bytes of them wait to be asked for"
            );
        }
        self.num_lost = self.num_lost.saturating_add(1);
    }

    pub(super) const fn num_lost(&self) -> u64 {
        self.num_lost
    }

    /// How many events wait, and the bytes that they took.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.events.len(), self.bytes)
    }
}
