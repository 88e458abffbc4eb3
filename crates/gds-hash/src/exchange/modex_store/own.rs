// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process put itself: all of it, and what its server does not have yet.
//!
//! A server keeps what was committed before, so that a commit says what was put since the last one, however much
//! that was. Servers of OpenPMIx do the same with each key: releases 2.1 and later store one by one what a commit
//! has, older ones append its data to those of earlier ones.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Put` and `PMIx_Commit`; OpenPMIx for what
//! servers keep.

use pmix_types::{Info, Rank, Scope};

use super::{Put, ScopeSet};
use crate::{Codec, Error, ModexStore};

/// Holds what one process put itself, and which of it is to be committed.
///
/// ```
/// use bfrops::{Layout, Module};
/// use gds_hash::{Codec, OwnPuts};
/// use pmix_types::{Info, Rank, Scope};
/// let codec = Codec::new(Layout::new(Module::V41));
/// let mut own = OwnPuts::new(Rank::new(0));
/// own.put(Scope::REMOTE, Info::new("app.card", "ib0:17"))?;
/// let (message, uncommitted) = own.take_commit(&codec)?;
/// // The server refused it, so that it is part of the next commit.
/// own.restore(uncommitted);
/// let (again, _) = own.take_commit(&codec)?;
/// assert_eq!(again, message);
/// // The server has all that was put.
/// assert!(own.take_commit(&codec)?.0.is_empty());
/// # Ok::<(), gds_hash::Error>(())
/// ```
#[derive(Debug)]
pub struct OwnPuts {
    rank: Rank,
    all: ModexStore,
    /// What was put since the last commit; it shares its data with the others.
    uncommitted: ModexStore,
}

/// Holds what a commit says, until the server has answered it.
#[derive(Debug)]
#[must_use = "what is neither stored by the server nor restored is never committed"]
pub struct Uncommitted(ModexStore);

impl OwnPuts {
    /// Creates it for a process that has put nothing.
    #[must_use]
    pub fn new(rank: Rank) -> Self {
        Self {
            rank,
            all: ModexStore::default(),
            uncommitted: ModexStore::default(),
        }
    }

    /// Returns all that the process put, committed or not.
    #[must_use]
    pub const fn all(&self) -> &ModexStore {
        &self.all
    }

    /// Stores a value, or removes a key, as [`ModexStore::put`] does. A value for other processes is part of the
    /// next commit.
    ///
    /// # Errors
    ///
    /// As [`ModexStore::put`]; nothing has changed then.
    pub fn put(&mut self, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        let put = Put::new(scope, info)?;
        match &put {
            Put::Store(entry, ScopeSet::OWN) => self.uncommitted.take_back(self.rank, entry),
            _ => self.uncommitted.do_put(self.rank, put.clone()),
        }
        self.all.do_put(self.rank, put);
        Ok(())
    }

    /// Returns whether something was put for other processes that no commit has said.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        let mut entries = self.uncommitted.entries(self.rank, ScopeSet::GLOBAL);
        entries.next().is_some()
    }

    /// Packs the payload of a commit, as [`ModexStore::commit_message`] does, of what was put since the last one;
    /// empty if nothing was. What the server did not store is given back to [`restore`](Self::restore).
    ///
    /// # Errors
    ///
    /// What cannot be packed, with its key; all of it is part of the next commit then, too.
    pub fn take_commit(&mut self, codec: &Codec<'_>) -> Result<(Vec<u8>, Uncommitted), Error> {
        let message = self.uncommitted.commit_message(codec, self.rank)?;
        Ok((message, Uncommitted(std::mem::take(&mut self.uncommitted))))
    }

    /// Makes what a commit said part of the next one, but for what was put anew or removed since.
    pub fn restore(&mut self, uncommitted: Uncommitted) {
        let Some(data) = uncommitted.0.data(self.rank) else {
            return;
        };
        let kept = self.all.data(self.rank);
        let is_kept = |entry: &super::Entry| kept.is_some_and(|all| all.has(entry));
        for entry in data.held().filter(|entry| is_kept(entry)) {
            let put = Put::Store(entry.clone(), entry.scopes);
            self.uncommitted.do_put(self.rank, put);
        }
    }
}

#[cfg(test)]
mod tests;
