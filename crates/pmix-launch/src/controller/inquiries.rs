// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the agents of several nodes, whose answers are awaited for a bounded time.
//!
//! | state | event | next |
//! | --- | --- | --- |
//! | open | the last awaited node has answered, or is lost | ended |
//! | open | the time limit has passed | ended; the nodes that have not answered are silent |
//!
//! A silent node is not asked again before it has answered, so a node that hangs keeps a bounded number of requests. It
//! counts as silent at once meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use pmix_types::Status;

use crate::agent::Agent;
use crate::nodes::ToNode;

/// The largest number of inquiries at a time. A tool may repeat its queries at will.
const MOST_OPEN: usize = 64;

type Answer = (u64, usize, Result<Vec<u8>, Status>);

/// The inquiries that have not ended. `P` is the purpose of an inquiry.
pub(crate) struct Inquiries<P> {
    answers: Receiver<Answer>,
    sender: Sender<Answer>,
    open: BTreeMap<u64, Inquiry<P>>,
    last: u64,
    /// The ended inquiries that a node has not answered.
    late: BTreeMap<usize, BTreeSet<u64>>,
}

struct Inquiry<P> {
    purpose: P,
    until: Instant,
    awaited: BTreeSet<usize>,
    answers: BTreeMap<usize, Vec<u8>>,
    silent: BTreeSet<usize>,
}

/// An inquiry that has ended.
pub(crate) struct EndedInquiry<P> {
    pub(crate) purpose: P,
    /// The answers by node. A node that was lost, or that cannot do what was asked, has none.
    pub(crate) answers: BTreeMap<usize, Vec<u8>>,
    /// The nodes that have not answered in time.
    pub(crate) silent: BTreeSet<usize>,
}

impl<P> Default for Inquiries<P> {
    fn default() -> Self {
        let (sender, answers) = channel();
        Self {
            answers,
            sender,
            open: BTreeMap::new(),
            last: 0,
            late: BTreeMap::new(),
        }
    }
}

impl<P> Inquiries<P> {
    /// Returns `true` if another inquiry may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < MOST_OPEN
    }

    /// Sends messages to nodes. Each message is made from the number of its request.
    ///
    /// # Errors
    /// Returns the purpose if too many inquiries are open.
    pub(crate) fn begin<M: Fn(u64) -> ToNode>(
        &mut self,
        agent: &mut Agent<'_>,
        messages: impl IntoIterator<Item = (usize, M)>,
        limit: Duration,
        purpose: P,
    ) -> Result<(), Box<P>> {
        if !self.has_room() {
            return Err(Box::new(purpose));
        }
        self.last += 1;
        let id = self.last;
        let now = Instant::now();
        let mut inquiry = Inquiry {
            purpose,
            until: now.checked_add(limit).unwrap_or(now),
            awaited: BTreeSet::new(),
            answers: BTreeMap::new(),
            silent: BTreeSet::new(),
        };
        for (place, message) in messages {
            if self.late.contains_key(&place) {
                inquiry.silent.insert(place);
                continue;
            }
            inquiry.awaited.insert(place);
            let sender = self.sender.clone();
            let done = move |result| {
                // The receiver lives as long as the controller.
                let _ = sender.send((id, place, result));
            };
            agent.ask_node(place, message, Box::new(done));
        }
        if inquiry.awaited.is_empty() {
            inquiry.until = now;
        }
        self.open.insert(id, inquiry);
        Ok(())
    }

    /// Returns the time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.open.values().map(|one| one.until).min()
    }

    /// Takes over answers. Returns the inquiries that have ended.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<EndedInquiry<P>> {
        while let Ok((id, place, result)) = self.answers.try_recv() {
            if let Some(late) = self.late.get_mut(&place) {
                late.remove(&id);
                if late.is_empty() {
                    self.late.remove(&place);
                }
            }
            if let Some(inquiry) = self.open.get_mut(&id)
                && inquiry.awaited.remove(&place)
                && let Ok(answer) = result
            {
                inquiry.answers.insert(place, answer);
            }
        }
        let is_over = |one: &Inquiry<P>| one.awaited.is_empty() || one.until <= now;
        let over = self.open.iter().filter(|(_, one)| is_over(one));
        let over: Vec<_> = over.map(|(id, _)| *id).collect();
        let ended = over.into_iter().filter_map(|id| {
            let mut one = self.open.remove(&id)?;
            for place in &one.awaited {
                self.late.entry(*place).or_default().insert(id);
            }
            one.silent.append(&mut one.awaited);
            Some(EndedInquiry {
                purpose: one.purpose,
                answers: one.answers,
                silent: one.silent,
            })
        });
        ended.collect()
    }
}
