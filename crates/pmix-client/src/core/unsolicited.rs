// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue of unsolicited input for the program: events, pulled output and questions.

use std::collections::VecDeque;

use pmix_proto::{Event, Output};
use pmix_types::{Info, IntoOwned as _, IofChannel, Measure, Proc, Status};

use crate::group::Question;

/// A piece of forwarded output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forwarded {
    /// The number that this client assigned to the pull.
    pub local_id: u64,
    /// The process that wrote the data.
    pub source: Proc<'static>,
    /// The stream of the process.
    pub channel: IofChannel,
    /// The directives for its presentation.
    pub infos: Vec<Info<'static>>,
    /// The bytes; empty at the end of the stream.
    pub data: Vec<u8>,
}

impl From<Output<'_>> for Forwarded {
    fn from(output: Output<'_>) -> Self {
        Self {
            local_id: output.local_id,
            source: output.source.into_owned(),
            channel: output.channel,
            infos: output.infos.into_owned(),
            data: output.data.into_owned(),
        }
    }
}

/// An item of the queue.
#[derive(Debug)]
pub(crate) enum Unsolicited {
    Event(Event<'static>),
    Output(Forwarded),
    Question(Question, Event<'static>),
}

/// A bounded queue of unsolicited input, so that a server cannot exhaust memory. Items can be taken by kind or in the
/// order of arrival.
#[derive(Debug, Default)]
pub(super) struct UnsolicitedQueue {
    events: VecDeque<Kept<Event<'static>>>,
    outputs: VecDeque<Kept<Forwarded>>,
    questions: VecDeque<Kept<(Question, Event<'static>)>>,
    /// The size of queued events, output and questions.
    bytes: usize,
    /// The largest size of queued events and output when output is added.
    max_bytes: usize,
    num_queued: u64,
    num_lost: u64,
}

/// An item, its place in the order of arrival, and its size.
#[derive(Debug)]
struct Kept<T> {
    what: T,
    place: u64,
    bytes: usize,
}

impl UnsolicitedQueue {
    /// The largest number of queued events, and of queued questions.
    pub(super) const MAX_EVENTS: usize = 4096;
    /// The additional size for events, so unread output cannot displace the event that a job has terminated.
    const FOR_EVENTS: usize = 4 << 20;
    /// The size added for each item.
    const EACH: usize = 256;

    /// Returns an empty queue for this size of output.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            ..Self::default()
        }
    }

    /// Returns the largest size of the queue when an event is added.
    const fn max_with_events(&self) -> usize {
        let quarter = self.max_bytes / 4;
        let more = if quarter < Self::FOR_EVENTS {
            quarter
        } else {
            Self::FOR_EVENTS
        };
        self.max_bytes.saturating_add(more)
    }

    /// Returns `true` if there is room for output with this size on the wire.
    pub(super) const fn has_room_for_output(&self, len: usize) -> bool {
        self.with(len) <= self.max_bytes
    }

    pub(super) fn has_room_for_event(&self, len: usize) -> bool {
        self.events.len() < Self::MAX_EVENTS && self.with(len) <= self.max_with_events()
    }

    /// Returns the size of the queue with another item of `len` bytes.
    const fn with(&self, len: usize) -> usize {
        self.bytes.saturating_add(len).saturating_add(Self::EACH)
    }

    /// Returns `true` if there is room for a question with this event.
    pub(super) fn has_room_for_question(&self, event: &Event<'_>) -> bool {
        let bytes = self.with(event.measure(Measure::All));
        self.questions.len() < Self::MAX_EVENTS && bytes <= self.max_with_events()
    }

    /// Queues an event, or drops it if there is no room.
    pub(super) fn keep_event(&mut self, event: Event<'static>, len: usize) {
        match self.has_room_for_event(len) {
            true => {
                let kept = self.kept(event, len.saturating_add(Self::EACH));
                self.events.push_back(kept);
            }
            false => self.lose(),
        }
    }

    /// Queues output, or drops it if there is no room.
    pub(super) fn keep_output(&mut self, output: Forwarded, len: usize) {
        match self.has_room_for_output(len) {
            true => {
                let kept = self.kept(output, len.saturating_add(Self::EACH));
                self.outputs.push_back(kept);
            }
            false => self.lose(),
        }
    }

    /// Queues a question.
    pub(super) fn keep_question(&mut self, question: Question, event: Event<'static>) {
        let bytes = event.measure(Measure::All).saturating_add(Self::EACH);
        let kept = self.kept((question, event), bytes);
        self.questions.push_back(kept);
    }

    fn kept<T>(&mut self, what: T, bytes: usize) -> Kept<T> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.num_queued += 1;
        let place = self.num_queued;
        Kept { what, place, bytes }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event<'static>> {
        let kept = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(kept.bytes);
        Some(kept.what)
    }

    /// Removes the oldest event with a status. Returns `true` if there was one.
    pub(super) fn take_event(&mut self, status: Status) -> bool {
        let place = { self.events.iter() }.position(|kept| kept.what.status == status);
        let taken = place.and_then(|place| self.events.remove(place));
        self.bytes = { self.bytes }.saturating_sub(taken.as_ref().map_or(0, |kept| kept.bytes));
        taken.is_some()
    }

    pub(super) fn poll_output(&mut self) -> Option<Forwarded> {
        let kept = self.outputs.pop_front()?;
        self.bytes = self.bytes.saturating_sub(kept.bytes);
        Some(kept.what)
    }

    pub(super) fn poll_question(&mut self) -> Option<(Question, Event<'static>)> {
        let kept = self.questions.pop_front()?;
        self.bytes = self.bytes.saturating_sub(kept.bytes);
        Some(kept.what)
    }

    /// Removes and returns the item that arrived first.
    pub(super) fn poll(&mut self) -> Option<Unsolicited> {
        let event = first(&self.events);
        let output = first(&self.outputs);
        let question = first(&self.questions);
        // Each number of arrival exists once, so only one queue can have the next item.
        let next = event.min(output).min(question);
        if next == event {
            self.poll_event().map(Unsolicited::Event)
        } else if next == output {
            self.poll_output().map(Unsolicited::Output)
        } else {
            let (question, event) = self.poll_question()?;
            Some(Unsolicited::Question(question, event))
        }
    }

    pub(super) fn lose(&mut self) {
        // One warning is enough; `num_lost` has the number.
        if self.num_lost == 0 {
            let (most, bytes) = (Self::MAX_EVENTS, self.max_bytes);
            tracing::warn!(
                "events or output are lost: the program has not read {most} events or {bytes} bytes"
            );
        }
        self.num_lost = self.num_lost.saturating_add(1);
    }

    pub(super) const fn num_lost(&self) -> u64 {
        self.num_lost
    }

    /// Returns the numbers of queued events, pieces of output and questions.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.events.len(), self.outputs.len(), self.questions.len()]
    }

    pub(super) fn len(&self) -> usize {
        self.counts().iter().sum()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the place of the first item of a queue.
fn first<T>(queue: &VecDeque<Kept<T>>) -> u64 {
    queue.front().map_or(u64::MAX, |kept| kept.place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::{Text, keys};

    #[test]
    fn questions_count_with_the_size_of_their_events() {
        let about = Info::new(
            keys::GROUP_LEADER,
            Proc::new("job", pmix_types::Rank::new(0)),
        );
        let group = Info::new(keys::GROUP_ID, "g");
        let event = |len: usize| Event {
            status: Status::GROUP_INVITE_FAILED,
            infos: vec![
                about.clone(),
                group.clone(),
                Info::new("k", "x".repeat(len)),
            ],
            ..Event::default()
        };
        let question = Question::of_construct(&event(0), |name: &Text<'_>| *name == "g");
        let question = question.unwrap();
        let mut queue = UnsolicitedQueue::new(64 << 20);
        let large = event(1 << 20);
        let mut count = 0;
        while queue.has_room_for_question(&large) {
            queue.keep_question(question.clone(), large.clone());
            count += 1;
            assert!(queue.bytes() >= count << 20);
        }
        assert_eq!(count, 67, "64 MiB, and 4 MiB for events");
        while queue.poll_question().is_some() {}
        assert_eq!(queue.bytes(), 0);
    }
}
