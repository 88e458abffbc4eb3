// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a commit says, message by message, until its server has answered: what the server has not stored goes with
//! the next commit.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Commit`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bfrops::Layout;
use gds_hash::{Codec, CommitMessage, OwnPuts, UnansweredCommit};
use pmix_proto::Tag;

use crate::Error;

/// Holds what the messages of a commit say that the server has not answered. Dropped before that, it is part of the
/// next commit.
pub(crate) struct Commit {
    puts: Arc<Mutex<OwnPuts>>,
    /// Messages that are to be sent.
    unsent: VecDeque<CommitMessage>,
    unanswered: Vec<(Tag, UnansweredCommit)>,
    /// Why the server has not stored a message, the first of them.
    error: Option<Error>,
}

impl Commit {
    /// Begins a commit of what was put since the last one.
    ///
    /// # Errors
    ///
    /// What cannot be packed.
    pub(crate) fn begin(puts: &Arc<Mutex<OwnPuts>>, layout: Layout) -> Result<Self, Error> {
        let unsent = lock(puts).take_commit(&Codec::new(layout))?.into();
        Ok(Self {
            puts: Arc::clone(puts),
            unsent,
            unanswered: Vec::new(),
            error: None,
        })
    }

    /// Sends all its messages, one behind the other, so that whatever is sent next comes to the server behind them.
    /// Returns their tags; none if there is nothing to commit.
    ///
    /// # Errors
    ///
    /// As the closure, which sends a message with these blocks.
    pub(crate) fn send(
        &mut self,
        mut send: impl FnMut(&[u8]) -> Result<Tag, Error>,
    ) -> Result<Vec<Tag>, Error> {
        let mut tags = Vec::new();
        while let Some((blocks, said)) = self.unsent.pop_front() {
            match send(&blocks) {
                Ok(tag) => {
                    tags.push(tag);
                    self.unanswered.push((tag, said));
                }
                Err(error) => {
                    self.unsent.push_front((blocks, said));
                    return Err(error);
                }
            }
        }
        Ok(tags)
    }

    /// Ends a commit that no server stores: what was put is known here, where the one process of the job is.
    pub(crate) fn keep_here(&mut self) {
        self.unsent.clear();
    }

    /// Takes in whether the server has stored the message of a tag. Returns how the commit has ended, if all messages
    /// are answered.
    pub(crate) fn answered(
        &mut self,
        tag: Tag,
        answer: Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        let place = self.unanswered.iter().position(|(of, _)| *of == tag)?;
        let (_, said) = self.unanswered.remove(place);
        if let Err(error) = answer {
            lock(&self.puts).restore(said);
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
        let unanswered = { self.unanswered.drain(..) }.map(|(_, said)| said);
        let unsent = { self.unsent.drain(..) }.map(|(_, said)| said);
        let mut left = unanswered.chain(unsent).peekable();
        if left.peek().is_some() {
            let mut puts = lock(&self.puts);
            left.for_each(|said| puts.restore(said));
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}
