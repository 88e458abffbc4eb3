// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that processes put, by process and scope.
//!
//! In a put, the scope selects the processes that may see the data. In a fetch, it selects the data
//! that these processes may see. [`ScopeSet`](entry::ScopeSet) defines both, so that stored data can
//! always be fetched:
//!
//! | scope | a put is visible to | a fetch returns the data that are visible to |
//! | --- | --- | --- |
//! | `PMIX_LOCAL` | processes of the same node | processes of the same node |
//! | `PMIX_REMOTE` | processes of other nodes | processes of other nodes |
//! | `PMIX_GLOBAL` | both | both |
//! | `PMIX_INTERNAL` | the process itself only | the process itself: all of its data |
//! | `PMIX_SCOPE_UNDEF` | rejected | as `PMIX_INTERNAL` |
//! | `PMIX_DEL_…` | removes the key for the same processes and the process itself | rejected |
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Put` and the scopes.

mod chunks;
mod commit;
mod entry;
mod own;
mod packed;
mod proc_data;
mod removed_keys;
mod staged;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use pmix_types::{Info, IntoOwned as _, Key, Kval, Rank, Scope, memory};

use self::entry::Action;
use self::proc_data::ProcData;
use crate::qualifiers::Qualifiers;
use crate::{Answer, Error};

pub(crate) use self::entry::{Entry, ScopeSet};
pub use self::own::{CommitMessage, OwnPuts, UnansweredCommit};
pub use self::packed::PackedPuts;
pub use self::staged::{CommitPart, KeyChange, StagedCommit};

/// A checked put, which stores a value or removes a key.
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

/// The number of ranks in a block, as a power of two.
const BLOCK_BITS: u32 = 8;

type Block = BTreeMap<u32, Arc<ProcData>>;

/// The data that the processes of one job put.
///
/// A clone is a cheap snapshot. The only writer keeps the original and publishes clones, so readers
/// never wait for it. A later write copies only the data of one process and its block.
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
    /// The blocks by the upper bits of the rank.
    blocks: Arc<BTreeMap<u32, Arc<Block>>>,
    /// `true` if a process has replaced a value or removed a key, or if a process with values was
    /// removed.
    has_changed: bool,
}

impl ModexStore {
    /// Stores a value for the processes in the scope, or removes the key for them.
    ///
    /// After the put, processes outside of its scope no longer see the key. Values with different
    /// qualifiers ([`pmix_types::QualifiedValue`]) are stored separately. A deletion removes all of
    /// them. Deleting a missing key is not an error.
    ///
    /// DEVIATION: a put with another scope moves the key; OpenPMIx leaves the old value visible to
    /// the processes of the old scope, so both groups continue with different values;
    /// `the_last_put_of_a_key_moves_it`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a missing or too long key, for a value of no type (which means a
    /// deletion in messages to other servers), and for an invalid scope.
    pub fn put(&mut self, rank: Rank, scope: Scope, info: Info<'_>) -> Result<(), Error> {
        self.do_put(rank, Put::new(scope, kval_of(info))?);
        Ok(())
    }

    fn do_put(&mut self, rank: Rank, put: Put) {
        match put {
            Put::Remove(key, scopes) => _ = self.remove(rank, scopes, &key),
            Put::Store(entry, scopes) => self.change(rank, |data| data.replace(entry, scopes)),
        }
    }

    /// Returns all values that a process put for a key, for any scope and with any qualifiers.
    fn of_key(&self, rank: Rank, key: &Key<'_>) -> &[Entry] {
        let data = self.data(rank);
        data.map_or(&[], |data| data.of_key(key.as_bytes()))
    }

    /// Returns the values that a process put for a key, for at least one of the scopes.
    fn of_key_for(
        &self,
        rank: Rank,
        key: &Key<'_>,
        scopes: ScopeSet,
    ) -> impl Iterator<Item = &Entry> + use<'_> {
        let values = self.of_key(rank, key).iter();
        values.filter(move |entry| entry.scopes.meets(scopes))
    }

    /// Returns the number of values with different qualifiers that a process put for a key, for at
    /// least one of the scopes.
    fn num_variants(&self, rank: Rank, key: &Key<'_>, scopes: ScopeSet) -> usize {
        let values = self.of_key_for(rank, key, scopes);
        values.filter(|entry| entry.is_qualified()).count()
    }

    /// Stores values for a set of scopes. Values for other scopes do not change, as commits and
    /// modexes require.
    pub(crate) fn merge(&mut self, rank: Rank, scopes: ScopeSet, entries: Vec<Entry>) {
        if !entries.is_empty() {
            self.change(rank, |data| data.merge(entries, scopes));
        }
    }

    /// Removes a key from a set of scopes. Returns the scopes that had a value of it.
    pub(crate) fn remove(&mut self, rank: Rank, scopes: ScopeSet, key: &Key<'_>) -> ScopeSet {
        let mut lost = ScopeSet::NONE;
        if self.holds(rank, key) {
            self.change(rank, |data| {
                lost = data.remove(key.as_bytes(), scopes);
                lost != ScopeSet::NONE
            });
        }
        lost
    }

    /// Returns `true` if a process has put a value of a key that is not removed.
    #[must_use]
    pub fn holds(&self, rank: Rank, key: &Key<'_>) -> bool {
        let data = self.data(rank);
        data.is_some_and(|data| data.holds(key.as_bytes()))
    }

    /// Removes the values of a key, for a client whose server reports that the process has removed
    /// it.
    pub fn forget_key(&mut self, rank: Rank, key: &Key<'_>) {
        self.remove(rank, ScopeSet::ALL, key);
    }

    /// Returns the value of a key that the scope makes visible to the caller.
    ///
    /// A get with qualifiers finds a value that has all of them. A get without qualifiers finds the
    /// value without qualifiers. With [`Rank::UNDEF`], the value is that of the first process with
    /// the key.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_EXISTS_OUTSIDE_SCOPE` if the process put the key only for a scope to which the
    /// caller does not belong, so that waiting is pointless; `PMIX_ERR_BAD_PARAM` for a scope that
    /// is not allowed in a fetch; `PMIX_ERR_NOT_FOUND` otherwise.
    pub fn get(
        &self,
        rank: Rank,
        scope: Scope,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Result<Answer<'_>, Error> {
        self.find(rank, scope, key, qualifiers)?.value()
    }

    /// Returns the value of a key as [`Self::get`] does, or `None` instead of the error for a missing
    /// value, whose text would cost more than the search.
    pub fn get_known(
        &self,
        rank: Rank,
        scope: Scope,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Option<Result<Answer<'_>, Error>> {
        let asked = Qualifiers::of(qualifiers.iter().filter(|info| info.is_qualifier()));
        let entry = self.entry(rank, ScopeSet::seen_in(scope)?, key, &asked)?;
        Some(entry.value())
    }

    /// Checks that [`Self::get`] finds a value, without unpacking it.
    ///
    /// # Errors
    ///
    /// As for [`Self::get`].
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
        let found = |scopes| self.entry(rank, scopes, key, &asked);
        if let Some(entry) = found(scopes) {
            return Ok(entry);
        }
        let message = format!("rank {rank} has not put {key} with {scope}");
        if rank.is_valid() && scopes.other_side().and_then(found).is_some() {
            let status = pmix_types::Status::ERR_EXISTS_OUTSIDE_SCOPE;
            return Err(Error::new(status, message));
        }
        Err(Error::not_found(message))
    }

    /// Returns the process whose value [`Self::get`] returns for [`Rank::UNDEF`]: the first one
    /// with the key. The search visits all processes of the job.
    #[must_use]
    pub fn first_with(&self, scope: Scope, key: &str, qualifiers: &[Info<'_>]) -> Option<Rank> {
        let scopes = ScopeSet::seen_in(scope)?;
        let asked = Qualifiers::of(qualifiers.iter().filter(|info| info.is_qualifier()));
        let mut all = self.all_data();
        all.find_map(|(rank, data)| data.get(key.as_bytes(), scopes, &asked).map(|_| rank))
    }

    fn entry(&self, rank: Rank, scopes: ScopeSet, key: &str, asked: &Qualifiers) -> Option<&Entry> {
        match rank {
            Rank::UNDEF => {
                (self.all_data()).find_map(|(_, data)| data.get(key.as_bytes(), scopes, asked))
            }
            rank => self.data(rank)?.get(key.as_bytes(), scopes, asked),
        }
    }

    /// Returns all data of a process that the scope makes visible, in the order of the keys.
    ///
    /// A qualified value is returned as it is packed: with the key `pmix.qual.val` and its
    /// qualifiers.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a scope that is not allowed in a fetch; `PMIX_ERR_NOMEM` if the
    /// process has no memory for copies of all data.
    pub fn all(
        &self,
        rank: Rank,
        scope: Scope,
    ) -> Result<impl Iterator<Item = Cow<'_, Kval<'static>>>, Error> {
        let scopes = seen_in(scope)?;
        memory::check(self.num_bytes_seen(rank, scope)?)?;
        Ok(self.entries(rank, scopes).map(Entry::kval))
    }

    /// Returns `true` if a process has put data.
    #[must_use]
    pub fn has_rank(&self, rank: Rank) -> bool {
        self.entries(rank, ScopeSet::ALL).next().is_some()
    }

    /// Returns the other ranks that have put data, in ascending order: first those above `rank`,
    /// then those below.
    pub fn others_after(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        let (upper, lower) = place(rank);
        let above = self.blocks.range(upper..);
        let above = above.flat_map(move |(_, block)| block.range((Excluded(lower), Unbounded)));
        let below = self.blocks.range(..=upper);
        let below = below.flat_map(move |(_, block)| block.range(..lower));
        above.chain(below).map(|(rank, _)| Rank::new(*rank))
    }

    /// Returns `true` if a process ever replaced or removed a value, or was removed with its
    /// values. The cache of a client may then have an outdated value. A new key is not a change.
    /// The commit of an equal value is not a change either.
    #[must_use]
    pub const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Removes all data of a process.
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

    /// Returns the bytes of heap memory of the data. Equal values that several processes share
    /// after a fence count once.
    ///
    /// This function is for monitoring a server, because it visits all data. For a value that is
    /// not a string and not bytes, it uses the size of the value in a C program.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let mut seen = HashSet::new();
        let mut total = 0;
        for (_, data) in self.all_data() {
            // The entry in the block, and the reference counts.
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

    /// Returns the entries of a process for at least one of the scopes.
    pub(crate) fn entries(&self, rank: Rank, scopes: ScopeSet) -> impl Iterator<Item = &Entry> {
        let data = self.data(rank);
        data.into_iter().flat_map(move |data| data.entries(scopes))
    }

    /// Returns the bytes of a process's data that count against a limit: the packed size, or the
    /// size in memory for arrays whose elements take more there.
    ///
    /// The number is updated with each change, so the call is cheap.
    #[must_use]
    pub fn num_bytes(&self, rank: Rank) -> usize {
        self.data(rank).map_or(0, ProcData::bytes)
    }

    /// Returns the number of keys that a process has put. Values with different qualifiers count
    /// separately. The number is updated with each change, so the call is cheap.
    #[must_use]
    pub fn num_keys(&self, rank: Rank) -> usize {
        self.data(rank).map_or(0, ProcData::num_keys)
    }

    /// Returns the removed keys that processes of other nodes may still see. If there are too many,
    /// returns only the last ones.
    pub(crate) fn removed(&self, rank: Rank) -> impl Iterator<Item = &Key<'static>> {
        self.data(rank).into_iter().flat_map(ProcData::removed)
    }

    fn data(&self, rank: Rank) -> Option<&ProcData> {
        self.shared_data(rank).map(Arc::as_ref)
    }

    fn shared_data(&self, rank: Rank) -> Option<&Arc<ProcData>> {
        let (upper, lower) = place(rank);
        self.blocks.get(&upper)?.get(&lower)
    }

    /// Replaces the data of a process. `has_changed` is `true` if other data were replaced or removed.
    fn replace_data(&mut self, rank: Rank, data: ProcData, has_changed: bool) {
        let (upper, lower) = place(rank);
        let blocks = Arc::make_mut(&mut self.blocks);
        let block = Arc::make_mut(blocks.entry(upper).or_default());
        block.insert(lower, Arc::new(data));
        self.has_changed |= has_changed;
    }

    fn all_data(&self) -> impl Iterator<Item = (Rank, &ProcData)> {
        let blocks = self.blocks.values().flat_map(|block| block.iter());
        blocks.map(|(rank, data)| (Rank::new(*rank), data.as_ref()))
    }

    /// Changes the data of a process. The closure returns `true` if it replaced or removed existing
    /// data.
    fn change(&mut self, rank: Rank, write: impl FnOnce(&mut ProcData) -> bool) {
        let (upper, lower) = place(rank);
        let blocks = Arc::make_mut(&mut self.blocks);
        let block = Arc::make_mut(blocks.entry(upper).or_default());
        let data = Arc::make_mut(block.entry(lower).or_default());
        data.begin_change();
        self.has_changed |= write(data);
    }
}

/// Returns the block of a rank and its key in the block.
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

/// Returns a key if it is valid.
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
