// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a commit says, until its server has answered: what the server has not stored goes with the next commit.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Commit`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use gds_hash::{OwnPuts, UnansweredCommit};

/// Holds what a commit says. Dropped without [`stored`](Self::stored), it is part of the next commit.
pub(crate) struct Commit {
    puts: Arc<Mutex<OwnPuts>>,
    said: Option<UnansweredCommit>,
}

impl Commit {
    pub(crate) const fn new(puts: Arc<Mutex<OwnPuts>>, said: UnansweredCommit) -> Self {
        let said = Some(said);
        Self { puts, said }
    }

    /// The server has stored it.
    pub(crate) fn stored(mut self) {
        self.said = None;
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        if let Some(said) = self.said.take() {
            let puts = self.puts.lock();
            puts.unwrap_or_else(PoisonError::into_inner).restore(said);
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}
