// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came unasked and waits to be taken: events, output that this process pulls, and questions.

use std::collections::VecDeque;

use pmix_proto::{Event, Output};
use pmix_types::{Info, IntoOwned as _, IofChannel, Proc, Status};

use crate::Question;

/// Holds forwarded output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forwarded {
    /// The number that this client gave the pull.
    pub local_id: u64,
    /// The process that wrote it.
    pub source: Proc<'static>,
    /// The stream that it wrote to.
    pub channel: IofChannel,
    /// Directives for showing it.
    pub infos: Vec<Info<'static>>,
    /// The bytes; none are the end of the stream.
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

/// One thing of what came unasked.
#[derive(Debug)]
pub(crate) enum Unasked {
    Event(Event<'static>),
    Output(Forwarded),
    Question(Question, Event<'static>),
}

/// What waits to be taken, which a server that sends without end cannot make much. Each kind can be taken
/// by itself, or all in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct UnaskedQueue {
    events: VecDeque<Kept<Event<'static>>>,
    outputs: VecDeque<Kept<Forwarded>>,
    questions: VecDeque<Kept<(Question, Event<'static>)>>,
    /// What events and output took.
    bytes: usize,
    num_come: u64,
    num_lost: u64,
}

/// Something, its place in the order in which things came, and what it counts.
#[derive(Debug)]
struct Kept<T> {
    what: T,
    place: u64,
    bytes: usize,
}

impl UnaskedQueue {
    /// Most events that wait, and most questions.
    pub(super) const MAX_EVENTS: usize = 4096;
    /// Most bytes that events and output took on the wire, where output is to be kept.
    const MAX_BYTES: usize = 64 << 20;
    /// How many bytes more events may take, so that output which nobody reads does not hide that a job ended.
    const FOR_EVENTS: usize = 4 << 20;
    /// What each takes besides.
    const EACH: usize = 256;

    /// Whether there is room for output that took so many bytes on the wire.
    pub(super) const fn has_room_for_output(&self, len: usize) -> bool {
        self.with(len) <= Self::MAX_BYTES
    }

    pub(super) fn has_room_for_event(&self, len: usize) -> bool {
        self.events.len() < Self::MAX_EVENTS && self.with(len) <= Self::MAX_BYTES + Self::FOR_EVENTS
    }

    /// How many bytes there would be with so many more.
    const fn with(&self, len: usize) -> usize {
        self.bytes.saturating_add(len).saturating_add(Self::EACH)
    }

    pub(super) fn has_room_for_question(&self) -> bool {
        self.questions.len() < Self::MAX_EVENTS
    }

    /// Keeps an event, if there is room for it.
    pub(super) fn keep_event(&mut self, event: Event<'static>, len: usize) {
        match self.has_room_for_event(len) {
            true => {
                let kept = self.kept(event, len.saturating_add(Self::EACH));
                self.events.push_back(kept);
            }
            false => self.lose(),
        }
    }

    /// Keeps output, if there is room for it.
    pub(super) fn keep_output(&mut self, output: Forwarded, len: usize) {
        match self.has_room_for_output(len) {
            true => {
                let kept = self.kept(output, len.saturating_add(Self::EACH));
                self.outputs.push_back(kept);
            }
            false => self.lose(),
        }
    }

    /// Keeps what is to be decided.
    pub(super) fn keep_question(&mut self, question: Question, event: Event<'static>) {
        let kept = self.kept((question, event), 0);
        self.questions.push_back(kept);
    }

    fn kept<T>(&mut self, what: T, bytes: usize) -> Kept<T> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.num_come += 1;
        let place = self.num_come;
        Kept { what, place, bytes }
    }

    pub(super) fn poll_event(&mut self) -> Option<Event<'static>> {
        let kept = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(kept.bytes);
        Some(kept.what)
    }

    /// Takes the oldest event with a status, if there is one.
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
        self.questions.pop_front().map(|kept| kept.what)
    }

    /// The next thing, whatever it is.
    pub(super) fn poll(&mut self) -> Option<Unasked> {
        let event = first(&self.events);
        let output = first(&self.outputs);
        let question = first(&self.questions);
        let next = event.min(output).min(question);
        if next == event {
            self.poll_event().map(Unasked::Event)
        } else if next == output {
            self.poll_output().map(Unasked::Output)
        } else {
            let (question, event) = self.poll_question()?;
            Some(Unasked::Question(question, event))
        }
    }

    pub(super) fn lose(&mut self) {
        if self.num_lost == 0 {
            let (most, bytes) = (Self::MAX_EVENTS, Self::MAX_BYTES);
            tracing::warn!(
                "events or output are lost: the program has not read {most} events or {bytes} bytes"
            );
        }
        self.num_lost = self.num_lost.saturating_add(1);
    }

    pub(super) const fn num_lost(&self) -> u64 {
        self.num_lost
    }

    /// How many events, pieces of output and questions wait.
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

/// The place of what came first.
fn first<T>(queue: &VecDeque<Kept<T>>) -> u64 {
    queue.front().map_or(u64::MAX, |kept| kept.place)
}
