// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of published data.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup Operations".

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use pmix_engine::{Procs, weight};
use pmix_types::{
    DataRange, Info, IntoOwned, Key, Nspace, Pdata, Persistence, Proc, Rank, Status, Text,
};

use super::caller::{Caller, PublishedItem, Range};
use super::directives::{Directives, is_key};
use super::pending_lookup::{LookupResult, PendingLookups};
use crate::Error;

/// The accounted size of a name in a list of readers.
const NAME_BYTES: usize = 64;

/// The limits of published data and pending lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PubSubLimits {
    /// The largest size of the data that the processes of one job have published.
    pub bytes_per_job: usize,
    /// The largest number of keys in the pending lookups of a process.
    pub waiting_keys_per_proc: usize,
    /// The largest number of keys in a lookup.
    pub keys_per_lookup: usize,
    /// The largest number of ranges on which one key is published, since each lookup of the key searches all of them.
    pub ranges_per_key: usize,
}

impl Default for PubSubLimits {
    fn default() -> Self {
        Self {
            bytes_per_job: 64 << 20,
            waiting_keys_per_proc: 4096,
            keys_per_lookup: 1 << 16,
            ranges_per_key: 4096,
        }
    }
}

/// The published data and the lookups that wait for data (`PMIx_Publish`, `PMIx_Lookup`). `T` is the host's token of a
/// lookup.
#[derive(Debug)]
pub struct PubSub<T> {
    pub(super) limits: PubSubLimits,
    /// The data in the order of publication.
    pub(super) items: BTreeMap<u64, PublishedItem>,
    pub(super) by_key: HashMap<Key<'static>, BTreeSet<u64>>,
    pub(super) by_publisher: BTreeMap<Proc<'static>, BTreeSet<u64>>,
    next: u64,
    pub(super) weights: HashMap<Nspace<'static>, usize>,
    pub(super) waiting: PendingLookups<T>,
}

impl<T> Default for PubSub<T> {
    fn default() -> Self {
        Self::new(PubSubLimits::default())
    }
}

impl<T> PubSub<T> {
    /// Creates a table without data.
    #[must_use]
    pub fn new(limits: PubSubLimits) -> Self {
        Self {
            limits,
            items: BTreeMap::new(),
            by_key: HashMap::new(),
            by_publisher: BTreeMap::new(),
            next: 0,
            weights: HashMap::new(),
            waiting: PendingLookups::default(),
        }
    }

    /// Publishes the data among the infos, all or none, and completes the lookups that waited for them.
    ///
    /// The default range is the session, and the default persistence is that of the application.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_DUPLICATE_KEY` if a key is published on the same range already, even by the same process;
    /// `PMIX_ERR_BAD_PARAM` without data and for invalid directives; and `PMIX_ERR_OUT_OF_RESOURCE` if the job has
    /// published too much, or a key on too many ranges.
    pub fn publish(
        &mut self,
        publisher: &Caller,
        infos: &[Info<'_>],
    ) -> Result<Vec<LookupResult<T>>, Error> {
        let (directives, data) = Directives::read(infos)?;
        let data_range = directives.range.unwrap_or(DataRange::SESSION);
        let persistence = directives.persistence.unwrap_or(Persistence::APP);
        if persistence.as_raw() > Persistence::NSPACE.as_raw() {
            return Err(Error::bad(format!("unsupported persistence {persistence}")));
        }
        let range = range_of(data_range, publisher, directives.listed)?;
        let names = range.num_names() + directives.access.as_ref().map_or(0, |a| a.len());
        let item = |info: &&Info<'_>| PublishedItem {
            publisher: publisher.clone(),
            data: Arc::new(Pdata {
                proc: publisher.proc.clone(),
                key: info.key.clone().into_owned(),
                value: info.value.clone().into_owned(),
            }),
            range: range.clone(),
            persistence,
            access: directives.access.clone(),
            weight: weight::infos(std::slice::from_ref(*info)) + names * NAME_BYTES,
        };
        let items: Vec<_> = data.iter().map(item).collect();
        // All items are checked before the first is stored: data are published all or none.
        self.check(&items)?;
        let keys: Vec<_> = items.iter().map(|item| item.key().clone()).collect();
        for item in items {
            self.insert(item);
        }
        Ok(self.settle(&keys))
    }

    /// Checks that data of one publisher can be published.
    fn check(&self, items: &[PublishedItem]) -> Result<(), Error> {
        let Some(first) = items.first() else {
            return Err(Error::bad("no data to publish: all infos are directives"));
        };
        let mut seen = HashSet::new();
        for item in items {
            if !is_key(item.key()) {
                return Err(Error::bad(format!("{:?} cannot be published", item.key())));
            }
            let mut known = self.under(item.key().as_bytes());
            let again = known.any(|(_, other)| other.range == item.range);
            if again || !seen.insert(item.key()) {
                return Err(Error::new(
                    Status::ERR_DUPLICATE_KEY,
                    format!("{} is already published on this range", item.key()),
                ));
            }
        }
        let most = self.limits.ranges_per_key;
        let num_ranges =
            |item: &PublishedItem| self.by_key.get(item.key()).map_or(0, BTreeSet::len);
        if let Some(item) = items.iter().find(|item| num_ranges(item) >= most) {
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "{} is already published on {most} ranges, the limit",
                    item.key()
                ),
            ));
        }
        let weight: usize = items.iter().map(|item| item.weight).sum();
        let before = self.weights.get(first.publisher.proc.nspace.as_bytes());
        let most = self.limits.bytes_per_job;
        if before.copied().unwrap_or(0).saturating_add(weight) > most {
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "{weight} more bytes exceed the limit of {most} bytes that a job can publish"
                ),
            ));
        }
        Ok(())
    }

    fn insert(&mut self, item: PublishedItem) {
        let number = self.next;
        self.next += 1;
        let publisher = item.publisher.proc.clone();
        let weight = self.weights.entry(publisher.nspace.clone()).or_default();
        *weight += item.weight;
        let of_key = self.by_key.entry(item.key().clone()).or_default();
        of_key.insert(number);
        let of_publisher = self.by_publisher.entry(publisher).or_default();
        of_publisher.insert(number);
        self.items.insert(number, item);
    }

    pub(super) fn remove_item(&mut self, number: u64) {
        let Some(item) = self.items.remove(&number) else {
            return;
        };
        if let Some(numbers) = self.by_key.get_mut(item.key().as_bytes()) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_key.remove(item.key().as_bytes());
            }
        }
        if let Some(numbers) = self.by_publisher.get_mut(&item.publisher.proc) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_publisher.remove(&item.publisher.proc);
            }
        }
        let nspace = &item.publisher.proc.nspace;
        if let Some(weight) = self.weights.get_mut(nspace.as_bytes()) {
            *weight = weight.saturating_sub(item.weight);
            if *weight == 0 {
                self.weights.remove(nspace.as_bytes());
            }
        }
        // Lookups that wait for several keys may have counted this value.
        self.key_changed(item.key());
    }

    /// Returns the data under a key, the oldest first.
    pub(super) fn under(&self, key: &[u8]) -> impl Iterator<Item = (u64, &PublishedItem)> {
        let numbers = self.by_key.get(key).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.items.get(number)?)))
    }

    /// Returns the data of a process, the oldest first.
    fn of_publisher(&self, proc: &Proc<'static>) -> impl Iterator<Item = (u64, &PublishedItem)> {
        let numbers = self.by_publisher.get(proc).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.items.get(number)?)))
    }

    /// Unpublishes keys of a process on a range, by default the session. Without keys and range all its data
    /// is unpublished.
    ///
    /// Keys that are not published are ignored. The keys can be published again.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for invalid directives.
    pub fn unpublish(
        &mut self,
        publisher: &Caller,
        keys: &[Text<'_>],
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        let (directives, _) = Directives::read(infos)?;
        let everything = keys.is_empty() && directives.range.is_none();
        let data_range = directives.range.unwrap_or(DataRange::SESSION);
        let range = range_of(data_range, publisher, directives.listed)?;
        let own = |item: &PublishedItem| {
            item.publisher.proc == publisher.proc && (everything || item.range == range)
        };
        let removed: Vec<_> = match keys.is_empty() {
            true => {
                let items = self.of_publisher(&publisher.proc);
                items
                    .filter(|(_, item)| own(item))
                    .map(|(n, _)| n)
                    .collect()
            }
            false => {
                let keys: HashSet<_> = keys.iter().map(Text::as_bytes).collect();
                let items = keys.into_iter().flat_map(|key| self.under(key));
                items
                    .filter(|(_, item)| own(item))
                    .map(|(n, _)| n)
                    .collect()
            }
        };
        self.remove_items(removed);
        Ok(())
    }

    fn remove_items(&mut self, numbers: Vec<u64>) {
        numbers
            .into_iter()
            .for_each(|number| self.remove_item(number));
    }

    /// Unpublishes data of a terminated process with the persistence `PMIX_PERSIST_PROC`, and ends its lookups. Returns
    /// the tokens of these lookups, which the host drops.
    pub fn proc_ended(&mut self, proc: &Proc<'_>) -> Vec<T> {
        let proc = proc.clone().into_owned();
        let items = self.of_publisher(&proc);
        let removed = items.filter(|(_, item)| item.persistence == Persistence::PROC);
        let removed = removed.map(|(number, _)| number).collect();
        self.remove_items(removed);
        self.waiting.stop_proc(&proc)
    }

    /// Unpublishes data of an ended job whose persistence is that of the job, an application or a process, and data
    /// that no process can find any more.
    pub fn job_ended(&mut self, nspace: &Nspace<'_>) -> Vec<T> {
        let first = Proc::new(nspace.clone().into_owned(), Rank::new(0));
        let own = self.by_publisher.range(first..);
        let own = own.take_while(|(proc, _)| proc.nspace == *nspace);
        let goes = |number: &&u64| {
            self.items.get(number).is_some_and(|item| {
                let dies = matches!(
                    item.persistence,
                    Persistence::PROC | Persistence::APP | Persistence::NSPACE
                );
                dies || matches!(item.range, Range::Proc(_) | Range::Nspace(_))
            })
        };
        let removed = own.flat_map(|(_, numbers)| numbers).filter(goes);
        let removed = removed.copied().collect();
        self.remove_items(removed);
        self.waiting.stop_job(nspace)
    }

    /// Unpublishes data with at most the persistence of the session when the session with this number has ended.
    pub fn session_ended(&mut self, session: u32) {
        let removed = self.items.iter().filter(|(_, item)| {
            item.publisher.session == Some(session) && item.persistence != Persistence::INDEF
        });
        let removed = removed.map(|(number, _)| *number).collect();
        self.remove_items(removed);
    }

    /// Returns the number of published data and of pending lookups.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.items.len(), self.waiting.len())
    }

    /// Returns `true` if there are no published data and no pending lookups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

pub(super) fn owned(keys: &[Text<'_>]) -> Vec<Key<'static>> {
    let key = |text: &Text<'_>| Key::new(text.clone().into_owned());
    keys.iter().map(key).collect()
}

pub(super) fn range_of(
    range: DataRange,
    caller: &Caller,
    listed: Option<Procs>,
) -> Result<Range, Error> {
    Range::new(range, caller, listed).ok_or_else(|| {
        Error::bad(format!(
            "{range} is not a valid range, or a custom range without processes"
        ))
    })
}
