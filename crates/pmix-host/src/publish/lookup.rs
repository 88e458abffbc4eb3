// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups: completed at once, when enough data are published, or when their time has passed.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup Operations", `PMIx_Lookup`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use pmix_types::{DataRange, Info, Key, Persistence, Status, Text};

use super::caller::{Caller, PublishedItem, Visibility};
use super::directives::Directives;
use super::pending_lookup::{FoundDatum, LookupResult, PendingLookup, Search};
use super::pubsub::{PubSub, owned, range_of};
use crate::Error;

impl<T> PubSub<T> {
    /// Looks keys up, among the publishers of the session if no range is given. The result is returned
    /// immediately unless the caller waits (`PMIX_WAIT`) and too few values are published.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` without keys or for invalid directives, and `PMIX_ERR_OUT_OF_RESOURCE` beyond the
    /// limits. The lookup does not wait then.
    pub fn lookup(
        &mut self,
        token: T,
        caller: &Caller,
        keys: &[Text<'_>],
        infos: &[Info<'_>],
        now: Instant,
    ) -> Result<Option<LookupResult<T>>, Error> {
        let (directives, _) = Directives::read(infos)?;
        if keys.is_empty() || keys.len() > self.limits.keys_per_lookup {
            let most = self.limits.keys_per_lookup;
            let given = keys.len();
            return Err(Error::bad(format!(
                "{given} keys to look up, expected 1 to {most}"
            )));
        }
        let data_range = directives.range.unwrap_or(DataRange::SESSION);
        let wanted = Search {
            caller: caller.clone(),
            keys: owned(keys),
            among: range_of(data_range, caller, directives.listed)?,
        };
        let enough = match directives.wait {
            None => 0,
            Some(0) => keys.len(),
            Some(number) => number.min(keys.len()),
        };
        let until = directives.timeout.and_then(|time| now.checked_add(time));
        let mut waiting = PendingLookup::new(token, wanted, enough, until);
        // A lookup that does not wait is completed below with whatever is there.
        if enough > 0 {
            let keys = waiting.keys();
            let found = keys.filter(|key| !self.lacks(key, &waiting.wanted));
            let found: Vec<_> = found.cloned().collect();
            found.iter().for_each(|key| waiting.note(key, false));
        }
        if waiting.has_enough() {
            return Ok(Some(self.complete(waiting)));
        }
        self.check_waiting(&waiting.wanted)?;
        self.waiting.add(waiting);
        Ok(None)
    }

    fn check_waiting(&self, wanted: &Search) -> Result<(), Error> {
        let before = self.waiting.num_keys_of(&wanted.caller.proc);
        let most = self.limits.waiting_keys_per_proc;
        if before + wanted.keys.len() <= most {
            return Ok(());
        }
        let message =
            format!("a process can wait for at most {most} keys and already waits for {before}");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Returns the published values of the wanted keys, and their positions. A repeated key is looked up
    /// once.
    fn find(&self, wanted: &Search) -> (FoundDatum, Vec<u64>) {
        let mut found = FoundDatum::default();
        let mut numbers = Vec::new();
        let mut known = HashMap::new();
        for key in &wanted.keys {
            let seen = known.entry(key);
            match *seen.or_insert_with(|| self.find_key(key, wanted)) {
                KeyLookup::Open(number, item) => {
                    found.data.push(Arc::clone(&item.data));
                    numbers.push(number);
                }
                KeyLookup::Denied => found.num_denied += 1,
                KeyLookup::Nothing => {}
            }
        }
        (found, numbers)
    }

    fn find_key(&self, key: &Key<'_>, wanted: &Search) -> KeyLookup<'_> {
        let mut is_denied = false;
        let mut items = self.under(key.as_bytes());
        // The Standard leaves the choice open; the oldest readable data are returned.
        let open = items.find(|(_, item)| {
            let visibility = item.seen_by(&wanted.caller, &wanted.among);
            is_denied |= visibility == Visibility::Denied;
            visibility == Visibility::Open
        });
        match open {
            Some((number, item)) => KeyLookup::Open(number, item),
            None if is_denied => KeyLookup::Denied,
            None => KeyLookup::Nothing,
        }
    }

    /// Returns `true` if a lookup finds no value of a key.
    fn lacks(&self, key: &Key<'_>, wanted: &Search) -> bool {
        matches!(self.find_key(key, wanted), KeyLookup::Nothing)
    }

    /// Updates the lookups with this key after its data changed. Returns them, the oldest first.
    pub(super) fn key_changed(&mut self, key: &Key<'static>) -> Vec<u64> {
        let naming: Vec<_> = self.waiting.naming(key).collect();
        for id in &naming {
            let waiting = self.waiting.get(*id);
            let is_lacking = waiting.is_some_and(|waiting| self.lacks(key, &waiting.wanted));
            if let Some(waiting) = self.waiting.get_mut(*id) {
                waiting.note(key, is_lacking);
            }
        }
        naming
    }

    /// Completes a lookup with the published values; values for the first reader are removed.
    fn complete(&mut self, waiting: PendingLookup<T>) -> LookupResult<T> {
        let (found, numbers) = self.find(&waiting.wanted);
        // Data for the first reader go after the search, so that a repeated key finds them each time.
        for number in numbers {
            let item = self.items.get(&number);
            if item.is_some_and(|item| item.persistence == Persistence::FIRST_READ) {
                self.remove_item(number);
            }
        }
        LookupResult {
            token: waiting.token,
            status: found.status(waiting.wanted.keys.len()),
            data: found.data,
        }
    }

    /// Completes the lookups that have enough values after some keys were published, the oldest first. Only
    /// these keys are searched.
    pub(super) fn settle(&mut self, keys: &[Key<'static>]) -> Vec<LookupResult<T>> {
        let naming = keys.iter().flat_map(|key| self.key_changed(key));
        // The order of arrival decides which lookup is the first reader.
        let naming: BTreeSet<_> = naming.collect();
        let mut completed = Vec::new();
        for id in naming {
            let waiting = self.waiting.get(id);
            if waiting.is_some_and(PendingLookup::has_enough)
                && let Some(waiting) = self.waiting.take(id)
            {
                completed.push(self.complete(waiting));
            }
        }
        completed
    }

    /// Ends the lookups whose time has passed, with `PMIX_ERR_TIMEOUT`.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<LookupResult<T>> {
        let over = self.waiting.expired(now).into_iter();
        let looked = |waiting: PendingLookup<T>| LookupResult {
            token: waiting.token,
            status: Status::ERR_TIMEOUT,
            data: Vec::new(),
        };
        over.map(looked).collect()
    }

    /// Returns the earliest time limit of a lookup.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.next_deadline()
    }
}

/// The result of the search for a key.
#[derive(Clone, Copy)]
enum KeyLookup<'s> {
    /// An item that the caller may read.
    Open(u64, &'s PublishedItem),
    /// An item exists, but the caller may not read it.
    Denied,
    Nothing,
}
