// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores what a client put (`PMIx_Put`), and remembers which of it has not been committed (`PMIx_Commit`).
//!
//! A server keeps what was committed before, so that a commit says what was put since the last one, in as many
//! messages as that takes. Servers of OpenPMIx do the same with each key: releases 2.1 and later store one by one what a commit
//! has, older ones append its data to those of earlier ones.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Put` and `PMIx_Commit`; OpenPMIx for what
//! servers keep.

mod uncommitted;

use std::collections::HashMap;

use bfrops::wire_type;
use pmix_types::{Info, Key, Kval, Rank, Scope, Status};

use self::uncommitted::{Item, REQUEST_OVERHEAD, Said, Uncommitted, too_long};
use super::scope_set::Action;
use super::{Entry, Put, ScopeSet, check_name, kval_of};
use crate::exchange::codec::{MAX_STORED_VARIANTS, check_num_variants};
#[cfg(test)]
use crate::exchange::counted;
use crate::{Codec, Error, ModexStore};

/// Holds what one process put itself, and which of it is to be committed.
///
/// ```
/// use bfrops::{Layout, Module};
/// use gds_hash::{Codec, OwnPuts};
/// use pmix_types::{Info, Rank, Scope};
/// let codec = Codec::new(Layout::new(Module::V41));
/// let mut own = OwnPuts::new(Rank::new(0), 64 << 20);
/// own.put(&codec, Scope::REMOTE, Info::new("app.card", "ib0:17"))?;
/// let (message, unanswered) = own.take_commit(&codec)?.remove(0);
/// // The server refused it, so that it is part of the next commit.
/// own.restore(unanswered);
/// let (again, _stored) = own.take_commit(&codec)?.remove(0);
/// assert_eq!(again, message);
/// // The server has all that was put.
/// assert!(own.take_commit(&codec)?.is_empty());
/// # Ok::<(), gds_hash::Error>(())
/// ```
#[derive(Debug)]
pub struct OwnPuts {
    rank: Rank,
    all: ModexStore,
    /// Holds what no commit has said. The values are shared with `all`, not copied.
    uncommitted: Uncommitted,
    /// For whom the server may hold values of a key that commits have said.
    held: HashMap<Key<'static>, ScopeSet>,
    /// How many bytes a message may have.
    most: usize,
    /// Whether the server is told that a key is removed.
    says_removals: bool,
    /// Whether the server is told that a commit goes on in another message.
    says_parts: bool,
}

/// Holds what a message of a commit says, until the server has answered it.
#[derive(Debug)]
pub struct UnansweredCommit {
    said: Said,
}

/// Holds the payload of a message of a commit, and what it says.
pub type CommitMessage = (Vec<u8>, UnansweredCommit);

impl OwnPuts {
    /// Creates it for a process that has put nothing, whose commits send messages of so many bytes each to a server
    /// that keeps what was committed.
    #[must_use]
    pub fn new(rank: Rank, max_message_bytes: usize) -> Self {
        Self {
            rank,
            all: ModexStore::default(),
            uncommitted: Uncommitted::default(),
            held: HashMap::new(),
            most: max_message_bytes,
            says_removals: false,
            says_parts: false,
        }
    }

    /// Has commits tell the server which keys are removed, and for whom: servers of this project and those of
    /// OpenPMIx 7 obey, older ones ignore it without a word.
    #[must_use]
    pub const fn with_removals(mut self, tells: bool) -> Self {
        self.says_removals = tells;
        self
    }

    /// Has each message of a commit but the last say that the commit goes on, which servers of this project read:
    /// whoever waits for a process that has not committed waits for the last one.
    #[must_use]
    pub const fn with_parts(mut self, says: bool) -> Self {
        self.says_parts = says;
        self
    }

    /// Returns all that the process put, committed or not.
    #[must_use]
    pub const fn all(&self) -> &ModexStore {
        &self.all
    }

    /// Stores a value, or removes a key, as [`ModexStore::put`] does. A value for other processes is part of the
    /// next commit, and so is it that they do not see a key any longer that was committed for them. A server that
    /// is not told so (see [`with_removals`](Self::with_removals)) keeps a value for those for whom another
    /// put of its key no longer is.
    ///
    /// # Errors
    ///
    /// As [`ModexStore::put`]; what cannot be packed for other processes, `PMIX_ERR_BAD_PARAM` for arrays that are
    /// nested too deeply; `PMIX_ERR_OUT_OF_RESOURCE` for a value that a message has no room for, and for one of a key
    /// with 1,024 values already that qualifiers tell apart, for the local or for the remote processes;
    /// `PMIX_ERR_NOT_SUPPORTED` for the removal of a key that was committed to a server that keeps it. Nothing has
    /// changed then.
    pub fn put(&mut self, codec: &Codec<'_>, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        // First: what is too deep for a message may be too deep for whatever else goes into it.
        let kval = kval_of(info);
        let bytes = packed_bytes(codec, scope, &kval)?;
        if bytes > self.most.saturating_sub(REQUEST_OVERHEAD) {
            return Err(too_long(bytes, self.most));
        }
        let put = Put::new(scope, kval)?;
        match &put {
            Put::Remove(key, scopes) => self.remove(key, *scopes & ScopeSet::GLOBAL)?,
            Put::Store(entry, scopes) => {
                self.check_variants(entry, *scopes)?;
                self.remove_replaced(entry, *scopes);
                if scopes.meets(ScopeSet::GLOBAL) {
                    self.uncommitted.put(entry.clone().for_scopes(*scopes));
                }
            }
        }
        self.all.do_put(self.rank, put);
        Ok(())
    }

    /// Checks that a server takes a value beside those of its key that qualifiers tell apart.
    fn check_variants(&self, entry: &Entry, scopes: ScopeSet) -> Result<(), Error> {
        if !entry.is_qualified() {
            return Ok(());
        }
        let sides = [ScopeSet::LOCAL, ScopeSet::REMOTE].into_iter();
        for side in sides.filter(|side| scopes.meets(*side)) {
            let others = self.all.of_key_for(self.rank, entry.key(), side);
            let others = others.filter(|other| other.is_qualified() && !other.excludes(entry));
            check_num_variants(others.count() + 1, MAX_STORED_VARIANTS)?;
        }
        Ok(())
    }

    /// Says that a key is removed, where a commit may have said that it is there, and no value of it any longer.
    fn remove(&mut self, key: &Key<'static>, scopes: ScopeSet) -> Result<(), Error> {
        let held = self.take_held(key, scopes);
        if held != ScopeSet::NONE && !self.says_removals {
            self.hold(key, held);
            let message = format!("{key} was committed, and the server removes no keys");
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, message));
        }
        self.uncommitted.forget(key, scopes, |_| true);
        if held != ScopeSet::NONE {
            self.uncommitted.remove(key, held);
        }
        Ok(())
    }

    /// Says that a value is removed for those for whom another one for these scopes does not take its place.
    fn remove_replaced(&mut self, entry: &Entry, scopes: ScopeSet) {
        let key = entry.key();
        let known = self.all.of_key(self.rank, key).iter();
        let Some(old) = { known }.find(|old| old.excludes(entry)) else {
            return;
        };
        let lost = old.scopes.without(scopes) & ScopeSet::GLOBAL;
        self.uncommitted
            .forget(key, lost, |old| old.excludes(entry));
        let held = match self.says_removals {
            true => self.take_held(key, lost),
            false => ScopeSet::NONE,
        };
        if held != ScopeSet::NONE {
            self.uncommitted.remove(key, held);
            self.put_others_again(key, held, |other| other.excludes(entry));
        }
    }

    /// Says the values of a key again that scopes see, but for those that are excepted.
    fn put_others_again(
        &mut self,
        key: &Key<'static>,
        scopes: ScopeSet,
        is_excepted: impl Fn(&Entry) -> bool,
    ) {
        let values = self.all.of_key(self.rank, key).iter();
        for other in values.filter(|other| other.scopes.meets(scopes) && !is_excepted(other)) {
            self.uncommitted.put(other.clone());
        }
    }

    /// The server may hold values of a key for some scopes.
    fn hold(&mut self, key: &Key<'static>, scopes: ScopeSet) {
        let held = self.held.entry(key.clone()).or_insert(ScopeSet::NONE);
        *held = *held | scopes;
    }

    /// The server is to hold no values of a key for some scopes. Returns for which of them it may have.
    fn take_held(&mut self, key: &Key<'static>, scopes: ScopeSet) -> ScopeSet {
        let Some(held) = self.held.get_mut(key) else {
            return ScopeSet::NONE;
        };
        let taken = *held & scopes;
        *held = held.without(scopes);
        if *held == ScopeSet::NONE {
            self.held.remove(key);
        }
        taken
    }

    /// Returns whether something was put for other processes, or removed, that no commit has said.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty()
    }

    /// Packs the messages of a commit of what was put since the last one, in the order in which it was put: as many as
    /// have room for all of it, none if nothing was put. What the server did not store of a message is given back to
    /// [`restore`](Self::restore); of one that is neither stored nor restored nothing is ever committed.
    ///
    /// # Errors
    ///
    /// What cannot be packed, with its key; all of it is part of the next commit then, too.
    pub fn take_commit(&mut self, codec: &Codec<'_>) -> Result<Vec<CommitMessage>, Error> {
        let mut messages = Vec::new();
        while !self.uncommitted.is_empty() {
            match self.take_message(codec) {
                Ok(message) => messages.push(message),
                Err(error) => {
                    for (_, unanswered) in messages {
                        self.restore(unanswered);
                    }
                    return Err(error);
                }
            }
        }
        Ok(messages)
    }

    fn take_message(&mut self, codec: &Codec<'_>) -> Result<CommitMessage, Error> {
        let (rank, most) = (self.rank, self.most);
        let mut goes_on = Vec::new();
        if self.says_parts {
            super::commit::pack_goes_on(codec, &mut goes_on)?;
        }
        let (mut message, said) = self.uncommitted.take_message(codec, rank, most)?;
        if !self.uncommitted.is_empty() {
            message.append(&mut goes_on);
        }
        for (_, item) in &said {
            if let Item::Value(entry) = item {
                self.hold(entry.key(), entry.scopes);
            }
        }
        Ok((message, UnansweredCommit { said }))
    }

    /// Makes what a message said part of the next commit, but for what was put anew or removed since.
    pub fn restore(&mut self, unanswered: UnansweredCommit) {
        for (place, item) in unanswered.said {
            match &item {
                Item::Value(entry) => {
                    let known = self.all.of_key(self.rank, entry.key()).iter();
                    let is_kept = { known }.any(|known| known.covers(entry));
                    if is_kept && !self.uncommitted.has(entry) {
                        self.uncommitted.put_back(place, item);
                    }
                }
                Item::Removed(key, scopes) => {
                    let (key, scopes) = (key.clone(), *scopes);
                    self.uncommitted.put_back(place, item);
                    // Another commit may have said meanwhile what is there now.
                    self.put_others_again(&key, scopes, |_| false);
                }
            }
        }
    }
}

/// How many bytes a value that is put for others takes where a message says it once.
fn packed_bytes(codec: &Codec<'_>, scope: Scope, kval: &Kval<'_>) -> Result<usize, Error> {
    let Some((Action::Store, scopes)) = Action::of(scope) else {
        return Ok(0);
    };
    if !scopes.meets(ScopeSet::GLOBAL) {
        return Ok(0);
    }
    check_name(&kval.key)?;
    #[cfg(test)]
    counted::add_one(&counted::PACKED);
    let mut packed = Vec::new();
    let done = codec.encoder(&mut packed).one::<wire_type::Kval>(kval);
    done.map_err(|error| {
        let message = format!("{} cannot be put: {}", kval.key, error.message());
        Error::new(error.status(), message)
    })?;
    Ok(packed.len())
}

#[cfg(test)]
mod tests;
