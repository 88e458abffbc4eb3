// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that a client puts (`PMIx_Put`), and which of them are not committed yet
//! (`PMIx_Commit`).
//!
//! A server keeps committed data, so a commit contains only the data put since the last one, in as
//! many messages as needed. Servers of OpenPMIx keep committed data as well. Releases 2.1 and later
//! store each key of a commit. Older releases append the data to the data of earlier commits.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Put` and `PMIx_Commit`; OpenPMIx
//! for the storage in servers.

mod uncommitted;

use std::collections::HashMap;

use bfrops::wire_type;
use pmix_types::{Info, Key, Kval, Rank, Scope, Status, memory};

use self::uncommitted::{Item, REQUEST_OVERHEAD, Said, Uncommitted, too_long};
use super::entry::Action;
use super::{Entry, Put, ScopeSet, check_name, kval_of};
use crate::exchange::codec::{MAX_STORED_VARIANTS, check_num_variants};
#[cfg(test)]
use crate::exchange::counted;
use crate::{Codec, Error, ModexStore};

/// The data that one process put, and which of them must be committed.
///
/// ```
/// use bfrops::{Layout, Module};
/// use gds_hash::{Codec, OwnPuts};
/// use pmix_types::{Info, Rank, Scope};
/// let codec = Codec::new(Layout::new(Module::V41));
/// let mut own = OwnPuts::new(Rank::new(0), 64 << 20);
/// own.put(&codec, Scope::REMOTE, Info::new("app.card", "ib0:17"))?;
/// let (message, unanswered) = own.take_commit(&codec)?.remove(0);
/// // The server rejected the commit, so the data are part of the next one.
/// own.restore(unanswered);
/// let (again, _stored) = own.take_commit(&codec)?.remove(0);
/// assert_eq!(again, message);
/// // The server has all data.
/// assert!(own.take_commit(&codec)?.is_empty());
/// # Ok::<(), gds_hash::Error>(())
/// ```
#[derive(Debug)]
pub struct OwnPuts {
    rank: Rank,
    all: ModexStore,
    /// The data that are not committed yet. Their values are shared with `all`.
    uncommitted: Uncommitted,
    /// The scopes for which the server may hold values of a committed key.
    held: HashMap<Key<'static>, ScopeSet>,
    /// The maximum length of a message in bytes.
    most: usize,
    /// `true` if commits contain removed keys.
    says_removals: bool,
    /// `true` if messages tell that the commit continues.
    says_parts: bool,
}

/// The content of a commit message to which the server has not replied yet.
#[derive(Debug)]
pub struct UnansweredCommit {
    said: Said,
}

/// The payload of a commit message, and a record of its content.
pub type CommitMessage = (Vec<u8>, UnansweredCommit);

impl OwnPuts {
    /// Creates the store of a process, without data. Commit messages have at most
    /// `max_message_bytes` bytes.
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

    /// Sets whether commits contain removed keys with their scopes. Servers of this project and of
    /// OpenPMIx 7 remove these keys. Older servers silently ignore them.
    #[must_use]
    pub const fn with_removals(mut self, tells: bool) -> Self {
        self.says_removals = tells;
        self
    }

    /// Sets whether all messages of a commit except the last tell that the commit continues. On
    /// servers of this project, gets that wait for the first commit of the process then wait for
    /// the last message.
    #[must_use]
    pub const fn with_parts(mut self, says: bool) -> Self {
        self.says_parts = says;
        self
    }

    /// Returns all data of the process, committed or not.
    #[must_use]
    pub const fn all(&self) -> &ModexStore {
        &self.all
    }

    /// Stores a value or removes a key, like [`ModexStore::put`]. The next commit contains values
    /// for other processes. It also contains removals for processes that must no longer see a
    /// committed key. A server without support for removals (see
    /// [`with_removals`](Self::with_removals)) keeps the old value for processes outside of the
    /// scope of the new put.
    ///
    /// # Errors
    ///
    /// As for [`ModexStore::put`]; errors of packing a value for other processes;
    /// `PMIX_ERR_BAD_PARAM` for arrays that are nested too deep; `PMIX_ERR_OUT_OF_RESOURCE` for a
    /// value that does not fit a message, and for a key that already has 1,024 values with
    /// different qualifiers for local or for remote processes; `PMIX_ERR_NOT_SUPPORTED` for the
    /// removal of a committed key if the server does not support removals. Then nothing has
    /// changed.
    pub fn put(&mut self, codec: &Codec<'_>, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        // The value is packed first: other operations may not handle a value that is nested too
        // deep for a message.
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

    /// Checks that a server accepts another value of this key with different qualifiers.
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

    /// Drops the uncommitted values of a key, and records its removal if the key may have been
    /// committed.
    fn remove(&mut self, key: &Key<'static>, scopes: ScopeSet) -> Result<(), Error> {
        let held = self.take_held(key, scopes);
        if held != ScopeSet::NONE && !self.says_removals {
            self.hold(key, held);
            let message =
                format!("{key} is committed, and the server does not support the removal of keys");
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, message));
        }
        self.uncommitted.forget(key, scopes, |_| true);
        if held != ScopeSet::NONE {
            self.uncommitted.remove(key, held);
        }
        Ok(())
    }

    /// Removes the old value for the scopes that the new value does not have.
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

    /// Records values of a key for the next commit again, for these scopes, except those that
    /// match.
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

    /// Records that the server may hold values of a key for some scopes.
    fn hold(&mut self, key: &Key<'static>, scopes: ScopeSet) {
        let held = self.held.entry(key.clone()).or_insert(ScopeSet::NONE);
        *held = *held | scopes;
    }

    /// Records that the server must not hold values of a key for some scopes. Returns the scopes
    /// for which it may hold them.
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

    /// Returns `true` if data for other processes or removals are not committed yet.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty()
    }

    /// Packs the messages of a commit of all data put since the last one, in the order of the puts.
    /// Without data, there is no message. If the server did not store a message, the caller must
    /// pass its record to [`restore`](Self::restore). Otherwise its data are never committed.
    ///
    /// # Errors
    ///
    /// A value cannot be packed. The error has its key. All data remain part of the next commit.
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
        if !self.uncommitted.is_empty()
            && let Err(short) = memory::append(&mut message, &goes_on)
        {
            self.restore(UnansweredCommit { said });
            return Err(short.into());
        }
        for (_, item) in &said {
            if let Item::Value(entry) = item {
                self.hold(entry.key(), entry.scopes);
            }
        }
        Ok((message, UnansweredCommit { said }))
    }

    /// Adds the content of a message to the next commit, except for data that were put again or
    /// removed meanwhile.
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
                    // A later commit may have contained the current values, which the removal would
                    // delete, so they are sent again.
                    self.put_others_again(&key, scopes, |_| false);
                }
            }
        }
    }
}

/// Returns the packed length of a value for other processes in a message.
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
