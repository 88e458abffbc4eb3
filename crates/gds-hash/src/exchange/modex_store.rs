// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that processes put, by process and scope.
//!
//! A scope says for storing who may see a value and for fetching who asks, in one table
//! ([`ScopeSet`](scope_set::ScopeSet)), so that nothing is stored where no fetch looks:
//!
//! | scope | a put is seen by | a fetch sees what is for |
//! | --- | --- | --- |
//! | `PMIX_LOCAL` | processes of the same node | processes of the same node |
//! | `PMIX_REMOTE` | processes of other nodes | processes of other nodes |
//! | `PMIX_GLOBAL` | both | both |
//! | `PMIX_INTERNAL` | nobody else | everybody and nobody: all that the process put |
//! | `PMIX_SCOPE_UNDEF` | refused | the same |
//! | `PMIX_DEL_…` | the key is removed for the same scopes | refused |
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Put` and the scopes.

mod chunks;
mod commit;
mod entry;
mod own;
mod packed;
mod proc_data;
mod removed_keys;
mod scope_set;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use pmix_types::{Info, IntoOwned as _, Key, Kval, Rank, Scope, memory};

pub use self::commit::CommitPart;
pub(crate) use self::entry::Entry;
pub use self::own::{CommitMessage, OwnPuts, UnansweredCommit};
pub use self::packed::PackedPuts;
use self::proc_data::ProcData;
use self::scope_set::Action;
pub(crate) use self::scope_set::ScopeSet;
use crate::qualifiers::Qualifiers;
use crate::{Answer, Error};

/// Holds a put whose key, value and scope have been checked: it stores a value or removes a key.
#[derive(Clone)]
enum Put {
    Store(Entry, ScopeSet),
    Remove(Key<'static>, ScopeSet),
}

impl Put {
    fn new(scope: Scope, kval: Kval<'_>) -> Result<Self, Error> {
        let (action, scopes) = Action::of(scope)
            .ok_or_else(|| Error::bad(format!("{scope} is no scope to put data in")))?;
        Ok(match action {
            Action::Remove => Self::Remove(named(kval.key)?.into_owned(), scopes | ScopeSet::OWN),
            Action::Store => Self::Store(Entry::new(kval)?, scopes),
        })
    }
}

/// How many ranks share a block, as a power of two.
const BLOCK_BITS: u32 = 8;

type Block = BTreeMap<u32, Arc<ProcData>>;

/// Holds the data that the processes of one job put.
///
/// A clone is a snapshot: it costs nothing and does not change when the original does. The one
/// writer keeps the original and publishes clones; readers never wait for it. A write after that
/// copies what the snapshot still holds of one process and its block, not the rest.
///
/// ```
/// use gds_hash::ModexStore;
/// use pmix_types::{Info, Rank, Scope, Value};
/// let mut puts = ModexStore::default();
/// puts.put(Rank::new(3), Scope::REMOTE, Info::new("app.card", "ib0:17"))?;
/// assert_eq!(*puts.get(Rank::new(3), Scope::REMOTE, "app.card", &[])?, Value::from("ib0:17"));
/// assert!(puts.get(Rank::new(3), Scope::LOCAL, "app.card", &[]).is_err());
/// # Ok::<(), gds_hash::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModexStore {
    /// By the upper bits of the rank.
    blocks: Arc<BTreeMap<u32, Arc<Block>>>,
    /// Whether some process has put another value under a key that it had put before, has removed one, or was
    /// removed with its values.
    has_changed: bool,
}

impl ModexStore {
    /// Stores a value for the processes that the scope names, or removes the key for them.
    ///
    /// The last put of a key counts: who is not in its scope no longer sees the key. Values that
    /// different qualifiers tell apart ([`pmix_types::QualifiedValue`]) are stored side by side; a
    /// deletion removes them all. Deleting what is not there is no error.
    ///
    /// DEVIATION: a put with another scope moves the key; OpenPMIx leaves the old value with those
    /// who saw it before, and both sides go on with different values;
    /// `the_last_put_of_a_key_moves_it`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without a key, with one that is too long, with a value of no type
    /// (which means a deletion to other servers), or with a scope that is none.
    pub fn put(&mut self, rank: Rank, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        self.do_put(rank, Put::new(scope, kval_of(info))?);
        Ok(())
    }

    fn do_put(&mut self, rank: Rank, put: Put) {
        match put {
            Put::Remove(key, scopes) => self.remove(rank, scopes, &key),
            Put::Store(entry, scopes) => self.change(rank, |data| data.replace(entry, scopes)),
        }
    }

    /// All values of a key of a process that qualifiers tell apart, whoever sees them.
    fn of_key(&self, rank: Rank, key: &Key<'_>) -> &[Entry] {
        let data = self.data(rank);
        data.map_or(&[], |data| data.of_key(key.as_bytes()))
    }

    /// Returns the values of a key of a process that are stored for some scopes.
    fn of_key_for(
        &self,
        rank: Rank,
        key: &Key<'_>,
        scopes: ScopeSet,
    ) -> impl Iterator<Item = &Entry> + use<'_> {
        let values = self.of_key(rank, key).iter();
        values.filter(move |entry| entry.scopes.meets(scopes))
    }

    /// Returns how many values of a key of a process are stored for some scopes that qualifiers tell apart.
    fn num_variants(&self, rank: Rank, key: &Key<'_>, scopes: ScopeSet) -> usize {
        let values = self.of_key_for(rank, key, scopes);
        values.filter(|entry| entry.is_qualified()).count()
    }

    /// Stores values for a set of scopes and leaves what others see: how commits and modexes say it.
    pub(crate) fn merge(&mut self, rank: Rank, scopes: ScopeSet, entries: Vec<Entry>) {
        if !entries.is_empty() {
            self.change(rank, |data| data.merge(entries, scopes));
        }
    }

    pub(crate) fn remove(&mut self, rank: Rank, scopes: ScopeSet, key: &Key<'_>) {
        let known = self
            .data(rank)
            .is_some_and(|data| data.holds(key.as_bytes()));
        if known {
            self.change(rank, |data| data.remove(key.as_bytes(), scopes));
        }
    }

    /// Returns the value of a key that the scope lets the caller see.
    ///
    /// Who asks with qualifiers is answered by a value that has them all; who asks without, by the
    /// value without. With [`Rank::UNDEF`] the first process that has the key answers.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_EXISTS_OUTSIDE_SCOPE` if the process put the key for the other of the local and
    /// the remote processes only, so that there is nothing to wait for; `PMIX_ERR_NOT_FOUND`
    /// otherwise; `PMIX_ERR_BAD_PARAM` with a scope in which nothing can be found.
    pub fn get(
        &self,
        rank: Rank,
        scope: Scope,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Result<Answer<'_>, Error> {
        self.find(rank, scope, key, qualifiers)?.value()
    }

    /// Checks that [`Self::get`] finds a value, without unpacking it.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub fn check(
        &self,
        rank: Rank,
        scope: Scope,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Result<(), Error> {
        self.find(rank, scope, key, qualifiers).map(|_| ())
    }

    fn find(
        &self,
        rank: Rank,
        scope: Scope,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Result<&Entry, Error> {
        let scopes = seen_in(scope)?;
        let asked = Qualifiers::of(qualifiers.iter().filter(|info| info.is_qualifier()));
        let found = |scopes| match rank {
            Rank::UNDEF => {
                (self.all_data()).find_map(|(_, data)| data.get(key.as_bytes(), scopes, &asked))
            }
            rank => self.data(rank)?.get(key.as_bytes(), scopes, &asked),
        };
        if let Some(entry) = found(scopes) {
            return Ok(entry);
        }
        let message = format!("{key} was not put by rank {rank} with {scope}");
        if rank.is_valid() && scopes.other_side().and_then(found).is_some() {
            let status = pmix_types::Status::ERR_EXISTS_OUTSIDE_SCOPE;
            return Err(Error::new(status, message));
        }
        Err(Error::not_found(message))
    }

    /// Returns all that a process put and the scope lets the caller see, in the order of the keys.
    ///
    /// A qualified value comes as it travels: under `pmix.qual.val` with its qualifiers.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` with a scope in which nothing can be found; `PMIX_ERR_NOMEM` if the process has no memory
    /// for copies of all that was put.
    pub fn all(
        &self,
        rank: Rank,
        scope: Scope,
    ) -> Result<impl Iterator<Item = Cow<'_, Kval<'static>>>, Error> {
        let scopes = seen_in(scope)?;
        memory::check(self.num_bytes_seen(rank, scope)?)?;
        Ok(self.entries(rank, scopes).map(Entry::kval))
    }

    /// Returns whether any data of a process are there.
    #[must_use]
    pub fn has_rank(&self, rank: Rank) -> bool {
        self.entries(rank, ScopeSet::ALL).next().is_some()
    }

    /// Returns the ranks of the other processes that put something: first those above a rank, in their
    /// order, then those below it.
    pub fn others_after(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        let (upper, lower) = place(rank);
        let above = self.blocks.range(upper..);
        let above = above.flat_map(move |(_, block)| block.range((Excluded(lower), Unbounded)));
        let below = self.blocks.range(..=upper);
        let below = below.flat_map(move |(_, block)| block.range(..lower));
        above.chain(below).map(|(rank, _)| Rank::new(*rank))
    }

    /// Returns whether a process ever replaced or removed a value, or was forgotten with its values: a client
    /// that got such a value before may hold an outdated one. A new key is no change, and neither is the
    /// commit of an equal value.
    #[must_use]
    pub const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Removes all that a process put.
    pub fn forget(&mut self, rank: Rank) {
        self.has_changed = true;
        let (upper, _) = place(rank);
        if self.data(rank).is_none() {
            return;
        }
        let blocks = Arc::make_mut(&mut self.blocks);
        if let Some(block) = blocks.get_mut(&upper) {
            let block = Arc::make_mut(block);
            block.remove(&rank.as_raw());
            if block.is_empty() {
                blocks.remove(&upper);
            }
        }
    }

    /// Returns the bytes of heap that the data take. Equal values of several processes that a fence
    /// brought count once.
    ///
    /// A figure for who watches a server: it goes through all data, and of a value that is neither
    /// text nor bytes it takes what a C program would need.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let mut seen = HashSet::new();
        let mut total = 0;
        for (_, data) in self.all_data() {
            // Its place in the block, and its own counts.
            total += size_of::<(u32, Arc<ProcData>)>() + 2 * size_of::<usize>();
            total += size_of::<ProcData>() + data.memory_bytes();
            for entry in data.held() {
                let (datum, bytes) = entry.datum();
                if seen.insert(datum) {
                    total += bytes;
                }
            }
        }
        total
    }

    /// The entries a set of scopes sees of a process.
    pub(crate) fn entries(&self, rank: Rank, scopes: ScopeSet) -> impl Iterator<Item = &Entry> {
        let data = self.data(rank);
        data.into_iter().flat_map(move |data| data.entries(scopes))
    }

    /// Returns the bytes that the data of a process take, which count against a limit: on the wire
    /// or, where elements of arrays take more there, in memory.
    ///
    /// It is kept up with each change, so that asking for it costs nothing.
    #[must_use]
    pub fn num_bytes(&self, rank: Rank) -> usize {
        self.data(rank).map_or(0, ProcData::bytes)
    }

    /// Returns how many keys a process has put, each of the values of a key that qualifiers tell
    /// apart counted. It is kept up with each change.
    #[must_use]
    pub fn num_keys(&self, rank: Rank) -> usize {
        self.data(rank).map_or(0, ProcData::num_keys)
    }

    /// The keys that processes of other nodes saw and are to see no longer; if they are very many, those that were
    /// removed last.
    pub(crate) fn removed(&self, rank: Rank) -> impl Iterator<Item = &Key<'static>> {
        self.data(rank).into_iter().flat_map(ProcData::removed)
    }

    fn data(&self, rank: Rank) -> Option<&ProcData> {
        let (upper, lower) = place(rank);
        self.blocks.get(&upper)?.get(&lower).map(Arc::as_ref)
    }

    fn all_data(&self) -> impl Iterator<Item = (Rank, &ProcData)> {
        let blocks = self.blocks.values().flat_map(|block| block.iter());
        blocks.map(|(rank, data)| (Rank::new(*rank), data.as_ref()))
    }

    /// Changes what a process put; the closure says whether something that was there is so no longer.
    fn change(&mut self, rank: Rank, write: impl FnOnce(&mut ProcData) -> bool) {
        let (upper, lower) = place(rank);
        let blocks = Arc::make_mut(&mut self.blocks);
        let block = Arc::make_mut(blocks.entry(upper).or_default());
        let data = Arc::make_mut(block.entry(lower).or_default());
        data.begin_change();
        self.has_changed |= write(data);
    }
}

/// The block of a rank and its key there.
const fn place(rank: Rank) -> (u32, u32) {
    (rank.as_raw() >> BLOCK_BITS, rank.as_raw())
}

fn seen_in(scope: Scope) -> Result<ScopeSet, Error> {
    ScopeSet::seen_in(scope)
        .ok_or_else(|| Error::bad(format!("{scope} is no scope to find data in")))
}

fn kval_of(info: Info<'_>) -> Kval<'_> {
    Kval {
        key: info.key,
        value: info.value,
    }
}

/// A key that names something.
fn named(key: Key<'_>) -> Result<Key<'_>, Error> {
    check_name(&key).map(|()| key)
}

fn check_name(key: &Key<'_>) -> Result<(), Error> {
    match key.as_bytes().len() {
        0 => Err(Error::bad("data without a key")),
        len if len > Key::MAX_LEN => {
            let most = Key::MAX_LEN;
            Err(Error::bad(format!(
                "a key of {len} bytes, more than {most}"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
