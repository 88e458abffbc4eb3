// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a commit says, message by message, until its server has answered: what the server has not stored goes with
//! the next commit.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Commit`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bfrops::Layout;
use gds_hash::{Codec, OwnPuts, UnansweredCommit};

use crate::Error;

/// Holds what the message of a commit says that the server is to answer next. Dropped before that, it is part of the
/// next commit.
pub(crate) struct Commit {
    puts: Arc<Mutex<OwnPuts>>,
    layout: Layout,
    said: Option<UnansweredCommit>,
}

impl Commit {
    /// Begins a commit, and returns the payload of its first message; empty if there is nothing to commit.
    ///
    /// # Errors
    ///
    /// What cannot be packed.
    pub(crate) fn begin(
        puts: &Arc<Mutex<OwnPuts>>,
        layout: Layout,
    ) -> Result<(Vec<u8>, Self), Error> {
        let (message, said) = lock(puts).take_commit(&Codec::new(layout))?;
        let (puts, said) = (Arc::clone(puts), Some(said));
        Ok((message, Self { puts, layout, said }))
    }

    /// Takes in that the server has stored what the last message said, and returns the payload of the next one; none
    /// if all is said.
    ///
    /// # Errors
    ///
    /// What cannot be packed.
    pub(crate) fn stored(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(stored) = self.said.take() else {
            return Ok(None);
        };
        let rest = lock(&self.puts).take_rest(&Codec::new(self.layout), stored)?;
        Ok(rest.map(|(message, said)| {
            self.said = Some(said);
            message
        }))
    }
}

fn lock(puts: &Mutex<OwnPuts>) -> MutexGuard<'_, OwnPuts> {
    puts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Commit {
    fn drop(&mut self) {
        if let Some(said) = self.said.take() {
            lock(&self.puts).restore(said);
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}
