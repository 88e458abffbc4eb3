// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of a commit until the server has replied. Data that the server has not stored are part of the next
//! commit.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Commit`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bfrops::Layout;
use gds_hash::{Codec, CommitMessage, OwnPuts, UnansweredCommit};
use pmix_proto::Tag;

use crate::Error;

/// A commit that the server has not acknowledged completely. If it is dropped before, its data return to the next
/// commit.
pub(crate) struct Commit {
    puts: Arc<Mutex<OwnPuts>>,
    /// The messages to send.
    unsent: VecDeque<CommitMessage>,
    unanswered: Vec<(Tag, UnansweredCommit)>,
    /// The first error of a message that the server has not stored.
    error: Option<Error>,
}

impl Commit {
    /// Begins a commit of the values put since the last one.
    ///
    /// # Errors
    ///
    /// Returns a pack error if a value cannot be packed.
    pub(crate) fn begin(puts: &Arc<Mutex<OwnPuts>>, layout: Layout) -> Result<Self, Error> {
        let unsent = lock(puts).take_commit(&Codec::new(layout))?.into();
        Ok(Self {
            puts: Arc::clone(puts),
            unsent,
            unanswered: Vec::new(),
            error: None,
        })
    }

    /// Sends all messages one after the other, so the server gets them before any later request. Returns their tags;
    /// empty if there is nothing to commit.
    ///
    /// # Errors
    ///
    /// Returns the error of `send`, which sends a message with the given blocks. The message and those after it remain
    /// unsent.
    pub(crate) fn send(
        &mut self,
        mut send: impl FnMut(&[u8]) -> Result<Tag, Error>,
    ) -> Result<Vec<Tag>, Error> {
        let mut tags = Vec::new();
        while let Some((blocks, packed)) = self.unsent.pop_front() {
            match send(&blocks) {
                Ok(tag) => {
                    tags.push(tag);
                    self.unanswered.push((tag, packed));
                }
                Err(error) => {
                    // The drop of this commit returns the data of this message and of those after it to the own puts.
                    self.unsent.push_front((blocks, packed));
                    return Err(error);
                }
            }
        }
        Ok(tags)
    }

    /// Completes the commit of a singleton: there is no server, and its own puts are already readable.
    pub(crate) fn keep_here(&mut self) {
        self.unsent.clear();
    }

    /// Handles the reply to the message with a tag. Returns the result of the commit once all messages are
    /// acknowledged.
    pub(crate) fn answered(
        &mut self,
        tag: Tag,
        answer: Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        let place = self.unanswered.iter().position(|(of, _)| *of == tag)?;
        let (_, packed) = self.unanswered.remove(place);
        if let Err(error) = answer {
            // The server has stored the other messages, so only these data are part of the next commit.
            lock(&self.puts).restore(packed);
            self.error.get_or_insert(error);
        }
        let has_ended = self.unanswered.is_empty();
        has_ended.then(|| self.error.take().map_or(Ok(()), Err))
    }
}

fn lock(puts: &Mutex<OwnPuts>) -> MutexGuard<'_, OwnPuts> {
    puts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Commit {
    fn drop(&mut self) {
        let unanswered = { self.unanswered.drain(..) }.map(|(_, packed)| packed);
        let unsent = { self.unsent.drain(..) }.map(|(_, packed)| packed);
        // Usually the server has acknowledged everything, and the lock of the own puts is not needed.
        let mut left = unanswered.chain(unsent).peekable();
        if left.peek().is_some() {
            let mut puts = lock(&self.puts);
            left.for_each(|packed| puts.restore(packed));
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}
