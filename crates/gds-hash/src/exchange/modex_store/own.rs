// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores what a client put (`PMIx_Put`), and remembers which of it has not been committed (`PMIx_Commit`).
//!
//! A server keeps what was committed before, so that a commit says what was put since the last one, however much
//! that was. Servers of OpenPMIx do the same with each key: releases 2.1 and later store one by one what a commit
//! has, older ones append its data to those of earlier ones.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Put` and `PMIx_Commit`; OpenPMIx for what
//! servers keep.

use bfrops::wire_type;
use pmix_types::{Info, Kval, Rank, Scope, Status};

use super::scope_set::Action;
use super::{Put, ScopeSet, check_name, kval_of};
use crate::{Codec, Error, ModexStore};

/// The bytes of a request that stand around what was put: command, scopes, lengths.
const REQUEST_OVERHEAD: usize = 128;

/// Holds what one process put itself, and which of it is to be committed.
///
/// ```
/// use bfrops::{Layout, Module};
/// use gds_hash::{Codec, OwnPuts};
/// use pmix_types::{Info, Rank, Scope};
/// let codec = Codec::new(Layout::new(Module::V41));
/// let mut own = OwnPuts::new(Rank::new(0), 64 << 20);
/// own.put(&codec, Scope::REMOTE, Info::new("app.card", "ib0:17"))?;
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
    /// Holds what was put since the last commit. The values are shared with `all`, not copied.
    uncommitted: ModexStore,
    /// An upper bound of the bytes of the next commit, beside [`REQUEST_OVERHEAD`]: a key that is put twice counts
    /// twice, until that would be more than a commit may have.
    bytes: usize,
    /// How many bytes a commit may have.
    most: usize,
}

/// Holds what a commit says, until the server has answered it.
#[derive(Debug)]
#[must_use = "what is neither stored by the server nor restored is never committed"]
pub struct UnansweredCommit {
    puts: ModexStore,
    bytes: usize,
}

impl OwnPuts {
    /// Creates it for a process that has put nothing, whose commits may have so many bytes each.
    #[must_use]
    pub fn new(rank: Rank, max_commit_bytes: usize) -> Self {
        Self {
            rank,
            all: ModexStore::default(),
            uncommitted: ModexStore::default(),
            bytes: 0,
            most: max_commit_bytes,
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
    /// As [`ModexStore::put`]; what cannot be packed for other processes, `PMIX_ERR_BAD_PARAM` for arrays that are
    /// nested too deeply; `PMIX_ERR_OUT_OF_RESOURCE` if what was put since the last commit is more than a commit may
    /// have, where what both the local and the remote processes see counts twice. Nothing has changed then.
    pub fn put(&mut self, codec: &Codec<'_>, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        // First: what is too deep for a message may be too deep for whatever else goes into it.
        let kval = kval_of(info);
        let bytes = packed_bytes(codec, scope, &kval)?;
        let put = Put::new(scope, kval)?;
        if bytes > 0 {
            self.claim(codec, bytes, &put)?;
        }
        match &put {
            Put::Store(entry, ScopeSet::OWN) => self.uncommitted.remove_same(self.rank, entry),
            _ => self.uncommitted.do_put(self.rank, put.clone()),
        }
        self.all.do_put(self.rank, put);
        Ok(())
    }

    /// Counts the bytes of a put, if a commit has room for them.
    fn claim(&mut self, codec: &Codec<'_>, bytes: usize, put: &Put) -> Result<(), Error> {
        let most = self.most.saturating_sub(REQUEST_OVERHEAD);
        let mut total = self.bytes.saturating_add(bytes);
        if total > most && bytes <= most {
            // What was put again counts once.
            let mut puts = self.uncommitted.clone();
            puts.do_put(self.rank, put.clone());
            total = puts.commit_message(codec, self.rank)?.len();
        }
        if total > most {
            let before = total - bytes;
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "a put of {bytes} bytes beside {before} that were put since the last commit: a commit has at \
                     most {most}, and PMIX_GLOBAL data count twice; commit first"
                ),
            ));
        }
        self.bytes = total;
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
    pub fn take_commit(&mut self, codec: &Codec<'_>) -> Result<(Vec<u8>, UnansweredCommit), Error> {
        let message = self.uncommitted.commit_message(codec, self.rank)?;
        let (puts, bytes) = (std::mem::take(&mut self.uncommitted), message.len());
        self.bytes = 0;
        Ok((message, UnansweredCommit { puts, bytes }))
    }

    /// Makes what a commit said part of the next one, but for what was put anew or removed since.
    pub fn restore(&mut self, uncommitted: UnansweredCommit) {
        self.bytes = self.bytes.saturating_add(uncommitted.bytes);
        let Some(data) = uncommitted.puts.data(self.rank) else {
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

/// The bytes that a put takes of a commit.
fn packed_bytes(codec: &Codec<'_>, scope: Scope, kval: &Kval<'_>) -> Result<usize, Error> {
    let Some((Action::Store, scopes)) = Action::of(scope) else {
        return Ok(0);
    };
    let times = [ScopeSet::LOCAL, ScopeSet::REMOTE].map(|of| usize::from(scopes.meets(of)));
    let times = times.iter().sum::<usize>();
    if times == 0 {
        return Ok(0);
    }
    check_name(&kval.key)?;
    let mut packed = Vec::new();
    let done = codec.encoder(&mut packed).one::<wire_type::Kval>(kval);
    done.map_err(|error| {
        let message = format!("{} cannot be put: {}", kval.key, error.message());
        Error::new(error.status(), message)
    })?;
    Ok(times.saturating_mul(packed.len()))
}

#[cfg(test)]
mod tests;
